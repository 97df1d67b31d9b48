"""Settings of an address that say when it, its queues and its diverts come and go, and what may be on disk."""

from __future__ import annotations

from enum import IntEnum

from entrepot.base.settings import UNLIMITED, Unit, setting
from entrepot.core.addressing.queue_settings import TIME_MAX, QueueSettings


class Undeploy(IntEnum):
    """What happens to what a configuration file does not name any more."""

    OFF = 0
    FORCE = 1


class UpkeepSettings(QueueSettings, frozen=True):
    """See `core/addressing/address_settings.py`, which has all settings."""

    expiry_suffix: str = setting("", artemis="expiry-queue-suffix", about="name of it behind the source")
    no_expiry: bool = setting(False, artemis="no-expiry", about="whether messages live for ever, whatever they say")
    ingress_timestamp: bool = setting(
        False, artemis="enable-ingress-timestamp", about="whether the time of arrival is written into messages"
    )
    auto_create_addresses: bool = setting(
        True, artemis="auto-create-addresses", about="whether a queue that is made makes its address"
    )
    page_octets: int = setting(
        UNLIMITED,
        unit=Unit.OCTETS,
        unlimited=True,
        artemis="page-limit-bytes",
        about="octets that a queue may page to disk, if page_full says what then",
    )
    auto_delete_addresses: bool = setting(
        True,
        artemis="auto-delete-addresses",
        about="whether an address that was made with a queue goes with the last one; else it stays until a restart",
    )
    auto_delete_addresses_delay: int = setting(
        0,
        unit=Unit.DURATION,
        high=TIME_MAX,
        artemis="auto-delete-addresses-delay",
        about="how long it stays then all the same",
    )

    undeploy_queues: Undeploy = setting(
        Undeploy.OFF,
        artemis="config-delete-queues",
        about="queues that the file does not name any more: OFF keeps them, FORCE deletes them with what they hold",
    )
    undeploy_addresses: Undeploy = setting(
        Undeploy.OFF,
        artemis="config-delete-addresses",
        about="the same of addresses that were not made by themselves, with all their queues",
    )
    undeploy_diverts: Undeploy = setting(
        Undeploy.OFF,
        artemis="config-delete-diverts",
        about="the same of diverts, operators' too",
    )
