"""What a simulated program speaks: OpenWire or CORE, each with the real conversation on its side and the real server.

What is sent is named: the text of a message of OpenWire is its name, one of CORE has it as a property too, since its
body may be large and lie on a disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.model.message import LANGUAGE_CORE, Message
from entrepot.protocols.artemis.conversation.core import CoreConversation
from entrepot.protocols.artemis.conversation.identity import Windows
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.conversing.content import Outgoing
from entrepot.protocols.conversing.port import Conversation, ConversationEvents
from entrepot.protocols.openwire.commands import ConnectionId, ConnectionInfo
from entrepot.protocols.openwire.conversation.core import ConversationCore
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import Session, Shell
from entrepot.simulation.cables import End, Machine
from entrepot.simulation.overhearing import OverheardEnd
from entrepot.simulation.world import Lots

if TYPE_CHECKING:
    from entrepot.simulation.sites import Site

NAME: Final = "sim"
PADDED: Final = "|"  # between the name and what makes a body long


class Tongue:
    """One language of programs."""

    counts_alone = False
    """What is rolled back is counted by the client and not by the broker: other programs are not told of it."""

    def conversation(self, name: str, events: ConversationEvents, lots: Lots) -> Conversation:
        """Return the client's side of a connection called ``name``."""
        raise NotImplementedError

    def end(self, machine: Machine, delay: int) -> End:
        """Return the program's end of a cable."""
        raise NotImplementedError

    def greet(self, site: Site, shell: Shell, peer: str) -> Session:
        """Return the broker's session of a connection that was accepted."""
        raise NotImplementedError

    def outgoing(self, name: str, lots: Lots) -> Outgoing:
        """Return the message called ``name``."""
        raise NotImplementedError


class OpenWireTongue(Tongue):
    """OpenWire; what programs write is overheard."""

    counts_alone = True

    def conversation(self, name: str, events: ConversationEvents, lots: Lots) -> Conversation:
        """As `Tongue.conversation`."""
        info = ConnectionInfo(
            connection_id=ConnectionId(f"ID:{name}"), client_id=name, fault_tolerant=True, client_master=True
        )
        return ConversationCore(info, events, lots, reconnects=True)

    def end(self, machine: Machine, delay: int) -> End:
        """As `Tongue.end`."""
        return OverheardEnd(machine, delay, OpenWireOptions())

    def greet(self, site: Site, shell: Shell, peer: str) -> Session:
        """As `Tongue.greet`."""
        return site.greet(shell, OpenWireOptions(), peer)

    def outgoing(self, name: str, lots: Lots) -> Outgoing:
        """Return a text that is the name."""
        return Outgoing(name)


class CoreTongue(Tongue):
    """CORE; windows, the size from which a message is large, and whether sessions can be reattached are drawn."""

    def __init__(self, ttl_ms: int, *, reattaches: bool) -> None:
        self.ttl_ms: Final = ttl_ms
        self.reattaches: Final = reattaches

    def conversation(self, name: str, events: ConversationEvents, lots: Lots) -> Conversation:
        """As `Tongue.conversation`."""
        windows = Windows(
            consumer=lots.one_of((300, 2_000, 1 << 20, -1)),
            producer=lots.one_of((500, 64 * 1024, -1)),
            large_from=lots.one_of((100, 400, 100 * 1024)),
            ttl_ms=self.ttl_ms,
            confirmation=lots.one_of((1, 300, 100_000)) if self.reattaches else -1,
        )
        return CoreConversation(name, name, None, None, events, lots, reconnects=True, windows=windows)

    def end(self, machine: Machine, delay: int) -> End:
        """As `Tongue.end`."""
        return End(machine, delay)

    def greet(self, site: Site, shell: Shell, peer: str) -> Session:
        """As `Tongue.greet`."""
        assert site.made is not None
        return site.made.greet_core(shell, CoreOptions(), peer)

    def outgoing(self, name: str, lots: Lots) -> Outgoing:
        """Return a text that begins with the name, some of them large."""
        length = lots.one_of((0, 0, 100, 1_000))
        return Outgoing(name + PADDED * length, {NAME: name})


def name_in(text: object) -> str:
    """Return the name of the message whose body is ``text``."""
    return str(text).rstrip(PADDED)


def name_of(message: Message) -> str | None:
    """Return what a message of CORE is called; None: it is of another language."""
    return str(message.fact(NAME)) if message.language.code == LANGUAGE_CORE else None
