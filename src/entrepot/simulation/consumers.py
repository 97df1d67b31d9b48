"""The consumers of a simulated broker: every acknowledgement mode, transactions, durable and fleeting subscriptions."""

from __future__ import annotations

import msgspec

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.core.queue.head import ADVISORY
from entrepot.core.security.access import NOTIFICATIONS
from entrepot.protocols.stomp.client import AUTO, CLIENT, CLIENT_INDIVIDUAL, Error, Message
from entrepot.simulation.checkers import DEAD_LETTERS, REFUSED, Copy, Record, Subscriber, Transaction
from entrepot.simulation.clients import Client, Stage, fate
from entrepot.simulation.network import Link


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
    departs: float = 0.0  # of its transactions: it stops reading between what it acknowledged and the end


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
        if options.destination == f"/queue/{DEAD_LETTERS}" and not name.startswith("drain-"):
            self.versions = ("1.2",)  # below, an ACK cannot tell apart what died in two queues

    # -- subscribing --------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Subscribe: the connection is open."""
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
        # Behind our DISCONNECT, and once the broker has given the connection up, all may be with others already.
        late = stale or not self.online or self.link.server_gone
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
        """A plain topic subscriber: whole bodies, in order, from a queue of its own; a wildcard covers advisories."""
        if message.destination.startswith((f"/topic/{ADVISORY}", f"/topic/{NOTIFICATIONS}")):
            self.world.count("advisories")
            if self.options.ack != AUTO and self.online:
                self.client.ack(message)
            return
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
        departs = self.options.departs > 0 and lots.chance(self.options.departs)
        if departs:  # what it did not acknowledge goes back; what it did waits for the end
            self.world.count("departures")
            client.unsubscribe(self.subscription)
            self.lost()
        if lots.chance(0.25):
            client.abort(transaction.name)
            self.world.count("aborts")
            self.ledger.ended(transaction, REFUSED)
            if departs:
                self.ready()
            else:
                self.unsettled.update(zip(keys, taken, strict=True))
            return
        transaction.acks = [(copy, copy.deliveries) for _, copy in taken]
        self.ledger.ending(transaction)
        token = client.commit(transaction.name)
        self.world.count("commits")
        transaction.name = f"{self.name}/{self.links}/{transaction.name}"
        self.receipts[token] = lambda code: self._committed(transaction, code)
        if departs:
            self.ready()

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
