"""The verbs of ``broker`` that change settings of addresses and rights, and keep them (artemis.md 7.1, 7.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.core.addressing import amending as settings
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.control import PAGE, json_of
from entrepot.core.operators.listing import SHOWN_CHARACTERS, Arguments
from entrepot.core.security import amending as rights

KINDS: Final = (
    "send",
    "consume",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "manage",
    "browse",
    "createAddress",
    "deleteAddress",
    "view",
    "edit",
)
"""Permissions in the order of the arguments of ``addSecuritySettings``."""
NEEDED: Final = 7
"""So many of them are in the shortest form."""


class Amending:
    """These verbs, of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return them by name."""
        return {
            "addAddressSettings": self._add_settings,
            "removeAddressSettings": self._remove_settings,
            "getAddressSettingsAsJSON": self._shown,
            "addSecuritySettings": self._add_rights,
            "removeSecuritySettings": self._remove_rights,
        }

    def _add_settings(self, given: Arguments) -> str:
        """Take (pattern, JSON); answer with what of it has a meaning here."""
        given.no_more_than(2, "the form with an argument for each setting is not known; give (pattern, JSON)")
        broker = self.broker
        taken = settings.amend(broker.policies, broker.notes, given.text(0), given.text(1))
        broker.queues.regovern()
        return json_of(taken)

    def _remove_settings(self, given: Arguments) -> None:
        """Take (pattern)."""
        broker = self.broker
        settings.withdraw(broker.policies, broker.notes, given.text(0))
        broker.queues.regovern()

    def _shown(self, given: Arguments) -> str:
        """Return what holds for an address, by the names of Artemis; octets and ms, -1 for no limit."""
        values = self.broker.policies.of(given.text(0)).given.__dict__
        fixed = {"managementBrowsePageSize": PAGE, "managementMessageAttributeSizeLimit": SHOWN_CHARACTERS}
        return json_of(settings.shown(values) | fixed)

    def _add_rights(self, given: Arguments) -> None:
        """Take (pattern, roles for each of `KINDS`, commas between); those behind the seventh may be left out."""
        given.no_more_than(1 + len(KINDS), "give (pattern, roles for " + ", ".join(KINDS) + ")")
        said = {kind: given.text(at, None if at <= NEEDED else "") for at, kind in enumerate(KINDS, 1)}
        rights.amend(self.broker.access, self.broker.notes, given.text(0), said)

    def _remove_rights(self, given: Arguments) -> None:
        """Take (pattern)."""
        rights.withdraw(self.broker.access, self.broker.notes, given.text(0))
