"""What options of `entrepot run` that are texts say: users, connections, settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.base.errors import InvalidOption

if TYPE_CHECKING:
    from entrepot.cluster.carrying.draw_options import DrawEntry
    from entrepot.cluster.networks.options import NetworkConnectorOptions
    from entrepot.config.security import Security


def read_users(path: Path) -> Security:
    """Return who may connect and what he may do. Raises InvalidConfiguration."""
    from entrepot.cli.user import read  # noqa: PLC0415 - not before it is asked for
    from entrepot.config.users import parse  # noqa: PLC0415 - as above

    return parse(read(path), str(path))


def read_connectors(texts: tuple[str, ...], *, duplex: bool) -> list[NetworkConnectorOptions]:
    """Return the network connectors that ``--connect`` names. Raises InvalidURI, InvalidOption."""
    from entrepot.cluster.carrying.draw_options import is_draw  # noqa: PLC0415 - not before it is asked for
    from entrepot.cluster.networks.connector import connector_of  # noqa: PLC0415 - not before it is asked for

    texts = tuple(text for text in texts if not is_draw(text))
    if duplex and not texts:
        raise InvalidOption(
            "--duplex is about the connections of --connect to brokers of ActiveMQ or ours, and there are none",
            remedy="artemis:(...) and activemq:(...) bring messages without it; what goes back is their back=QUEUE",
        )
    return [connector_of(text, number, duplex=duplex) for number, text in enumerate(texts, 1)]


def read_draws(texts: tuple[str, ...]) -> list[DrawEntry]:
    """Return the brokers that ``--connect`` names to draw messages from. Raises InvalidURI, InvalidOption."""
    from entrepot.cluster.carrying.draw_options import draws_of  # noqa: PLC0415 - not before it is asked for

    return draws_of(texts)


def read_settings(settings: tuple[str, ...]) -> dict[str, dict[str, object]]:
    """Return pattern -> setting -> value. Raises InvalidOption; the names of settings are the broker's to check."""
    policies: dict[str, dict[str, object]] = {}
    for text in settings:
        head, equals, tail = text.partition("=")
        pattern, colon, first = head.rpartition(":")  # a pattern may hold colons, a setting does not
        if not (equals and colon and pattern and first):
            raise InvalidOption(
                f"--set {text!r} is not PATTERN:SETTING=VALUE", remedy="write it like 'orders.>:max_deliveries=3'"
            )
        values = policies.setdefault(pattern, {})
        for pair in f"{first}={tail}".split(","):
            name, equals, value = pair.partition("=")
            if not equals:
                raise InvalidOption(f"{pair!r} in --set {text!r} is not SETTING=VALUE")
            values[name.strip()] = value.strip()
    return policies
