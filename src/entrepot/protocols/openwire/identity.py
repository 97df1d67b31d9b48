"""Who is at the other end of an OpenWire connection, and what destinations it may mean. [C]"""

from __future__ import annotations

from entrepot.base.errors import InvalidDestination
from entrepot.core.broker import BrokerCore
from entrepot.model.address import ANYCAST, MULTICAST, NAME_OCTETS_MAX
from entrepot.model.address import Destination as Address
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.advisories import Advisories
from entrepot.protocols.openwire.commands import ConnectionInfo, Destination
from entrepot.protocols.openwire.ids import components, is_queue, is_temporary
from entrepot.protocols.openwire.options import OpenWireOptions


class Identity:
    """One client, or another broker: ``brings`` says that it brings messages of others, whose users it does not change.

    ``signature`` stands behind the names of its producers: what they sent is remembered of them and their user.
    ``unread``: nothing that frees memory can come from it, although it consumes.
    """

    def __init__(self, acceptor: Acceptor, options: OpenWireOptions) -> None:
        self.acceptor: Acceptor = acceptor
        self.broker: BrokerCore = acceptor.broker
        self.advisories: Advisories = acceptor.advisories
        self.options: OpenWireOptions = options
        self.info: ConnectionInfo | None = None
        self.connection_id: str = ""
        self.signature: str = ""
        self.by_failover: bool = False  # it lost another connection, and says again what it got no answer to
        self.brings: bool = False
        self.unread: bool = False


def addresses_of(destination: Destination) -> list[Address]:
    """Return what ``destination`` names; composites give several. Raises InvalidDestination."""
    found: list[Address] = []
    for part in components(destination):
        name, _, queue = (part.physical_name or "").partition("::")
        if not name or len(name.encode("utf-8", "replace")) > NAME_OCTETS_MAX:
            raise InvalidDestination(f"a destination has no name, or one of more than {NAME_OCTETS_MAX} octets")
        routing = ANYCAST if is_queue(part) else MULTICAST
        address = Address(name, routing, is_temporary(part), queue)
        if address not in found:
            found.append(address)
    return found
