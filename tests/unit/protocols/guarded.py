"""A broker in which everything is somebody else's: what each test of the rights on every verb begins with.

``boss`` may do everything and has filled every room of it. ``app`` may do everything with what is called ``open``, and
``none`` nothing at all. What one of the two is refused must leave the `picture` as it was.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.core.operators.jobs import ADDRESS as JOBS
from entrepot.core.operators.jobs import Jobs
from entrepot.core.operators.management import install
from entrepot.core.security.access import ADMIN, EVERYTHING, READ, WRITE, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.model.address import UNTYPED
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    ConnectionId,
    ConnectionInfo,
    Destination,
    DestinationInfo,
    Response,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.ids import TransactionStep
from entrepot.protocols.openwire.statistics import PREFIX, Statistics
from kit import Rig

from .openwire.wired import Client as JavaClient
from .openwire.wired import Hub
from .stomp.test_server import Client as StompClient

PASSWORD = "secret"
STRANGERS = ("app", "none")
BRANCH = XATransactionId(7, b"global", b"branch")
SECRET = ("secret", "ActiveMQ.DLQ", "Consumer.a.VirtualTopic.secret")


class Scene:
    """Everything is ``boss``'s: messages, consumers, a lease, a stage, a branch, temporary destinations, a schedule."""

    def __init__(self) -> None:
        self.rig = Rig()
        broker = self.rig.broker
        install(broker)
        self.hub = Hub(self.rig)
        broker.addresses.offer_family(PREFIX, Statistics(self.hub.acceptor, dict, ""))
        broker.addresses.offer(JOBS, Jobs(broker))
        users = [User(name, f"plain:{PASSWORD}", [name]) for name in ("boss", "app", "none")]
        rules = [
            Rule(">", UNTYPED, {"boss": EVERYTHING}),
            Rule("open.>", UNTYPED, {"app": READ | WRITE | ADMIN}),
        ]
        broker.access.protect(Directory(users), rules)
        self._fill_over_stomp()
        self._fill_over_openwire()
        self.rig.turn()

    def _fill_over_stomp(self) -> None:
        boss = self.stomp("boss", client_id="me")
        boss.subscribe("/topic/secret", durable_subscription_name="s")
        boss.cut()
        boss = self.boss = self.stomp("boss")
        for name in (*SECRET, "open"):
            for number in range(4):
                boss.send(b"%d" % number, f"/queue/{name}", persistent="true")
        boss.send(b"kept", "/topic/secret", persistent="true")
        boss.say("SEND", {"destination": "/queue/secret", "AMQ_SCHEDULED_DELAY": "3600000"}, b"later")
        boss.ask("SUBSCRIBE", id="temp-q", destination="/temp-queue/inbox", ack="client")
        boss.ask("SUBSCRIBE", id="temp-t", destination="/temp-topic/news", ack="client")
        self.temporary_queue, self.temporary_topic = boss.session.places.temporary.values()
        self.send_to_temporary()
        boss.ask(
            "SUBSCRIBE",
            id="held",
            destination="/queue/secret",
            ack="client-individual",
            **{"activemq.prefetchSize": "1"},
        )
        self.delivered = next(frame.headers["ack"] for frame in boss.got if frame.headers.get("subscription") == "held")
        boss.ask("ATTACH", queue="/queue/ActiveMQ.DLQ", group="g", receipt="a")
        boss.ask("CLAIM", queue="/queue/ActiveMQ.DLQ", group="g", epoch="1", max="1", receipt="c")
        boss.ask("ATTACH", topic="secret", group="t", receipt="a")
        boss.send(b"leased", "/topic/secret", persistent="true")
        epoch = self.rig.broker.leases.held["t.secret", "t"].epoch
        boss.ask("CLAIM", topic="secret", group="t", epoch=str(epoch), max="1", receipt="c")
        boss.send(b"more", "/topic/secret", persistent="true")
        for part in ("p1", "p2"):
            boss.ask("STAGE", sink="orders", batch="0", part=part)
            boss.send(b"staged", "/queue/open", stage=part)
            if part == "p1":
                boss.ask("STAGED", sink="orders", batch="0", part=part)

    def send_to_temporary(self) -> None:
        """Let something wait in the temporary queue: its reader has room for no more."""
        self.boss.ask("UNSUBSCRIBE", id="temp-q")
        self.boss.send(b"reply", f"/remote-temp-queue/{self.temporary_queue}")

    def _fill_over_openwire(self) -> None:
        java = self.java_boss = self.java("boss")
        java.producer()
        self.inbox = ActiveMQTempQueue(f"{java.name}:1")
        self.wire = ActiveMQTempTopic(f"{java.name}:2")
        for where in (self.inbox, self.wire):
            java.ask(DestinationInfo(connection_id=ConnectionId(java.name), destination=where))
        self.consumer = java.consume(ActiveMQQueue("secret"), prefetch=1)
        self.dispatches = java.dispatches()
        java.ask(TransactionInfo(transaction_id=BRANCH, type=int(TransactionStep.BEGIN)))
        java.ask(java.text(ActiveMQQueue("secret"), "prepared", persistent=True, transaction=BRANCH))
        java.ask(TransactionInfo(transaction_id=BRANCH, type=int(TransactionStep.PREPARE)))
        java.take()

    # -- who comes ----------------------------------------------------------------------------------------------------

    def stomp(self, user: str, **headers: str) -> StompClient:
        """Return a connection of ``user`` over STOMP."""
        client = StompClient(self.rig, login=user, passcode=PASSWORD, **headers)
        assert client.connected.command == "CONNECTED"
        return client

    def java(self, user: str, client_id: str | None = None, name: str = "") -> JavaClient:
        """Return a connection of ``user`` over OpenWire."""
        client = self.hub.client(name, connected=False)
        info = ConnectionInfo(
            connection_id=ConnectionId(client.name), user_name=user, password=PASSWORD, client_id=client_id
        )
        assert type(client.ask(info)) is Response
        client.take()
        return client

    # -- what there is ------------------------------------------------------------------------------------------------

    def picture(self) -> dict[str, object]:
        """Return all that a client can change, but for his own connection."""
        broker = self.rig.broker
        stages = broker.stages
        return {
            "queues": {queue.name: _queue(queue) for queue in broker.table.queues.values()},
            "addresses": sorted(broker.table.addresses),
            "topics": sorted(broker.access._topics),
            "leases": {key: (lease.epoch, lease.base, lease.tail) for key, lease in broker.leases.held.items()},
            "stages": {key: (int(stage.count), stage.closed) for key, stage in stages.stages.items()},
            "decisions": {sink: dict(decided) for sink, decided in stages.decisions.items()},
            "publications": {sink: list(published) for sink, published in stages.publications.items()},
            "sinks": {name: sink.owner for name, sink in stages.ledger.sinks.items()},
            "branches": sorted(broker.branches.prepared),
            "schedules": sorted(broker.scheduled.schedules),
            "clients": sorted(broker.clients.held),
            "followers": len(broker.reading.followers),
            "temporaries": dict(self.hub.acceptor.temporaries),
            "told": sorted(str(where.physical_name) for where in self.hub.acceptor.advisories.temporaries),
            "stored": self.rig.journal.usage().messages,
            "boss": (self.boss.session.closing, self.java_boss.session.closing),
            "boss reads": (
                len(self.boss.session.consuming.named),
                len(self.java_boss.session.need_consuming().consumers),
            ),
        }

    def settle(self) -> None:
        """Let all that was begun come to its end: answers, alarms, publications."""
        for _ in range(5):
            self.rig.wait(0)
            self.boss.hear()
            self.java_boss.hear()


def _queue(queue) -> tuple[object, ...]:
    return (
        int(queue.count),
        int(queue.in_flight),
        int(queue.leased),
        int(queue.accepted),
        int(queue.settled),
        int(queue.returns.dead),
        len(queue.returns.delayed),
        len(queue.roster.consumers),
        bool(queue.gate.paused),
    )


# -- kinds of destinations ---------------------------------------------------------------------------------------------

KINDS: dict[str, str] = {
    "queue": "/queue/secret",
    "topic": "/topic/secret",
    "new queue": "/queue/fresh",
    "new topic": "/topic/fresh",
    "untyped": "secret",
    "temporary queue": "/remote-temp-queue/{queue}",
    "temporary topic": "/remote-temp-topic/{topic}",
    "temporary queue by its plain name": "/queue/{queue}",
    "temporary queue of an address": "/queue/open::{queue}",
    "temporary topic by its plain name": "/topic/{topic}",
    "Java's temporary queue": "/remote-temp-queue/{inbox}",
    "Java's temporary topic": "/remote-temp-topic/{wire}",
    "Java's temporary queue by its plain name": "/queue/{inbox}",
    "composite": "/queue/open,/queue/secret",
    "composite of kinds": "/queue/open,/topic/secret",
    "wildcard": "/queue/>",
    "narrow wildcard": "/queue/*",
    "wildcard of Artemis": "/queue/#",
    "wildcard for topics": "/topic/>",
    "queue of another address": "/queue/open::secret",
    "queue of its address": "/queue/secret::secret",
    "own queue on another's address": "/queue/secret::open",
    "new queue of the own address": "/queue/open::fresh",
    "new queue of another address": "/queue/secret::open.fresh",
    "virtual topic": "/topic/VirtualTopic.secret",
    "queue of a virtual topic": "/queue/Consumer.a.VirtualTopic.secret",
    "queue of a durable subscription": "/queue/me.s",
    "durable subscription of its topic": "/topic/secret::me.s",
    "durable subscription of another address": "/queue/open::me.s",
    "dead letters": "/queue/ActiveMQ.DLQ",
    "advisory": "/topic/ActiveMQ.Advisory.Consumer.Queue.secret",
    "management": "/queue/activemq.management",
    "management as a topic": "/topic/activemq.management",
    "queue of the management address": "/queue/activemq.management::q",
    "scheduler": "/topic/ActiveMQ.Scheduler.Management",
    "scheduler as a queue": "/queue/ActiveMQ.Scheduler.Management",
    "statistics": "/queue/ActiveMQ.Statistics.Destination.secret",
    "statistics of all": "/topic/ActiveMQ.Statistics.Broker",
}
"""How a client of STOMP writes each kind of destination that is not his."""

REPLYING = ("temporary queue", "temporary topic", "Java's temporary queue", "Java's temporary topic")
"""Whoever has the name may send there: that is how questions are answered."""


def written(scene: Scene, kind: str) -> str:
    """Return the destination as a client of STOMP writes it."""
    return KINDS[kind].format(
        queue=scene.temporary_queue,
        topic=scene.temporary_topic,
        inbox=scene.inbox.physical_name,
        wire=scene.wire.physical_name,
    )


MADE: dict[str, Callable[[str], Destination]] = {
    "/queue/": ActiveMQQueue,
    "/topic/": ActiveMQTopic,
    "/remote-temp-queue/": ActiveMQTempQueue,
    "/remote-temp-topic/": ActiveMQTempTopic,
}


def spoken(scene: Scene, kind: str) -> Destination:
    """Return the destination as a client of OpenWire says it."""
    text = written(scene, kind)
    parts = text.split(",")
    for prefix, make in MADE.items():
        if parts[0].startswith(prefix):
            rest = [part.replace("/queue/", "queue://").replace("/topic/", "topic://") for part in parts[1:]]
            return make(",".join([parts[0].removeprefix(prefix), *rest]))
    return ActiveMQQueue(text)
