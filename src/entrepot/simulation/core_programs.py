"""Programs that speak CORE to the one broker of a world, beside those that speak STOMP, and to one another.

A `CoreSender` sends to queues that clients of STOMP read, and to one that a `CoreReader` reads, into which a client of
STOMP sends, too: messages small and streamed, alone, in transactions, and in branches of distributed ones. Both keep
what a coordinator keeps: a branch whose promise was answered is brought to its end by whoever dials next, and must be
there; one whose promise was not answered is looked for. The reader is alone at its queue and reads it out in the end,
so a window that loses credit shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.protocols.artemis.codec import PREFACE, Decoder, Encoder
from entrepot.protocols.artemis.packets import (
    CreateSession,
    CreateSessionReply,
    DisconnectConsumer,
    ExceptionReply,
    NullReply,
    Packet,
    Ping,
    QueueQueryReply,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    Start,
    SubscribeTopology,
    XaCommit,
    XaEnd,
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.refusals import XA_NOTA
from entrepot.simulation.checkers import CONFIRMED, REFUSED, UNKNOWN, Transaction
from entrepot.simulation.clients import Client, Stage
from entrepot.simulation.network import Weather
from entrepot.simulation.octet_cables import OctetCable

NEWEST: Final = 136
CHANNEL: Final = 10
POLICIES: Final[dict[str, dict[str, str]]] = {"core.#": {"max_deliveries": "-1"}}
TTL_MS: Final = 60_000
PIECE: Final = 700  # octets: of a body that is streamed to a program
WAIT: Final = 20 * MILLISECOND  # of one who has nothing to do

Answered = Callable[[Packet], None]


class Branch:
    """A branch, as its coordinator knows it. ``promised``: its promise was answered; ``commits``: what was decided."""

    def __init__(self, name: str) -> None:
        self.xid: Final = Xid(1, b"b", name.encode())
        self.transaction: Final = Transaction(name)
        self.promised = False
        self.commits: bool | None = None
        self.asked = False  # its end was, so it may be gone


class CoreProgram(Client):
    """One program with one session. What it asks is answered before it asks the next thing."""

    def __init__(self, stage: Stage, name: str, *, transacted: bool) -> None:
        super().__init__(stage, name)
        self.machine = stage.machine
        self.transacted: Final = transacted
        self.line: OctetCable | None = None
        self.decoder = Decoder(preface=False)
        self.encoder = Encoder()
        self.asking: list[tuple[Packet, Answered | None]] = []
        self.asked: Answered | None = None  # who waits for the answer to what is under way
        self.branch: Branch | None = None  # that is not at its end
        self.branches = 0
        self.correlation = 0
        self.sends: dict[int, Answered] = {}

    # -- the connection ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Dial; again and again while nobody answers."""
        if self.leaving or self.line is not None:
            return
        machine = self.stage.machine
        if machine.broker is None:
            self.world.later(self.lots.between(5, 60) * MILLISECOND, self.start)
            return
        self.links += 1
        self.decoder, self.encoder = Decoder(preface=False), Encoder()
        self.decoder.speak(NEWEST)
        self.encoder.speak(NEWEST)
        self.line = OctetCable(self, Weather(self.world.lots(f"{self.name}/{self.links}")), machine.accept_core)
        self.line.write(PREFACE)
        self.say(Ping(ttl=TTL_MS), 0)
        self.say(SubscribeTopology(version=NEWEST), 0)
        commits = not self.transacted
        asked = CreateSession(
            name=f"{self.name}/{self.links}",
            session_channel=CHANNEL,
            version=NEWEST,
            min_large=PIECE,
            auto_commit_sends=commits,
            auto_commit_acks=commits,
            window=-1,
        )
        self.say(asked, 1)

    def say(self, packet: Packet, channel: i64 = CHANNEL) -> None:
        """Write one packet."""
        if self.line is not None:
            packet.channel = channel
            self.line.write(self.encoder.encode(packet))

    def receives(self, data: bytes) -> None:
        """Octets came."""
        for packet in self.decoder.feed(data):
            if self.line is not None:
                self._heard(packet)

    def _heard(self, packet: Packet) -> None:
        if isinstance(packet, CreateSessionReply):
            self.online = True
            self.say(Start())
            self._resume()
        elif isinstance(packet, (Receive, ReceiveLarge, ReceiveContinuation)):
            self.came(packet)
        elif isinstance(packet, DisconnectConsumer):
            self.world.violation(f"{self.name}: the broker took its consumer away")
        elif isinstance(packet, (NullReply, ExceptionReply)) and packet.correlation in self.sends:
            self.sends.pop(packet.correlation)(packet)
        elif isinstance(packet, (NullReply, ExceptionReply, XaReply, XaInDoubtXidsReply, QueueQueryReply)):
            if self.asked is None:
                self.world.violation(f"{self.name} is answered {type(packet).__name__}, and has asked nothing")
                return
            then, self.asked = self.asked, None
            assert then is not None
            then(packet)
            self._ask_on()

    def ask(self, packet: Packet, then: Answered | None) -> None:
        """Ask when all before is answered; ``then`` gets the answer, or nothing when the connection is lost.

        None: it has no answer.
        """
        self.asking.append((packet, then))
        self._ask_on()

    def _ask_on(self) -> None:
        while self.asking and self.asked is None:
            packet, self.asked = self.asking.pop(0)
            self.say(packet)

    def lost(self) -> None:
        """The connection is gone."""
        self.world.note(f"{self.name} lost its line")
        self.line = None
        self.online = False
        self.asking.clear()
        self.asked = None
        sends = list(self.sends.values())
        self.sends.clear()
        for then in sends:
            then(ExceptionReply())
        self.gave_up()
        if not self.leaving:
            self.world.later(self.lots.between(1, 100) * MILLISECOND, self.start)

    def soon(self, action: Callable[[], None], delay: Duration) -> None:
        """Do ``action`` later, if this connection is still there then."""
        line = self.line

        def run() -> None:
            if self.online and self.line is line:
                action()

        self.world.later(delay, run)

    @property
    def linked(self) -> bool:
        """Whether there is a connection that can be lost."""
        return self.line is not None

    def cut(self) -> None:
        """Lose the connection."""
        if self.line is not None:
            self.world.count("cut")
            self.line.cut(self.lots.between(0, 300) * MILLISECOND, self.lots.between(0, 300) * MILLISECOND)

    def leave(self) -> None:
        """Go for good."""
        self.leaving = True
        self.online = False
        line, self.line = self.line, None
        if line is not None:
            line.close()

    # -- branches ------------------------------------------------------------------------------------------------------

    def begin_branch(self) -> Branch:
        """Begin one."""
        self.branches += 1
        branch = self.branch = Branch(f"{self.name}-{self.branches}")
        self.world.count("branches over CORE")
        self.ask(XaStart(xid=branch.xid), self._well)
        return branch

    def end_branch(self, branch: Branch) -> None:
        """Have it promised, decide, and bring it to its end."""
        self.ask(XaEnd(xid=branch.xid), self._well)
        self.ledger.ending(branch.transaction)
        self.ask(XaPrepare(xid=branch.xid), lambda reply: self._promised(branch, reply))

    def _well(self, reply: Packet) -> None:
        if isinstance(reply, XaReply) and reply.error:
            self.world.violation(f"{self.name}: a step of a branch is refused: {reply.code} {reply.text}")

    def _promised(self, branch: Branch, reply: Packet) -> None:
        assert isinstance(reply, XaReply)
        if reply.error:
            self.world.count(f"promise refused {int(reply.code)}")
            self._over(branch, UNKNOWN)  # the disk may have it, and no answer came of that
            self._look(branch)
            return
        self.world.note(f"{self.name} has the promise of {branch.transaction.name}")
        branch.promised = True
        blocks = self.ledger.blocks
        for record in branch.transaction.records if blocks is not None else ():
            assert blocks is not None
            blocks.promised(branch.transaction.name, record.queues, record.sent_at)
        branch.commits = self.lots.chance(0.75)
        self._decided(branch)

    def _decided(self, branch: Branch) -> None:
        """Tell the broker what was decided, until it answers."""
        packet = XaCommit(xid=branch.xid, one_phase=False) if branch.commits else XaRollback(xid=branch.xid)
        asked, branch.asked = branch.asked, True
        if not branch.commits:
            self.hold()
        self.ask(packet, lambda reply: self._ended(branch, asked, reply))

    def _ended(self, branch: Branch, asked: bool, reply: Packet) -> None:
        assert isinstance(reply, XaReply)
        self.go_on()
        if reply.error and int(reply.code) == XA_NOTA:
            if not asked:
                self.world.violation(f"{branch.transaction.name} was promised, and is forgotten")
        elif reply.error:
            self.world.count(f"end refused {int(reply.code)}")
            self.soon(lambda: self._decided(branch), WAIT)
            return
        self._over(branch, CONFIRMED if branch.commits else REFUSED)
        if not branch.commits and reply.error:
            self.began_again()
        elif not branch.commits:
            self.ledger.tried(copy for copy, _ in branch.transaction.acks)
        self.branch = None

    def _over(self, branch: Branch, state: str) -> None:
        if branch.transaction.state in (CONFIRMED, REFUSED):
            return
        if branch.transaction in self.ledger.transactions:
            self.ledger.transactions.remove(branch.transaction)
        self.ledger.ended(branch.transaction, state)

    def _look(self, branch: Branch) -> None:
        """See whether the broker has a branch whose promise was not answered; what it has not, it never will."""
        self.ask(XaInDoubtXids(), lambda reply: self._looked(branch, reply))

    def _looked(self, branch: Branch, reply: Packet) -> None:
        if isinstance(reply, ExceptionReply):  # the disk does not take what was done last, so nobody knows
            self.world.count(f"look refused {int(reply.code)}")
            self.soon(lambda: self._look(branch), WAIT)
            return
        assert isinstance(reply, XaInDoubtXidsReply)
        there = branch.xid in reply.xids
        if branch.promised and not there and not branch.asked:
            self.world.violation(f"{branch.transaction.name} was promised, and is not in doubt")
        if branch.commits is None:
            branch.commits = there and self.lots.chance(0.75)
        if not there and not branch.promised:
            if branch.commits:  # it was there at an earlier look: the commit was done, or a crash was first
                self._over(branch, UNKNOWN)
                self.branch = None
                return
            branch.commits, branch.asked = False, True
        self._decided(branch)

    def _resume(self) -> None:
        branch = self.branch
        if branch is None:
            self.ready()
        else:
            self._look(branch)
            self.ready()

    # -- what kinds of programs do -------------------------------------------------------------------------------------

    def hold(self) -> None:
        """A rollback begins: what came is forgotten."""

    def go_on(self) -> None:
        """It is over."""

    def began_again(self) -> None:
        """Nothing was there to be rolled back, so what was forgotten meanwhile is not given back."""

    def came(self, packet: Packet) -> None:
        """A message came, or a part of one."""

    def gave_up(self) -> None:
        """What was under way is lost."""
