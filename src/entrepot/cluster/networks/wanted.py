"""What a bridge wants here on behalf of the far side, and what follows from a change of it (classic.md 1.5 to 1.10).

A `Demand` is one local subscription to be; `demand.py` decides which there are, `subscriptions.py` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from entrepot.protocols.openwire.commands import ConsumerId, ConsumerInfo, Destination, DestinationInfo

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


class Demand:
    """One local subscription. ``info`` is what is announced here; ``remote`` are the consumers that it serves."""

    def __init__(self, info: ConsumerInfo, where: Destination, *, for_network: bool) -> None:
        self.info: Final = info
        self.where: Final = where
        self.for_network: Final = for_network  # the far consumer is itself a bridge's
        self.remote: dict[ConsumerId, None] = {}
        self.durables: dict[tuple[str, str], None] = {}  # client id and name of the far durable subscriptions
        self.durable_name = ""
        self.static = False
        self.restored = False  # from a subscription that was here before; whom it serves is not known yet

    @property
    def name(self) -> str:
        """The name of the destination."""
        return self.where.physical_name or ""

    def consumers(self) -> dict[ConsumerId, None]:
        """Return those that it serves, and what stands for them on the brokers between."""
        return {**dict.fromkeys(self.info.network_consumer_path or ()), **self.remote}

    def covers(self, other: Demand) -> bool:
        """Return whether it serves all that ``other`` does."""
        mine = self.consumers()
        return all(one in mine for one in other.remote) and all(one in self.durables for one in other.durables)

    def serves(self, wanted: Mapping[ConsumerId, None]) -> bool:
        """Return whether one of ``wanted`` is among them."""
        path = self.info.network_consumer_path or ()
        return any(one in wanted for one in path) or any(one in wanted for one in self.remote)

    def holds_for(self, other: Demand) -> bool:
        """Return whether a durable reader of ``other`` is among its own, at the same broker beside us.

        Who comes back is another consumer, and one of two bridges hears of him first.
        """
        mine, its = self.info.broker_path or [], other.info.broker_path or []
        return mine[-1:] == its[-1:] and any(one in self.durables for one in other.durables)

    @property
    def empty(self) -> bool:
        """Whether nothing needs it any more."""
        return not self.static and not self.remote and not self.durable_name


class Subscribe(Struct, frozen=True):
    """Attach a local subscription, and announce ``demand.info`` here."""

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

    info: DestinationInfo


class DropTemporary(Struct, frozen=True):
    """It is gone."""

    info: DestinationInfo


Effect = Subscribe | Unsubscribe | HandOver | Drain | LookAgain | ForgetDurable | MakeTemporary | DropTemporary
