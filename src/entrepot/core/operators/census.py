"""What others know and management asks for: connections, bridges, pages; told to the core by the node."""

from __future__ import annotations

from collections.abc import Iterable

from entrepot.model.connected import ConnectionView
from entrepot.model.message import Message


class Census:
    """What the surroundings of a broker know about it: who is connected. The node has one that knows."""

    def count(self) -> int:
        """Return how many connections are open."""
        return 0

    def connections(self, skip: int, most: int) -> list[dict[str, str]]:
        """Return open connections, each with ``id``, ``peer``, ``protocol`` and what its session tells."""
        return []

    def views(self) -> Iterable[ConnectionView]:
        """Return every open connection with its sessions, made while they are taken."""
        return ()

    def close_session(self, connection: str, session: str, why: str) -> bool:
        """Close one session of a connection; False when there is none of that id."""
        return False

    def places(self) -> list[tuple[str, str]]:
        """Return name and URI of each place where this broker listens."""
        return []

    def close(self, connection: str, why: str) -> bool:
        """Close the connection with this id; False when there is none."""
        return False

    def bridges(self) -> list[dict[str, object]]:
        """Return the bridges to other brokers, whoever opened them (`Bridge.report`), and connectors without one."""
        return []

    def switch_connector(self, name: str, start: bool) -> bool:
        """Start or stop the network connector ``name``; False when there is none."""
        return False

    def path(self, message: Message) -> list[str]:
        """Return the ids of the brokers that ``message`` came through, the first one first."""
        return []

    def outlook(self, name: str, topic: bool) -> list[dict[str, object]]:
        """Return each bridge and what it does for this queue or topic (`cluster/networks/outlook.py`)."""
        return []

    @property
    def url(self) -> str:
        """Where this broker is reached by others; "" when nobody can."""
        return ""

    @property
    def trace(self) -> str:
        """The directory of this broker's trace, on its own machine; "" when it keeps none."""
        return ""
