"""Sockets for clusters: dials where a contact says so, ends what it drops. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, assert_never

from entrepot.base.environment import SECOND, Entropy
from entrepot.base.errors import InvalidOption, OperatorError, PeerError, Refused
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.clusters.connection import Carry, ClusterConnection
from entrepot.cluster.clusters.contact import Effect
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.emptying import Emptying, serve_the_rest
from entrepot.cluster.clusters.groups import (
    DATAGRAM_OCTETS_MAX,
    Announcement,
    BroadcastGroup,
    DiscoveryGroup,
    Event,
    Hearing,
    encode,
    wrapped,
)
from entrepot.cluster.routers.router import Routers
from entrepot.config.clusters import Clusters
from entrepot.core.broker import BrokerCore
from entrepot.io.connection import Connection
from entrepot.io.datagram import Group, listen, speak
from entrepot.io.folder import Folder
from entrepot.io.options import no_option
from entrepot.io.tcp import Listener, dial
from entrepot.io.tls import trouble
from entrepot.io.turns import Turn
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import Session, Shell

if TYPE_CHECKING:
    from entrepot.io.colocated import Colocated

STANDSTILL_S: Final = 20  # of a scale-down in which nothing moves: then the broker stops with what it still has
NOBODY: Final = "a backup that gives away what it took over has no cluster connection: nobody could take it"
SWEEP_S: Final = 0.5  # between two looks for nodes that announce themselves no more

log: Final = logging.getLogger("entrepot.cluster")


class Caller(Protocol):
    """Who dials, and hears what becomes of it: a contact of a cluster, a probe of a router."""

    def open(self, shell: Shell, attempt: int) -> Session:
        """Return the session of the connection ``attempt``."""

    def failed(self, attempt: int, why: str) -> None:
        """It did not come about, or is lost."""


class Hears(Protocol):
    """Who is told what a discovery group hears: a cluster connection, the pool of a router."""

    def heard(self, event: Event) -> None:
        """Somebody is there, or is there no more."""


class Contacts:
    """All connections that the cluster connections of one broker opened to learn who is there, and its groups."""

    def __init__(
        self,
        turn: Turn,
        clusters: Sequence[ClusterConnection],
        said: Clusters,
        ports: tuple[Entropy, str],
        carry: Carry,
        routers: Routers | None = None,
    ) -> None:
        """``ports``: where identities come from, and the id of this node."""
        self.clusters: Final = clusters
        self._turn: Final = turn
        self._said: Final = said
        self._entropy, self._node = ports
        self._routers: Final = routers
        self._carry: Final = carry
        self._connections: dict[tuple[Caller, int], Connection] = {}
        self._dialling: dict[tuple[Caller, int], asyncio.Task[None]] = {}
        self._tokens: dict[str, None] = {}
        self._groups: list[Group | Folder] = []
        self._hearings: list[tuple[Hearing, Sequence[Hears]]] = []
        self._drain: Drain | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.colocated: Colocated | None = None
        self._emptying: Emptying | None = None

    async def start(self, drain: Drain | None = None, *, hidden: bool = False) -> None:
        """Dial, announce this broker and listen. Raises OperatorError for a group that cannot be joined.

        ``hidden``: it is not announced, for it serves nobody.
        """
        for cluster in self.clusters:
            cluster.members.hidden = hidden
            self._turn.run(partial(cluster.start, self._perform, self._carry))
        self._drain = drain
        if drain is not None:
            drain.connect(self._perform, self._carry)
        routers = self._routers
        if routers is not None:
            self._turn.run(partial(routers.start, self._perform))
        pools = [] if routers is None else [one.pool for one in routers.routers.values() if one.pool is not None]
        if not self.clusters and not pools:
            return
        node = self._node
        for broadcast in () if hidden else self._said.broadcasts:
            await self._announce(broadcast, node)
        for group in self._said.discoveries:
            told: list[Hears] = [
                one for one in self.clusters if group.name in self._said.hears.get(one.options.name, ())
            ]
            told += [one for one in pools if group.name in one.options.groups]
            if told:
                hearing = Hearing(group, node, self._tokens)
                self._hearings.append((hearing, told))
                heard = partial(self._heard, hearing, told)
                self._groups.append(await self._listen(group, heard))
        if self._hearings:
            self._sweep()

    async def stop(self) -> None:
        """Hang up, and wait until nothing is open, and no backup is hosted any more."""
        if self.colocated is not None:
            await self.colocated.stop()
        for timer in self._timers.values():
            timer.cancel()
        for group in self._groups:
            group.close()
        for cluster in self.clusters:
            self._turn.run(cluster.stop)
        if self._routers is not None:
            self._turn.run(self._routers.stop)
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._connections.values()):
            connection.abort()

    def empty(
        self, over: Callable[[str], None], may: Callable[[], bool], *, stays: bool
    ) -> Callable[[], dict[str, object]]:
        """Begin to give all away, as a backup that took over and serves nobody; ``over`` is told when that is done.

        ``may`` and ``stays``: see `Emptying`. Return what says how far it is. Raises InvalidOption where there is no
        cluster.
        """
        if self._drain is None:
            raise InvalidOption(NOBODY, remedy="see the log for why; or take <scale-down> out, and this backup serves")
        self._emptying = Emptying(self._drain, _tell_of_scale_down, over, may=may, stays=stays)
        self._turn.run(self._emptying.start)
        return self._emptying.facts

    async def scale_down(self, why: str, listeners: Sequence[Listener]) -> None:
        """Give all to another node, if the configuration wants that: clients go first, so that nothing is in flight.

        It takes as long as there is progress. What does not get there stays in the journal, and is served again when
        this broker is started again.
        """
        drain, turn = self._drain, self._turn
        if self._emptying is not None:
            turn.run(self._emptying.stop)
            return
        if drain is None or self._said.scale_down is None or self._said.scale_down.of_backup:
            return
        try:
            if drain.is_over:
                turn.run(drain.begin)
        except Refused as refused:
            log.error("scale-down: AMQ222181: %s", refused)
            return
        for listener in listeners:
            listener.stop_reading()
        await asyncio.gather(*(listener.drain(why) for listener in listeners))
        turn.run(drain.ways.stays.serve_nobody)
        moved, until = (-1, -1), 0.0
        while not drain.is_over:
            if drain.progress != moved:
                moved, until = drain.progress, turn.loop.time() + STANDSTILL_S
            if turn.loop.time() > until:
                log.error("scale-down: AMQ222181: nothing moved for %d s; the rest stays here", STANDSTILL_S)
                turn.run(drain.abort)
                return
            await asyncio.sleep(0.01)
        log.info("scale-down: %s", drain.report())

    # -- groups --------------------------------------------------------------------------------------------------------

    async def _announce(self, broadcast: BroadcastGroup, node: str) -> None:
        token = self._entropy.token(16).hex()
        self._tokens[token] = None
        try:
            data = wrapped(encode(Announcement(node, token, broadcast.connectors)), broadcast.channel)
        except PeerError as error:
            log.error("the broadcast group %r: %s", broadcast.name, error)
            return
        group: Group | Folder
        if broadcast.directory:
            group = await Folder(Path(broadcast.directory) / broadcast.channel, node).open()
        else:
            group = await speak(
                broadcast.address,
                broadcast.port,
                interface=broadcast.local_address,
                local_port=max(broadcast.local_port, 0),
            )
        self._groups.append(group)
        self._say(broadcast, group, data)

    async def _listen(self, group: DiscoveryGroup, heard: Callable[[bytes, str], None]) -> Group | Folder:
        if group.directory:
            return await Folder(Path(group.directory) / group.channel, self._node, heard).open()
        return await listen(
            group.address, group.port, heard, interface=group.local_address, octets_max=DATAGRAM_OCTETS_MAX
        )

    def _say(self, broadcast: BroadcastGroup, group: Group | Folder, data: bytes) -> None:
        group.say(data)
        delay = broadcast.period / SECOND
        self._timers[broadcast.name] = self._turn.loop.call_later(delay, self._say, broadcast, group, data)

    def _heard(self, hearing: Hearing, told: Sequence[Hears], data: bytes, sender: str) -> None:
        self._turn.run(lambda: self._tell(hearing.heard(data, int(self._turn.now)), told))

    def _tell(self, events: list[Event], told: Sequence[Hears]) -> None:
        for event in events:
            for cluster in told:
                cluster.heard(event)

    def _sweep(self) -> None:
        self._turn.run(self._forget)
        self._timers[""] = self._turn.loop.call_later(SWEEP_S, self._sweep)

    def _forget(self) -> None:
        for hearing, told in self._hearings:
            self._tell(hearing.advance(int(self._turn.now)), told)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _perform(self, contact: Caller, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dial(attempt, place):
                    key = (contact, attempt)
                    task = self._turn.loop.create_task(self._dial(contact, attempt, place))
                    self._dialling[key] = task
                    task.add_done_callback(partial(self._dialled, key))
                case Drop(attempt):
                    self._drop(contact, attempt)
                case _:
                    assert_never(effect)

    def _dialled(self, key: tuple[Caller, int], done: asyncio.Task[None]) -> None:
        self._dialling.pop(key, None)

    def _drop(self, contact: Caller, attempt: int) -> None:
        connection = self._connections.pop((contact, attempt), None)
        if connection is not None:
            connection.shut("this broker needs it no more")
            return
        task = self._dialling.get((contact, attempt))
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _dial(self, contact: Caller, attempt: int, place: Endpoint) -> None:
        def make(shell: Shell, peer: str) -> Session:
            assert isinstance(shell, Connection)
            self._connections[(contact, attempt)] = shell
            return contact.open(shell, attempt)

        def lost(connection: Connection) -> None:
            self._connections.pop((contact, attempt), None)
            self._failed(contact, attempt, "the connection broke")

        try:
            await dial(place.format(), self._turn, make, no_option, lost)
        except OperatorError as error:
            self._failed(contact, attempt, str(error))
        except OSError as error:
            self._failed(contact, attempt, f"{authority(place)}: {trouble(error)}")

    def _failed(self, contact: Caller, attempt: int, why: str) -> None:
        self._turn.run(partial(contact.failed, attempt, why))


def serve_the_rest_of(turn: Turn, broker: BrokerCore, drain: Drain | None) -> None:
    """Let a broker that serves have what a backup began to give away, and say so."""
    said: list[str] = []
    turn.run(lambda: said.append(serve_the_rest(broker, drain)))
    if said[0]:
        log.info("scale-down: %s", said[0])


def _tell_of_scale_down(what: str, bad: bool) -> None:
    if bad:
        log.error("scale-down: AMQ222181: %s", what)
    else:
        log.info("scale-down: %s", what)
