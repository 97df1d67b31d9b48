"""Who is connected to a broker: its listeners asked, for `core/operators/management.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from entrepot.base.environment import MILLISECOND
from entrepot.cluster.networks.outlook import outlook
from entrepot.core.operators.census import Census
from entrepot.io.connection import Connection
from entrepot.io.links import Links
from entrepot.io.tcp import Listener
from entrepot.model.connected import ConnectionView, SessionView
from entrepot.model.message import Message
from entrepot.protocols.serving.session import ServerSession


class OpenConnections(Census):
    """The connections that ``listeners`` accepted and that are open; the list may grow."""

    def __init__(
        self, listeners: list[Listener], links: Callable[[], Links | None] = lambda: None, trace: str = ""
    ) -> None:
        """``links``: the bridges, when there are any. ``trace``: the directory where the trace is kept."""
        self.listeners = listeners
        self.links = links
        self._trace = trace

    def count(self) -> int:
        """Return how many there are."""
        return sum(len(listener.connections) for listener in self.listeners)

    def connections(self, skip: int, most: int) -> list[dict[str, str]]:
        """Return up to ``most`` of them, listener by listener in the order of their arrival."""
        every = ((listener, connection) for listener in self.listeners for connection in listener.connections)
        return [
            {
                "id": _number(connection),
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
                if connection and _number(each) == connection and isinstance(each.session, ServerSession):
                    if each.session.close_session(session):
                        return True
                    return session == connection and self.close(connection, why)
        return False

    def places(self) -> list[tuple[str, str]]:
        """Return where this broker listens."""
        return [(listener.uri.partition("?")[0], listener.uri) for listener in self.listeners]

    def close(self, connection: str, why: str) -> bool:
        """Tell one peer ``why``, and close its connection; False when there is none of that id."""
        for listener in self.listeners:
            for each in list(listener.connections):
                if connection and _number(each) == connection:
                    each.shut(why)
                    return True
        return False

    def bridges(self) -> list[dict[str, object]]:
        """Return every bridge, and every connector that has none."""
        links = self.links()
        return [] if links is None else links.report()

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


def view_of(listener: Listener, connection: Connection) -> ConnectionView:
    """Return what there is to say about one connection."""
    session = connection.session
    number = _number(connection)
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


def _number(connection: Connection) -> str:
    """Return the number of a connection in this run; "" before its first bytes told its protocol."""
    return str(getattr(connection.session, "number", ""))
