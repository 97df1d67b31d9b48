"""One place where a node of the cluster may be: dialled until it is there, and asked who is in the cluster.

A contact is what a static connector or an announcement in a group gives (artemis.md 1.10): it carries no messages. It
shows the credentials of the cluster, announces this node, and hears of every member that its peer knows. Whoever
performs its effects reports back with `failed`; what the connection says comes through `Opened`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Final, Protocol

from entrepot.base.environment import SECOND, Duration, Entropy, Instant, WallTime
from entrepot.base.errors import Fault
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.backoff import Backoff
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.listening import Listening
from entrepot.cluster.clusters.members import Credentials, Members, member_of
from entrepot.cluster.clusters.options import ClusterOptions, place_of
from entrepot.cluster.clusters.topology import Verdict
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.packets import (
    BackupRequest,
    BackupResponse,
    ClusterConnect,
    ClusterConnectReply,
    ClusterTopology,
    Disconnect,
    NodeAnnounce,
    Packet,
)
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import NEVER, Shell

CLUSTER: Final = 3  # the channel of cluster control
REFUSED_WAIT: Final = 30 * SECOND  # before who refused us is asked again: an operator has to do something first

REFUSED: Final = (
    "it does not admit this broker: its cluster-user or cluster-password is another, or it is in no cluster"
)

Effect = Dial | Drop


class State(Enum):
    """Where a contact is."""

    IDLE = "idle"
    DIALLING = "dialling"
    MEETING = "meeting"  # connected; it looks at our credentials
    MET = "met"
    WAITING = "waiting"  # `due` says until when
    OURSELVES = "this broker itself"
    FAILED = "failed"  # no attempt is left
    CLOSED = "closed"


class Signal(Enum):
    """What moves it."""

    DIAL = "an attempt begins"
    CONNECTED = "the peer answered"
    ADMITTED = "the peer let us in"
    LOST = "there is no connection (any more)"
    MIRROR = "the peer is this broker"
    FAIL = "no attempt is left"
    CLOSE = "its owner is done with it"


TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.IDLE, Signal.DIAL): State.DIALLING,
    (State.IDLE, Signal.CLOSE): State.CLOSED,
    (State.WAITING, Signal.DIAL): State.DIALLING,
    (State.WAITING, Signal.CLOSE): State.CLOSED,
    (State.DIALLING, Signal.CONNECTED): State.MEETING,
    (State.DIALLING, Signal.LOST): State.WAITING,
    (State.DIALLING, Signal.FAIL): State.FAILED,
    (State.DIALLING, Signal.CLOSE): State.CLOSED,
    (State.MEETING, Signal.ADMITTED): State.MET,
    (State.MEETING, Signal.MIRROR): State.OURSELVES,
    (State.MEETING, Signal.LOST): State.WAITING,
    (State.MEETING, Signal.FAIL): State.FAILED,
    (State.MEETING, Signal.CLOSE): State.CLOSED,
    (State.MET, Signal.LOST): State.WAITING,
    (State.MET, Signal.FAIL): State.FAILED,
    (State.MET, Signal.CLOSE): State.CLOSED,
    (State.OURSELVES, Signal.CLOSE): State.CLOSED,
    (State.FAILED, Signal.CLOSE): State.CLOSED,
    (State.CLOSED, Signal.CLOSE): State.CLOSED,
}


class Driver(Protocol):
    """What a contact asks of who made it."""

    def perform(self, contact: Contact, effects: list[Effect]) -> None:
        """Carry ``effects`` out."""

    def wake(self, contact: Contact, due: Instant) -> None:
        """Call `Contact.advance` at ``due``."""

    def say(self, what: str) -> None:
        """Tell an operator."""

    def meets(self, contact: Contact) -> str:
        """``contact`` was admitted; return why it is needed no more, "" if it is."""

    def hears(self, contact: Contact, said: dict[str, object]) -> None:
        """Its peer tells of a queue, or of a consumer."""

    def loses(self, contact: Contact) -> None:
        """The connection is lost."""

    def parts(self, node: str) -> None:
        """``node`` took leave."""

    def now(self) -> Instant:
        """Return the time."""

    def wall(self) -> WallTime:
        """Return the date."""


class Contact:
    """One place. ``due``: when it is dialled again, NEVER otherwise."""

    def __init__(
        self,
        place: Endpoint,
        options: ClusterOptions,
        members: Members,
        credentials: Credentials,
        driver: Driver,
        entropy: Entropy,
    ) -> None:
        self.place: Final = place
        self.state = State.IDLE
        self.attempt = 0  # the number of the connection that counts
        self.due: Instant = NEVER
        self.node = ""  # who is there
        self.why = ""
        self._options: Final = options
        self._members: Final = members
        self._credentials: Final = credentials
        self._driver: Final = driver
        self._entropy: Final = entropy
        self._backoff = Backoff(options.reconnection(options.attempts_first))
        self._opened: Opened | None = None
        self._said = ""

    @property
    def key(self) -> str:
        """What tells this place from others."""
        return authority(self.place)

    @property
    def met(self) -> bool:
        """Say whether its peer let us in, and the connection stands."""
        return self.state is State.MET

    # -- the life of it ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Dial."""
        self._dial()

    def advance(self) -> None:
        """Dial again, if it is time."""
        if self.state is State.WAITING and self._driver.now() >= self.due:
            self._dial()

    def open(self, shell: Shell, attempt: int) -> CoreClient:
        """Return the session of the connection that was dialled as ``attempt``."""
        return CoreClient(shell, Opened(self, attempt), self._driver.now(), self._options.ttl_ms)

    def failed(self, attempt: int, why: str) -> None:
        """The connection ``attempt`` did not come about, or is lost."""
        if attempt != self.attempt or self.state not in (State.DIALLING, State.MEETING, State.MET):
            return
        self._lose(why, NEVER)

    def close(self) -> None:
        """Hang up, for good."""
        self._become(Signal.CLOSE)
        self.due = NEVER
        self._hang_up()

    def announce(self) -> None:
        """Say again that this node is there."""
        if self.state is State.MET and self._opened is not None:
            self._opened.announce(self._members)

    def ask_to_host(self, request: BackupRequest, answered: Callable[[bool], None]) -> None:
        """Ask the node there to host a backup; ``answered`` hears what it says, if it says anything."""
        if self.state is State.MET and self._opened is not None:
            self._opened.ask_to_host(request, answered)

    def _dial(self) -> None:
        self._become(Signal.DIAL)
        self.due = NEVER
        self.attempt += 1
        self._driver.perform(self, [Dial(self.attempt, self.place)])

    def _hang_up(self) -> None:
        self._opened = None
        self._driver.perform(self, [Drop(self.attempt)])

    def _lose(self, why: str, delay: Duration) -> None:
        """There is no connection: wait ``delay``, or as long as the options say (NEVER)."""
        self.why = why
        self._opened = None
        self._driver.loses(self)
        waits = self._backoff.failed()
        if waits is None:
            self._become(Signal.FAIL)
            self._say(f"{self.key}: given up: {why}")
            return
        self._become(Signal.LOST)
        self._say(f"{self.key}: {why}")
        self.due = self._driver.now() + (waits if delay == NEVER else delay)
        self._driver.wake(self, self.due)

    def _become(self, signal: Signal) -> None:
        state = TRANSITIONS.get((self.state, signal))
        if state is None:
            raise Fault(f"a contact that is {self.state.value} cannot take: {signal.value}")
        self.state = state

    def _say(self, what: str) -> None:
        if what != self._said:
            self._said = what
            self._driver.say(what)

    # -- what the peer says --------------------------------------------------------------------------------------------

    def connected(self, opened: Opened) -> None:
        """The peer told its members: show it our credentials, or see that it is this broker."""
        if opened.attempt != self.attempt or self.state is not State.DIALLING:
            return
        self._become(Signal.CONNECTED)
        self._opened = opened
        assert opened.client is not None
        self.node = node_at(opened.client, self.place)
        if known_at(opened.client, self.place) and self._is_mirror():
            return
        opened.say(ClusterConnect(user=self._credentials.user, password=self._credentials.password))

    def answered(self, opened: Opened, admitted: bool) -> None:
        """The peer looked at our credentials."""
        if opened is not self._opened or self.state is not State.MEETING:
            return
        if not admitted:
            self._lose(REFUSED, REFUSED_WAIT)
            self._hang_up()
            return
        assert opened.client is not None
        if known_at(opened.client, self.place) or len(opened.client.members) < 2:
            self._meet(opened)
        else:
            opened.identify(self._credentials, self._entropy, partial(self._identified, opened))

    def _identified(self, opened: Opened, node: str) -> None:
        """The peer said who it is, "" if it does not: it called none of its members' places what was dialled."""
        if opened is not self._opened or self.state is not State.MEETING:
            return
        self.node = node or self.node
        self._meet(opened)

    def _is_mirror(self) -> bool:
        """Return whether this broker has met itself; then it hangs up."""
        if self.node != self._members.node:
            return False
        self._become(Signal.MIRROR)
        self._hang_up()
        return True

    def _meet(self, opened: Opened) -> None:
        """It is known who is there, and that it is a member."""
        if self._is_mirror():
            return
        self._become(Signal.ADMITTED)
        self._backoff = Backoff(self._options.reconnection(self._options.attempts))
        why = self._driver.meets(self)
        if why:
            self._lose(why, REFUSED_WAIT)
            self._hang_up()
            return
        self._said = ""
        self._driver.say(f"{self.key}: met the node {self.node}")
        opened.announce(self._members)
        if self._options.max_hops > 0:
            opened.listen(self._options, self._credentials, self._entropy, partial(self._driver.hears, self))

    def news(self, packet: ClusterTopology) -> None:
        """The peer tells of a member."""
        members = self._members
        if packet.exit:
            if not members.topology.remove(packet.node, packet.event) and packet.node == members.node:
                members.topology.announce(self._driver.wall())
                self.announce()
            return
        if packet.primary is None and packet.backup is None:
            return  # a broker in no cluster says only that it is there
        if members.heard(member_of(packet), self.key) is Verdict.IMPOSTOR:
            self.why = "a broker there has the id of this one"

    def refused(self, why: str) -> None:
        """The peer does not tell what it has."""
        if self.state is not State.MET:
            return  # hung up in the meantime
        self._lose(f"it does not tell what queues it has: {why}", REFUSED_WAIT)
        self._hang_up()

    def parted(self, packet: Disconnect) -> None:
        """The peer goes, in order."""
        if packet.node:
            self._members.topology.remove(packet.node, self._driver.wall())
            self._driver.parts(packet.node)


class Opened(ClientPort):
    """Hears one connection for its contact."""

    def __init__(self, contact: Contact, attempt: int) -> None:
        self.attempt: Final = attempt
        self.client: CoreClient | None = None
        self._contact: Final = contact
        self._listening: Listening | None = None
        self._answered: Callable[[bool], None] | None = None
        self._asking: Asking | None = None

    def greeted(self, client: CoreClient) -> None:
        """All members that the peer knows were told."""
        self.client = client
        self._contact.connected(self)

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""
        contact = self._contact
        if contact.attempt != self.attempt:
            return
        if isinstance(packet, ClusterTopology):
            contact.news(packet)
        elif isinstance(packet, ClusterConnectReply):
            contact.answered(self, packet.authorized)
        elif isinstance(packet, Disconnect):
            contact.parted(packet)
        elif isinstance(packet, BackupResponse):
            answered, self._answered = self._answered, None
            if answered is not None:
                answered(packet.started)
        elif self._asking is not None:
            self._asking.told(packet)
        elif self._listening is not None:
            self._listening.told(packet)
            if self._listening.refusal:
                contact.refused(self._listening.refusal)

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection ended."""
        self._contact.failed(self.attempt, why)

    def say(self, packet: Packet) -> None:
        """Write ``packet`` on the channel of the cluster."""
        assert self.client is not None
        packet.channel = CLUSTER
        self.client.send(packet)

    def identify(self, credentials: Credentials, entropy: Entropy, identified: Callable[[str], None]) -> None:
        """Ask who is there, by its management; ``identified`` is told "" where it does not say."""

        def said(succeeded: bool, value: object) -> None:
            self._asking = None
            identified(value if succeeded and isinstance(value, str) else "")

        assert self.client is not None
        user, password = credentials.user, credentials.password
        self._asking = Asking(self.client, user, password, entropy, lambda why: said(False, why))
        self._asking.attribute("broker", "NodeID", said)

    def ask_to_host(self, request: BackupRequest, answered: Callable[[bool], None]) -> None:
        """Ask for a backup. One that is asked for and not answered is not asked for again: answers have no number."""
        waits = self._answered is not None
        self._answered = answered
        if not waits:
            self.say(request)

    def listen(
        self,
        options: ClusterOptions,
        credentials: Credentials,
        entropy: Entropy,
        heard: Callable[[dict[str, object]], None],
    ) -> None:
        """Ask what queues and consumers there are, and hear what becomes of them."""
        assert self.client is not None
        self._listening = Listening(self.client, options, credentials, entropy, heard)

    def announce(self, members: Members) -> None:
        """Say who this node is and where, where somebody may know."""
        if not members.hidden:
            self.say(announcement(members))


def node_at(client: CoreClient, dialled: Endpoint) -> str:
    """Return which of the members that a peer told of it is itself, as far as that tells: `known_at`, or the first."""
    return known_at(client, dialled) or client.node


def known_at(client: CoreClient, dialled: Endpoint) -> str:
    """Return which of the members that a peer told of is where it was dialled; "" when none says so."""
    for node, connector in client.members.items():
        place = place_of(connector)
        if place is not None and (place.host, place.port) == (dialled.host, dialled.port):
            return node
    return ""


def announcement(members: Members) -> NodeAnnounce:
    """Return what says who this node is and where."""
    own = members.topology.own
    return NodeAnnounce(
        node=own.node,
        backup_group=own.backup_group,
        backup=False,
        event=own.event,
        connector=own.primary,
        backup_connector=own.backup,
        scale_down_group=own.scale_down_group,
    )
