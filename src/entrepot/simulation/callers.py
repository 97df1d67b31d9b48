"""Programs with the real client: conversation, lifeline and failover, over simulated cables to simulated brokers.

A `Caller` is one process with one connection. What it sends, takes and settles it does through the port that `client/`
uses (`protocols/conversing/port.py`), and tells the `Account`. It is never told which broker it has, nor that one fell:
it sees answers, errors and messages, as a program does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, Duration, Instant
from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint
from entrepot.protocols.conversing.content import Wish
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.port import (
    Answer,
    ConsumerPort,
    ConversationEvents,
    DeliveryPort,
    ProducerPort,
    SessionPort,
)
from entrepot.protocols.failover import FailoverCore
from entrepot.protocols.lifeline import LifelineCore, LifelinePort
from entrepot.protocols.peers import FailoverOptions
from entrepot.protocols.session import NEVER, Shell
from entrepot.simulation.accounts import Account, Work
from entrepot.simulation.cables import End
from entrepot.simulation.tongues import Tongue
from entrepot.simulation.world import Bell, World

if TYPE_CHECKING:
    from entrepot.simulation.networks import Network

PORT: Final = 61616
REDELIVERIES_MAX: Final = 50  # what is lost with a connection counts as a delivery: nobody gives up here
DIAL_MIN: Final = 100 * MICROSECOND
IN_COMMIT_MIN: Final = 20 * MICROSECOND
IN_COMMIT_MAX: Final = 20 * MILLISECOND
DIAL_MAX: Final = 20 * MILLISECOND
NOWHERE: Final = -2  # a transaction began without a connection


class Caller(ConversationEvents, LifelinePort):
    """One process, which speaks ``tongue``. ``network`` and ``world`` make it a machine at the end of a cable."""

    def __init__(self, network: Network, tongue: Tongue, account: Account, name: str) -> None:
        self.network = network
        self.tongue: Final = tongue
        self.world: World = network.world
        self.account: Final = account
        self.name = name
        self.lots: Final = self.world.lots(name)
        options = FailoverOptions(
            max_reconnect_delay=self.lots.one_of((200, 2_000)) * MILLISECOND,
            backup=self.lots.chance(0.3),
            randomize=self.lots.chance(0.7),
        )
        self.conversation: Final = tongue.conversation(name, self, self.lots)
        places = [Endpoint("tcp", site, PORT) for site in network.sites]
        self.lifeline: Final = LifelineCore(
            FailoverCore(places, options, self.lots, self.conversation.busy), self.conversation, self
        )
        self.ending = False
        self.left = False
        self.losses = 0  # of connections
        self.arrivals = 0  # at brokers
        self.open_asks: dict[int, str] = {}
        self._asked = 0
        self.ends: dict[int, End] = {}
        self._noted: list[Shell] = []
        self._bell: Final = Bell(self.world, lambda: self.turn(self.lifeline.advance))

    # -- its machine ---------------------------------------------------------------------------------------------------

    def turn(self, action: Callable[[], object]) -> None:
        """Do ``action`` as one turn of the program's loop, as `ClientTurn` does."""
        conversation = self.conversation
        conversation.now, conversation.wall = self.world.time, self.world.wall()
        action()
        conversation.settle_turn(self.world.time)
        noted, self._noted = self._noted, []
        for shell in noted:
            shell.flush()
        self.lifeline.failover.check()

    def end(self, delay: Duration) -> End:
        """Return this machine's end of a new cable."""
        return self.tongue.end(self, delay)

    def note(self, shell: Shell) -> None:
        """Call ``shell.flush`` at the end of this turn."""
        self._noted.append(shell)

    def later(self, low_ms: int, high_ms: int, action: Callable[[], object]) -> None:
        """Do ``action`` in a turn of its own."""
        self.world.later(self.lots.between(low_ms, high_ms) * MILLISECOND, lambda: self.turn(action))

    def start(self) -> None:
        """Begin to dial."""
        self.turn(self.lifeline.start)

    @property
    def place(self) -> str:
        """The site whose broker has accepted it, "" for none."""
        place = self.lifeline.place
        return place.host if self.conversation.introduced and place is not None else ""

    def ask(self, what: str, then: Answer) -> Answer:
        """Return ``then`` as an answer that must come, exactly once."""
        self._asked += 1
        number = self._asked
        self.open_asks[number] = what

        def answer(error: EntrepotError | None) -> None:
            if self.open_asks.pop(number, None) is None:
                self.world.violation(f"{self.name}: {what} was answered twice")
            if error is not None:
                self.world.count(f"answers: {type(error).__name__}")
                self.world.note(f"{self.name} {what}: {type(error).__name__}: {error.message}")
            then(error)

        return answer

    def leave(self) -> None:
        """Take leave of the broker in order."""
        self.conversation.leave(self.ask("leave", lambda error: self._gone()))

    def _gone(self) -> None:
        self.left = True
        current = self.ends.get(self.lifeline.failover.current)
        self.lifeline.close()
        if current is not None and current.session is not None and not current.gone:
            current.session.shut("the program ends", self.world.time)
            current.dirty()

    # -- what the lifeline asks ----------------------------------------------------------------------------------------

    def now(self) -> Instant:
        """Return the virtual time."""
        return self.world.time

    def dial(self, attempt: int, place: Endpoint) -> None:
        """Connect a while later, if somebody is there then."""
        self.world.later(self.lots.skewed(DIAL_MIN, DIAL_MAX), lambda: self._connect(attempt, place))

    def _connect(self, attempt: int, place: Endpoint) -> None:
        if not self.lifeline.is_wanted(attempt):
            return
        site = self.network.sites[place.host]
        if site.broker is None or site.stopping or self.network.is_cut(self.name, site.name):
            self.turn(lambda: self.lifeline.failed(attempt, "nobody answers"))
            return
        near, far = self.network.lay(self, site)
        self.ends[attempt] = near

        def accept() -> None:
            site.ends.append(far)
            far.session = self.tongue.greet(site, far, self.name)

        def make() -> None:
            near.session = self.lifeline.wire(attempt, place, near).session

        site.turn(accept)
        self.turn(make)

    def hang_up(self, attempt: int, why: str) -> None:
        """Close a connection in order."""
        end = self.ends.pop(attempt, None)
        if end is not None and end.session is not None and not end.gone:
            end.session.shut(why, self.world.time)
            end.dirty()

    def let_go(self, attempt: int) -> None:
        """Close what is left of a connection."""
        self.hang_up(attempt, "lost")

    def arm(self, due: Instant) -> None:
        """Keep the timer."""
        if due == NEVER:
            self._bell.hush()
        else:
            self._bell.set(due)

    def interrupted(self, why: str, planned: bool) -> None:
        """The broker was lost, or is being left."""
        self.losses += 1
        if planned and self.conversation.busy():  # it had waited as long as it does for the answers
            self.account.interrupted(self.name)
        self.world.count("planned moves" if planned else "interruptions")
        self.world.note(f"{self.name} interrupted: {why}")

    def ended(self, error: EntrepotError) -> None:
        """Never: it may try for ever."""
        self.world.violation(f"{self.name} gave up: {error.message}")

    # -- what the conversation tells -----------------------------------------------------------------------------------

    def introduced(self, first: bool) -> None:
        """A broker accepted us."""
        self.arrivals += 1
        self.world.note(f"{self.name} is at {self.place}")
        if first:
            self.begin()

    def rejected(self, error: EntrepotError, first: bool) -> None:
        """A broker does not want us, now."""
        self.world.note(f"{self.name} rejected: {error.message}")
        self.world.count("rejections")
        self.lifeline.lost(str(error))

    def lost(self, why: str) -> None:
        """The wire is gone."""
        self.account.interrupted(self.name)
        self.lifeline.lost(why)

    def settled(self) -> None:
        """What the broker said is taken in."""
        self.lifeline.settled()

    def failed(self, error: EntrepotError) -> None:
        """Brokers have no reason to complain about this client."""
        self.world.violation(f"{self.name}: the broker reports {error.message}")

    # -- what kinds of programs do -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The first broker accepted us: open what is needed."""
        raise NotImplementedError

    def finish(self) -> None:
        """Begin nothing new."""
        self.ending = True

    def is_done(self) -> bool:
        """Tell whether nothing is under way."""
        return self.ending and not self.open_asks

    def handed(self, delivery: DeliveryPort) -> str:
        """Note that a message was handed to us; return its name."""
        return self.account.handed(self.name, self.arrivals, delivery, _counter(self))

    def producer(self, session: SessionPort, queue: str) -> ProducerPort:
        """Open a producer."""
        return session.open_producer(f"queue://{queue}", 0, self.ask("open a producer", self._opened))

    def consumer(self, session: SessionPort, queue: str, prefetch: int, wake: Callable[[], None]) -> ConsumerPort:
        """Open a consumer."""
        policy = RedeliveryPolicy(
            initial_delay_ms=self.lots.one_of((0, 10)), delay_ms=10, maximum_redeliveries=REDELIVERIES_MAX
        )
        wish = Wish(f"queue://{queue}", prefetch)
        return session.open_consumer(wish, policy, wake, self.ask("open a consumer", self._opened))

    def _opened(self, error: EntrepotError | None) -> None:
        if error is not None:
            self.world.violation(f"{self.name} may not open anything: {error.message}")


def _counter(caller: Caller) -> str:
    """Return who counts what ``caller`` rolls back: its connection, or "" for the broker, which tells all others."""
    return f"{caller.name}/{caller.losses}" if caller.tongue.counts_alone else ""


class Sender(Caller):
    """Sends numbered messages to one queue and waits for each to be stored, several at a time."""

    def __init__(self, network: Network, tongue: Tongue, account: Account, name: str, queue: str) -> None:
        super().__init__(network, tongue, account, name)
        self.queue: Final = queue
        self.window: Final = self.lots.one_of((1, 2, 6))
        self.unanswered = 0
        self._port: ProducerPort | None = None

    def begin(self) -> None:
        """Open a producer and begin to send."""
        self._port = self.producer(self.conversation.open_session(Acknowledge.AUTO), self.queue)
        self._step()

    def _step(self) -> None:
        if self.ending:
            return
        port = self._port
        while port is not None and self.unanswered < self.window:
            message = self.account.send(self.name, self.queue)
            self.unanswered += 1
            answer = self.ask(f"send {message}", lambda error, message=message: self._sent(message, error))  # type: ignore[misc]
            port.send(self.tongue.outgoing(message, self.lots), answer)
        self.later(20, 200, self._step)

    def _sent(self, message: str, error: EntrepotError | None) -> None:
        self.unanswered -= 1
        if error is None:
            self.account.confirmed(message)


class Worker(Caller):
    """Works in transactions: takes from one queue, or from none, sends to another, and commits or rolls back."""

    def __init__(self, network: Network, tongue: Tongue, account: Account, name: str, source: str, target: str) -> None:
        super().__init__(network, tongue, account, name)
        self.source: Final = source
        self.target: Final = target
        self.work: Work | None = None
        self.trap: Callable[[], None] | None = None  # what happens while its next commit is under way
        self._session: SessionPort | None = None
        self._port: ProducerPort | None = None
        self._consumer: ConsumerPort | None = None
        self._left = 0
        self._losses = 0  # when its transaction began
        self._falls = 0  # of brokers, then

    def begin(self) -> None:
        """Open a transacted session and begin to work."""
        session = self._session = self.conversation.open_session(Acknowledge.TRANSACTED)
        self._port = self.producer(session, self.target)
        if self.source:
            self._consumer = self.consumer(session, self.source, self.lots.one_of((1, 5, 100)), lambda: None)
        self._step()

    def _step(self) -> None:
        if self.work is None and not self._begin_work():
            return
        assert self.work is not None
        if self._left > 0:
            self._left -= 1
            self._do_some(self.work)
            self.later(0, 60, self._step)
        else:
            self._end(self.work)

    def _begin_work(self) -> bool:
        """Begin a transaction: with a message, where there is a queue to take from. It goes on until all is read."""
        if self._consumer is None:
            if self.ending:
                return False
            self.work = self.account.begin(self.name, self.target)
        else:
            delivery = self._consumer.take(self.world.time)
            if delivery is None:
                if not self.left:
                    self.later(10, 100, self._step)
                return False
            self.work = self.account.begin(self.name, self.target)
            self.work.taken.append(self.handed(delivery))
        self._left = self.lots.between(1, 4)
        self._losses = self.losses if self.place else NOWHERE
        self._falls = len(self.account.crashes)
        return True

    def _do_some(self, work: Work) -> None:
        delivery = None if self._consumer is None else self._consumer.take(self.world.time)
        if delivery is not None:
            work.taken.append(self.handed(delivery))
        elif self._consumer is not None:
            return  # nothing came
        assert self._port is not None
        if not self._port.send(self.tongue.outgoing(self.account.work_sends(work), self.lots), None):
            self.world.violation(f"{self.name}: a transaction did not take a send")

    def _end(self, work: Work) -> None:
        session = self._session
        assert session is not None
        if self.lots.chance(0.2):
            work.given_up = True
            losses = self._losses if self.place else -1  # of the connection that it began on, if that is still there
            session.roll_back(self.world.time, self.ask("roll back", lambda error: self._undone(work, losses, error)))
        else:
            self.world.count("commits")
            work.asked_at = self.world.time
            session.commit(self.ask(f"commit {work.name}", lambda error: self._ended(work, error)))
            trap, self.trap = self.trap, None
            if trap is not None:
                self.world.later(self.lots.skewed(IN_COMMIT_MIN, IN_COMMIT_MAX), trap)

    def _undone(self, work: Work, losses: int, error: EntrepotError | None) -> None:
        known = losses == self.losses and self._falls == len(self.account.crashes)  # no broker has forgotten it since
        if error is None and known:
            self.account.undone(work, _counter(self))
        self._ended(work, error)

    def _ended(self, work: Work, error: EntrepotError | None) -> None:
        self.account.ended(work, error)
        self.work = None
        self.later(5, 200, self._step)

    def is_done(self) -> bool:
        """Tell whether its last transaction is over."""
        return super().is_done() and self.work is None


class Reader(Caller):
    """Takes from one queue, holds each message for a while, and settles it as its mode says."""

    def __init__(self, network: Network, tongue: Tongue, account: Account, name: str, queue: str) -> None:
        super().__init__(network, tongue, account, name)
        self.queue: Final = queue
        self.mode: Final = self.lots.one_of(
            (Acknowledge.AUTO, Acknowledge.CLIENT, Acknowledge.INDIVIDUAL, Acknowledge.DUPS_OK)
        )
        self.prefetch: Final = self.lots.one_of((0, 1, 5, 100))
        self.patience_ms: Final = self.lots.one_of((1, 20, 300))
        self._consumer: ConsumerPort | None = None
        self._session: SessionPort | None = None
        self._held: list[DeliveryPort] = []
        self._woken = False

    def begin(self) -> None:
        """Open a consumer."""
        session = self._session = self.conversation.open_session(self.mode)
        self._consumer = self.consumer(session, self.queue, self.prefetch, self._wake)
        self._step()

    def _wake(self) -> None:
        if not self._woken and not self.left:
            self._woken = True
            self.later(0, 5, self._take)

    def _take(self) -> None:
        self._woken = False
        consumer = self._consumer
        if consumer is None or self.left:
            return
        for _ in range(self.lots.between(1, 4)):
            delivery = consumer.take(self.world.time)
            if delivery is None:
                return
            self.handed(delivery)
            self._held.append(delivery)
            self.later(0, self.patience_ms, lambda delivery=delivery: self._settle(delivery))  # type: ignore[misc]
        self._wake()

    def _step(self) -> None:
        """Look now and then: a redelivery is due, a pull is to be asked for, what is held is to be given back."""
        consumer, session = self._consumer, self._session
        if consumer is None or session is None or self.left:
            return
        if consumer.wants_pull():
            consumer.pulled_nothing = False
            consumer.pull(self.lots.one_of((-1, 100)))
        elif self.mode in (Acknowledge.CLIENT, Acknowledge.INDIVIDUAL) and self.lots.chance(0.05):
            self.world.count("recoveries")
            session.recover(self.world.time)
        self._wake()
        self.later(30, 150, self._step)

    def _settle(self, delivery: DeliveryPort) -> None:
        if self.left:
            return
        held = [one for one in self._held if one.live and not one.is_lost()]
        mark = 0
        if self.mode not in (Acknowledge.AUTO, Acknowledge.DUPS_OK):
            mark = delivery.acknowledge()
        elif not delivery.is_lost():
            delivery.done()
        for one in held:
            if not one.live:  # CLIENT settles all that was handed out before, too
                self.account.settled(one)
        self._held = [one for one in held if one.live]
        if delivery not in held or delivery.live:
            return  # it comes again, or went with another one
        if self.lots.chance(0.5):
            delivery.consumer().flush()
            what = self.ask("confirm", lambda error: self._confirmed(delivery, error))
            delivery.confirm(mark, what)

    def _confirmed(self, delivery: DeliveryPort, error: EntrepotError | None) -> None:
        if error is None:
            self.account.gone(delivery)


def present(caller: Caller) -> End | None:
    """Return the end of the connection that ``caller`` has, None without one."""
    end = caller.ends.get(caller.lifeline.failover.current)
    return None if end is None or end.gone else end


class Looker(Caller):
    """Looks through one queue again and again, and takes nothing."""

    def __init__(self, network: Network, tongue: Tongue, account: Account, name: str, queue: str) -> None:
        super().__init__(network, tongue, account, name)
        self.queue: Final = queue
        self._session: SessionPort | None = None
        self._browser: ConsumerPort | None = None
        self._seen: set[str] = set()
        self._losses = 0  # when it began to look
        self._there: set[str] = set()  # then

    def begin(self) -> None:
        """Begin to look."""
        self._session = self.conversation.open_session(Acknowledge.AUTO)
        self._step()

    def _step(self) -> None:
        browser, session = self._browser, self._session
        if self.left or session is None:
            return
        if browser is None and not self.ending:
            self._seen = set()
            self._losses = self.losses
            self._there = self.account.untouched(self.queue)
            wish = Wish(f"queue://{self.queue}", self.lots.one_of((1, 5, 100)), browser=True)
            asked = self.ask("open a browser", lambda error: None)  # closed before it is open is an error
            self._browser = session.open_consumer(wish, RedeliveryPolicy(), lambda: None, asked)
        elif browser is not None:
            self._look(browser)
        self.later(0, 100, self._step)

    def _look(self, browser: ConsumerPort) -> None:
        delivery = browser.take(self.world.time)
        while delivery is not None:
            name = self.account.shown(self.name, delivery)
            if name in self._seen and self._losses == self.losses:
                self.world.violation(f"{self.name} is shown {name} twice")
            self._seen.add(name)
            delivery = browser.take(self.world.time)
        if browser.exhausted and self._losses == self.losses:
            missed = sorted(self._there & self.account.untouched(self.queue) - self._seen)
            if missed:
                self.world.violation(f"{self.name} is not shown {missed}")
        if browser.exhausted or browser.ended or self._losses != self.losses or self.lots.chance(0.1):
            browser.close()
            self._browser = None
            self.world.count("looks that came to their end", int(browser.exhausted))

    def is_done(self) -> bool:
        """Tell whether it looks no more."""
        return super().is_done() and self._browser is None
