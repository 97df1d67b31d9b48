"""Who is connected to a broker: its listeners asked, for `core/operators/management.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import MILLISECOND
from entrepot.cluster.networks.outlook import outlook
from entrepot.core.security.directory import Subject
from entrepot.io.connection import Connection
from entrepot.io.links import Links
from entrepot.io.tcp import Listener
from entrepot.management.components import Components
from entrepot.management.configured import Configured
from entrepot.management.parts_census import PartsCensus
from entrepot.model.connected import ConnectionView, SessionView
from entrepot.model.message import Message
from entrepot.protocols.serving.session import ServerSession

if TYPE_CHECKING:
    from entrepot.core.operators.listing import Arguments
    from entrepot.io.disk import Disk
    from entrepot.io.replicating import Hosting
    from entrepot.io.standby import Standby


OWN: Final = "$"  # before names of what is about one broker alone
ALONE: Final = "Primary Only"
SHARED: Final = "Shared Store Primary"
COPIED: Final = "Replication Primary w/lock manager"  # a lease says who serves, and no quorum of nodes


class OpenConnections(PartsCensus):
    """The connections that ``listeners`` accepted and that are open; the list may grow."""

    def __init__(
        self,
        listeners: list[Listener],
        links: Callable[[], Links | None] = lambda: None,
        trace: str = "",
        parts: Components | None = None,
    ) -> None:
        """``links``: the bridges, when there are any. ``trace``: the directory where the trace is kept."""
        super().__init__(Components(listeners, {}, links, lambda: None) if parts is None else parts)
        self.listeners = listeners
        self.links = links
        self._trace = trace
        self.disk: Disk | None = None
        self.process: Mapping[str, object] = {}  # which of several it is (`config/processes.py`)
        self.standby: Standby | None = None
        self.hosting: Hosting | None = None
        self.written: Configured = Configured(self.parts.config)

    def count(self) -> int:
        """Return how many there are."""
        return sum(len(listener.connections) for listener in self.listeners)

    def connections(self, skip: int, most: int) -> list[dict[str, str]]:
        """Return up to ``most`` of them, listener by listener in the order of their arrival."""
        every = ((listener, connection) for listener in self.listeners for connection in listener.connections)
        return [
            {
                "id": number_of(connection),
                "peer": connection.peer,
                "listener": listener.uri.partition("?")[0],
                **connection.session.describe(),
            }
            for listener, connection in islice(every, skip, skip + most)
        ]

    def views(self) -> Iterable[ConnectionView]:
        """Return all of them, each looked at when it is taken."""
        found = [(listener, connection) for listener in self.listeners for connection in listener.connections]
        return (view_of(listener, connection) for listener, connection in found)

    def close_session(self, connection: str, session: str, why: str) -> bool:
        """Close one session: of a protocol that has several, else its connection."""
        for listener in self.listeners:
            for each in list(listener.connections):
                if connection and number_of(each) == connection and isinstance(each.session, ServerSession):
                    if each.session.close_session(session):
                        return True
                    return session == connection and self.close(connection, why)
        return False

    def places(self) -> list[tuple[str, str]]:
        """Return where this broker listens."""
        return [(self.parts.name_of(listener), listener.uri) for listener in self.listeners]

    def subjects(self, connection: str) -> list[Subject]:
        """Return for whom a connection speaks."""
        for listener in self.listeners:
            for each in listener.connections:
                session = each.session
                if number_of(each) == connection and isinstance(session, ServerSession):
                    users = [one.user for one in session.sessions(0)]
                    access = session.broker.access
                    return [access.named(user) for user in users] if users else [session.subject]
        return []

    def close(self, connection: str, why: str) -> bool:
        """Tell one peer ``why``, and close its connection; False when there is none of that id."""
        for listener in self.listeners:
            for each in list(listener.connections):
                if connection and number_of(each) == connection:
                    each.shut(why)
                    return True
        return False

    def bridges(self) -> list[dict[str, object]]:
        """Return every bridge and connector, and every broker that mirrors itself here, or has policies obeyed."""
        links = self.links()
        return [*([] if links is None else links.report()), *self._mirrors()]

    def _mirrors(self) -> list[dict[str, object]]:
        open_ones = [connection.session for listener in self.listeners for connection in listener.connections]
        return [row for session in open_ones for row in session.mirrors()]

    def syncs(self) -> dict[str, object]:
        """Return how long the disk took to make things durable."""
        return {} if self.disk is None else self.disk.sync_times.report()

    def settings(self) -> Mapping[str, Callable[[], object]]:
        """Return also the zone, how the store is shared in the words of Artemis, and whether a copy could take over."""
        hosting = self.hosting
        kind = ALONE if self.standby is None else SHARED if hosting is None else COPIED
        links = self.links()
        return {
            **super().settings(),
            "zone": lambda: "" if links is None else links.neighbourhood.clients.zone,
            "HAPolicy": lambda: kind,
            "replicaSync": lambda: hosting is not None and bool(hosting.replication.pieces.in_sync),
        }

    def availability(self) -> dict[str, object]:
        """Return the part that this broker has among those of one store."""
        standby = self.standby
        if standby is None:
            return {**super().availability(), **self.process}
        return {**standby.facts(), "lease_left_ms": standby.left()}

    def verify(self, bandwidth: int) -> int:
        """Begin to compare all replicas with this store; return how many there are."""
        return super().verify(bandwidth) if self.hosting is None else self.hosting.verify(bandwidth)

    def step_down(self) -> None:
        """Let another broker of the same store serve."""
        if self.standby is None:
            super().step_down()
        else:
            self.standby.step_down("an operator wants another broker to serve")

    def connected(self) -> int:
        """Return how many connections were accepted in this run."""
        return sum(listener.accepted for listener in self.listeners)

    def path(self, message: Message) -> list[str]:
        """Return the brokers that ``message`` came through."""
        return list(message.language.path(message))

    def outlook(self, name: str, topic: bool) -> list[dict[str, object]]:
        """Return what each bridge does for a destination."""
        links = self.links()
        if links is None:
            return []
        now = int(links.turn.now)
        rows = outlook(links.neighbourhood, links.connectors, name, topic=topic, now=now)
        for core in links.core_connectors:
            rows += core.outlook(name, topic=topic, now=now)
        return rows

    def clusters(self) -> list[dict[str, object]]:
        """Return the clusters that this broker is in."""
        links = self.links()
        if links is None or not links.clusters:
            return []
        from entrepot.cluster.clusters.report import reports  # noqa: PLC0415 - see `entrepot.artemis`

        return reports(links.clusters, int(links.turn.now))

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return also what another node of a cluster told of."""
        return {**super().operations(), "describeRemotes": self._remotes}

    def _remotes(self, given: Arguments) -> list[dict[str, object]]:
        links = self.links()
        if links is None or not links.clusters:
            return []
        from entrepot.cluster.clusters.report import remotes  # noqa: PLC0415 - as above
        from entrepot.core.operators.control import DESCRIBED_MOST  # noqa: PLC0415 - comes with a question

        return remotes(links.clusters, given.text(0), given.text(1), DESCRIBED_MOST)

    def stores(self) -> list[dict[str, object]]:
        """Return the store-and-forward queues; a broker that left its cluster has them still."""
        links = self.links()
        if links is None:
            return []
        from entrepot.cluster.clusters.report import stores  # noqa: PLC0415

        return stores(links.broker, links.clusters)

    def routers(self) -> list[dict[str, object]]:
        """Return the connection routers."""
        links = self.links()
        return [] if links is None or links.routers is None else links.routers.report()

    def drain(self, verb: str, to: str) -> object:
        """Do as an operator says with what gives all to another node; return how it stands."""
        links = self.links()
        drain = None if links is None else links.draining
        if drain is None:
            return super().drain(verb, to)
        from entrepot.cluster.clusters.draining import obey  # noqa: PLC0415 - who has a drain has it loaded

        return obey(drain, verb, to)

    def clean_store(self, name: str, *, discards: bool) -> object:
        """Return the work that empties one of these."""
        links = self.links()
        if links is None:
            return super().clean_store(name, discards=discards)
        from entrepot.cluster.clusters.stores import Cleaning, CleaningWork  # noqa: PLC0415

        return CleaningWork(Cleaning(links.broker, links.clusters, name, discards=discards))

    def elsewhere(self, name: str, topic: bool) -> dict[str, object]:
        """Return what other nodes of its clusters have at an address, and what upstreams and draws do for it."""
        links = self.links()
        found: dict[str, object] = {}
        if links is None:
            return found
        now = int(links.turn.now)
        if links.clusters:
            from entrepot.cluster.clusters.outlook import elsewhere  # noqa: PLC0415

            found.update(elsewhere(links.broker, links.clusters, name, topic=topic, now=now))
        sources = links.federations.sources()
        if sources:
            found["upstreams"] = [row for one in sources for row in one.outlook(name, topic=topic, now=now)]
        if links.draws:
            from entrepot.cluster.carrying.draw_outlook import outlook as drawn  # noqa: PLC0415 - who draws has it

            found["draws"] = [row for one in links.draws for row in drawn(one, name, topic=topic, now=now)]
        if links.amqp_connectors:
            from entrepot.cluster.broker_connections.outlook import outlook as called  # noqa: PLC0415 - as above

            rows = [row for one in links.amqp_connectors for row in called(one, name, now=now)]
            found["draws"] = [*(found.get("draws") or ()), *rows]  # type: ignore[misc]
        brought = [] if name.startswith(OWN) else [row for one in self._mirrors() for row in _brought(one, name)]
        if brought:
            found["draws"] = [*(found.get("draws") or ()), *brought]  # type: ignore[misc]
        return found

    @property
    def url(self) -> str:
        """Where others reach this broker over OpenWire."""
        links = self.links()
        return "" if links is None else links.neighbourhood.acceptor.url

    @property
    def trace(self) -> str:
        """Where the trace of this broker is."""
        return self._trace

    def switch_connector(self, name: str, start: bool) -> bool:
        """Start or stop a network connector."""
        links = self.links()
        return links is not None and links.switch(name, start=start)


def _brought(row: Mapping[str, Any], name: str) -> list[dict[str, object]]:
    """Return what another broker does for the address ``name``, over a connection that it opened."""
    if row["kind"] == "mirror":
        return [_mirrored(row)]
    from entrepot.cluster.broker_connections.outlook import obeyed  # noqa: PLC0415 - who has such a row has loaded it

    return obeyed(row, name)


def _mirrored(row: Mapping[str, object]) -> dict[str, object]:
    """Return what a broker that mirrors itself into this one does for every address, for `entrepot explain`."""
    text = (
        f"the broker {row['peer_id']} ({row['peer']}) mirrors itself into this one: {row['messages']:,} messages came, "
        f"{row['acknowledged']:,} left here because they were taken there, {row['unmatched']:,} that were taken there "
        "were not here"
    )
    return {
        "connector": row["connector"],
        "state": row["state"],
        "code": "mirrored",
        "text": text,
        "remedy": "let nobody consume here while that broker serves" if row["unmatched"] else "",
        "source": "",
        "received": row["received"],
        "unacknowledged": row["looked_for"],
    }


def view_of(listener: Listener, connection: Connection) -> ConnectionView:
    """Return what there is to say about one connection."""
    session = connection.session
    number = number_of(connection)
    opened = 0
    sessions: list[SessionView] = []
    client_id = ""
    if isinstance(session, ServerSession):
        broker = session.broker
        opened = int(broker.wall) - (int(broker.now) - int(session.opened)) // MILLISECOND
        client_id = session.client_id
        one = SessionView(number, number, session.subject.name, client_id, session.readers(), {}, opened)
        sessions = session.sessions(opened) or [one]
    users = dict.fromkeys(one.user for one in sessions if one.user)
    return ConnectionView(
        number, connection.peer, listener.uri.partition("?")[0], session.protocol.upper(), client_id,
        ",".join(users), opened, sessions,
    )  # fmt: skip


def number_of(connection: Connection) -> str:
    """Return the number of a connection in this run; "" before its first bytes told its protocol."""
    return str(getattr(connection.session, "number", ""))
