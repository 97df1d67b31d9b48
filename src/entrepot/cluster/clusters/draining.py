"""A node gives all that it has to another one: scale-down, and `entrepot drain` of a running broker (artemis.md 1.20).

Every queue with messages becomes the source of a core bridge of its own, to the queue of the same name at the target,
which is made there if it is not there yet. So what holds for bridges holds here: a message is settled here when the
target has it on its disk and not before, one that is said again after a cut or a crash of either side is known there by
its duplicate id, and the order of a queue is kept. What waits for its date is put into a queue of its own first, in one
atomic batch each, and gets its date again at the target.

The target and what was moved are noted in the journal. After a crash the drain is *interrupted*: `resume` goes on with
the same target, `abort` forgets it; what was moved stays there, what was not is here.

It is done when the disk here has that nothing is left: before that a crash would bring back what is read there already.

Decided on purpose, where Artemis does otherwise: a message of a topic crosses once for each subscription that holds it,
since each queue is moved by itself.

Prepared branches go first (`handing.py`): a branch is at one node or the other, and a coordinator ends it there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import EntrepotError, Refused
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.connection import Carry, ClusterConnection
from entrepot.cluster.clusters.contact import node_at
from entrepot.cluster.clusters.drain_notes import BY, RUNNING, Notebook, Receipt, State
from entrepot.cluster.clusters.drain_ways import Ways, planned
from entrepot.cluster.clusters.gift import Target
from entrepot.cluster.clusters.handing import Handing
from entrepot.cluster.clusters.members import where
from entrepot.cluster.clusters.remembered import Remembered
from entrepot.cluster.clusters.topology import Member
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.transactions.handed import TOKEN_OCTETS
from entrepot.journal.ports import Waiter
from entrepot.protocols.artemis.client import TTL_MS, ClientPort, CoreClient
from entrepot.protocols.artemis.linking.client import LinkClient
from entrepot.protocols.artemis.packets import ClusterConnect, ClusterConnectReply, Packet, ScaleDownAnnouncement
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import Shell

CLUSTER: Final = 3  # the channel of cluster control
LOOK_EVERY: Final = 50 * MILLISECOND
DIAL_AGAIN: Final = SECOND
LOCATING: Final = 10 * SECOND  # for a target to be known (artemis.md 1.20)
Perform = Callable[["Drain", list[Dial | Drop]], None]


class _Look(Alarm):
    def __init__(self, due: Instant, drain: Drain) -> None:
        super().__init__(due)
        self._drain: Final = drain

    def ring(self, now: int) -> None:
        self._drain.look()


class _Stored(Waiter):
    """Tells a drain that the disk has all that it settled."""

    def __init__(self, drain: Drain, attempt: int) -> None:
        self._drain: Final = drain
        self._attempt: Final = attempt

    def stored(self, token: bytes) -> None:
        """It has."""
        self._drain.stored(self._attempt, None)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It has not."""
        self._drain.stored(self._attempt, error)


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
        self.announces = announces
        self.attempt = 0
        self._group: Final = group
        self._direct: Final = () if group else direct
        self._tried = 0  # of the direct ones
        self._tell: Final = partial(say, "drain")
        self._perform: Perform = lambda drain, effects: None
        self._wanted = ""
        self._ours = False  # the target is no Artemis
        self._remembered: Remembered | None = None
        self._opened: _Opened | None = None
        self._leaving: set[str] = set()  # nodes that give away what they have themselves
        self._since: Instant = 0
        self._look: _Look | None = None
        self._notebook: Final = Notebook(self.broker)
        self.ways: Final = Ways(connection, self._notebook, self._tell)
        self.handing: Final = Handing(self.broker, self._tell)
        interrupted, node, moved = self._notebook.recall()
        if interrupted:
            self.state = State.INTERRUPTED
            self.ways.node = node
            self.ways.receipts.update({name: Receipt(moved=count, arrived=count) for name, count in moved.items()})
            self.ways.recalled()

    # -- what an operator asks -----------------------------------------------------------------------------------------

    def connect(self, perform: Perform, carry: Carry) -> None:
        """The world is there: ``perform`` dials, ``carry`` starts a bridge."""
        self._perform = perform
        self.ways.carry = carry

    def begin(self, to: str = "", by: str = "") -> None:
        """Give all to the node ``to``, an id or a place; "": to the first that fits. Raises Refused.

        ``by``: who begins it, where that is no operator (`drain_notes.py`).
        """
        if self.state in RUNNING:
            raise Refused(f"a drain to {self._target()} is under way", remedy="entrepot drain --status, or --abort")
        if to and not self._candidates(to):
            known = ", ".join(where(one) for one in self._candidates("")) or "none"
            raise Refused(f"the cluster has no other node {to!r}", remedy=f"known: {known}")
        self.handing.begin()
        self._notebook.forget()
        self.ways.forgotten()
        if by:
            self._notebook.note(BY, by)
        self.ways.node = ""
        self._start(to)

    def resume(self) -> None:
        """Go on after a crash, or after it failed, with the same target. Raises Refused."""
        if self.state not in (State.INTERRUPTED, State.FAILED):
            raise Refused(f"there is nothing to resume: the drain is {self.state.value}")
        node = self.ways.node
        self._start("" if self._direct and not self._candidates(node) else node)

    def break_off(self) -> None:
        """Begin nothing more, since the broker stops: what is on its way still arrives, and `resume` goes on then."""
        if self.state in RUNNING:
            self.state = State.INTERRUPTED
            self.ways.unanswered()
            self._hang_up()

    def abort(self, why: str = "an operator aborted it") -> None:
        """Stop. What was moved stays at the target; what waits for its date is scheduled here again. Raises Refused."""
        if self.state not in (*RUNNING, State.FAILED, State.INTERRUPTED):
            raise Refused(f"there is nothing to abort: the drain is {self.state.value}")
        self._end(State.ABORTED, why)
        self.ways.dated.give_back()
        self._notebook.forget()

    def report(self) -> dict[str, object]:
        """Return how far it is."""
        return {
            "state": self.state.value,
            "why": self.why,
            "node": self.ways.node,
            "place": "" if self.ways.place is None else authority(self.ways.place),
            "branches": self.handing.report(),
            "branches_moved": self.handing.count,
            "ids": 0 if self._remembered is None else self._remembered.told,
            **self.ways.report(),
        }

    def plan(self) -> list[dict[str, object]]:
        """Return what would move, and what would not, by queue."""
        prepared = [planned(f"(prepared) {name}", count, why=why) for name, count, why in self.handing.plan()]
        return self.ways.plan() + prepared

    @property
    def progress(self) -> tuple[int, int]:
        """What changes whenever something moves, of a queue or a prepared branch, or what stays becomes less."""
        return self.ways.moved + self.handing.progress, self.ways.stays.count + self.ways.passing()

    @property
    def is_over(self) -> bool:
        """Whether nothing more happens by itself."""
        return self.state not in RUNNING

    def _target(self) -> str:
        return self._wanted if self.ways.place is None else authority(self.ways.place)

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
        found = [one for one in found if one.node not in self._leaving]
        if self._group:
            return [one for one in found if one.scale_down_group == self._group]
        met = self.connection.met()
        return sorted(found, key=lambda one: one.node not in met)

    def _start(self, to: str) -> None:
        self._wanted = to
        self._leaving.clear()
        self.why = ""
        self.ways.refused.clear()
        self.state = State.LOCATING
        self._since = int(self.broker.now)
        self.look()

    def _locate(self) -> None:
        if self._direct and not self._wanted:
            self._head_for(self.ways.node, self._direct[self._tried % len(self._direct)])
            return
        found = self._candidates(self._wanted)
        place = None
        for one in found:
            place = self.connection.place_of(one)
            if place is not None:
                self._head_for(one.node, place)
                return
        if int(self.broker.now) - self._since >= LOCATING:
            wanted = f" {self._wanted!r}" if self._wanted else f" of the group {self._group!r}" if self._group else ""
            self._end(State.FAILED, f"AMQ222181: no other node{wanted} is known to take what this one has")

    def _head_for(self, node: str, place: Endpoint) -> None:
        self.ways.node, self.ways.place = node, place
        self._notebook.note("node", node)
        self.state = State.CONNECTING
        if self.announces:
            self.connection.members.successor = node
        self._tell(f"everything goes to the node {node}{' ' if node else ''}at {authority(place)}")
        self._dial()

    # -- the connection that asks --------------------------------------------------------------------------------------

    def _dial(self) -> None:
        self.attempt += 1
        assert self.ways.place is not None
        self._perform(self, [Dial(self.attempt, self.ways.place)])

    def open(self, shell: Shell, attempt: int) -> CoreClient:
        """Return the session of the connection that was dialled as ``attempt``."""
        self._opened = _Opened(self, attempt)
        return LinkClient(shell, self._opened, int(self.broker.now), TTL_MS)

    def failed(self, attempt: int, why: str) -> None:
        """The connection ``attempt`` did not come about, or is lost: it is dialled again, for as long as it takes."""
        if attempt != self.attempt or self.state not in (State.CONNECTING, State.MOVING, State.STORING):
            return
        self.why = why
        self.ways.unanswered()
        self.handing.unanswered()
        self._remembered = None
        self._opened = None
        self._since = int(self.broker.now)
        self.state = State.CONNECTING
        if self._direct and not self._wanted:
            self._tried += 1
            self.ways.place = self._direct[self._tried % len(self._direct)]

    def greeted(self, client: CoreClient) -> None:
        """The target is there: show it our credentials."""
        credentials = self.connection.credentials
        client.send(ClusterConnect(user=credentials.user, password=credentials.password, channel=CLUSTER))

    def told(self, client: CoreClient, packet: Packet) -> None:
        """What it says."""
        if isinstance(packet, ClusterConnectReply):
            if not packet.authorized:
                self._end(State.FAILED, f"{self._target()} does not admit this broker: the cluster-password is another")
                return
            credentials = self.connection.credentials

            def denied(why: str) -> None:
                self._end(State.FAILED, f"{self._target()} lets this broker ask nothing: {why}")

            asking = Asking(client, credentials.user, credentials.password, self.broker.entropy, denied)
            self.ways.asking = asking
            asking.operation("broker", "drain", ["status", ""], self._admitted)
        elif not self.handing.told(packet) and self.ways.asking is not None:
            self.ways.asking.told(packet)

    def _admitted(self, succeeded: bool, value: object) -> None:
        """Begin, unless the target gives away what it has itself: what comes there would go on, or come back here.

        An Artemis does not know what it is asked; it closes its doors before it scales down.
        """
        self._ours = succeeded and isinstance(value, dict)
        self._remembered = None
        if isinstance(value, dict) and value.get("state") in [one.value for one in RUNNING]:
            self._pass_over(f"{self._target()} gives all that it has to {value.get('place')} itself")
            return
        assert self.ways.asking is not None
        self.ways.asking.attribute("broker", "NodeID", self._identified)

    def _identified(self, succeeded: bool, value: object) -> None:
        """Begin, if it is the node that has the beginning, where one has; first with a session for branches.

        It says itself who it is. What the greeting tells of members says so only where one names the place dialled.
        """
        opened, asking, place = self._opened, self.ways.asking, self.ways.place
        if opened is None or opened.client is None or asking is None or place is None:
            return
        tries = bool(self._direct) and not self._wanted  # one place after the other
        begun = self.ways.node  # the node that has a part already
        told = node_at(opened.client, place) if tries else begun
        node = value if succeeded and isinstance(value, str) else told
        if tries and begun not in ("", node):  # leave it, and look for the one that has the part
            self._hang_up()
            self.failed(self.attempt, f"{self._target()} is the node {node}, and what moved already is at {begun}")
            self._wanted = begun if self._candidates(begun) else ""
            self.state = State.LOCATING if self._wanted else self.state
            return
        if not begun:
            self.ways.node = node
            self._notebook.note("node", node)
            if self.announces:
                self.connection.members.successor = node
        credentials = self.connection.credentials
        self.handing.connected(
            Target(opened.client, asking, node, ours=self._ours), credentials.user, credentials.password
        )
        self.state = State.MOVING
        self.why = ""
        self.look()

    def _pass_over(self, why: str) -> None:
        """Take another node, where none was named."""
        if self._wanted or self._direct:
            self._end(State.FAILED, f"{why}: name another node, or abort that")
            return
        self._tell(f"{why}: another node is looked for")
        self._leaving.add(self.ways.node)
        self.ways.unanswered()
        self.handing.unanswered()
        self._hang_up()
        self._since = int(self.broker.now)
        self.state = State.LOCATING

    # -- moving --------------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """See how far it is, and go on."""
        if self._look is not None:
            self._look.cancelled = True
            self._look = None
        if self.state is State.LOCATING:
            self._locate()
        elif (
            self.state is State.CONNECTING and self._opened is None and int(self.broker.now) - self._since >= DIAL_AGAIN
        ):
            self._since = int(self.broker.now)
            self._dial()
        elif self.state is State.MOVING and self.handing.move() and self.ways.move():
            self.why = self.ways.awaited()
            if not self.why:
                self._tell_ids()
        if self.state in RUNNING:
            self._look = _Look(int(self.broker.now) + LOOK_EVERY, self)
            self.broker.timetable.add(self._look)

    def _tell_ids(self) -> None:
        """Say at last which duplicate ids were seen here."""
        if self._remembered is None and self.ways.asking is not None:
            self._remembered = Remembered(self.broker, self.ways.asking, ours=self._ours)
        remembered = self._remembered
        if remembered is not None and remembered.done and not remembered.more():
            if remembered.refused:
                self._tell(f"the target remembers no duplicate ids of this node: {remembered.refused}")
            self._store()

    def _store(self) -> None:
        """Wait for the disk here, which has to know that nothing is left."""
        self.state = State.STORING
        self.broker.journal.confirm(_Stored(self, self.attempt), b"")

    def stored(self, attempt: int, error: Exception | None) -> None:
        """Our disk has it that all is at the target: before that a crash here would bring back what is read there."""
        if self.state is not State.STORING or attempt != self.attempt:
            return
        if error is not None:
            self._end(State.FAILED, f"all is at {self._target()}, and the disk here does not take that: {error}")
        else:
            self._finish()

    def _finish(self) -> None:
        opened = self._opened
        if self.announces and opened is not None and opened.client is not None:
            own = self.connection.topology.own.node
            opened.client.send(ScaleDownAnnouncement(target=self.ways.node, scaled_down=own, channel=CLUSTER))
        self._end(State.DONE, "")
        self._tell(f"AMQ221078: {self.ways.moved} messages were moved to {self._target()}")
        for row in self.ways.stays.rows():
            self._tell(f"{row['messages']} of {row['queue']} stay: {row['stays']}")

    def _end(self, state: State, why: str) -> None:
        self.state = state
        self.why = why
        self.handing.unanswered()
        self.ways.stop()
        self._hang_up()
        if state in (State.DONE, State.ABORTED):
            self.ways.withheld.end()
        self._notebook.note("state", state.value)
        if why:
            self._tell(why)

    def _hang_up(self) -> None:
        """End the connection, and one that is being opened: what that says when it comes is for nobody."""
        self._opened = None
        if self.attempt:
            self._perform(self, [Drop(self.attempt)])
        self.attempt += 1


def token_of(text: str) -> bytes:
    """Return the token of a branch from how it is written. Raises Refused."""
    try:
        token = bytes.fromhex(text)
    except ValueError:
        token = b""
    if len(token) != TOKEN_OCTETS:
        raise Refused("that is no token of a branch", remedy="it is asked by a node that gives branches away")
    return token


def obey(drain: Drain, verb: str, to: str) -> object:
    """Do what an operator says: plan, begin, resume, abort or status; return how it stands. Raises Refused.

    Another node asks ``branch``, with the token of one that it gives to this one: whether that came (`Branches.came`).
    """
    if verb == "plan":
        return drain.plan()
    if verb == "branch":
        return drain.broker.branches.came(token_of(to))
    if verb == "begin":
        drain.begin(to)
    elif verb == "resume":
        drain.resume()
    elif verb == "abort":
        drain.abort()
    return drain.report()


class _Opened(ClientPort):
    """Hears the connection that asks."""

    def __init__(self, drain: Drain, attempt: int) -> None:
        self._drain: Final = drain
        self._attempt: Final = attempt
        self.client: LinkClient | None = None

    def greeted(self, client: CoreClient) -> None:
        """The version is known."""
        assert isinstance(client, LinkClient)
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
