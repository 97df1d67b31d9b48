"""One connection to several brokers at once: ``fanout:(...)`` (classic.md 1.4).

A `FanoutWire` looks to a conversation like one wire. What is said goes to every member, but consumers and what concerns
them, and messages to queues unless wanted otherwise, go to the primary, the member that is there longest. A request is
answered when ``minAckCount`` members answered it, or all of them if they are fewer, or when one refuses.

A member that comes later, or again, is told all that is open. A primary that is lost hands its consumers to the next.
Messages that several brokers hold reach consumers several times if these brokers are networked: that is fanout. [C]
"""

from __future__ import annotations

from typing import Final, Protocol

from entrepot.base.environment import Instant
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import (
    Command,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    ExceptionResponse,
    Message,
    MessageAck,
    MessageDispatch,
    MessagePull,
    RemoveInfo,
    Response,
)
from entrepot.protocols.openwire.ids import is_queue


class FanoutPort(Protocol):
    """What a `FanoutWire` tells the conversation above it."""

    def responded(self, client: FanoutWire, response: Response) -> None:
        """As `ClientPort.responded`."""

    def dispatched(self, client: FanoutWire, dispatch: MessageDispatch) -> None:
        """As `ClientPort.dispatched`."""

    def told(self, client: FanoutWire, command: Command) -> None:
        """As `ClientPort.told`."""

    def settled(self, client: FanoutWire) -> None:
        """As `ClientPort.settled`."""

    def writable(self, client: FanoutWire, ready: bool) -> None:
        """As `ClientPort.writable`."""

    def lost(self, client: FanoutWire, why: str) -> None:
        """The last member is gone."""

    def opening(self) -> list[Command]:
        """Return what introduces the conversation to a broker; the last of it is to be answered."""
        ...

    def opened(self, *, consumers: bool) -> list[Command]:
        """Return what is open: all but consumers, or the consumers."""
        ...


class _Asked:
    def __init__(self, command: Command, members: list[OpenWireClient], needed: int) -> None:
        self.command = command
        self.members = members
        self.needed = needed
        self.answered = 0


class FanoutWire(ClientPort):
    """The members of one connection. `join` adds one that agreed on its format; members leave by themselves."""

    def __init__(self, port: FanoutPort, answers_min: int, *, queues_too: bool) -> None:
        self.port: Final = port
        self.members: list[OpenWireClient] = []
        self.failure = ""
        self._answers_min = answers_min
        self._queues_too = queues_too
        self._asked: dict[int, _Asked] = {}
        self._numbers: dict[tuple[OpenWireClient, int], int] = {}
        self._last = 0
        self._joining: dict[OpenWireClient, int] = {}

    # -- as one wire ---------------------------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether a member is there."""
        return bool(self.members)

    @property
    def ready(self) -> bool:
        """Whether all members read fast enough."""
        return all(member.ready for member in self.members)

    def pending(self) -> int:
        """Return how many octets wait for the slowest member."""
        return max((int(member.pending()) for member in self.members), default=0)

    def post(self, command: Command) -> None:
        """Say ``command`` to those it concerns. Raises Inexpressible."""
        for member in self._concerned(command):
            member.post(command)

    def ask(self, command: Command) -> int:
        """Ask those it concerns; the number that the answer carries. Raises Inexpressible."""
        self._last += 1
        concerned = self._concerned(command)
        self._asked[self._last] = _Asked(command, list(concerned), min(self._answers_min, len(concerned)))
        for member in concerned:
            self._numbers[(member, member.ask(command))] = self._last
        return self._last

    def shut(self, why: str, now: Instant) -> None:
        """Take leave of every member."""
        for member in list(self.members):
            member.shut(why, now)

    def join(self, member: OpenWireClient, *, known: bool) -> None:
        """Add a member; ``known``: the conversation is under way, so tell it what is open."""
        if not known:
            self.members.append(member)
            return
        *said, introduction = self.port.opening()
        for command in said:
            member.post(command)
        self._joining[member] = member.ask(introduction)

    # -- what members say ----------------------------------------------------------------------------------------------

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """Pass on a message."""
        self.port.dispatched(self, dispatch)

    def responded(self, client: OpenWireClient, response: Response) -> None:
        """Count an answer."""
        number = int(response.correlation_id)
        if self._joining.get(client) == number:
            del self._joining[client]
            if isinstance(response, ExceptionResponse):
                client.shut("the broker refused us", 0)
                return
            self._admit(client)
            return
        mine = self._numbers.pop((client, number), 0)
        asked = self._asked.get(mine)
        if asked is None:
            return
        asked.members.remove(client)
        asked.answered += 1
        if asked.answered >= asked.needed or not asked.members or isinstance(response, ExceptionResponse):
            del self._asked[mine]
            response.correlation_id = mine
            self.port.responded(self, response)

    def told(self, client: OpenWireClient, command: Command) -> None:
        """Pass on what concerns the conversation."""
        self.port.told(self, command)

    def settled(self, client: OpenWireClient) -> None:
        """A chunk is taken in."""
        self.port.settled(self)

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        """Pass on whether all read."""
        self.port.writable(self, self.ready)

    def lost(self, client: OpenWireClient, why: str) -> None:
        """A member is gone."""
        self._joining.pop(client, None)
        if client not in self.members:
            return
        primary = self.members[0] is client
        self.members.remove(client)
        if not self.members:
            self.failure = why
            self._asked.clear()
            self._numbers.clear()
            self.port.lost(self, why)
            return
        if primary:
            for command in self.port.opened(consumers=True):
                self.members[0].post(command)
        self._release(client)

    def _admit(self, member: OpenWireClient) -> None:
        for command in self.port.opened(consumers=False):
            member.post(command)
        self.members.append(member)

    def _release(self, member: OpenWireClient) -> None:
        """Complete what only the lost member had to answer; what nobody answered is asked of the primary."""
        for key in [key for key in self._numbers if key[0] is member]:
            number = self._numbers.pop(key)
            asked = self._asked.get(number)
            if asked is None:
                continue
            asked.members.remove(member)
            if asked.members:
                continue
            if asked.answered:
                del self._asked[number]
                self.port.responded(self, Response(correlation_id=number))
            else:
                asked.members.append(self.members[0])
                self._numbers[(self.members[0], self.members[0].ask(asked.command))] = number

    def _concerned(self, command: Command) -> list[OpenWireClient]:
        """Return the members that ``command`` is for."""
        private = isinstance(command, ConsumerInfo | MessageAck | MessagePull | ConsumerControl)
        if isinstance(command, RemoveInfo):
            private = isinstance(command.object_id, ConsumerId)
        if isinstance(command, Message) and command.destination is not None and not self._queues_too:
            private = is_queue(command.destination)
        return self.members[:1] if private else list(self.members)
