"""What one seed of simulated federations is: its brokers, who fetches what from whom, and what must come of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.uri import Endpoint
from entrepot.cluster.federation.options import (
    AddressPolicy,
    DownstreamEntry,
    FederationEntries,
    Match,
    QueuePolicy,
    UpstreamEntry,
    UpstreamOptions,
)
from entrepot.simulation.world import Lots

QUEUE: Final = "Q"
ADDRESS: Final = "T"
SUBSCRIPTION: Final = "S"
PORT: Final = 61616
CHAIN: Final = "chain"  # each fetches from the one before
STAR: Final = "star"  # all fetch from the first one
MUTUAL: Final = "mutual"  # each fetches from all others
RING: Final = "ring"  # each fetches from the one before, the first one from the last


class Fetching(Struct, frozen=True):
    """``near`` fetches from ``far``. ``deployed``: the file of ``far`` says so, as a downstream."""

    near: str
    far: str
    deployed: bool

    @property
    def keeper(self) -> str:
        """Whose file says it."""
        return self.far if self.deployed else self.near

    @property
    def upstream(self) -> str:
        """What the upstream is called, in its own file."""
        return f"{self.near}-of-{self.far}"


class FederationDraft:
    """The plan of a seed. ``subscribed``: where a durable subscription to the address is.

    ``firm``: the queue is read at the end of a chain alone, so what waits at a broker has one way to go. Elsewhere a
    broker that loses who fetched gives a message to somebody else, while the one that fetched has it, too. In circles a
    reader comes before who fetches, or as soon: where who fetches comes first, messages go round for ever.
    """

    def __init__(self, lots: Lots) -> None:
        self.shape: Final = lots.one_of((CHAIN, CHAIN, STAR, MUTUAL, RING))
        self.names: Final = [chr(ord("a") + number) for number in range(lots.between(2, 4))]
        self.fetchings: Final = [Fetching(near, far, lots.chance(0.4)) for near, far in self._ways()]
        self.queues: Final = lots.chance(0.75)
        self.addresses: Final = not self.queues or lots.chance(0.7)
        self.passes: Final = self.shape in (CHAIN, STAR) and lots.chance(0.7)
        self.firm: Final = self.shape == CHAIN and (self.passes or len(self.names) == 2) and lots.chance(0.7)
        self.hops: Final = self._hops(lots)
        self.large: Final = lots.chance(0.3)
        self.calm: Final = lots.chance(0.15)
        self.subscribed: Final = [name for name in self.names if self.addresses and lots.chance(0.7)]
        self.priority: Final = lots.one_of((-1, -1, 0, 3) if self.shape in (CHAIN, STAR) else (-1, -1, -1, 0))
        self.retry_ms: Final = lots.one_of((50, 500))
        self.defined: Final = {
            name: lots.chance(0.8) or self.passes for name in self.names
        }  # else nothing is passed on

    def _ways(self) -> list[tuple[str, str]]:
        names = self.names
        if self.shape == STAR:
            return [(name, names[0]) for name in names[1:]]
        if self.shape == MUTUAL:
            return [(near, far) for near in names for far in names if near != far]
        ways = [(near, far) for far, near in pairwise(names)]
        return [*ways, (names[0], names[-1])] if self.shape == RING else ways

    def _hops(self, lots: Lots) -> int:
        """Return the ``max-hops`` of the address: where there are several ways to a broker, or one to itself, few."""
        if self.shape == MUTUAL:
            return lots.one_of((0, 1))
        if self.shape == RING:
            return lots.between(1, len(self.names) - 1)
        return lots.one_of((-1, 0, 1, 2, 3))

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = {
            f"{self.shape} of {len(self.names)}": True,
            "queues": self.queues,
            "passed on": self.passes,
            "firm": self.firm,
            f"addresses with {self.hops} hops": self.addresses,
        }
        return ", ".join(word for word, said in words.items() if said)

    # -- what files say ------------------------------------------------------------------------------------------------

    def entries(self, name: str, without: str = "", priority: int = 0) -> FederationEntries:
        """Return the federations of the file of ``name``, but for the upstream or downstream ``without``.

        ``priority``: the adjustment of all of them.
        """
        mine = [one for one in self.fetchings if one.keeper == name and one.upstream != without]
        return FederationEntries(
            upstreams=tuple(self._upstream(one, priority) for one in mine if not one.deployed),
            downstreams=tuple(self._downstream(one, priority) for one in mine if one.deployed),
        )

    def _upstream(self, one: Fetching, priority: int) -> UpstreamEntry:
        return UpstreamEntry(
            federation="F",
            options=self._options(one, priority),
            places=(Endpoint("tcp", one.far, PORT),),
            queues=self._queue_policies(),
            addresses=self._address_policies(),
        )

    def _downstream(self, one: Fetching, priority: int) -> DownstreamEntry:
        return DownstreamEntry(
            federation="F",
            options=self._options(one, priority),
            places=(Endpoint("tcp", one.near, PORT),),
            queues=self._queue_policies(),
            addresses=self._address_policies(),
            back=Endpoint("tcp", one.far, PORT),
            connector=one.far,
        )

    def _options(self, one: Fetching, priority: int) -> UpstreamOptions:
        return UpstreamOptions(
            name=one.upstream,
            priority=priority,
            retry_interval=self.retry_ms * MILLISECOND,
            check_period=3 * SECOND,
            ttl=6 * SECOND,
            call_timeout=3 * SECOND,
        )

    def _queue_policies(self) -> tuple[QueuePolicy, ...]:
        if not self.queues:
            return ()
        mean = (Match(address=QUEUE),)
        return (QueuePolicy(name="queues", priority=self.priority, federated=self.passes, includes=mean),)

    def _address_policies(self) -> tuple[AddressPolicy, ...]:
        if not self.addresses:
            return ()
        return (AddressPolicy(name="addresses", max_hops=self.hops, includes=(Match(address=ADDRESS),)),)

    # -- what must come of it ------------------------------------------------------------------------------------------

    @property
    def visited(self) -> list[str]:
        """Where readers of the queue come and go."""
        return self.names[-1:] if self.firm else self.names

    def fetchers(self, name: str) -> list[str]:
        """Return who fetches from ``name``."""
        return [one.near for one in self.fetchings if one.far == name]

    def feeds(self, name: str) -> bool:
        """Return whether what ``name`` fetches of the address may be fetched from there by others: who then want it."""
        return self.hops == -1 or self.hops > 1

    def wants_address(self, name: str, asked: tuple[str, ...] = ()) -> bool:
        """Return whether ``name`` wants the address: it is subscribed there, or passes it on to one that wants it."""
        if name in self.subscribed:
            return True
        if not self.feeds(name) or name in asked:
            return False
        return any(self.wants_address(one, (*asked, name)) for one in self.fetchers(name))

    def reached(self, name: str, hops: int = 0) -> list[str]:
        """Return whose subscriptions must get what is sent to the address at ``name``, with ``hops`` behind it."""
        found = [name] if name in self.subscribed else []
        if hops == 0 or self.hops == -1 or hops < self.hops:
            for near in self.fetchers(name):
                if self.wants_address(near):
                    found += self.reached(near, hops + 1)
        return found

    def is_read(self, name: str, readers: list[str]) -> bool:
        """Return whether what waits in the queue at ``name`` comes to one of ``readers``, brokers with a reader."""
        if name in readers:
            return True
        fetchers = self.fetchers(name) if self.queues else []
        if not self.passes:
            return any(one in readers for one in fetchers)
        return any(self.is_read(one, readers) for one in fetchers)

    def last_readers(self, lots: Lots) -> list[str]:
        """Return where readers of the queue stay, so that every message has one in reach."""
        found = [name for name in self.visited if lots.chance(0.4)]
        for name in self.names:
            if not self.is_read(name, found):
                found.append(self.names[-1] if self.firm else name)
        return found
