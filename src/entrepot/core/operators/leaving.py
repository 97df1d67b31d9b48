"""An operation of Artemis on all that a broker has: to give it to another node."""

from __future__ import annotations

from entrepot.base.errors import InvalidDestination
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


def _place(census: Census, name: str) -> str:
    known = {str(one["name"]): one["params"] for one in census.connectors()}
    found = known.get(name)
    if not isinstance(found, dict):
        raise InvalidDestination(
            f"broker.xml has no connector {name!r}", remedy="there are: " + (", ".join(known) or "none")
        )
    return f"{found['host']}:{found['port']}"
