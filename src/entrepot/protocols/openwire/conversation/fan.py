"""A conversation with several brokers at once: a dialler for each, and the wire that joins them (`fanout`). [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.base.uri import Endpoint
from entrepot.protocols.conversing.port import Dialler, Wire, WireEvents
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import Command, ConnectionControl, MessageDispatch, Response
from entrepot.protocols.openwire.conversation.core import ConversationCore
from entrepot.protocols.openwire.conversation.dialling import DialledWire, WireUser, speaks
from entrepot.protocols.openwire.fanout import FanoutWire
from entrepot.protocols.session import Shell


class Fan:
    """The members of one fanout connection. It is under way when as many are there as must answer, or all."""

    def __init__(self, core: ConversationCore, answers_min: int, places: int, *, queues_too: bool) -> None:
        """``places``: how many brokers are known at first, 0 when they are found later."""
        self.core: Final = core
        self.wire: Final = FanoutWire(core.hearing, answers_min, queues_too=queues_too)
        self._needed: Final = min(answers_min, max(1, places))
        self._begun = False

    def is_empty(self) -> bool:
        """Tell whether no member is there."""
        return not self.wire.members

    def member(self, lost: Callable[[str], None]) -> FanMember:
        """Return a dialler for one more broker; ``lost``: it was there and is not."""
        return FanMember(self, lost)

    def joined(self, client: OpenWireClient) -> None:
        """A member agreed on its format."""
        if self.core.requests.wire is not None:
            self.wire.join(client, known=True)
            return
        self.wire.join(client, known=False)
        if len(self.wire.members) >= (1 if self._begun else self._needed):
            self._begun = True
            self.core.use(self.wire)


class FanMember(Dialler):
    """One broker of several. It is never busy, because members never move."""

    def __init__(self, fan: Fan, lost: Callable[[str], None]) -> None:
        self.client: OpenWireClient | None = None
        self.fan: Final = fan
        self.hearing: Final = _MemberHearing(fan.wire, lost)

    def is_there(self) -> bool:
        """Tell whether the broker takes part."""
        return self.client is not None and self.client in self.fan.wire.members

    def speaks(self, option: str) -> bool:
        """Tell whether ``option`` is about the format of OpenWire, or about the client."""
        return speaks(option)

    def dial(self, place: Endpoint, shell: Shell, now: Instant, events: WireEvents) -> Wire:
        """Return a wire to ``place``."""
        return DialledWire(place, shell, now, events, _MemberUser(self))


class _MemberUser(WireUser):
    def __init__(self, member: FanMember) -> None:
        self._member: Final = member

    def port(self) -> ClientPort:
        return self._member.hearing

    def use(self, client: OpenWireClient) -> None:
        self._member.client = client
        self._member.fan.joined(client)

    def leave(self, client: OpenWireClient, why: str) -> None:
        self._member.fan.wire.lost(client, why)


class _MemberHearing(ClientPort):
    """Takes what one broker says to the wire that joins them."""

    def __init__(self, wire: FanoutWire, lost: Callable[[str], None]) -> None:
        self._wire: Final = wire
        self._lost: Final = lost

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        self._wire.dispatched(client, dispatch)

    def responded(self, client: OpenWireClient, response: Response) -> None:
        self._wire.responded(client, response)

    def told(self, client: OpenWireClient, command: Command) -> None:
        if not isinstance(command, ConnectionControl):
            self._wire.told(client, command)

    def settled(self, client: OpenWireClient) -> None:
        self._wire.settled(client)

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        self._wire.writable(client, ready)

    def lost(self, client: OpenWireClient, why: str) -> None:
        self._wire.lost(client, why)
        self._lost(why)
