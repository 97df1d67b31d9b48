"""What is drawn from queues of another broker, in whatever language: taken into this one and acknowledged there. [C]

A message is acknowledged there when this broker has it on its disk, and not before. It has an id by which this broker
knows it if it comes again, remembered among the ids of bridges (artemis.md 1.14), in the same batch of the journal as
the message. What is drawn is durable here, whatever its sender said: it has left the other broker, and is nowhere else.

What does not fit here ends the drawing of its queue: everything from there on goes back in order, and is tried again
later. A queue that is wanted no longer is closed when all that was taken from it is acknowledged: the other broker
gives to somebody else what is not.

What a connection brought that is lost may come again when the other broker has given it up, too, which may be long
after this one has dialled anew. Its ids are pinned until then (`Intake.grace`), and so are those of an earlier life.

A language has a `Draw` with what it knows of a queue there, an `Intake` that makes messages of what comes, and a
`Drawer`, its session.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import EntrepotError, Refused, StorageError
from entrepot.base.uri import Endpoint
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import SCHEDULED_NAMES
from entrepot.core.sending.duplicates import OF_BRIDGES
from entrepot.core.sending.flow import BLOCKED, DUPLICATE
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.patience import Held, Holding
from entrepot.protocols.session import Session, Shell

NO_IDS: Final = "what comes again would be doubled: ids are not remembered here (id_cache is 0 for its address)"
GRACE_LEAST: Final = 60 * SECOND
GRACE_WITHOUT_END: Final = 3_600 * SECOND  # where either side may be silent for ever
OPENING: Final = 1  # states of a `Draw`: the other broker was asked,
OPEN: Final = 2  # messages come,
ENDING: Final = 3  # no more is taken; what was taken is still to be acknowledged,
CLOSING: Final = 4  # the other broker was told,
GONE: Final = 5  # and nothing is left
MISSING: Final = "there is no such queue"  # why one is drawn no more: it is asked for again


@mypyc_attr(allow_interpreted_subclasses=True)
class Draw:
    """One queue of the other broker that is drawn. ``source``: its name; ``place``: where its messages go here.

    ``topic``: an address of the other broker, whose messages something of ours there keeps: ``source``, made when there
    is none. "" for a queue that is there.
    """

    def __init__(self, source: str, topic: str, place: Destination) -> None:
        self.source: str = source
        self.topic: str = topic
        self.place: Destination = place
        self.number: i64 = 0  # of its consumer
        self.state: i64 = OPENING
        self.why: str = ""  # it ended
        self.target: Target | None = None
        self.received: i64 = 0  # messages that were taken
        self.fresh: i64 = 0  # those of them that are in no batch yet
        self.batches: i64 = 0  # that wait for our disk, or did
        self.acknowledged: i64 = 0  # the last of them that the other broker was told of
        self.waiting: i64 = 0  # batches that wait
        self.doubtful: deque[bytes] = deque()  # what may come again when the connection is lost, by its ids,
        self.doubts: i64 = 0  # and how many that are at the most; no more than are remembered

    def take(self) -> None:
        """The message that came is in this broker."""
        self.received += 1
        self.fresh += 1


@mypyc_attr(allow_interpreted_subclasses=True)
class Batch(Confirmation):
    """What came from one queue in one chunk: acknowledged when our disk has it. ``upto``: messages, up to its end."""

    def __init__(self, intake: Intake, draw: Draw) -> None:
        super().__init__(intake.confirmations)
        draw.batches += 1
        draw.waiting += 1
        draw.fresh = 0
        self.intake: Intake = intake
        self.draw: Draw = draw
        self.order: i64 = draw.batches
        self.upto: i64 = draw.received

    def give(self) -> None:
        """It is on disk."""
        self.draw.waiting -= 1
        self.intake.stored(self)

    def refuse(self, error: EntrepotError) -> None:
        """It is not: the other broker keeps it, and all behind it."""
        self.draw.waiting -= 1
        self.intake.port.fail(f"the disk does not take it: {error}")


class _HeldBatch(Held):
    """The same, of a broker that was full: it asks the disk when there is room."""

    def __init__(self, batch: Batch) -> None:
        self.batch: Batch = batch

    def release(self) -> None:
        """There is room."""
        self.batch.intake.freed()
        self.batch.confirmations.ask(self.batch)


@mypyc_attr(allow_interpreted_subclasses=True)
class IntakePort:
    """What taking in asks of the session."""

    def end(self, draw: Draw, why: str) -> None:
        """Take no more from ``draw``."""
        raise NotImplementedError

    def close_if_done(self, draw: Draw) -> None:
        """All that came from ``draw`` so far may be acknowledged."""
        raise NotImplementedError

    def fail(self, why: str) -> None:
        """The connection cannot be used any more."""
        raise NotImplementedError

    def waits(self, busy: bool) -> None:
        """This broker has no room for what comes (True), or has some again."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Intake:
    """What one session takes in."""

    def __init__(self, broker: BrokerCore, port: IntakePort, origin: i64) -> None:
        """``origin`` marks what comes in here; it is no connection's number."""
        self.broker: BrokerCore = broker
        self.port: IntakePort = port
        self.origin: i64 = origin
        self.draws: dict[int, Draw] = {}  # by the number of the consumer
        self.received: i64 = 0
        self.duplicates: i64 = 0
        self.confirmations: Confirmations = Confirmations(broker.journal, origin)
        self._touched: dict[int, Draw] = {}  # something came from them in this chunk
        self._holding: Holding = Holding(broker, origin)
        self._held: i64 = 0
        self.grace: i64 = GRACE_LEAST  # ns after which the other broker knows, too, that a connection is lost

    # -- what a language says of itself --------------------------------------------------------------------------------

    def begin(self, session: Session) -> None:
        """There is a connection."""

    def batch(self, draw: Draw) -> Batch:
        """Return what came from ``draw`` since the batch before."""
        return Batch(self, draw)

    def acknowledge(self, batch: Batch) -> None:
        """Tell the other broker that all is here that its queue gave up to the end of ``batch``."""
        raise NotImplementedError

    def restore(self, batch: Batch) -> None:
        """Let as much come as ``batch`` was, where that does not follow from its acknowledgement."""

    def cut(self, draw: Draw) -> None:
        """Let go of a message that is not complete: all of it comes again."""

    # -- what is the same in all ---------------------------------------------------------------------------------------

    def remembered(self, draw: Draw) -> i64:
        """Return how many ids this broker remembers where ``draw`` leads: no more may be on their way from its queue.

        All of that may come again when the connection ends, and is known by what is remembered alone.
        """
        place = draw.place
        return self.broker.queues.policies.of(place.name, int(place.routing)).id_cache

    def clear(self) -> None:
        """There is no connection any more: what is not acknowledged comes again."""
        self._touched.clear()
        draws = self.draws
        self.draws = {}
        now = self.broker.now
        for draw in draws.values():
            draw.state = GONE
            self.cut(draw)
            ids = self.broker.sending.duplicates
            ids.pin(OF_BRIDGES + draw.place.name, list(draw.doubtful), now, now + self.grace)
        self.confirmations.end()
        self.confirmations = Confirmations(self.broker.journal, self.origin)
        self._holding.forget()
        self._held = 0

    def give(self, draw: Draw, message: Message, identity: bytes) -> None:
        """Send ``message`` to its queue here. ``identity``: by which it is known if it comes again."""
        broker = self.broker
        try:
            target = draw.target
            if target is None:
                target = broker.target([draw.place])
                draw.target = target
            self._dress(message, target, identity)
            verdict = broker.send(message, target)
        except (Refused, StorageError) as error:
            self.refuse(draw, error)
            return
        if verdict == DUPLICATE:
            self.duplicates += 1
        self.received += 1
        draw.take()
        draw.doubtful.append(identity)
        if len(draw.doubtful) > draw.doubts:
            draw.doubtful.popleft()
        if verdict == BLOCKED:  # it is here; no more comes than what is on its way already
            self._held += 1
            self._holding.keep(_HeldBatch(self.batch(draw)))
            self.port.waits(True)
        else:
            self._touched[int(draw.number)] = draw

    def refuse(self, draw: Draw, error: EntrepotError) -> None:
        """This broker does not take a message: the queue there keeps it, and those behind it."""
        self.port.end(draw, f"a message was refused here: {error}")

    def _dress(self, message: Message, target: Target, identity: bytes) -> None:
        """Say of ``message`` what this broker knows."""
        broker = self.broker
        message.address = target.name
        message.origin = self.origin
        if message.timestamp == 0:
            message.timestamp = broker.wall
        rare = message.need_rare()
        rare.internal = None  # what the nodes there tell each other
        rare.deliver_at = 0  # its date has come: it was delivered
        if rare.annotations:
            for name in SCHEDULED_NAMES:
                rare.annotations.pop(name, None)
        rare.duplicate_id = identity
        rare.bridged = True
        if not message.durable:
            message.durable = True
            message.language.changed(message)
        stamps = broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, None)

    def stored(self, batch: Batch) -> None:
        """Our disk has it: so it may be forgotten there."""
        draw = batch.draw
        if draw.state >= CLOSING:
            return
        if batch.order > draw.acknowledged:  # one that waited for room may be behind later ones, which told of it
            draw.acknowledged = batch.order
            self.acknowledge(batch)
        if draw.state == OPEN:
            self.restore(batch)
        else:
            self.port.close_if_done(draw)

    def freed(self) -> None:
        """A batch that waited for room has it."""
        self._held -= 1
        if self._held == 0:
            self.port.waits(False)

    def let_go(self, draw: Draw) -> None:
        """No more comes from ``draw``: what waits for room waits for the disk alone.

        It is here, however full this broker is. Were it kept back until there is room, the other broker would have it
        as long as nobody reads here, and give it to somebody else when the connection ends.
        """
        mine: list[Held] = []
        others: list[Held] = []
        for held in self._holding.held:
            (mine if isinstance(held, _HeldBatch) and held.batch.draw is draw else others).append(held)
        if not mine:
            return
        self._holding.held = others
        if not others:
            self._holding.forget()
        for held in mine:
            held.release()

    def settle(self) -> None:
        """A chunk was taken in: have it acknowledged once our disk has it."""
        if not self._touched:
            return
        touched = self._touched
        self._touched = {}
        for draw in touched.values():
            if draw.state != GONE and draw.fresh > 0:
                self.confirmations.ask(self.batch(draw))


@mypyc_attr(allow_interpreted_subclasses=True)
class DrawerPort:
    """Who hears what becomes of it."""

    def greeted(self) -> None:
        """The other broker speaks our language; the session comes next."""

    def opened(self) -> None:
        """The session is open: queues may be drawn."""

    def located(self, places: list[Endpoint]) -> None:
        """The other broker, and its backup, are reached there, as it says."""

    def arrived(self, number: i64) -> None:
        """The other broker answered the query of this number."""

    def ended(self, draw: Draw) -> None:
        """``draw`` is over, and all that it took is acknowledged; `Draw.why` says more."""

    def waits(self, busy: bool) -> None:
        """This broker has no room for what comes (True), or has some again."""

    def heard(self) -> None:
        """Something came."""

    def writable(self, ready: bool) -> None:
        """The socket is full (False), or takes octets again."""

    def lost(self, why: str) -> None:
        """The connection is gone, or cannot be used. Comes once for each."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Drawer:
    """The session of one bridge that draws. ``open``: queues may be drawn."""

    def __init__(self, broker: BrokerCore, port: DrawerPort) -> None:
        self.broker: BrokerCore = broker
        self.port: DrawerPort = port
        self.open: bool = False
        self._consumers: i64 = 0  # that were numbered so far

    # -- what a language says of itself --------------------------------------------------------------------------------

    @property
    def intake(self) -> Intake:
        """What it takes in."""
        raise NotImplementedError

    @property
    def peer(self) -> str:
        """The id of the other broker, "" while it is not known."""
        raise NotImplementedError

    def draw(self, source: str, topic: str, place: Destination) -> Draw:
        """Return what is to be drawn; the arguments are those of `Draw`."""
        raise NotImplementedError

    def dial(self, shell: Shell, place: Endpoint, now: Instant) -> Session:
        """Return a connection to the other broker at ``place``; there is none before it. Raises InvalidOption."""
        raise NotImplementedError

    def close(self, why: str) -> None:
        """End the session and the connection, in order. What is not acknowledged goes back to its queues."""
        raise NotImplementedError

    def query(self) -> i64:
        """Ask something that the other broker itself answers; return the number of the answer, 0 for nothing asked."""
        raise NotImplementedError

    def ask_for(self, draw: Draw) -> None:
        """Have the other broker give what ``draw`` is about."""
        raise NotImplementedError

    def ask_end(self, draw: Draw) -> None:
        """Close its consumer; `part` when that is answered."""
        raise NotImplementedError

    def started(self, draw: Draw) -> None:
        """Its messages come from now on."""

    def pause(self, draw: Draw) -> None:
        """Let no more of them come, where that can be said before the consumer is closed."""

    # -- what is the same in all ---------------------------------------------------------------------------------------

    def fail(self, why: str) -> None:
        """The connection cannot be used any more."""
        if self.is_dialled():
            self.close(why)
            self.port.lost(why)

    def is_dialled(self) -> bool:
        """Return whether there is a connection."""
        raise NotImplementedError

    def begin(self, draw: Draw) -> None:
        """Draw a queue. The session is open."""
        if self.intake.remembered(draw) <= 0:
            draw.state = GONE
            draw.why = NO_IDS
            self.port.ended(draw)
            return
        self._consumers += 1
        draw.number = self._consumers
        intake = self.intake
        broker = self.broker
        broker.sending.duplicates.pin_recovered(OF_BRIDGES + draw.place.name, broker.now, broker.now + intake.grace)
        intake.draws[int(draw.number)] = draw
        self.ask_for(draw)

    def granted(self, draw: Draw) -> None:
        """The other broker has its consumer."""
        if draw.state == ENDING:  # nobody wanted it any more before it was there
            self.close_if_done(draw)
        elif draw.state == OPENING:
            draw.state = OPEN
            self.started(draw)

    def end(self, draw: Draw, why: str) -> None:
        """Take no more. What was taken is acknowledged first, or the other broker would give it to somebody else."""
        if draw.state >= ENDING:
            return
        draw.why = why
        was_open = draw.state == OPEN
        draw.state = ENDING
        self.intake.cut(draw)
        if was_open:
            self.pause(draw)
            self.intake.let_go(draw)
            self.close_if_done(draw)

    def close_if_done(self, draw: Draw) -> None:
        """Close the consumer of ``draw``, which ends, if all that was taken is acknowledged."""
        if draw.state == ENDING and draw.waiting == 0 and draw.fresh == 0:
            draw.state = CLOSING
            self.ask_end(draw)

    def part(self, draw: Draw) -> None:
        """The other broker knows its consumer no more."""
        if self.intake.draws.pop(int(draw.number), None) is None:
            return
        draw.state = GONE
        self.intake.cut(draw)
        self.port.ended(draw)


class Taking(IntakePort):
    """What an intake asks for, told to its drawer."""

    def __init__(self, drawer: Drawer) -> None:
        self.drawer: Drawer = drawer

    def end(self, draw: Draw, why: str) -> None:
        """End it."""
        self.drawer.end(draw, why)

    def close_if_done(self, draw: Draw) -> None:
        """Close its consumer, if that may be."""
        self.drawer.close_if_done(draw)

    def fail(self, why: str) -> None:
        """End the connection."""
        self.drawer.fail(why)

    def waits(self, busy: bool) -> None:
        """Tell the link."""
        self.drawer.port.waits(busy)
