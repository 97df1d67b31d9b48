"""Sockets for bridges: dials where a link says so, listens to groups, ends what a link drops. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, assert_never

from entrepot.assembly import Assembly
from entrepot.base.errors import OperatorError
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.link import Effect
from entrepot.cluster.networks.bridge import LOOP
from entrepot.cluster.networks.connector import NetworkConnector
from entrepot.cluster.networks.discovery import Beacon, hearing
from entrepot.cluster.networks.opening import offered
from entrepot.cluster.networks.reception import Arrival
from entrepot.core.broker import BrokerCore
from entrepot.io.announcing import ZeroconfBrowser
from entrepot.io.connection import Connection
from entrepot.io.datagram import Group, join
from entrepot.io.options import read
from entrepot.io.tcp import dial
from entrepot.io.tls import client_context, trouble
from entrepot.io.turns import Turn
from entrepot.protocols.announcement import Found, Hearing
from entrepot.protocols.failover import Dial, Drop, GiveUp, Warn
from entrepot.protocols.openwire.negotiation import WIRE_FORMAT
from entrepot.protocols.session import Session, Shell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from entrepot.cluster.carrying.connector import CoreConnector
    from entrepot.cluster.carrying.options import CoreBridgeEntry
    from entrepot.cluster.clusters.connection import ClusterConnection
    from entrepot.cluster.clusters.draining import Drain
    from entrepot.cluster.federation.connector import FederationConnector
    from entrepot.cluster.federation.downstream import DownstreamConnector
    from entrepot.cluster.federation.options import FederationEntries
    from entrepot.cluster.fetching import Fetcher
    from entrepot.cluster.routers.router import Routers
    from entrepot.config.model import BrokerConfig
    from entrepot.io.hearings import BridgeHearings

DRAIN_PATIENCE_S: Final = 5.0  # for what is on its way when the broker stops; the peer answers within a sync
SWEEP_S: Final = 0.5  # between two looks for brokers that announce themselves no more

log: Final = logging.getLogger("entrepot.bridge")


class Links:
    """All connections that the network connectors of one broker opened."""

    def __init__(self, turn: Turn, made: Assembly) -> None:
        self.turn: Final = turn
        self.neighbourhood: Final = made.neighbourhood
        self.connectors: Final = made.connectors
        self.core_connectors: Final = made.core_connectors
        self.federations: Final = made.federations
        self.draws: Final = made.draws
        self.amqp_connectors: Final = made.calls.connectors
        self._made: Final = made
        self._bridge_hearings: BridgeHearings | None = None
        self._connections: dict[tuple[Dialled, int], Connection] = {}
        self._dialling: dict[tuple[Dialled, int], asyncio.Task[None]] = {}
        self._groups: list[Group] = []
        self._timer: asyncio.TimerHandle | None = None
        self._hearings: list[tuple[NetworkConnector, Hearing]] = []
        self._browsers: list[ZeroconfBrowser] = []
        self._leaving: list[
            CoreConnector
        ] = []  # that the configuration names no more: what is on its way still arrives

    async def start(self) -> None:
        """Dial, and listen to groups. Raises OperatorError for a group that cannot be joined."""
        for connector in self.connectors:
            if not connector.options.auto_start:
                log.info("%s: not started (autoStart=false)", connector.options.name)
                continue
            self.turn.run(partial(self._start, connector))
            for beacon in connector.discovery.beacons:
                await self._listen(connector, beacon)
        self.federations.begin = self._fetch
        for core in self.core_connectors:
            self.turn.run(partial(self._carry, core))
        for fetcher in self._made.fetchers:
            if fetcher.auto_start:
                self.turn.run(partial(self._fetch, fetcher))
            else:
                log.info("%s: not started (autoStart=false)", fetcher.name)
        if self.core_connectors or self.federations.heard():
            await self._hear_for_core()
        if self._hearings:
            self._sweep()

    async def _hear_for_core(self) -> None:
        from entrepot.io.hearings import BridgeHearings  # noqa: PLC0415 - see `entrepot.artemis`

        made = self._made
        node = made.broker.ids.node.uuid_text
        told: list[CoreConnector | FederationConnector | DownstreamConnector] = [
            *self.core_connectors,
            *self.federations.heard(),
        ]
        self._bridge_hearings = BridgeHearings(self.turn, node, made.plan.config, told)
        await self._bridge_hearings.start()

    @property
    def broker(self) -> BrokerCore:
        """The broker."""
        return self._made.broker

    @property
    def clusters(self) -> Sequence[ClusterConnection]:
        """The cluster connections."""
        return self._made.clusters

    @property
    def draining(self) -> Drain | None:
        """What gives all to another node."""
        return self._made.draining

    @property
    def routers(self) -> Routers | None:
        """The connection routers, if there are any."""
        return self._made.routers

    def report(self) -> list[dict[str, object]]:
        """Return all bridges, those that others opened included, and connectors that have none.

        ``zone``: where the other broker of a network is, as far as it says.
        """
        now = int(self.turn.now)
        rows = [bridge.report(now) for bridge in self.neighbourhood.bridges]
        rows += [
            {
                **_row(arrival.connector, arrival.peer_name, "open", peer_url=arrival.peer_url),
                "peer_id": arrival.peer_id,
            }
            for arrival in self.neighbourhood.arrivals.values()
            if isinstance(arrival, Arrival) and arrival.bridge is None
        ]
        members = self.neighbourhood.clients.census.members
        for row in rows:
            member = members.get(str(row["peer_id"]))
            row["zone"] = "" if member is None else member.facts.zone
        for connector in self.connectors:
            if not connector.bridges:
                row = _row(connector.options.name, "", connector.state, place=connector.place, initiator=True)
                since = connector.for_ms(now)
                if since >= 0:
                    row["since_ms"] = since
                rows.append(row)
        for core in self.core_connectors:
            rows += [bridge.report(now) for bridge in core.bridges.values()]
            if not core.bridges and not core.entry.route:
                row = _row(core.name, "", core.state, place=core.place, initiator=True)
                rows.append({**row, "kind": "core", "since_ms": core.for_ms(now)})
        return rows + [fetcher.report(now) for fetcher in self._made.fetchers]

    def switch(self, name: str, *, start: bool) -> bool:
        """Start or stop the connector ``name``; False when there is none."""
        found = [connector for connector in self.connectors if connector.options.name == name]
        for connector in found:
            if start and not connector.started:
                self.turn.run(partial(self._start, connector))
            elif not start:
                self.turn.run(partial(connector.leave, int(self.turn.now)))
        core = [connector for connector in self.core_connectors if connector.name == name]
        for bridge in core:
            if start and not bridge.started:
                self.turn.run(partial(self._carry, bridge))
            elif not start:
                self.turn.run(partial(bridge.leave, int(self.turn.now)))
        return bool(found) or bool(core) or self._switch_fetchers(name, start=start)

    def _switch_fetchers(self, name: str, *, start: bool) -> bool:
        found = [one for one in self._made.fetchers if one.name == name]
        for fetcher in found:
            if start and not fetcher.started:
                self.turn.run(partial(self._fetch, fetcher))
            elif not start:
                self.turn.run(partial(fetcher.leave, int(self.turn.now)))
        return bool(found)

    async def follow(self, had: BrokerConfig, wanted: BrokerConfig) -> None:
        """Have the core bridges and federations of ``wanted`` in place of ``had``: those that are the same go on.

        Raises OperatorError for a group that cannot be joined.
        """
        self.turn.run(partial(self._call, wanted))
        if had.core_bridges == wanted.core_bridges and had.federations == wanted.federations:
            return
        before = {one.options.name: one for one in had.core_bridges}
        named = {one.options.name for one in wanted.core_bridges}
        new = [one for one in wanted.core_bridges if before.get(one.options.name) != one]
        gone = {name for name in before if name not in named} | {one.options.name for one in new}
        self.turn.run(partial(self._replace, gone, new))
        self.turn.run(partial(self._federate, wanted.federations))
        if self._bridge_hearings is not None:
            self._bridge_hearings.stop()
        await self._hear_for_core()

    def _replace(self, gone: set[str], new: list[CoreBridgeEntry]) -> None:
        from entrepot.cluster.carrying.connector import CoreConnector  # noqa: PLC0415 - see `entrepot.artemis`

        now = int(self.turn.now)
        self._leaving = [one for one in self._leaving if one.bridges]
        for connector in [one for one in self.core_connectors if one.name in gone and not one.entry.clustered]:
            connector.leave(now)
            self.core_connectors.remove(connector)
            self._leaving.append(connector)
        for entry in new:
            made = CoreConnector(entry)
            self.core_connectors.append(made)
            self._carry(made)

    def _call(self, wanted: BrokerConfig) -> None:
        for made in self._made.calls.follow(wanted.amqp_connections, int(self.turn.now)):
            if made.auto_start:
                self._fetch(made)
        self.turn.run(lambda: self._made.calls.mirror(self._made.broker))

    def _federate(self, wanted: FederationEntries) -> None:
        for made in self.federations.follow(wanted, int(self.turn.now)):
            self._fetch(made)

    async def stop(self) -> None:
        """Let arrive what is on its way, take leave, close."""
        if self._timer is not None:
            self._timer.cancel()
        if self._bridge_hearings is not None:
            self._bridge_hearings.stop()
        for group in self._groups:
            group.close()
        for browser in self._browsers:
            await browser.close()
        until = self.turn.loop.time() + DRAIN_PATIENCE_S
        while not self._drained() and self.turn.loop.time() < until:
            await asyncio.sleep(0.005)
        self.turn.run(lambda: self._made.disconnect(int(self.turn.now)))
        for one in self._leaving:
            self.turn.run(partial(one.stop, int(self.turn.now)))
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while self._connections and self.turn.loop.time() < until:
            await asyncio.sleep(0.002)
        for connection in list(self._connections.values()):
            connection.abort()

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _start(self, connector: NetworkConnector) -> None:
        now = int(self.turn.now)
        self._made.connect(connector, self._perform, now)
        for owner, news in self._hearings:
            if owner is connector:
                for place in news.places.values():
                    connector.heard(Found(place), now)

    def carry(self, connector: CoreConnector) -> None:
        """Start the way to another node of a cluster; within a turn."""
        self._made.carry_more(connector, self._perform, int(self.turn.now))

    def _carry(self, connector: CoreConnector) -> None:
        self._made.carry(connector, self._perform, int(self.turn.now))

    def _fetch(self, fetcher: Fetcher) -> None:
        self._made.fetch(fetcher, self._perform, int(self.turn.now))

    def _drained(self) -> bool:
        done: list[bool] = []
        self.turn.run(lambda: done.append(self._made.drain(int(self.turn.now))))
        self.turn.run(lambda: done.extend(one.drain(int(self.turn.now)) for one in self._leaving))
        return all(done)

    def _perform(self, bridge: Dialled, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dial(attempt, place):
                    key = (bridge, attempt)
                    task = self.turn.loop.create_task(self._dial(bridge, attempt, place))
                    self._dialling[key] = task
                    task.add_done_callback(partial(self._dialled, key))
                case Drop(attempt):
                    self._drop(bridge, attempt)
                case Warn(rounds, why):
                    level = logging.DEBUG if rounds & (rounds - 1) else logging.WARNING  # the 1st, 2nd, 4th, 8th ...
                    log.log(level, "%s: attempt %d failed: %s", bridge.link.name, rounds, why)
                case GiveUp(why):
                    level = logging.INFO if why == LOOP else logging.ERROR
                    log.log(level, "%s: given up: %s", bridge.link.name, why)
                case _:
                    assert_never(effect)

    def _dialled(self, key: tuple[Dialled, int], done: asyncio.Task[None]) -> None:
        self._dialling.pop(key, None)

    def _drop(self, bridge: Dialled, attempt: int) -> None:
        connection = self._connections.pop((bridge, attempt), None)
        if connection is not None:
            connection.shut("the bridge ended")
            return
        task = self._dialling.get((bridge, attempt))
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _dial(self, bridge: Dialled, attempt: int, place: Endpoint) -> None:
        def make(shell: Shell, peer: str) -> Session:
            assert isinstance(shell, Connection)
            self._connections[(bridge, attempt)] = shell
            return bridge.greet(shell, attempt, place, int(self.turn.now))

        def lost(connection: Connection) -> None:
            self._connections.pop((bridge, attempt), None)
            self._failed(bridge, attempt, "the connection broke")

        try:
            made = await dial(place.format(), self.turn, make, partial(_spoken_by, bridge), lost)
            if not made.ended:  # a tunnel speaks OpenWire only later
                self._connections[(bridge, attempt)] = made
        except OperatorError as error:
            self._failed(bridge, attempt, str(error))
        except OSError as error:
            self._failed(bridge, attempt, f"{authority(place)}: {trouble(error)}")

    def _failed(self, bridge: Dialled, attempt: int, why: str) -> None:
        self.turn.run(lambda: bridge.perform(bridge.link.failed(attempt, why, int(self.turn.now))))

    async def _listen(self, connector: NetworkConnector, beacon: Beacon) -> None:
        news = hearing(beacon)
        self._hearings.append((connector, news))
        if beacon.zeroconf:

            def told(uri: str, alive: bool) -> None:
                self.turn.run(lambda: self._told(connector, news, uri, alive))

            self._browsers.append(ZeroconfBrowser(beacon, told))
            return

        def heard(data: bytes, sender: str) -> None:
            self.turn.run(lambda: self._tell(connector, news, data))

        options = beacon.options
        group = await join(
            beacon.host, beacon.port, heard, time_to_live=options.time_to_live, interface=options.address
        )
        self._groups.append(group)

    def _tell(self, connector: NetworkConnector, news: Hearing, data: bytes) -> None:
        now = int(self.turn.now)
        for event in news.heard(data, now):
            connector.heard(event, now)

    def _told(self, connector: NetworkConnector, news: Hearing, uri: str, alive: bool) -> None:
        now = int(self.turn.now)
        for event in news.told(uri, alive=alive, now=now):
            connector.heard(event, now)

    def _sweep(self) -> None:
        self.turn.run(self._forget)
        self._timer = self.turn.loop.call_later(SWEEP_S, self._sweep)

    def _forget(self) -> None:
        now = int(self.turn.now)
        for connector, news in self._hearings:
            for event in news.advance(now):
                connector.heard(event, now)
            connector.tidy(now)


def _row(
    connector: str, peer: str, state: str, *, place: str = "", initiator: bool = False, peer_url: str = ""
) -> dict[str, object]:
    """Return what is known of a bridge whose other end does the work, or of one that is not there; see `Bridge`."""
    return {
        "connector": connector,
        "peer": peer,
        "peer_url": peer_url,
        "place": place,
        "state": state,
        "initiator": initiator,
        "duplex": False,
    }


def verify(connector: NetworkConnector) -> None:
    """Read what the URI of each broker says, as dialling does, and open nothing.

    Raises InvalidOption for what no dialling could obey: an option that does not exist, a trust store that is missing.
    """
    places = [place for target in connector.discovery.targets for place in target.places]
    places += [Endpoint("tcp", host="discovered", options=beacon.discovered) for beacon in connector.discovery.beacons]
    for place in places:
        offered(place, connector.options.supervision)
        options = read(place, _spoken)
        if options.secure:
            client_context(options.tls)


def _spoken(name: str, text: str) -> bool:
    """Tell whether an option of a broker's URI belongs to OpenWire, not to the socket."""
    return name.startswith(WIRE_FORMAT)


def _spoken_by(bridge: Dialled, name: str, text: str) -> bool:
    """Tell whether an option of the URI belongs to the language of ``bridge``."""
    return bridge.speaks(name)


def verify_bridges(config: BrokerConfig) -> None:
    """Read what the URIs of core bridges and upstreams say, as dialling does. Raises InvalidOption."""
    for bridge in config.core_bridges:
        verify_places(bridge.places)
    for upstream in (*config.federations.upstreams, *config.federations.downstreams):
        verify_places(upstream.places)
    for connection in config.amqp_connections:
        verify_places(connection.places)


def verify_places(places: Sequence[Endpoint]) -> None:
    """Read what the URI of each place says, as dialling does. Raises InvalidOption."""
    for place in places:
        options = read(place, lambda name, text: False)
        if options.secure:
            client_context(options.tls)


def log_bridges(who: str, what: str) -> None:
    """Write what a bridge says to the log."""
    log.info("%s: %s", who, what)
