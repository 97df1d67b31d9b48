"""What others know and management asks for: connections, bridges, pages; told to the core by the node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from entrepot.base.errors import Refused
from entrepot.base.provenance import Said
from entrepot.core.security.directory import Subject
from entrepot.model.connected import ConnectionView
from entrepot.model.message import Message

if TYPE_CHECKING:
    from entrepot.core.operators.listing import Arguments
    from entrepot.core.operators.samples import Samples
    from entrepot.journal.retained import Archive


class Resending(Protocol):
    """Messages that are sent again. ``over``: it has ended."""

    over: bool

    def report(self) -> dict[str, object]:
        """Return what is sent again, and how far that is."""


class Question:
    """What a resource is asked: an attribute, or an operation with values of JSON.

    ``subjects``: for whom, where that was said. ``method``: whose right is needed, "" for that of the question itself.
    """

    def __init__(
        self,
        resource: str,
        attribute: str,
        operation: str,
        values: list[Any],
        subjects: list[Subject],
        method: str = "",
    ) -> None:
        self.resource: Final = resource
        self.attribute: Final = attribute
        self.operation: Final = operation
        self.values: Final = values
        self.subjects: Final = subjects
        self.method: Final = method


class Together(Protocol):
    """The processes that are one broker, this one among them. Real: `management/processes.py`."""

    def uuids(self) -> list[bytes]:
        """Return the UUIDs of those that are ready."""

    def ask(self, asker: str, question: Question) -> object | None:
        """Return the work that asks all of them; None where ``asker``, a connection, asks this one alone.

        After its end the work says in ``missing`` who did not answer, and why, for people.
        """


class Component:
    """Something of a broker beside its core. ``attributes``: what is asked for by name, looked at then.

    ``switch`` starts (True) or stops it; None: it cannot be.
    """

    def __init__(
        self,
        attributes: Mapping[str, Callable[[], object]],
        switch: Callable[[bool], object] | None = None,
        operations: Mapping[str, Callable[[Arguments], object]] = MappingProxyType({}),
    ) -> None:
        """``operations``: more that can be done to it."""
        self.attributes: Final = attributes
        self.switch: Final = switch
        self.operations: Final = operations


class Written:
    """What was said to a broker before it started: this one was told nothing."""

    def lines(self) -> Iterable[Said]:
        """Return every setting that is obeyed, and where it is said, made while they are taken."""
        return ()

    def origin(self) -> dict[str, object]:
        """Return the files of the configuration, the family that they are of, and what of them takes a restart."""
        return {"files": [], "family": "", "pending": []}


class Census:
    """What the surroundings of a broker know about it: who is connected. The node has one that knows.

    ``written``: what it was told. ``samples``: the message counters, from the first question about them on.
    ``archive``: what the journal let go of, where that is kept; ``replaying``: the last replay of it.
    ``together``: the processes of this broker, where it has several.
    """

    written: Written = Written()
    archive: Archive | None = None
    replaying: Resending | None = None
    samples: Samples | None = None
    together: Together | None = None

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

    def subjects(self, connection: str) -> list[Subject]:
        """Return for whom a connection speaks: several, where it has several sessions; nobody when it is gone."""
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

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return more that can be done to the broker, and is done in its surroundings.

        ``describeRemotes``: the queues that another node of a cluster told of, of which there are none here.
        """
        return {"describeRemotes": lambda given: []}

    def components(self, kind: str) -> list[str]:
        """Return the names of the acceptors, bridges, ... that there are (`core/operators/component_control.py`)."""
        return []

    def component(self, kind: str, name: str) -> Component | None:
        """Return one of them; None when there is none of that name."""
        return None

    def syncs(self) -> dict[str, object]:
        """Return how long the disk took to make things durable (`io/sync_times.py`); nothing where there is no disk."""
        return {}

    def availability(self) -> dict[str, object]:
        """Return the part that this broker has among those of one store (`io/standby.py`); times in ms."""
        return {"role": "alone"}

    def connected(self) -> int:
        """Return how many connections came in, those that left included."""
        return 0

    def connectors(self) -> list[dict[str, object]]:
        """Return the named places of other brokers that the configuration has."""
        return []

    def settings(self) -> Mapping[str, Callable[[], object]]:
        """Return attributes of the broker that its configuration and its surroundings know."""
        return {}

    def reload(self) -> bool:
        """Begin to read the configuration again, changed or not; False when the broker has no file."""
        return False

    def path(self, message: Message) -> list[str]:
        """Return the ids of the brokers that ``message`` came through, the first one first."""
        return []

    def outlook(self, name: str, topic: bool) -> list[dict[str, object]]:
        """Return each bridge and what it does for this queue or topic (`cluster/networks/outlook.py`)."""
        return []

    def clusters(self) -> list[dict[str, object]]:
        """Return the clusters that this broker is in, each with its members (`cluster/clusters/report.py`)."""
        return []

    def stores(self) -> list[dict[str, object]]:
        """Return the store-and-forward queues, those that nobody empties too (`cluster/clusters/stores.py`)."""
        return []

    def routers(self) -> list[dict[str, object]]:
        """Return the connection routers, each with the brokers that it may send clients to."""
        return []

    def drain(self, verb: str, to: str) -> object:
        """Give all to another node, or see how far that is: plan, begin, resume, abort, status. Raises Refused."""
        raise Refused("this broker is in no cluster: there is no node to give anything to")

    def verify(self, bandwidth: int) -> int:
        """Begin to compare all replicas with this store (`ha/comparison.py`); return how many. Raises Refused."""
        raise Refused("this broker has no replicas", remedy="entrepot run --ha replication makes some")

    def step_down(self) -> None:
        """Let another broker of the same store serve. Raises Refused."""
        raise Refused("this broker shares its store with nobody: there is none to take over")

    def clean_store(self, name: str, *, discards: bool) -> object:
        """Return the work that empties the store-and-forward queue of a node that is gone. Raises Refused."""
        raise Refused("this broker is in no cluster", remedy="entrepot queue move, purge or delete do it, too")

    def elsewhere(self, name: str, topic: bool) -> dict[str, object]:
        """Return queues of other nodes at an address, and what is between (`cluster/clusters/outlook.py`).

        ``upstreams``: what each upstream of a federation does for it (`FederationConnector.outlook`); ``draws``: what
        each connection to an Artemis does (`carrying/draw_outlook.py`).
        """
        return {}

    @property
    def url(self) -> str:
        """Where this broker is reached by others; "" when nobody can."""
        return ""

    @property
    def trace(self) -> str:
        """The directory of this broker's trace, on its own machine; "" when it keeps none."""
        return ""
