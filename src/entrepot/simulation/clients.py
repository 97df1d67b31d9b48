"""The clients of a simulated broker: what they have in common, and those that produce.

Every client speaks through the real `StompClient`, dials again when its connection is gone, and tells the `Ledger` what
it asked for and what it got. It draws from lots of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import AddressFull, StorageError, StorageFull
from entrepot.protocols.stomp.client import (
    Connected,
    ConnectOptions,
    Disconnected,
    Error,
    Event,
    Message,
    Receipt,
    StompClient,
)
from entrepot.simulation.checkers import CONFIRMED, REFUSED, UNKNOWN, Ledger, Record, Transaction
from entrepot.simulation.machine import Machine
from entrepot.simulation.network import Link, Weather
from entrepot.simulation.world import World

COLORS: Final = ("red", "green", "blue")
CODE_NOT_KNOWN: Final = (StorageFull.code, StorageError.code)  # what was asked for may be on disk or not


class Stage:
    """Where clients act: the world, the one machine, the ledger."""

    def __init__(self, world: World, machine: Machine, ledger: Ledger) -> None:
        self.world = world
        self.machine = machine
        self.ledger = ledger
        self.queues: list[str] = []
        self.dropping: list[str] = []  # queues that drop when they are full: nobody is owed anything there
        self.virtual: dict[str, list[str]] = {}  # virtual topic -> its queues
        self.healing = False


class Client:
    """One program with one connection at a time."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self.world = stage.world
        self.ledger = stage.ledger
        self.name = name
        self.lots = stage.world.lots(name)
        self.link: Link | None = None
        self.online = False
        self.leaving = False
        self.client_id = ""
        self.versions: tuple[str, ...] = (self.lots.one_of(("1.0", "1.1", "1.2", "1.2")),)
        self.receipts: dict[str, Callable[[str], None]] = {}  # receipt id -> what to do with "" or an error's code
        self.links = 0
        self.answer: dict[str, str] = {}  # the headers of the receipt that is being handled

    # -- the connection -----------------------------------------------------------------------------------------------

    @property
    def client(self) -> StompClient:
        """Return the session. There is one while ``online``."""
        assert self.link is not None
        return self.link.client

    def start(self) -> None:
        """Dial; again and again while nobody answers."""
        if self.leaving or self.link is not None:
            return
        if self.stage.machine.broker is None:
            self.world.later(self.lots.between(5, 60) * MILLISECOND, self.start)
            return
        self.links += 1
        weather = Weather(self.world.lots(f"{self.name}/{self.links}"))
        beat: Duration = SECOND if weather.beats else 0
        options = ConnectOptions(
            client_id=self.client_id, versions=self.versions, heartbeat_send=beat, heartbeat_receive=beat
        )
        self.link = Link(self.world, self.stage.machine, self, options, weather)
        self.link.client.connect(self.world.time)
        self.link.flush_client()

    def happened(self, event: Event) -> None:
        """Take one event of the session."""
        if isinstance(event, Message):
            self.took(event)
        elif isinstance(event, Receipt):
            action = self.receipts.pop(event.receipt_id, None)
            if action is not None:
                self.answer = event.headers
                action("")
        elif isinstance(event, Error):
            code = event.headers.get("code", "")
            self.world.count(f"error {code}")
            self.world.note(f"{self.name} error {code} {event.message}")
            action = self.receipts.pop(event.receipt_id, None)
            if action is not None:
                action(code)
            self.refused(code, event)
        elif isinstance(event, Connected):
            self.online = True
            self.ready()
        elif isinstance(event, Disconnected):
            self._gone(event)

    def _gone(self, event: Disconnected) -> None:
        self.world.note(f"{self.name} gone: {event.why}")
        self.online = False
        self.link = None
        receipts = list(self.receipts.values())
        self.receipts.clear()
        for action in receipts:
            action(StorageError.code)  # nobody will tell
        self.lost()
        if not self.leaving:
            self.world.later(self.lots.between(1, 100) * MILLISECOND, self.start)

    def act(self, action: Callable[[], None], delay: Duration) -> None:
        """Do ``action`` later, if this connection is still there then, and write what it says."""
        link = self.link

        def run() -> None:
            if self.online and self.link is link and link is not None:
                action()
                link.flush_client()

        self.world.later(delay, run)

    def hang_up(self) -> None:
        """Leave in order; unless it is for good, it comes back."""
        self.online = False
        self.client.disconnect()

    def leave(self) -> None:
        """Go for good, in order when that is possible."""
        self.leaving = True
        self.online = False
        if self.link is not None:
            self.link.client.disconnect()
            self.link.flush_client()

    @property
    def linked(self) -> bool:
        """Whether there is a connection that can be lost."""
        return self.link is not None

    def cut(self) -> None:
        """Lose the connection: by a cut, or by closing one direction."""
        link = self.link
        if link is None:
            return
        self.world.count("cut")
        if self.lots.chance(0.2):
            link.half_close()
        else:
            link.cut(self.lots.between(0, 300) * MILLISECOND, self.lots.between(0, 300) * MILLISECOND)

    # -- what kinds of clients say ------------------------------------------------------------------------------------

    def ready(self) -> None:
        """The connection is up."""

    def took(self, message: Message) -> None:
        """A message came."""

    def refused(self, code: str, error: Error) -> None:
        """An ERROR came."""

    def lost(self) -> None:
        """The connection is gone."""

    def closed(self, link: Link) -> None:
        """Both ends of ``link`` are gone."""

    def heal(self) -> None:
        """The storm is over: come to an end."""
        self.leave()

    @property
    def quiet(self) -> bool:
        """Whether it has nothing more to do."""
        return self.link is None


class ProducerOptions(msgspec.Struct, frozen=True):
    """What one producer sends. Sizes in octets, times in ns; shares are probabilities."""

    destinations: tuple[str, ...]
    count: int
    interval: Duration
    window: int
    size_max: int
    persistent: float
    receipts: float
    transactions: float
    duplicates: bool
    lifetimes: float
    delays: float
    priorities: float
    groups: int
    closes: float


class Producer(Client):
    """Sends numbered messages. With ``duplicates`` it sends again what was not confirmed when a connection was lost."""

    def __init__(self, stage: Stage, name: str, options: ProducerOptions) -> None:
        super().__init__(stage, name)
        self.options = options
        self.sequence = 0
        self.again: list[Record] = []
        self.ending = False

    def ready(self) -> None:
        """Go on where it stopped."""
        self.act(self.step, 0)

    def step(self) -> None:
        """Send something, if the window is open."""
        options = self.options
        if self.ending and not self.again:
            if not self.receipts:
                self.leave()
                return
        elif len(self.receipts) < options.window and self.client.ready:
            if self.again:
                self._send(self.again.pop(0), None)
            elif self.sequence >= options.count:
                self.ending = True
            elif self.lots.chance(options.transactions):
                self._transact()
            else:
                for _ in range(self.lots.between(1, 3)):
                    self._send(self._record(), None)
        self.act(self.step, self.lots.between(options.interval // 2, options.interval * 2))

    def _record(self) -> Record:
        options = self.options
        lots = self.lots
        self.sequence += 1
        record = Record(f"{self.name}-{self.sequence}", self.name, self.sequence)
        record.size = lots.skewed(10, options.size_max)
        record.size = len(record.body())
        record.persistent = lots.chance(options.persistent)
        record.color = lots.one_of(COLORS)
        if options.duplicates and record.persistent:
            record.duplicate_id = record.identity
        if lots.chance(options.priorities):
            record.priority = lots.below(10)
        if lots.chance(options.lifetimes):
            record.expires = self.world.wall() + lots.skewed(5, 3000)
        return record

    def _headers(self, record: Record) -> dict[str, str]:
        options = self.options
        lots = self.lots
        headers = {"sim-id": record.identity, "color": record.color}
        if record.persistent:
            headers["persistent"] = "true"
        if record.priority != 4:
            headers["priority"] = str(record.priority)
        if record.expires:
            headers["expires"] = str(record.expires)
        if record.duplicate_id:
            headers["_AMQ_DUPL_ID"] = record.duplicate_id
        elif lots.chance(options.delays):
            record.later = True
            record.delay_ms = lots.skewed(1, 2000)
            headers["AMQ_SCHEDULED_DELAY"] = str(record.delay_ms)
            if lots.chance(0.2):
                record.repeats = True
                headers["AMQ_SCHEDULED_REPEAT"] = str(lots.between(1, 3))
                headers["AMQ_SCHEDULED_PERIOD"] = str(lots.between(1, 500))
        elif options.groups:
            self._group(headers)
        return headers

    def _group(self, headers: dict[str, str]) -> None:
        number = self.lots.below(self.options.groups)
        if self.options.closes:
            headers["JMSXGroupID"] = f"{self.name}-closing-{number}"
            if self.lots.chance(self.options.closes):
                headers["JMSXGroupSeq"] = "-1"
        else:
            headers["JMSXGroupID"] = f"one-{self.name}-{number}"

    def _send(self, record: Record, transaction: Transaction | None) -> None:
        lots = self.lots
        if record.destination:
            self.world.count("sent again")
            record.later = True  # it may have been refused when those behind it were not
        else:
            self._address(record, lots.one_of(self.options.destinations))
            record.headers = self._headers(record)
            record.connection = f"{self.name}/{self.links}"
            self.ledger.sent(record)
        receipt = transaction is None and (bool(record.duplicate_id) or lots.chance(self.options.receipts))
        body = record.body()
        token = self.client.send(
            record.destination,
            body.decode() if lots.chance(0.5) else body,
            record.headers,
            receipt=receipt,
            transaction="" if transaction is None else transaction.name,
        )
        self.world.count("sends")
        self.world.note(f"{self.name} sends {record.identity} to {record.destination}")
        if token:
            self.receipts[token] = lambda code: self._answered(record, code)

    def _address(self, record: Record, destination: str) -> None:
        """Note where copies of ``record`` must be."""
        record.destination = destination
        for part in destination.split(","):
            kind, name = part[1:].split("/", 1)
            if kind == "topic":
                record.topics.append(name)
                record.queues.extend(self.stage.virtual.get(name, ()))
            elif name not in self.stage.dropping:
                record.queues.append(name)

    def _answered(self, record: Record, code: str) -> None:
        if not code:
            self.ledger.confirmed(record)
        elif code == AddressFull.code and not record.duplicate_id:
            record.state = REFUSED
        else:
            record.state = UNKNOWN
            if record.duplicate_id and not self.online:
                self.again.append(record)
                self.again.sort(key=lambda each: each.sequence)  # order is the producer's business too

    def _transact(self) -> None:
        lots = self.lots
        transaction = Transaction(self.client.begin())
        for _ in range(lots.between(1, 6)):
            record = self._record()
            record.duplicate_id = ""
            transaction.records.append(record)
            self._send(record, transaction)
        if lots.chance(0.2):
            self.client.abort(transaction.name)
            self.ledger.ended(transaction, REFUSED)
            self.world.count("aborts")
            return
        self.ledger.ending(transaction)
        token = self.client.commit(transaction.name)
        self.world.count("commits")
        transaction.name = f"{self.name}/{self.links}/{transaction.name}"
        self.receipts[token] = lambda code: self.ledger.ended(transaction, fate(code))

    def heal(self) -> None:
        """Send nothing new."""
        self.options = msgspec.structs.replace(self.options, count=0)

    @property
    def quiet(self) -> bool:
        """Whether everything is answered."""
        return self.leaving and self.link is None


def fate(code: str) -> str:
    """Return what a COMMIT that was answered with ``code`` ("": a receipt) means."""
    if not code:
        return CONFIRMED
    return UNKNOWN if code in CODE_NOT_KNOWN else REFUSED
