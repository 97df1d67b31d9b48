"""CORE as a dialect of the server session: channels in, sessions on them, answers back. [C]

Channel 0 keeps the connection alive and tells the topology, channel 1 makes sessions and brings them here from another
connection; each session has a channel of its own from 10 on (artemis.md 5.2.1). A packet for a channel that is not
there is dropped: that is normal after a close. What cannot be read closes the connection, and only it.

The reply to a request comes when all that it wrote is on disk, never before. Sessions with a confirmation window
outlive the connection for as long as that would have been believed (its TTL); then they end as the others do at once.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import EntrepotError
from entrepot.core.queue.consumer import Consumer
from entrepot.model.connected import SessionView
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.commanding import Commands
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import Disconnect, Packet
from entrepot.protocols.artemis.reattaching import Lost
from entrepot.protocols.artemis.reception import FIRST_SESSION, Received, Reception
from entrepot.protocols.artemis.session import CoreSession
from entrepot.protocols.serving.unsendable import Unsendables
from entrepot.protocols.session import CORE, Shell

SERVER_STOPS: Final = 2  # a reason of DISCONNECT


class CoreServerSession(Received):
    """One accepted connection. ``number`` is unique in this run of the broker; ``peer`` is for people."""

    def __init__(self, shell: Shell, acceptor: CoreAcceptor, options: CoreOptions, number: i64, peer: str) -> None:
        super().__init__(shell, acceptor, options, number, peer)
        self.protocol = CORE
        self.single = False
        self.busy: Commands | None = None  # whose large transaction is being carried out
        self.temporaries: dict[str, None] = {}  # queues of sessions that were closed before the connection
        self.unsendable: Unsendables | None = None
        self.ends: bool = False  # by our own will: sessions end with it
        self.beat_receive = options.ttl_ms * MILLISECOND if options.ttl_ms > 0 else 0

    # -- what the machine asks -----------------------------------------------------------------------------------------

    def work(self, data: bytes) -> i64:
        """Do the packets that came, as far as this turn reaches."""
        busy = self.busy
        if busy is not None:
            if busy.is_busy():
                self.unfinished = True
                return self.decoder.buffered()
            self.busy = None
        if self.take_all(self.decoder.feed(data) if data else self.undone):
            self.decoder.check()
        return self.decoder.buffered()

    def take(self, command: Packet) -> None:
        """Do one packet, in its channel."""
        commands = self.channels.get(int(command.channel))
        if commands is not None:
            self.received += 1
            commands.do(command, command.octets)
            transacting = commands.transacting
            if transacting is not None and transacting.commitment is not None:
                self.busy = commands
                self.unfinished = True
        elif command.channel < FIRST_SESSION:
            Reception(self).steer(command)

    def outgoing(self) -> bytes:
        """Return what is to be written."""
        unsendable = self.unsendable
        if unsendable is not None:
            self.unsendable = None
            unsendable.bury()
        if self.windows > 0 and not self.closing:
            self._check_kept()
        return super().outgoing()

    def _check_kept(self) -> None:
        """Send away who leaves too much unconfirmed."""
        for commands in self.channels.values():
            if commands.session.channel.is_overfull():
                self.give_up(f"{self.options.unconfirmed_octets_max} octets are not confirmed")
                return

    def beat(self) -> None:
        """The client pings, and we answer: nothing is said unasked."""

    def unopened(self) -> str:
        """Return what did not come in time."""
        return "no packet of CORE came"

    def consumes(self) -> bool:
        """Return whether messages go to this peer whose acknowledgement makes room."""
        return any(len(commands.session.consumers) > 0 for commands in self.channels.values())

    def farewell(self, why: str) -> None:
        """Say that our side ends the connection: a client with a choice goes elsewhere."""
        self.ends = True
        if not self.closing and self.version > 0:
            for commands in self.channels.values():
                commands.session.channel.confirm()
            membership = self.acceptor.membership
            successor = membership.successor or None
            self.say(
                Disconnect(node=membership.node, scale_down_node=successor, reason=SERVER_STOPS, target_node=successor)
            )

    def fail(self, error: EntrepotError) -> None:
        """Close this connection: CORE has no words for why."""
        self.refused = error.message
        self.ends = True
        self.leave()
        self.note()

    def give_up(self, why: str) -> None:
        """Nothing that makes sense can be written any more: close."""
        self.refused = why
        self.ends = True
        self.closing = True
        self.note()

    def superseded(self, why: str) -> None:
        """Another connection takes the place of this one: end, with all that it holds."""
        self.refused = why
        self.ends = True
        self.release()
        self.leave()
        self.note()

    def give_back(self) -> None:
        """End the sessions, or keep for their client those that can be brought to another connection."""
        kept: CoreSession | None = None
        for commands in list(self.channels.values()):
            session = commands.session
            if session.channel.counts and not self.ends and not session.ended:
                self._lose(commands)
                kept = session
        for commands in list(self.channels.values()):
            commands.end(self.last_delivered)
            self.inherit(commands.session)
            commands.leave()
        self.channels.clear()
        if kept is not None:
            kept.need_temporaries().update(self.temporaries)
        else:
            self.acceptor.delete_all(self.temporaries)
        self.temporaries = {}
        self.unsendable = None
        self.busy = None
        onlooker = self.onlooker
        if onlooker is not None:
            self.onlooker = None
            self.acceptor.membership.forget(onlooker)
            self.acceptor.federating.forget(onlooker)

    def _lose(self, commands: Commands) -> None:
        """Keep a session until its client brings it elsewhere, as long as this connection would have been believed."""
        del self.channels[int(commands.session.channel.number)]
        left = int(self.beat_receive) - int(self.broker.now - self.heard) if self.beat_receive > 0 else 0
        lost = Lost(int(self.broker.now) + max(left, 0), commands)
        lost.begin()

    def sessions(self, opened: int) -> list[SessionView]:
        """Return the sessions on it."""
        number = str(self.number)
        return [
            SessionView(
                one.session.name, number, one.session.subject.name, one.session.client_id,
                len(one.session.consumers), one.producers(), opened,
            )
            for one in self.channels.values()
        ]  # fmt: skip

    def close_session(self, name: str) -> bool:
        """End the session ``name``: its client learns it when it says something there."""
        for commands in list(self.channels.values()):
            if commands.session.name == name:
                commands.end()
                commands.leave()
                return True
        return False

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        return {
            "protocol": f"core {self.version}" if self.version else "core",
            "peer": self.peer,
            "client-id": self.client_id,
            "login": self.subject.name,
            "sessions": str(len(self.channels)),
            "subscriptions": str(sum(len(one.session.consumers) for one in self.channels.values())),
            "received": str(self.received),
            "sent": str(sum(int(one.session.sent) for one in self.channels.values())),
            "refused": self.refused,
        }

    # -- what sessions ask ---------------------------------------------------------------------------------------------

    def cannot_say(self, consumer: Consumer, number: int, reason: str) -> None:
        """A message that was delivered to ``consumer`` has no form here: it becomes a dead letter, soon."""
        if self.unsendable is None:
            self.unsendable = Unsendables()
        self.unsendable.add(consumer, number, reason)
        self.note()

    def closed_channel(self, number: int) -> None:
        """A session said its last word."""
        commands = self.channels.pop(number, None)
        if commands is not None:
            self.inherit(commands.session)

    def inherit(self, session: CoreSession) -> None:
        """A session ends before its connection: that has its temporary queues now."""
        temporaries = session.temporaries
        if temporaries:
            self.temporaries.update(temporaries)
            session.temporaries = None
