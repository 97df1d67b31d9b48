"""Channels 0 and 1 of a CORE connection: signs of life, the topology, and sessions made or brought here. [C]

A session is made for whoever may come in, on a channel that the client chooses; a version that is not spoken is
refused, and the client asks with the next older one that it has (artemis.md 5.2.3). One that lost its connection is
found by its name, and comes here when all its commands have their answers: so none of them is done twice.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import EntrepotError, PeerError, Refused
from entrepot.core.events.facts import SESSION_OPENED
from entrepot.core.guiding import HERE, REFUSED, UNREADY
from entrepot.core.security.directory import Subject
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.channel import Channel
from entrepot.protocols.artemis.codec import FIRST_FRAME_OCTETS_MAX, Decoder
from entrepot.protocols.artemis.commanding import Commands
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.options import VERSION_NEWEST, VERSION_OLDEST, CoreOptions
from entrepot.protocols.artemis.packets import (
    BackupRegistration,
    BackupRegistrationFailed,
    BackupRequest,
    BackupResponse,
    CheckForFailover,
    CheckForFailoverReply,
    ClusterConnect,
    ClusterConnectReply,
    ClusterTopology,
    CreateSession,
    CreateSessionReply,
    Disconnect,
    FederationDownstreamConnect,
    NodeAnnounce,
    Packet,
    Ping,
    QuorumVote,
    QuorumVoteReply,
    ReattachSession,
    ReattachSessionReply,
    ScaleDownAnnouncement,
    SubscribeTopology,
)
from entrepot.protocols.artemis.primitives import FACTORY, PARAMETER_TEXT, Connector, Parameter
from entrepot.protocols.artemis.refusals import (
    ILLEGAL_STATE,
    INCOMPATIBLE,
    REMOTE_DISCONNECT,
    ROUTING,
    CoreRefused,
)
from entrepot.protocols.artemis.replies import exception_of
from entrepot.protocols.artemis.schema import ALREADY_REPLICATING, REQUEST_BACKUP, WHO_IS_PRIMARY
from entrepot.protocols.artemis.session import CoreConnection, CoreSession
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.guiding import guided
from entrepot.protocols.serving.life import ENTER, LEAVING, OPENING
from entrepot.protocols.session import Shell

CONNECTION: Final = 0  # the channels that are there from the start
SESSIONS: Final = 1
CLUSTER: Final = 3
FEDERATION: Final = 4
FIRST_SESSION: Final = 10
REDIRECT: Final = 0  # a reason of DISCONNECT: the client goes to the target
REDIRECT_GRACE: Final = 2 * SECOND  # for it to go
REDIRECTED_SINCE: Final = 131  # version of the channels from which on DISCONNECT names a target
NOBODY_WAITS_MS: Final = 1 << 40  # for who pings and has no session yet: silence ends it


class Received(CoreConnection):
    """A connection with its channels. ``windows``: how many sessions with a confirmation window there were."""

    def __init__(self, shell: Shell, acceptor: CoreAcceptor, options: CoreOptions, number: i64, peer: str) -> None:
        broker = acceptor.broker
        super().__init__(shell, broker, number, peer, options.write_high_octets, options.connect_timeout_ms)
        self.acceptor: CoreAcceptor = acceptor
        self.options: CoreOptions = options
        self.decoder: Decoder = Decoder(preface=True, frame_max=FIRST_FRAME_OCTETS_MAX)
        self.version: i64 = 0
        self.login: str = ""
        self.password: str = ""
        self.channels: dict[int, Commands] = {}
        self.windows: i64 = 0
        self.onlooker: Onlooker | None = None

    def look(self) -> Onlooker:
        """Return this connection as the cluster knows it: the same each time."""
        onlooker = self.onlooker
        if onlooker is None:
            onlooker = self.onlooker = _Looking(self)
        return onlooker

    def say(self, packet: Packet, channel: i64 = CONNECTION) -> None:
        """Write one packet that is no session's."""
        packet.channel = channel
        self.encoder.encode_into(self.outlet.out, packet)
        self.note()

    def give_away(self, number: int) -> None:
        """Another connection goes on with a session of this one."""
        self.channels.pop(number, None)


class _Looking(Onlooker):
    """A connection that asked for the topology."""

    def __init__(self, connection: Received) -> None:
        self.connection: Received = connection

    def tell(self, packet: ClusterTopology) -> None:
        """Write ``packet`` to the peer."""
        if not self.connection.closing:
            self.connection.say(packet)

    def is_slow(self) -> bool:
        """Return whether the peer does not read what it was told."""
        outlet = self.connection.outlet
        return outlet.socket_full or len(outlet.out) > outlet.high

    def called(self) -> str:
        """Return where the peer is."""
        return self.connection.peer

    def subject(self) -> Subject | None:
        """Return whom the connection speaks for."""
        return None if self.connection.life == OPENING else self.connection.subject

    def hosted(self, started: bool) -> None:
        """Answer a BACKUP_REQUEST."""
        if not self.connection.closing:
            self.connection.say(BackupResponse(started=started), CLUSTER)


class Reattachment(Confirmation):
    """Brings a session to ``connection`` when all its commands have their answers."""

    def __init__(self, connection: Received, commands: Commands, last: i64) -> None:
        super().__init__(commands.session.confirmations)
        self.connection: Received = connection
        self.commands: Commands = commands
        self.last: i64 = last

    def give(self) -> None:
        """Move it, unless one of the two is gone by now."""
        if not self.commands.puts_off(self):
            Reception(self.connection).take_over(self.commands, self.last)

    def refuse(self, error: EntrepotError) -> None:
        """The disk failed: the client makes its session anew, if anybody can."""
        Reception(self.connection).say_lost()


class Reception:
    """What a client says on channels 0 and 1. It keeps nothing, and is made for each packet: they are few."""

    def __init__(self, connection: Received) -> None:
        self.connection: Received = connection

    def steer(self, packet: Packet) -> None:
        """Do what is not a session's."""
        if packet.channel == SESSIONS:
            self._of_sessions(packet)
        elif packet.channel == CLUSTER:
            self._of_cluster(packet)
        elif isinstance(packet, FederationDownstreamConnect):
            self._of_federation(packet)
        elif packet.channel != CONNECTION:
            return  # replication: nobody listens
        elif isinstance(packet, Ping):
            self._ping(packet)
        elif isinstance(packet, SubscribeTopology):
            self._subscribe(packet)

    # -- signs of life, and who is there -------------------------------------------------------------------------------

    def _ping(self, packet: Ping) -> None:
        """Send the same back, and believe the peer as long as it says."""
        connection = self.connection
        options = connection.options
        ttl = packet.ttl
        if options.ttl_ms_always >= 0:
            ttl = options.ttl_ms_always
        elif ttl > 0:
            if options.ttl_ms_min > 0:
                ttl = max(ttl, options.ttl_ms_min)
            if options.ttl_ms_max > 0:
                ttl = min(ttl, options.ttl_ms_max)
        connection.beat_receive = min(ttl, NOBODY_WAITS_MS) * MILLISECOND if ttl > 0 else 0
        connection.connect_timeout_ms = NOBODY_WAITS_MS
        connection.say(Ping(ttl=packet.ttl))

    def _subscribe(self, packet: SubscribeTopology) -> None:
        """Tell who is in the cluster, and who comes and goes from now on."""
        connection = self.connection
        connection.connect_timeout_ms = NOBODY_WAITS_MS
        if packet.version > 0:
            self._speak(min(packet.version, VERSION_NEWEST))
        connection.acceptor.membership.look(connection.look())

    def _of_cluster(self, packet: Packet) -> None:
        """Take what another broker says: who cannot show the credentials of the cluster is not heard any further."""
        connection = self.connection
        membership = connection.acceptor.membership
        if isinstance(packet, ClusterConnect):
            connection.connect_timeout_ms = NOBODY_WAITS_MS
            connection.admitted = membership.admits(connection.look(), packet.user, packet.password)
            connection.say(ClusterConnectReply(authorized=connection.admitted), CLUSTER)
        elif isinstance(packet, NodeAnnounce) and connection.admitted:
            membership.announced(connection.look(), packet)
        elif isinstance(packet, ScaleDownAnnouncement) and connection.admitted and packet.target == membership.node:
            membership.take_over(packet.scaled_down)
        elif isinstance(packet, BackupRequest) and connection.admitted:
            membership.host(connection.look(), packet)
        elif isinstance(packet, BackupRegistration) and connection.admitted:
            membership.follow(connection.look())
            connection.say(BackupRegistrationFailed(problem=ALREADY_REPLICATING), CLUSTER)
        elif isinstance(packet, QuorumVote) and connection.admitted:
            self._vote(packet)

    def _vote(self, packet: QuorumVote) -> None:
        """Answer an Artemis that asks its cluster; what nobody votes on gets no answer, as there (artemis.md 1.23)."""
        connection = self.connection
        membership = connection.acceptor.membership
        if packet.handler == REQUEST_BACKUP:
            # An Artemis asks; ours ask each node. No copy of its journal can be had here, and it asks somebody else.
            connection.say(QuorumVoteReply(handler=packet.handler, host=membership.node), CLUSTER)
        elif packet.handler in WHO_IS_PRIMARY:
            reply = membership.vote(packet)
            if reply is not None:
                connection.say(reply, CLUSTER)

    def _of_federation(self, packet: FederationDownstreamConnect) -> None:
        """Deploy what another broker asks for; who may not is told so, and the connection goes on.

        Artemis closes it instead, and one that sends dials again at once, for ever. Up to 2.53 it takes channel 0, too.
        """
        connection = self.connection
        if packet.channel not in (CONNECTION, FEDERATION):
            return
        try:
            connection.acceptor.federating.deploy(connection.look(), packet.description)
        except EntrepotError as error:
            connection.say(exception_of(error), packet.channel)

    def _speak(self, version: i64) -> None:
        """The version of the channels is known; a later word on it changes nothing."""
        connection = self.connection
        if connection.version == 0:
            connection.version = version
            connection.decoder.speak(version)
            connection.encoder.speak(version)

    # -- sessions ------------------------------------------------------------------------------------------------------

    def _of_sessions(self, packet: Packet) -> None:
        connection = self.connection
        try:
            if isinstance(packet, CreateSession):
                self._create(packet)
            elif isinstance(packet, ReattachSession):
                self._reattach(packet)
            elif isinstance(packet, CheckForFailover):
                stands = connection.acceptor.membership.stands_for(packet.node or "")
                connection.say(CheckForFailoverReply(ok=stands), SESSIONS)
        except Refused as error:
            connection.say(exception_of(error), SESSIONS)

    def _create(self, packet: CreateSession) -> None:
        """Open a session. Raises Refused; the connection goes on."""
        connection = self.connection
        acceptor, options = connection.acceptor, connection.options
        if not VERSION_OLDEST <= packet.version <= VERSION_NEWEST:
            raise CoreRefused(
                f"Server and client versions incompatible: {packet.version}; "
                f"this broker speaks {VERSION_OLDEST} to {VERSION_NEWEST}",
                INCOMPATIBLE,
            )
        number = int(packet.session_channel)
        if number < FIRST_SESSION or number in connection.channels:
            raise CoreRefused(f"channel {number} is not free", ILLEGAL_STATE)
        if len(connection.channels) >= options.sessions_max:
            raise Refused(f"{options.sessions_max} sessions are open on this connection")
        if not self._is_known(packet) or not self._is_served(packet):
            return
        if packet.name in acceptor.sessions:
            raise CoreRefused("a session of that name is open", ILLEGAL_STATE)
        acceptor.admit(connection.subject.name)
        self._speak(packet.version)
        connection.decoder.frame_max = options.frame_octets_max
        if connection.life == OPENING:
            connection.become(ENTER)
        channel = Channel(number, packet.window, connection.outlet, connection.encoder, options.unconfirmed_octets_max)
        session = CoreSession(connection, acceptor, options, channel, packet, connection.subject)
        commands = Commands(session)
        if channel.counts:
            connection.windows += 1
            acceptor.sessions[packet.name] = commands
        connection.channels[number] = commands
        connection.broker.access.counts.sessions += 1
        commands.tell(SESSION_OPENED)
        connection.say(CreateSessionReply(server_version=VERSION_NEWEST), SESSIONS)

    def _is_known(self, packet: CreateSession) -> bool:
        """Find out who opens a session; False when that is not known yet. Raises Refused if he may not come in.

        Who opened one on this connection with the same name and password is not looked at again.
        """
        connection = self.connection
        name, password = packet.user or "", packet.password or ""
        if connection.life != OPENING and name == connection.login and password == connection.password:
            return True
        if not connection.ask_who(packet.user, packet.password):
            return False
        connection.login, connection.password = name, password
        return True

    def _is_served(self, packet: CreateSession) -> bool:
        """Find out whether this broker serves the client; False when another one does, or it is not known yet.

        Raises CoreRefused when nobody does. The router of the listener is asked once of each connection.
        """
        connection = self.connection
        router = connection.options.router
        if not router or connection.life != OPENING:
            return True
        guidance = guided(connection, router, packet.client_id or "")
        if guidance is None or guidance.verdict == HERE:
            return guidance is not None
        if guidance.verdict == UNREADY:
            raise CoreRefused(guidance.why, ROUTING)
        if guidance.verdict == REFUSED:
            raise CoreRefused(guidance.why, REMOTE_DISCONNECT)
        if packet.version < REDIRECTED_SINCE:
            raise CoreRefused(f"{guidance.why}; a client of version {packet.version} cannot be told so", INCOMPATIBLE)
        self._speak(packet.version)
        place = [
            Parameter("port", PARAMETER_TEXT, str(guidance.port)),
            Parameter("host", PARAMETER_TEXT, guidance.host),
        ]
        place += [Parameter(key, PARAMETER_TEXT, value) for key, value in guidance.options.items()]
        connection.say(
            Disconnect(
                node=connection.acceptor.membership.node,
                reason=REDIRECT,
                target_node=guidance.node or None,
                target=Connector(guidance.node or "target", FACTORY, place),
            )
        )
        connection.leave_at = connection.broker.now + REDIRECT_GRACE
        raise CoreRefused(guidance.why, ROUTING)

    # -- sessions of other connections ---------------------------------------------------------------------------------

    def _reattach(self, packet: ReattachSession) -> None:
        """Bring a session here, once the answers that it waits for are given; what it was not told is written again."""
        commands = self.connection.acceptor.sessions.get(packet.name)
        if isinstance(commands, Commands):
            reattachment = Reattachment(self.connection, commands, packet.last_confirmed)
            if not commands.puts_off(reattachment):
                commands.session.confirmations.ask(reattachment)
        else:
            self.say_lost()

    def take_over(self, commands: Commands, last: i64) -> None:
        """Go on with a session that was on another connection; ``last``: what its client has seen."""
        connection = self.connection
        session = commands.session
        number = int(session.channel.number)
        if connection.closing or connection.life >= LEAVING or session.ended or number in connection.channels:
            self.say_lost()
            return
        try:
            session.channel.confirmed(last)
        except PeerError as error:
            connection.fail(error)
            return
        before = session.connection
        if before is not None:
            before.give_away(number)
        if connection.life == OPENING:
            connection.subject = session.subject
            connection.become(ENTER)
        connection.decoder.frame_max = connection.options.frame_octets_max
        connection.channels[number] = commands
        connection.windows += 1
        commands.lost = None
        session.channel.pending = 0
        last_command = session.channel.last_command()
        connection.say(ReattachSessionReply(last_confirmed=last_command, reattached=True), SESSIONS)
        session.move(connection)

    def say_lost(self) -> None:
        """The session is not here: its client makes it anew."""
        if not self.connection.closing:
            self.connection.say(ReattachSessionReply(last_confirmed=-1, reattached=False), SESSIONS)
