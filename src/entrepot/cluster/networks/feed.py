"""The local subscription of one demand: what it reads, and by which rules. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.cluster.link import LinkCore
from entrepot.cluster.networks.admission import Rule, is_interpreted
from entrepot.cluster.networks.advising import Advising
from entrepot.cluster.networks.wanted import Demand, Names
from entrepot.cluster.source import Feed
from entrepot.core.broker import selector_or_none
from entrepot.core.queue.consumer import Measurement, Objection
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import LANGUAGE_OPENWIRE, Message
from entrepot.protocols.large_body import JAVA, form_for, to_count

FRAME_OCTETS_MAX: Final = 100 * 1024 * 1024  # what is agreed with brokers as they are shipped


class BridgeFeed(Feed):
    """The local subscription of one demand."""

    def __init__(
        self,
        link: LinkCore,
        names: Names,
        origin: int,
        advising: Advising,
        demand: Demand,
        addresses: list[Destination],
        rule: Rule,
    ) -> None:
        super().__init__(link, addresses, demand.reader.prefetch)
        self.speaks = LANGUAGE_OPENWIRE
        self.advising = advising
        self.demand = demand
        self.rule = rule
        self.there_id = names.there_id
        self.temporary = demand.where.temporary
        self.topic = addresses[0].routing == MULTICAST
        self.counted = not is_interpreted(demand.name)
        self.forget = False  # a durable one goes with all that it holds when it is retired
        self.instead: Demand | None = None  # who has what it holds then
        self.priority = demand.reader.priority
        self.selector = selector_or_none(demand.reader.selector or "")
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

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large body before its frame can be begun."""
        return to_count(self.link.broker, message, form_for(message, JAVA), FRAME_OCTETS_MAX)

    def objection(self, message: Message, queue: Queue | None) -> Objection | None:
        """Ask the same rules for their reasons."""
        return self.rule.objection(message, queue)

    def named(self, key: str) -> None:
        """The advisory about us is made from the demand: the core's own would lack the path."""
        self.advising.speak_for(key, self.demand.reader)
