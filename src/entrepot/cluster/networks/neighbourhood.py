"""What all bridges of one broker share, and what every part of one end of a bridge knows of that end. [C]"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.environment import Duration, Instant
from entrepot.cluster.clients import ClientCluster
from entrepot.cluster.dialled import Dialled
from entrepot.cluster.link import LinkCore, State
from entrepot.cluster.networks.admission import All, BrokerPath, Interpreted, Replay, Rule
from entrepot.cluster.networks.advising import Advising
from entrepot.cluster.networks.demand import AdvisoryDemand, Interests, StaticDemand
from entrepot.cluster.networks.feed import BridgeFeed
from entrepot.cluster.networks.lists import Lists, Place
from entrepot.cluster.networks.options import BridgeFilterOptions, NetworkConnectorOptions
from entrepot.cluster.networks.wanted import Demand, Names
from entrepot.cluster.networks.wanted import Effect as DemandEffect
from entrepot.cluster.networks.wires import Wire
from entrepot.cluster.zones import ZoneRules
from entrepot.core.broker import BrokerCore
from entrepot.core.security.directory import Subject
from entrepot.model.address import MULTICAST, Destination


class Neighbourhood:
    """What all bridges of one broker share. ``filters``: what may go back, for a queue or topic by name and kind."""

    def __init__(
        self,
        advising: Advising,
        *,
        filters: Callable[[str, bool], BridgeFilterOptions | None] = lambda name, topic: None,
        interval: Duration = 0,
        zone: str = "",
        rules: ZoneRules | None = None,
        say: Callable[[str, str], None] = lambda who, what: None,
    ) -> None:
        """``interval``: of supervision, for all bridges; 0: each connector has its own. ``zone``, ``rules``: where this
        broker is, and where its clients are.

        ``say``: what an operator should know, for the log."""
        self.advising: Final = advising
        self.acceptor: Final = advising.acceptor
        self.broker: Final[BrokerCore] = advising.acceptor.broker
        self.filters: Final = filters
        self.interval: Final = interval
        self.say: Final = say
        # What a peer may have without having said so before it was lost: whoever sends it next says so (`LinkCore`).
        self.doubts: dict[int, None] = {}
        self.clients: Final = ClientCluster(advising.acceptor, zone=zone, rules=rules)
        advising.acceptor.cluster = self.clients
        self.arrivals: dict[str, object] = {}  # client id -> the accepted connection (`Arrival`) of another broker
        self.interests: Final = Interests()
        # Durable subscription of a bridge -> number of the last message before it was made; not after a restart.
        self.began: dict[str, int] = {}
        # Numbers, first and last, of what was handed over: those copies are in one durable subscription alone.
        self.poured: list[tuple[int, int]] = []
        self.bridges: dict[BridgeEnd, None] = {}
        self.duplex: dict[tuple[str, str], BridgeEnd] = {}  # connector's name and the initiator -> the end that we are
        self._serial = 0

    def enter(self, bridge: BridgeEnd) -> int:
        """Take ``bridge`` in; return a number for its identities."""
        self.bridges[bridge] = None
        self._serial += 1
        return self._serial

    def leave(self, bridge: BridgeEnd) -> None:
        """``bridge`` is no more."""
        self.bridges.pop(bridge, None)
        for key, known in list(self.duplex.items()):
            if known is bridge:
                del self.duplex[key]


@mypyc_attr(allow_interpreted_subclasses=True)
class Part:
    """A part of one end of a bridge, which waits for answers of the other broker (`BridgeEnd.awaited`)."""

    def answered(self, number: int, refusal: str | None, now: Instant) -> None:
        """The other broker answered the command ``number``; ``refusal``: why it does not, None if it does."""


@mypyc_attr(allow_interpreted_subclasses=True)
class BridgeEnd(Dialled):
    """One end of one connection, as its parts and other bridges see it; `bridge.Bridge` joins the parts.

    ``origin`` marks what came in over it; it is no connection's number.
    """

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        options: NetworkConnectorOptions,
        lists: Lists,
        link: LinkCore,
        *,
        initiator: bool,
    ) -> None:
        super().__init__(neighbourhood.broker, link)
        self.neighbourhood: Final = neighbourhood
        self.advising: Final = neighbourhood.advising
        self.options: Final = options
        self.lists: Final = lists
        self.initiator: Final = initiator
        self.serial: Final = neighbourhood.enter(self)
        self.origin: Final = -self.serial
        kind = StaticDemand if options.static else AdvisoryDemand
        self.demand: Final = kind(options, lists, neighbourhood.interests)
        self.names = Names("", "", "", "", "", "")
        self.runs = 0  # connections so far
        self.peer_url = ""  # where the other broker says that it is reached
        self.subject: Subject | None = None  # for whom the peer came in; None: we dialled, as the operator wants it
        self.wire: Wire | None = None
        self.awaited: dict[int, Part] = {}  # number of a command, no message -> who waits for its answer
        self.feeds: dict[Demand, BridgeFeed] = {}
        self.forbidden: dict[str, str] = {}  # where our user may not send there -> what the other broker said

    @property
    def duplex(self) -> bool:
        """Whether messages go both ways on this connection."""
        return self.options.duplex

    def is_current(self, run: int) -> bool:
        """Return whether the connection numbered ``run`` is still there, and open."""
        return run == self.runs and self.link.state is State.OPEN

    def obey(self, effects: Iterable[DemandEffect]) -> None:
        """Do what the demand of the far side changes here, and at other bridges whose demand it replaces."""
        raise NotImplementedError

    def serve_again(self, where: Place) -> None:
        """A temporary destination is there again: what read the queue that was deleted with it reads the new one."""
        raise NotImplementedError

    def adopt_temporary(self, where: Place) -> bool:
        """Serve who is said to read ``where`` beyond us, if there is somebody; return whether there is."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert the invariants of link and demand, and that they agree."""
        self.link.check()
        self.demand.check()
        for demand in self.demand.demands:
            assert demand in self.feeds, f"{self.link.name}: no feed serves the demand for {demand.name}"

    def say(self, what: str) -> None:
        """Tell the operator."""
        self.neighbourhood.say(self.link.name, what)
        self.note_told(what)

    def peer(self) -> str:
        """Return the name of the other broker."""
        return self.names.there

    def feed_of(self, demand: Demand, addresses: list[Destination]) -> BridgeFeed:
        """Return a feed for ``demand``, with the rules of this bridge; it is not attached."""
        raise NotImplementedError

    def rule_of(self, demand: Demand, first: Destination) -> Rule:
        """Return what may cross for ``demand``, which reads ``first`` here."""
        path = BrokerPath(self.names.there_id, self.options.message_ttl, self.names.here_id)
        topic = first.routing == MULTICAST
        back = self.neighbourhood.filters(first.name, topic)
        rules: list[Rule] = [path if back is None else Replay(path, back)]
        if topic:
            rules.append(Interpreted(self.names.there_id, self.options.consumer_ttl, for_network=demand.for_network))
        return All(rules)

    def ask_leave(self, addresses: list[Destination], *, durable: bool) -> None:
        """Raise AccessDenied where the peer came in for somebody who may not read here."""
        if self.subject is not None:
            self.broker.access.consume(self.subject, addresses, durable)

    def permits(self, name: str, *, topic: bool) -> bool:
        """Return whether the lists of the connector let demand for this queue or topic cross."""
        return self.lists.permits(Place(name, topic), temporary=self.options.bridge_temporary)
