"""What a client and a broker of this kind say to each other about zones, in the ``token`` of a ConnectionControl.

ActiveMQ defines that field and never uses it; its clients and brokers pass over what is in it (classic.md 2.4).
A client says ``entrepot-zone NAME``; a broker answers with the zones of the brokers that it names.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

ZONE_TOKEN: Final = b"entrepot-zone "
ZONES_TOKEN: Final = b"entrepot-zones\n"
ZONE_OCTETS_MAX: Final = 256


class Zones(Struct, frozen=True):
    """``here``: the zone of the broker that says it, "" for none; ``there``: URI -> zone of others."""

    here: str = ""
    there: dict[str, str] = {}


def read_zones(token: bytes | None) -> Zones | None:
    """Return what a broker says about zones; None when it says nothing, or nothing that can be read."""
    if token is None or not token.startswith(ZONES_TOKEN):
        return None
    try:
        return msgspec.json.decode(token[len(ZONES_TOKEN) :], type=Zones)
    except msgspec.DecodeError:
        return None
