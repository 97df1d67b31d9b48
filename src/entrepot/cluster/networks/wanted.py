"""What a bridge wants here on behalf of the far side, and what follows from a change of it (classic.md 1.5 to 1.10).

A `Reader` is a consumer, there or here, in words of no protocol: `translation.py` has OpenWire's. A `Demand` is one
local subscription to be; `demand.py` decides which there are, `subscriptions.py` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from entrepot.cluster.networks.admission import Path
from entrepot.cluster.networks.lists import Place

DURABLE_PREFIX: Final = "NC-DS_"
SESSION: Final = 1


class Names(Struct, frozen=True):
    """Who a bridge is: the name of its connector, both brokers, and its connection here."""

    connector: str
    here: str
    here_id: str
    there: str
    there_id: str
    connection: str
    token: str = "_"

    @property
    def local_client(self) -> str:
        """The client id on our side, to which durable subscriptions belong (classic.md 1.3, step 5)."""
        return self.token.join((self.connector, self.there, "inbound", self.here))

    @property
    def remote_client(self) -> str:
        """The client id on the far side (step 7)."""
        return self.token.join((self.connector, self.here, "outbound"))

    def durable(self, topic: str) -> str:
        """Return the name of the durable subscription that stands for all of the far side on ``topic`` (1.10)."""
        return f"{DURABLE_PREFIX}{self.here}_{topic}"


class ReaderId(NamedTuple):
    """Who a consumer is, on the broker that it is connected to and on all others."""

    connection: str
    session: int
    value: int


class Reader(Struct):
    """A consumer as one broker announces it to others.

    ``where``: what it reads, as it said; ``parts``: the places that this means, several for a composite, none where
    nothing can be read. ``path``: the brokers between, the nearest to the reader first; ``served``: the readers that
    one of a bridge stands for. ``network``: it is itself a bridge's.
    """

    where: Place
    parts: tuple[Place, ...]
    id: ReaderId | None = None
    path: Path = ()
    served: tuple[ReaderId, ...] = ()
    network: bool = False
    browser: bool = False
    client_id: str | None = None
    subscription_name: str | None = None
    selector: str | None = None
    prefetch: int = 0
    pending_limit: int = 0
    dispatch_async: bool = False
    exclusive: bool = False
    retroactive: bool = False
    priority: int = 0


class ReaderGone(Struct, frozen=True):
    """A consumer left."""

    id: ReaderId


class DurableGone(Struct, frozen=True):
    """A durable subscription was unsubscribed."""

    client_id: str
    name: str


class TemporaryTold(Struct, frozen=True):
    """A temporary destination came, or went. ``path`` as that of a `Reader`."""

    where: Place
    path: Path
    there: bool


Told = Reader | ReaderGone | DurableGone | TemporaryTold


class Demand:
    """One local subscription. ``reader`` is what is announced here; ``remote`` are the consumers that it serves."""

    def __init__(self, reader: Reader, *, for_network: bool) -> None:
        self.reader: Final = reader
        self.where: Final = reader.where
        self.for_network: Final = for_network  # the far consumer is itself a bridge's
        self.remote: dict[ReaderId, None] = {}
        self.durables: dict[tuple[str, str], None] = {}  # client id and name of the far durable subscriptions
        self.durable_name = ""
        self.static = False
        self.restored = False  # from a subscription that was here before; whom it serves is not known yet

    @property
    def name(self) -> str:
        """The name of the destination."""
        return self.where.name

    def consumers(self) -> dict[ReaderId, None]:
        """Return those that it serves, and what stands for them on the brokers between."""
        return {**dict.fromkeys(self.reader.served), **self.remote}

    def covers(self, other: Demand) -> bool:
        """Return whether it serves all that ``other`` does."""
        mine = self.consumers()
        return all(one in mine for one in other.remote) and all(one in self.durables for one in other.durables)

    def serves(self, wanted: Mapping[ReaderId, None]) -> bool:
        """Return whether one of ``wanted`` is among them."""
        return any(one in wanted for one in self.reader.served) or any(one in wanted for one in self.remote)

    def holds_for(self, other: Demand) -> bool:
        """Return whether a durable reader of ``other`` is among its own, at the same broker beside us.

        Who comes back is another consumer, and one of two bridges hears of him first.
        """
        mine, its = self.reader.path, other.reader.path
        return mine[-1:] == its[-1:] and any(one in self.durables for one in other.durables)

    @property
    def empty(self) -> bool:
        """Whether nothing needs it any more."""
        return not self.static and not self.remote and not self.durable_name


class Subscribe(Struct, frozen=True):
    """Attach a local subscription, and announce ``demand.reader`` here."""

    demand: Demand


class Unsubscribe(Struct, frozen=True):
    """Take it away. ``forget``: a durable one with all that it holds.

    ``instead``: the demand that serves its consumers from now on; what a durable one holds goes over to that.
    """

    demand: Demand
    forget: bool = False
    instead: Demand | None = None


class HandOver(Struct, frozen=True):
    """Give what the durable subscription of ``before`` holds, which nobody reads here, to the demands in ``to``."""

    before: Demand
    to: tuple[Demand, ...]


class Drain(Struct, frozen=True):
    """Let cross what the durable subscription of ``waiting`` holds from before those of ``serving`` were made.

    They serve its readers now, over ways that lead elsewhere, and cannot have had it.
    """

    waiting: Demand
    serving: tuple[Demand, ...]


class LookAgain(Struct, frozen=True):
    """Call `restore` soon: a durable demand is served another way now, and may have left a subscription."""


class ForgetDurable(Struct, frozen=True):
    """Delete the durable subscription ``name`` of the bridge here, if there is one."""

    name: str


class MakeTemporary(Struct, frozen=True):
    """Make a temporary destination of the far side known here."""

    where: Place
    path: Path


class DropTemporary(Struct, frozen=True):
    """It is gone."""

    where: Place


Effect = Subscribe | Unsubscribe | HandOver | Drain | LookAgain | ForgetDurable | MakeTemporary | DropTemporary
