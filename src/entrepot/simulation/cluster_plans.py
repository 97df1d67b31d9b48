"""What one seed of a simulated cluster is: its nodes, whom each dials, and how it balances."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.config.peering import ClusterEntry, GroupingEntry, Peering, PlaceEntry, Position, Reference
from entrepot.simulation.world import Lots

PIECE: Final = 1024
DURABLE: Final = "durable"
GROUP: Final = "_AMQ_GROUP_ID"
HERE: Final = Position()
MOVING: Final = ("ON_DEMAND", "OFF_WITH_REDISTRIBUTION")
SYMMETRIC: Final = "symmetric"
STATIC: Final = "static"  # only the first node is listed: the others are learnt of it
CHAIN: Final = "chain"  # each dials the next one, and nobody else
RED: Final = "colour = 'red'"
BLUE: Final = "colour = 'blue'"
LINE: Final = "line"  # each dials its neighbours, and nobody else


LEAVING: Final = ("ON_DEMAND", "ON_DEMAND", "ON_DEMAND", "STRICT")  # what is sent to a node may leave it


GIVING: Final = ("ON_DEMAND", "ON_DEMAND", "OFF", "OFF_WITH_REDISTRIBUTION")  # of nodes that give all away


def _shapes(chains: bool, groups: bool, leaving: bool) -> tuple[str, ...]:
    if leaving:
        return (SYMMETRIC,)  # who gives all away must know the other one
    if chains:
        return (LINE, LINE, CHAIN)
    return (SYMMETRIC, SYMMETRIC, LINE) if groups else (SYMMETRIC, SYMMETRIC, SYMMETRIC, STATIC, CHAIN, LINE)


def _balancings(groups: bool, leaving: bool, beside: bool) -> tuple[str, ...]:
    if beside:
        return MOVING
    if leaving:
        return GIVING
    return LEAVING if groups else (*LEAVING, "OFF", "OFF_WITH_REDISTRIBUTION")


def _delays(beside: bool) -> tuple[int, ...]:
    return (0, 0, 20, 200) if beside else (-1, 0, 20, 200, 1_000)


class Draft:
    """The plan of a seed. ``starts``: where producers are; ``pairs``: between which something may break."""

    def __init__(
        self, lots: Lots, *, chains: bool = False, groups: bool = False, leaving: bool = False, beside: bool = False
    ) -> None:
        """``chains``: messages have a long way, over nodes that crash more often; ``groups``: nodes agree about those;
        ``leaving``: some give all they have to others; ``beside``: a third node is there, and what waits moves at once.

        ``firm``: a group goes to one queue whatever happens, because no queue goes for good.
        """
        self.shape: Final = lots.one_of(_shapes(chains, groups, leaving))
        most = 8 if self.shape in (SYMMETRIC, STATIC) and lots.chance(0.1) else 4
        self.names: Final = [
            chr(ord("a") + number) for number in range(lots.between(3 if chains or beside else 2, most))
        ]
        self.rough: Final = chains
        self.balancing: Final = lots.one_of(_balancings(groups, leaving, beside))
        self.deduplicates: Final = lots.chance(0.8) or leaving
        self.calm: Final = lots.chance(0.2)
        self.delay: Final = lots.one_of(_delays(beside)) * MILLISECOND
        self.large: Final = lots.chance(0.3)
        grouped = lots.chance(0.2)
        self.grouped: Final = 0.8 if groups else 0.3 if grouped else 0.0
        self.topics: Final = lots.chance(0.6)
        self.durables: Final = lots.between(1, 2) if self.topics else 0
        self.window: Final = lots.one_of((-1, PIECE, 10 << 20))
        self.credit: Final = lots.one_of((-1, 4_000, 1 << 20))
        self.ttl_ms: Final = 3_000 if beside else lots.one_of((3_000, 20_000))
        self.disturbed = False
        self.alone: tuple[str, ...] = ()  # addresses that are not the cluster's
        self.groups: Final = groups
        self._queues: Final = {name: beside or lots.chance(0.8) for name in self.names}
        self.starts: Final = self.names[:1] if self.shape == CHAIN and lots.chance(0.5) else self.names
        self.pairs: Final = [(a, b) for a in self.names for b in self.names if a != b]
        self.firm = False
        self.patience_ms = 0
        self.decides = ""
        if groups:
            self._decide(lots)

    def _decide(self, lots: Lots) -> None:
        self.firm = lots.chance(0.6)
        self.patience_ms = 600_000 if self.firm else lots.one_of((500, 5_000))
        self.decides = lots.one_of(self.names)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        delay = "" if self.delay < 0 else f"after {self.delay // MILLISECOND} ms"
        grouped = f"{self.decides} decides{', firm' if self.firm else ''}" if self.groups else ""
        words = [
            grouped,
            self.shape,
            str(len(self.names)),
            self.balancing,
            delay,
            "" if self.deduplicates else "doubling",
        ]
        return " ".join(word for word in words if word)

    @property
    def moves(self) -> bool:
        """Whether what waits goes to where a reader is."""
        return self.delay >= 0 and self.balancing in MOVING

    def has_queue(self, name: str) -> bool:
        """Return whether the file of a node defines the queue."""
        return self._queues[name]

    def last_readers(self, lots: Lots) -> list[tuple[str, str]]:
        """Return where the readers of the queue are that stay, and their selectors: every message has one in reach."""
        if not self.moves or self.groups:
            return [(name, "") for name in self.names]
        if self.shape == CHAIN:
            return [(self.names[-1], "")]  # messages go one way
        if lots.chance(0.3) and not self.grouped:  # of a group its owner gets all, whatever its selector wants
            red = lots.one_of(self.names)
            return [(red, RED), *((name, BLUE) for name in self.names if name != red)]
        return [(name, "") for name in self.names if lots.chance(0.4)] or [(lots.one_of(self.names), "")]

    def met_by(self, name: str) -> list[str]:
        """Return the nodes whose queues the node ``name`` must know: those that it dials itself."""
        at = self.names.index(name)
        if self.shape == CHAIN:
            return self.names[at + 1 : at + 2]
        if self.shape == LINE:
            return [*self.names[max(at - 1, 0) : at], *self.names[at + 1 : at + 2]]
        return [one for one in self.names if one != name]

    def peering(self, name: str) -> Peering:
        """Return what the file of the node ``name`` says of the others."""
        at = self.names.index(name)
        seeds, direct, hops = self.met_by(name), self.shape in (CHAIN, LINE), 1
        if self.shape == STATIC:
            seeds = self.names[:1] if at else self.names[1:2]
        elif direct:
            hops = max(len(self.names) - 1, 1)
        entry = ClusterEntry(
            name="c",
            at=HERE,
            connector=name,
            connectors=tuple(Reference(name=one, at=HERE) for one in seeds) or None,
            direct=direct,
            address=",".join(f"!{one}" for one in self.alone),
            balancing=self.balancing,
            max_hops=hops,
            check_ms=max(self.ttl_ms // 2, 1),
            ttl_ms=self.ttl_ms,
            deduplicates=self.deduplicates,
            retry_ms=50,
            retry_ms_max=500,
            large_octets=PIECE,
            confirmation_window=self.window,
            producer_window=self.credit,
        )
        return Peering(
            places=tuple(PlaceEntry(name=one, uri=f"tcp://{one}:61616", at=HERE) for one in self.names),
            clusters=(entry,),
            cluster_user="cluster",
            cluster_password="secret",
            grouping=self._grouping(name),
        )

    def _grouping(self, name: str) -> GroupingEntry | None:
        if not self.groups:
            return None
        kind = "LOCAL" if name == self.decides else "REMOTE"
        return GroupingEntry(name="groups", at=HERE, kind=kind, timeout_ms=self.patience_ms)
