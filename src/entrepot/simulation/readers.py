"""The clients of a simulated broker that read: consumers of every kind, browsers, and readers by lease."""

from __future__ import annotations

from typing import Final

import msgspec

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.protocols.stomp.client import AUTO, CLIENT, CLIENT_INDIVIDUAL, Error, Message
from entrepot.simulation.checkers import CONFIRMED, DEAD_LETTERS, REFUSED, Copy, Record, Subscriber, Transaction
from entrepot.simulation.clients import Client, Stage, fate
from entrepot.simulation.network import Link

CODE_ACCEPTED: Final = ""


class ConsumerOptions(msgspec.Struct, frozen=True):
    """How one consumer reads. ``life``: messages after which it goes and comes back; shares are probabilities."""

    destination: str
    ack: str
    prefetch: int
    think: Duration
    batch: int
    receipts: float
    nacks: float
    transactions: float
    color: str
    priority: int
    exclusive: bool
    life: int
    durable: str = ""
    outputs: str = ""


class Consumer(Client):
    """Reads, thinks, settles. What it has not settled when it goes is somebody else's."""

    def __init__(self, stage: Stage, name: str, options: ConsumerOptions) -> None:
        super().__init__(stage, name)
        self.options = options
        self.subscription = ""
        self.unsettled: dict[tuple[str, str], tuple[Message, Copy]] = {}
        self.last: dict[tuple[str, str, int, str], int] = {}
        self.received: list[tuple[str, str]] = []  # on this connection, of an ``auto`` subscription
        self.arrived: dict[int, list[tuple[str, str]]] = {}  # link -> the same, for when both its ends are gone
        self.taken = 0
        self.working = False
        self.outputs = 0
        if options.durable:
            self.client_id = name

    # -- subscribing --------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Subscribe."""
        options = self.options
        self.taken = 0
        self.working = False
        self.received = []
        assert self.link is not None
        self.arrived[self.link.number] = self.received
        headers = {"activemq.prefetchSize": str(options.prefetch)}
        if options.priority:
            headers["activemq.priority"] = str(options.priority)
        if options.exclusive:
            headers["activemq.exclusive"] = "true"
        if options.durable:
            headers["durable-subscription-name"] = options.durable
        selector = f"color = '{options.color}'" if options.color else ""
        self.subscription, token = self.client.subscribe(
            options.destination, ack=options.ack, selector=selector, headers=headers, receipt=True
        )
        self.receipts[token] = self._subscribed

    def _subscribed(self, code: str) -> None:
        options = self.options
        name = f"{self.name}.{options.durable}"
        if not code and options.durable and name not in self.ledger.subscribers:
            topic = options.destination.removeprefix("/topic/")
            self.ledger.subscribers[name] = Subscriber(topic, options.color, self.world.time)

    def lost(self) -> None:
        """All that was not settled goes back."""
        self.unsettled.clear()
        self.last.clear()

    def closed(self, link: Link) -> None:
        """What an automatic acknowledgement covered and never came is lost: that is what ``auto`` means."""
        received = self.arrived.pop(link.number, [])
        if self.options.ack == AUTO:
            for key in received:
                if key in link.shown:
                    link.shown.remove(key)
            for destination, identity in link.shown:
                self.ledger.lost_in_transit(self._queue(destination), identity)

    def _queue(self, destination: str) -> str:
        if self.options.durable:
            return f"{self.name}.{self.options.durable}"
        return destination[1:].split("/", 1)[1]

    # -- receiving ----------------------------------------------------------------------------------------------------

    def took(self, message: Message) -> None:
        """Check it and plan its settlement."""
        options = self.options
        auto = options.ack == AUTO
        headers = message.headers
        self.received.append((message.destination, headers.get("sim-id", "")))
        queue = self._queue(message.destination)
        if options.destination.startswith("/topic/") and not options.durable:
            self._took_fleeting(message)
            return
        assert self.link is not None
        stale = message.subscription not in ("", self.subscription)
        late = stale or self.link.server_gone
        copy = self.ledger.delivered(queue, headers, message.body, auto=auto, late=late)
        if copy is None:
            return
        self.world.note(f"{self.name} took {copy.record.identity} from {queue}{' late' if late else ''}")
        if late:
            return
        self.ledger.in_order(self.last, copy, headers.get("redelivered") == "true")
        if options.color and copy.record.color != options.color:
            self.world.violation(f"{self.name} wants {options.color} and got {copy.record.color}")
        self.taken += 1
        if not auto:
            self.unsettled[(copy.queue, headers["message-id"])] = (message, copy)
            if len(self.unsettled) > options.prefetch:
                self.world.violation(f"{self.name} has {len(self.unsettled)} unsettled, prefetch {options.prefetch}")
            self._plan()
        if options.life and self.taken >= options.life:
            self.taken = 0
            self.act(self._go, self.lots.between(0, 20) * MILLISECOND)

    def _took_fleeting(self, message: Message) -> None:
        """A plain topic subscriber: whole bodies, in order, from a queue of its own."""
        record = self.ledger.records.get(message.headers.get("sim-id", ""))
        if record is None or record.state == REFUSED or message.body != record.body():
            self.world.violation(f"{self.name} got what nobody sent like this: {message.headers}")
            return
        self.ledger.in_order(self.last, Copy(self.name, record), False)
        if self.options.ack != AUTO and self.online:
            self.client.ack(message)

    def _go(self) -> None:
        if self.lots.chance(0.5) and not self.options.durable:
            self.client.unsubscribe(self.subscription)
            self.lost()
            self.ready()
        else:
            self.hang_up()

    # -- settling -----------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        if not self.working:
            self.working = True
            self.act(self._work, self.lots.between(0, self.options.think))

    def _work(self) -> None:
        self.working = False
        if not self.unsettled:
            return
        options = self.options
        if options.ack == CLIENT:
            self._settle_up_to()
        elif self.lots.chance(options.transactions):
            self._transact()
        else:
            for _ in range(min(len(self.unsettled), self.lots.between(1, options.batch))):
                self._settle_one()
        if self.unsettled:
            self._plan()

    def _settle_one(self) -> None:
        keys = list(self.unsettled)
        key = keys[0] if self.lots.chance(0.7) else self.lots.one_of(keys)
        message, copy = self.unsettled.pop(key)
        if self._may_refuse() and self.lots.chance(self.options.nacks):
            self.client.nack(message)
            self.world.count("nacks")
            return
        self._settle(message, [copy])

    def _settle_up_to(self) -> None:
        keys = list(self.unsettled)
        at = self.lots.below(len(keys))
        message = self.unsettled[keys[at]][0]
        covered = [self.unsettled.pop(key)[1] for key in keys[: at + 1]]
        if self._may_refuse() and self.lots.chance(self.options.nacks):
            self.client.nack(message)
            self.world.count("nacks")
            return
        self._settle(message, covered)

    def _may_refuse(self) -> bool:
        return self.client.version != "1.0" and not self.stage.healing

    def _settle(self, message: Message, copies: list[Copy]) -> None:
        for copy in copies:
            copy.asked = True
        self.world.count("acks", len(copies))
        token = self.client.ack(message, receipt=self.lots.chance(self.options.receipts))
        if token:
            self.receipts[token] = lambda code: self._settled(copies, code)

    def _settled(self, copies: list[Copy], code: str) -> None:
        if not code:
            for copy in copies:
                self.ledger.settled(copy)

    def _transact(self) -> None:
        """Acknowledge some and send something, in one transaction."""
        lots = self.lots
        client = self.client
        transaction = Transaction(client.begin())
        keys = list(self.unsettled)[: lots.between(1, self.options.batch)]
        taken = [self.unsettled.pop(key) for key in keys]
        for message, _ in taken:
            client.ack(message, transaction=transaction.name)
        if self.options.outputs:
            for _ in range(lots.between(0, 2)):
                self._output(transaction)
        if lots.chance(0.25):
            client.abort(transaction.name)
            self.world.count("aborts")
            self.ledger.ended(transaction, REFUSED)
            self.unsettled.update(zip(keys, taken, strict=True))
            return
        transaction.acks = [(copy, copy.deliveries) for _, copy in taken]
        self.ledger.ending(transaction)
        token = client.commit(transaction.name)
        self.world.count("commits")
        transaction.name = f"{self.name}/{self.links}/{transaction.name}"
        self.receipts[token] = lambda code: self._committed(transaction, code)

    def _committed(self, transaction: Transaction, code: str) -> None:
        state = fate(code)
        self.ledger.ended(transaction, state)
        if state == REFUSED and self.online:
            self.hang_up()  # what it would have settled is still in flight here: hand it back

    def _output(self, transaction: Transaction) -> None:
        self.outputs += 1
        record = Record(f"{self.name}-{self.outputs}", self.name, self.outputs)
        record.size = len(record.body())
        record.persistent = True
        record.destination = f"/queue/{self.options.outputs}"
        if self.options.outputs not in self.stage.dropping:
            record.queues.append(self.options.outputs)
        record.headers = {"sim-id": record.identity, "persistent": "true", "color": "red"}
        record.color = "red"
        transaction.records.append(record)
        self.ledger.sent(record)
        self.client.send(record.destination, record.body(), record.headers, transaction=transaction.name)

    def refused(self, code: str, error: Error) -> None:
        """A subscription that was not granted, or was taken away, is asked for again on a new connection."""
        if "subscription" in error.message and self.online:
            self.hang_up()

    # -- the end ------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """A durable subscriber reads its queue to the end; the others go."""
        if self.options.durable:
            self.options = msgspec.structs.replace(
                self.options, think=MILLISECOND, nacks=0.0, transactions=0.0, life=0, receipts=1.0, batch=50
            )
        else:
            self.leave()

    @property
    def quiet(self) -> bool:
        """Whether it has settled all it got."""
        if self.leaving:
            return self.link is None
        return self.online and not self.unsettled and not self.receipts


def drainer(stage: Stage, queue: str) -> Consumer:
    """Return a consumer that takes everything out of ``queue``, and nothing back."""
    options = ConsumerOptions(
        destination=f"/queue/{queue}",
        ack=CLIENT_INDIVIDUAL,
        prefetch=200,
        think=MILLISECOND,
        batch=200,
        receipts=1.0,
        nacks=0.0,
        transactions=0.0,
        color="",
        priority=0,
        exclusive=False,
        life=0,
    )
    return Consumer(stage, f"drain-{queue}", options)


class Browsing(Client):
    """Looks through a queue, goes, and comes again: whole bodies, nothing twice, nothing that was done with before."""

    def __init__(self, stage: Stage, name: str, queue: str, times: int) -> None:
        super().__init__(stage, name)
        self.queue = queue
        self.times = times
        self.shown: dict[str, bool] = {}
        self.began = 0

    def ready(self) -> None:
        """Begin to browse."""
        self.shown.clear()
        self.began = self.world.time
        self.client.subscribe(f"/queue/{self.queue}", headers={"browser": "true"})

    def took(self, message: Message) -> None:
        """Look at one message, or at the end."""
        if message.ends_browse:
            self.world.count("browses")
            self.times -= 1
            self.leaving = self.times <= 0
            self.hang_up()
            return
        copy = self.ledger.seen(self.queue, message.headers, message.body)
        if copy is None:
            return
        if copy.gone and copy.gone_at < self.began:
            self.world.violation(f"{copy.record.identity} is shown in {self.queue} and was settled before")
        if message.message_id in self.shown:
            self.world.violation(f"{copy.record.identity} is shown twice by one browser of {self.queue}")
        self.shown[message.message_id] = True


class LeaseReader(Client):
    """Leases ranges of a queue, reads them more than once, settles or releases, crashes and comes back."""

    def __init__(self, stage: Stage, name: str, queue: str, most: int, pause: Duration) -> None:
        super().__init__(stage, name)
        self.queue = queue
        self.most = most
        self.pause = pause
        self.epoch = 0
        self.base = 0
        self.tail = 0
        self.settled_least = 0  # positions below are settled for certain
        self.settled_most = 0  # and those from here on are not
        self.tail_least = 0  # claimed for certain
        self.held: dict[int, Copy] = {}
        self.ids: dict[int, str] = {}
        self.releasing = False
        self.reading: dict[int, str] = {}
        self.ending = False
        self.finished = False

    def _ask(self, command: str, **headers: int) -> str:
        fields = {"queue": f"/queue/{self.queue}", "group": self.name, "epoch": str(self.epoch)}
        fields.update({name: str(value) for name, value in headers.items()})
        self.world.note(f"{self.name} {command} {headers}")
        return self.client.request(command, fields)

    # -- attaching ----------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Attach: every earlier reader of this name is fenced."""
        self.receipts[self._ask("ATTACH")] = self._attached

    def _attached(self, code: str) -> None:
        if code:
            self._retry()
            return
        epoch = int(self.answer["epoch"])
        if epoch <= self.epoch:
            self.world.violation(f"{self.name} attached and got epoch {epoch} behind {self.epoch}")
        self.epoch = epoch
        self._learn()
        self.act(self._step, self.lots.between(0, self.pause))

    def _learn(self) -> None:
        """Compare what the broker says of the ledger with what it promised."""
        base, tail = int(self.answer["base"]), int(self.answer["tail"])
        if self.releasing:  # asked for, and not known to have happened: it did if nothing is held
            if base == tail:
                self._let_go()
            self.releasing = False
        elif not self.settled_least <= base <= max(self.settled_most, self.settled_least) or tail < self.tail_least:
            self.world.violation(
                f"{self.name} holds {base}..{tail}; settled {self.settled_least} to {self.settled_most}, "
                f"claimed {self.tail_least}"
            )
        for position in [position for position in self.held if position < base]:
            copy = self.held.pop(position)
            copy.lease = ""
            copy.asked = True
            self.ids.pop(position)
            self.ledger.settled(copy)
        self.base = self.settled_least = self.settled_most = base
        self.tail = self.tail_least = tail

    def _let_go(self) -> None:
        for copy in self.held.values():
            copy.lease = ""
        self.held.clear()
        self.ids.clear()

    def _retry(self) -> None:
        if self.online:
            self.hang_up()

    # -- working ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots = self.lots
        if self.ending and self.base == self.tail:
            self.finished = True
            self.leave()
            return
        lot = lots.fraction()
        if self.base < self.tail and (lot < 0.5 or self.ending):
            if self._read_up_to() < self.tail or lot < 0.2:
                self._read()
            else:
                self._settle()
        elif lot < 0.56 and self.base < self.tail:
            self._release()
        elif self.tail - self.base < 4 * self.most:
            start = self.tail if lots.chance(0.7) else self.base
            self.receipts[self._ask("CLAIM", start=start, max=lots.between(1, self.most))] = self._claimed
        else:
            self._read()

    def _read_up_to(self) -> int:
        """Return the first position that it has not read: it settles nothing that it has not seen."""
        position = self.base
        while position in self.held:
            position += 1
        return position

    def _next(self) -> None:
        self.act(self._step, self.lots.between(0, self.pause))

    def _claimed(self, code: str) -> None:
        if code:
            self._retry()
            return
        self.tail = self.tail_least = int(self.answer["tail"])
        self.world.count("claims")
        self._next()

    def _read(self) -> None:
        self.reading = {}
        low, high = self.base, self.tail
        token = self._ask("READ", start=low, end=high)
        self.receipts[token] = lambda code: self._has_read(low, high, code)

    def took(self, message: Message) -> None:
        """One position of a range that was asked for."""
        position = int(message.headers.get("position", "-1"))
        copy = self.ledger.seen(self.queue, message.headers, message.body)
        if copy is None:
            return
        known = self.ids.get(position)
        if known is not None and known != message.message_id:
            self.world.violation(f"{self.name} read {known} at {position}, and now {message.message_id}")
        if copy.gone:
            self.world.violation(f"{self.name} read {copy.record.identity}, whose acknowledgement was confirmed")
        if copy.lease not in ("", self.name):
            self.world.violation(f"{copy.record.identity} is leased to {copy.lease} and to {self.name}")
        if not copy.record.repeats:
            copy.lease = self.name
        copy.era = self.ledger.era  # its reader has seen it: who gets it later is told so
        self.ids[position] = message.message_id
        self.held[position] = copy
        self.reading[position] = message.message_id

    def _has_read(self, low: int, high: int, code: str) -> None:
        if code:
            self._retry()
            return
        self.world.count("lease reads")
        if list(self.reading) != list(range(low, high)):
            self.world.violation(f"{self.name} asked for {low}..{high} and read {list(self.reading)}")
        self._next()

    def _settle(self) -> None:
        end = self._read_up_to() if self.ending else self.lots.between(self.base, self._read_up_to())
        self.settled_most = max(self.settled_most, end)
        for position, copy in self.held.items():
            if position < end:
                copy.asked = True
        self.receipts[self._ask("SETTLE", end=end)] = self._settled

    def _settled(self, code: str) -> None:
        if code:
            self._retry()
            return
        self.world.count("lease settlements")
        self._learn()
        self._next()

    def _release(self) -> None:
        self.releasing = True
        for copy in self.held.values():
            copy.lease = ""  # from now on others may get it
        self.receipts[self._ask("RELEASE")] = self._released

    def _released(self, code: str) -> None:
        if not code:
            self.world.count("lease releases")
            self._learn()
        self._retry()  # the epoch is over: come back with another

    def lost(self) -> None:
        """What it holds it holds, whether it is there or not."""
        if self.releasing:
            for copy in self.held.values():
                copy.lease = ""

    # -- the end ------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Read and settle all that is held, then go."""
        self.ending = True
        if self.link is None:
            self.start()

    @property
    def quiet(self) -> bool:
        """Whether nothing is held any more."""
        return self.finished and self.link is None


__all__ = ["CONFIRMED", "DEAD_LETTERS", "Browsing", "Consumer", "ConsumerOptions", "LeaseReader", "drainer"]
