"""Two operations of Artemis on all that a broker has: to give it to another node, and to send again what was there."""

from __future__ import annotations

from typing import NoReturn

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments


def scale_down(census: Census, given: Arguments) -> None:
    """Take ([connector]): begin to give all to the node behind a connector of broker.xml; null: to the first that fits.

    It is the drain of ``entrepot drain``: it goes on after a crash when somebody says ``resume``, a second one while it
    is under way is refused, and the broker goes on serving until somebody stops it, where an Artemis stops by itself.

    Raises InvalidDestination, Refused.
    """
    name = given.text(0, "")
    census.drain("begin", _place(census, name) if name else "")


def refuse_replay(given: Arguments) -> NoReturn:
    """Say that nothing is kept of which messages could be sent again."""
    raise Refused(
        "messages that were settled are not retained here: there is nothing to replay",
        remedy="copy what is wanted again while it is there: a divert, or copyMessages of a queue",
    )


def _place(census: Census, name: str) -> str:
    known = {str(one["name"]): one["params"] for one in census.connectors()}
    found = known.get(name)
    if not isinstance(found, dict):
        raise InvalidDestination(
            f"broker.xml has no connector {name!r}", remedy="there are: " + (", ".join(known) or "none")
        )
    return f"{found['host']}:{found['port']}"
