"""The local subscription of one demand: what it reads, and by which rules. [C]"""

from __future__ import annotations

from entrepot.cluster.link import LinkCore
from entrepot.cluster.networks.admission import Rule, is_interpreted
from entrepot.cluster.networks.wanted import Demand, Names
from entrepot.cluster.source import Feed
from entrepot.core.broker import selector_or_none
from entrepot.core.queue.consumer import Objection
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.advisories import Advisories
from entrepot.protocols.openwire.ids import is_temporary


class BridgeFeed(Feed):
    """The local subscription of one demand."""

    def __init__(
        self,
        link: LinkCore,
        names: Names,
        origin: int,
        advisories: Advisories,
        demand: Demand,
        addresses: list[Destination],
        rule: Rule,
    ) -> None:
        super().__init__(link, addresses, int(demand.info.prefetch_size))
        self.advisories = advisories
        self.demand = demand
        self.rule = rule
        self.there_id = names.there_id
        self.temporary = is_temporary(demand.where)
        self.topic = addresses[0].routing == MULTICAST
        self.counted = not is_interpreted(demand.name)
        self.where: commands.Destination | None = None  # of the last message
        self.forget = False  # a durable one goes with all that it holds when it is retired
        self.instead: Demand | None = None  # who has what it holds then
        self.priority = int(demand.info.priority)
        self.selector = selector_or_none(demand.info.selector or "")
        self.connection = link.name
        self.far = f"{names.there_id}\t{names.there}"
        self.origin = origin
        self.announces = True  # as its demand: the core's own word would lack the path
        # Not meant for no-local, but the queue then asks `wants` for every message, also where nobody has a selector.
        self.no_local = addresses[0].routing == ANYCAST
        if demand.durable_name:
            self.durable_name = demand.durable_name
            self.client_id = names.local_client

    def admits(self, message: Message, queue: Queue | None) -> bool:
        """Tell the bridge's rules that it crosses now, if it may."""
        return not self.rule.crossing(message, queue)

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Ask the same rules for their reasons."""
        return self.rule.objection(message, queue)

    def named(self, key: str) -> None:
        """The advisory about us is made from the demand: the core's own would lack the path."""
        self.advisories.own[key] = self.demand.info
