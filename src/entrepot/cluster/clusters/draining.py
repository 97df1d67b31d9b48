"""A node gives all that it has to another one: scale-down, and `entrepot drain` of a running broker (artemis.md 1.20).

Every queue with messages becomes the source of a core bridge of its own, to the queue of the same name at the target,
which is made there if it is not there yet. So what holds for bridges holds here: a message is settled here when the
target has it on its disk and not before, one that is said again after a cut or a crash of either side is known there by
its duplicate id, and the order of a queue is kept. What waits for its date is put into a queue of its own first, in one
atomic batch each, and gets its date again at the target.

The target and what was moved are noted in the journal. After a crash the drain is *interrupted*: `resume` goes on with
the same target, `abort` forgets it; what was moved stays there, what was not is here.

Decided on purpose, where Artemis does otherwise: a message of a topic crosses once for each subscription that holds it,
since each queue is moved by itself; prepared branches stay, and are named in the report.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import Refused
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.connection import Carry, ClusterConnection
from entrepot.cluster.clusters.dated import SCHEDULED, Dated
from entrepot.cluster.clusters.members import where
from entrepot.cluster.clusters.options import place_of
from entrepot.cluster.clusters.remotes import STORE_PREFIX
from entrepot.cluster.clusters.topology import Member
from entrepot.core.addressing.configuration import FIELDS
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import ROUTING_NAMES
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.linking.crossing import DATED
from entrepot.protocols.artemis.packets import ClusterConnect, ClusterConnectReply, Packet, ScaleDownAnnouncement
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import Shell

CLUSTER: Final = 3  # the channel of cluster control
PARALLEL: Final = 8  # queues that move at once: each has a connection
LOOK_EVERY: Final = 50 * MILLISECOND
DIAL_AGAIN: Final = SECOND
LOCATING: Final = 10 * SECOND  # for a target to be known (artemis.md 1.20)
NOTES: Final = "drain"
MOVED: Final = "moved."  # and the name of a queue


Perform = Callable[["Drain", list[Dial | Drop]], None]


class State(Enum):
    """Where a drain is."""

    IDLE = "idle"
    LOCATING = "locating"
    CONNECTING = "connecting"
    MOVING = "moving"
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"
    INTERRUPTED = "interrupted"


RUNNING: Final = (State.LOCATING, State.CONNECTING, State.MOVING)


class Receipt(msgspec.Struct):
    """What became of one queue: ``moved`` messages, from the number ``first`` here to ``last``; ``there``: its id."""

    moved: int = 0
    first: int = 0
    last: int = 0
    there: int = 0
    done: bool = False


class _Look(Alarm):
    def __init__(self, due: Instant, drain: Drain) -> None:
        super().__init__(due)
        self._drain: Final = drain

    def ring(self, now: int) -> None:
        self._drain.look()


class _Way:
    """One queue on its way."""

    def __init__(self, queue: Queue, connector: CoreConnector, moved: int) -> None:
        self.queue: Final = queue
        self.connector: Final = connector
        self.before: Final = moved

    def confirmed(self) -> int:
        return self.before + sum(one.link.counts.confirmed for one in self.connector.bridges.values())


class Notebook:
    """What is known of a drain after a restart of the node: the target, the state at its end, and counts."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker: Final = broker

    def recall(self) -> tuple[bool, str, dict[str, int]]:
        """Return whether a drain was under way or had failed, to which node, and how many messages of which queue."""
        notes = self._broker.notes.of(NOTES)
        moved = {key.removeprefix(MOVED): int(value) for key, value in notes.items() if key.startswith(MOVED)}
        ended = notes.get("state", "")
        return "node" in notes and ended in ("", State.FAILED.value), notes.get("node", ""), moved

    def note(self, key: str, value: str) -> None:
        """Keep ``value``, where the disk takes records."""
        if self._broker.journal.refusal() is None:
            self._broker.notes.put(NOTES, key, value)

    def forget(self) -> None:
        """Keep nothing of it."""
        if self._broker.journal.refusal() is None:
            for key in list(self._broker.notes.of(NOTES)):
                self._broker.notes.remove(NOTES, key)


class Drain:
    """That of one broker, over its first cluster connection. ``group``: only nodes of it are targets, "" for all."""

    def __init__(
        self,
        connection: ClusterConnection,
        say: Callable[[str, str], None],
        group: str = "",
        *,
        announces: bool = False,
        direct: tuple[Endpoint, ...] = (),
    ) -> None:
        """``announces``: the target is told at the end that it stands for this node from now on.

        ``direct``: places that are tried one after the other, instead of what the cluster knows; not with a group.
        """
        self.connection: Final = connection
        self.broker: Final[BrokerCore] = connection.broker
        self.state = State.IDLE
        self.why = ""
        self.node = ""  # of the target
        self.place: Endpoint | None = None
        self.receipts: dict[str, Receipt] = {}
        self.announces = announces
        self.attempt = 0
        self._group: Final = group
        self._direct: Final = () if group else direct
        self._tried = 0  # of the direct ones
        self._say: Final = say
        self._perform: Perform = lambda drain, effects: None
        self._carry: Carry = lambda way: None
        self._wanted = ""
        self._asking: Asking | None = None
        self._opened: _Opened | None = None
        self._ways: dict[str, _Way] = {}
        self._asked: dict[str, None] = {}  # queues about which the target is asked
        self._refused: dict[str, str] = {}  # queues that it does not take, and why
        self._since: Instant = 0
        self._look: _Look | None = None
        self._dated: Final = Dated(self.broker)
        self._notebook: Final = Notebook(self.broker)
        interrupted, node, moved = self._notebook.recall()
        if interrupted:
            self.state = State.INTERRUPTED
            self.node = node
            self.receipts = {name: Receipt(moved=count) for name, count in moved.items()}

    # -- what an operator asks -----------------------------------------------------------------------------------------

    def connect(self, perform: Perform, carry: Carry) -> None:
        """The world is there: ``perform`` dials, ``carry`` starts a bridge."""
        self._perform = perform
        self._carry = carry

    def begin(self, to: str = "") -> None:
        """Give all to the node ``to``, an id or a place; "": to the first that fits. Raises Refused."""
        if self.state in RUNNING:
            raise Refused(f"a drain to {self._target()} is under way", remedy="entrepot drain --status, or --abort")
        if to and not self._candidates(to):
            known = ", ".join(where(one) for one in self._candidates("")) or "none"
            raise Refused(f"the cluster has no other node {to!r}", remedy=f"known: {known}")
        self.receipts.clear()
        self._notebook.forget()
        self._start(to)

    def resume(self) -> None:
        """Go on after a crash, or after it failed, with the same target. Raises Refused."""
        if self.state not in (State.INTERRUPTED, State.FAILED):
            raise Refused(f"there is nothing to resume: the drain is {self.state.value}")
        self._start(self.node)

    def abort(self) -> None:
        """Stop. What was moved stays at the target; what waits for its date is scheduled here again. Raises Refused."""
        if self.state not in (*RUNNING, State.FAILED, State.INTERRUPTED):
            raise Refused(f"there is nothing to abort: the drain is {self.state.value}")
        self._end(State.ABORTED, "an operator aborted it")
        self._dated.give_back()
        self._notebook.forget()

    def plan(self) -> list[dict[str, object]]:
        """Return what would move, and what would not, by queue."""
        rows: list[dict[str, object]] = [
            _planned(one.name, int(one.count), int(one.backlog.octets), why_not(one))
            for one in self.broker.table.queues.values()
            if one.count > 0
        ]
        dated, kept = self._dated.numbers()
        if dated:
            rows.append(_planned("(scheduled)", len(dated)))
        if kept:
            rows.append(_planned("(scheduled)", kept, why="they repeat: cancel them, or let this node live"))
        prepared = len(self.broker.branches.prepared)
        if prepared:
            why = "a prepared transaction stays: commit it or roll it back"
            rows.append(_planned("(prepared)", prepared, why=why))
        return rows

    def report(self) -> dict[str, object]:
        """Return how far it is."""
        left = {one.name: int(one.count) for one in self._sources()}
        for name, way in self._ways.items():
            self.receipts[name].moved = way.confirmed()
        return {
            "state": self.state.value,
            "why": self.why,
            "node": self.node,
            "place": "" if self.place is None else authority(self.place),
            "moved": sum(one.moved for one in self.receipts.values()),
            "left": sum(left.values()) + len(self.broker.scheduled.schedules),
            "refused": dict(self._refused),
            "prepared": len(self.broker.branches.prepared),
            "queues": [
                {"queue": name, "left": left.get(name, 0), **msgspec.to_builtins(one)}
                for name, one in self.receipts.items()
            ],
        }

    @property
    def moved(self) -> int:
        """How many messages the target has."""
        under_way = sum(one.confirmed() - self.receipts[name].moved for name, one in self._ways.items())
        return under_way + sum(one.moved for one in self.receipts.values())

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.state not in RUNNING

    def _target(self) -> str:
        return self._wanted if self.place is None else authority(self.place)

    # -- finding the target --------------------------------------------------------------------------------------------

    def _candidates(self, to: str) -> list[Member]:
        """Return the other nodes that ``to`` names, by their ids; with "" those of the group, the connected first."""
        topology = self.connection.topology
        found = [
            one
            for _, one in sorted(topology.members.items())
            if one.node != topology.own.node and one.primary is not None
        ]
        if to:
            return [one for one in found if to in (one.node, where(one)) or one.node.startswith(to)]
        if self._group:
            return [one for one in found if one.scale_down_group == self._group]
        met = self.connection.met()
        return sorted(found, key=lambda one: one.node not in met)

    def _start(self, to: str) -> None:
        self._wanted = to
        self.why = ""
        self._refused.clear()
        self.state = State.LOCATING
        self._since = self._now()
        self.look()

    def _locate(self) -> None:
        if self._direct and not self._wanted:
            self._head_for("", self._direct[self._tried % len(self._direct)])
            return
        found = self._candidates(self._wanted)
        place = None
        for one in found:
            place = None if one.primary is None else place_of(one.primary)
            if place is not None:
                self._head_for(one.node, place)
                return
        if self._now() - self._since >= LOCATING:
            wanted = f" {self._wanted!r}" if self._wanted else f" of the group {self._group!r}" if self._group else ""
            self._end(State.FAILED, f"AMQ222181: no other node{wanted} is known to take what this one has")

    def _head_for(self, node: str, place: Endpoint) -> None:
        self.node, self.place = node, place
        self._notebook.note("node", node)
        self.state = State.CONNECTING
        if self.announces:
            self.connection.members.successor = node
        self._tell(f"everything goes to the node {node}{' ' if node else ''}at {authority(place)}")
        self._dial()

    # -- the connection that asks --------------------------------------------------------------------------------------

    def _dial(self) -> None:
        self.attempt += 1
        assert self.place is not None
        self._perform(self, [Dial(self.attempt, self.place)])

    def open(self, shell: Shell, attempt: int) -> CoreClient:
        """Return the session of the connection that was dialled as ``attempt``."""
        self._opened = _Opened(self, attempt)
        return CoreClient(shell, self._opened, self._now())

    def failed(self, attempt: int, why: str) -> None:
        """The connection ``attempt`` did not come about, or is lost: it is dialled again, for as long as it takes."""
        if attempt != self.attempt or self.state not in (State.CONNECTING, State.MOVING):
            return
        self.why = why
        self._asking = None
        self._opened = None
        self._asked.clear()
        self._since = self._now()
        self.state = State.CONNECTING
        if self._direct and not self._wanted and not self.moved:
            self._tried += 1
            self.place = self._direct[self._tried % len(self._direct)]

    def greeted(self, client: CoreClient) -> None:
        """The target is there: show it our credentials."""
        self.node = self.node or client.node
        credentials = self.connection.credentials
        client.send(ClusterConnect(user=credentials.user, password=credentials.password, channel=CLUSTER))

    def told(self, client: CoreClient, packet: Packet) -> None:
        """What it says."""
        if isinstance(packet, ClusterConnectReply):
            if not packet.authorized:
                self._end(State.FAILED, f"{self._target()} does not admit this broker: the cluster-password is another")
                return
            credentials = self.connection.credentials
            self._asking = Asking(client, credentials.user, credentials.password, self.broker.entropy, self._denied)
            self.state = State.MOVING
            self.why = ""
            self.look()
        elif self._asking is not None:
            self._asking.told(packet)

    def _denied(self, why: str) -> None:
        self._end(State.FAILED, f"{self._target()} lets this broker ask nothing: {why}")

    # -- moving --------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """See how far it is, and go on."""
        if self._look is not None:
            self._look.cancelled = True
            self._look = None
        if self.state is State.LOCATING:
            self._locate()
        elif self.state is State.CONNECTING and self._opened is None and self._now() - self._since >= DIAL_AGAIN:
            self._since = self._now()
            self._dial()
        elif self.state is State.MOVING:
            self._move()
        if self.state in RUNNING:
            self._look = _Look(self._now() + LOOK_EVERY, self)
            self.broker.timetable.add(self._look)

    def _move(self) -> None:
        more = self._dated.take()
        for name, way in list(self._ways.items()):
            self._see(name, way)
        sources = [one for one in self._sources() if one.name not in self._refused]
        for queue in sources:
            if len(self._ways) + len(self._asked) >= PARALLEL:
                return
            if queue.name in self._ways or queue.name in self._asked:
                continue
            receipt = self.receipts.setdefault(queue.name, Receipt())
            if receipt.there:
                self._go(queue, receipt)
            else:
                self._ask(queue)
        if not sources and not self._ways and not self._asked and not more:
            self._finish()

    def _sources(self) -> list[Queue]:
        """Return the queues that hold something that can move."""
        return [one for one in self.broker.table.queues.values() if one.count > 0 and not why_not(one)]

    def _ask(self, queue: Queue) -> None:
        """Ask the target which id its queue has; have it made first where there is none. Where it is a queue of
        scheduled messages there is none: they are routed when their time has come.
        """
        name = queue.name
        receipt = self.receipts[name]
        if name == SCHEDULED:
            receipt.there = -1
            self._go(queue, receipt)
            return
        asking = self._asking
        if asking is None:
            return
        self._asked[name] = None

        def answered(succeeded: bool, value: object) -> None:
            if succeeded and isinstance(value, int):
                self._asked.pop(name, None)
                receipt.there = value
                return
            told = msgspec.json.encode(configuration_of(queue.definition)).decode()
            asking.operation("broker", "createQueue", [told, True], made)

        def made(succeeded: bool, value: object) -> None:
            if not succeeded:
                self._asked.pop(name, None)
                self._refused[name] = f"the target does not make it: {value}"
                self._tell(f"the queue {name} stays: {self._refused[name]}")
                return
            asking.attribute(f"queue.{name}", "ID", known)

        def known(succeeded: bool, value: object) -> None:
            self._asked.pop(name, None)
            if succeeded and isinstance(value, int):
                receipt.there = value
            else:
                self._refused[name] = f"the target does not say which queue it is: {value}"

        asking.attribute(f"queue.{name}", "ID", answered)

    def _go(self, queue: Queue, receipt: Receipt) -> None:
        """Start the bridge of ``queue``."""
        assert self.place is not None
        connection, credentials = self.connection, self.connection.credentials
        options = connection.options
        bridge = CoreBridgeOptions(
            name=f"drain {queue.name}",
            queue=queue.name,
            retry_interval=options.retry_ms * MILLISECOND,
            retry_interval_max=options.retry_ms_max * MILLISECOND,
            confirmation_window=options.confirmation_window,
            producer_window=options.producer_window,
            large_from=options.large_octets,
            check_period=options.check_ms * MILLISECOND,
            ttl=options.ttl_ms * MILLISECOND,
            user=credentials.user,
            password=credentials.password,
        )
        route = DATED if queue.name == SCHEDULED else receipt.there.to_bytes(8, "big", signed=True)
        entry = CoreBridgeEntry(options=bridge, places=(self.place,), clustered=True, route=route)
        if not receipt.first:
            walk = queue.stock.walk().step(1)
            receipt.first = int(walk[0].message.number) if walk else 0
        way = _Way(queue, CoreConnector(entry), receipt.moved)
        self._ways[queue.name] = way
        self._carry(way.connector)

    def _see(self, name: str, way: _Way) -> None:
        """Note how far a queue is; its bridge ends when nothing is left."""
        receipt = self.receipts[name]
        moved = way.confirmed()
        queue = self.broker.table.queues.get(name)
        over = queue is not way.queue or way.queue.count == 0
        if moved != receipt.moved or over:
            receipt.moved = moved
            receipt.last = int(self.broker.ids.number)
            self._notebook.note(MOVED + name, str(moved))
        if over:
            receipt.done = True
            way.connector.stop(self._now())
            del self._ways[name]
            if name == SCHEDULED and queue is way.queue:
                self.broker.queues.delete(queue, "what waited for its date is at the target")

    def _finish(self) -> None:
        opened = self._opened
        if self.announces and opened is not None and opened.client is not None:
            own = self.connection.topology.own.node
            opened.client.send(ScaleDownAnnouncement(target=self.node, scaled_down=own, channel=CLUSTER))
        moved = sum(one.moved for one in self.receipts.values())
        self._end(State.DONE, "")
        self._tell(f"AMQ221078: {moved} messages were moved to {self._target()}")

    def _end(self, state: State, why: str) -> None:
        self.state = state
        self.why = why
        for way in list(self._ways.values()):
            self.receipts[way.queue.name].moved = way.confirmed()
            way.connector.stop(self._now())
        self._ways.clear()
        self._asked.clear()
        self._asking = None
        if self._opened is not None:
            self._opened = None
            self._perform(self, [Drop(self.attempt)])
        self._notebook.note("state", state.value)
        if why:
            self._tell(why)

    def _tell(self, what: str) -> None:
        self._say("drain", what)

    def _now(self) -> Instant:
        return int(self.broker.now)


def _planned(queue: str, messages: int, octets: int = 0, why: str = "") -> dict[str, object]:
    return {"queue": queue, "messages": messages, "octets": octets, "stays": why}


def why_not(queue: Queue) -> str:
    """Return why ``queue`` stays, "" where it moves."""
    if queue.name.startswith(STORE_PREFIX):
        return "it is emptied by sending to its node"
    if queue.definition.temporary:
        return "it is temporary, and ends with its connection"
    if queue.address.startswith("activemq."):
        return "it belongs to this broker"
    return ""


class _Opened(ClientPort):
    """Hears the connection that asks."""

    def __init__(self, drain: Drain, attempt: int) -> None:
        self._drain: Final = drain
        self._attempt: Final = attempt
        self.client: CoreClient | None = None

    def greeted(self, client: CoreClient) -> None:
        """The version is known."""
        self.client = client
        if self._attempt == self._drain.attempt:
            self._drain.greeted(client)

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""
        if self._attempt == self._drain.attempt:
            self._drain.told(client, packet)

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection ended."""
        self._drain.failed(self._attempt, why)


def configuration_of(definition: QueueDefinition) -> dict[str, object]:
    """Return how the target is told to make a queue: the words of Artemis' QueueConfiguration, those that were said."""
    said: dict[str, object] = {
        "name": definition.name,
        "address": definition.address,
        "routing-type": ROUTING_NAMES[definition.routing],
        "durable": definition.durable,
        "auto-create-address": True,
    }
    if definition.selector:
        said["filter-string"] = definition.selector
    default = QueueDefinition(name="", address="")
    for word, field in FIELDS.items():
        value = getattr(definition, field)
        if word not in said and word not in ("user", "internal") and value != getattr(default, field):
            said[word] = value
    return said
