"""Federation over AMQP, from seeds, under the faults of connections over AMQP: ``--fetching``.

One or two brokers dial the hub, each with a federation of policies in both directions: a queue that is read here is
fetched from the hub, one that is read at the hub is fetched from here, and so are addresses to which a durable queue is
bound on the other side. What must hold is what holds of other connections (`dialling.py`): what was confirmed is read
at the end of its way, nothing waits and nothing goes round. Of addresses that holds from the moment when the queue is
there by which the other side reads them: from then on no cut, crash, stop or detached link may take it away.

In part of the runs queues are pulled (``amqpCredits=0``): then no queue that is filled so may ever hold more than is
asked for at once beside what its reader may have at hand, and one batch more where an older connection still brings
what it was asked for.

Beside that readers come and go at the end: who has left is fetched for no more.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.uri import Endpoint
from entrepot.cluster.broker_connections.options import (
    AmqpConnectionEntry,
    AmqpConnectionOptions,
    FederationEntry,
    FetchOptions,
    FetchPolicy,
)
from entrepot.cluster.federation.options import AddressPolicy, Match, QueuePolicy
from entrepot.config.model import BrokerConfig, BrokerSettings, PolicyEntry
from entrepot.core.addressing.address_settings import Full
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.protocols.amqp.calling.federating import AddressFetching
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.simulation.dialling import FETCHED, FULL, HUB, LARGE_FROM, SENT, DialledRun
from entrepot.simulation.sites import Blueprint
from entrepot.simulation.world import Lots

NEWS, TOLD = "news", "told"  # addresses: of the hub, read at who dials; of who dials, read at the hub
KEPT: Final = "-kept"
BEGIN_S_MAX: Final = 30
LEAVE_S_MAX: Final = 60  # a broker that hears nothing any more knows so after 30 s


class FetchedRun(DialledRun):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    bounded = False
    ceilings: dict[tuple[str, str], int]
    frame_octets_min = 2_048  # what asks for a link says a selector, and names, in one frame

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        self.seed: Final = seed
        self.ceilings = {}
        super().__init__(seed, lines=lines)
        self.network.ceilings = self.ceilings

    def _blueprint(self, name: str) -> Blueprint:
        lots = self.lots
        if name == HUB:
            settings: dict[str, object] = {"max_octets": FULL, "full": lots.one_of((Full.BLOCK, Full.FAIL))}
            names = [f"{way}-{one}" for one in self.dialers for way in (SENT, FETCHED)]
            config = BrokerConfig(
                broker=BrokerSettings(name=name),
                queues=(*(_queue(one) for one in names), *(_kept(f"{TOLD}-{one}") for one in self.dialers)),
                policies=(PolicyEntry(pattern="#", settings=settings if self.limited else {}),),
            )
            return Blueprint(config=config)
        credit = lots.one_of((1, 5, 1_000))
        options = FetchOptions(credit=credit, credit_low=credit // 2, large_octets=LARGE_FROM)
        of_queues = self._pulled(name, options)
        federation = FederationEntry(
            name="f",
            policies=(_queues(f"{FETCHED}-{name}", of_queues), _addresses(f"{NEWS}-{name}", options)),
            remote=(_queues(f"{SENT}-{name}", of_queues), _addresses(f"{TOLD}-{name}", options)),
        )
        interval = lots.one_of((20, 100, 1_000)) * MILLISECOND
        entry = AmqpConnectionEntry(
            options=AmqpConnectionOptions(name=f"to-{HUB}", retry_interval=interval),
            places=(Endpoint("tcp", HUB, 5672),),
            federation=federation,
        )
        config = BrokerConfig(
            broker=BrokerSettings(name=name),
            queues=(_queue(f"{SENT}-{name}"), _queue(f"{FETCHED}-{name}"), _kept(f"{NEWS}-{name}")),
            amqp_connections=(entry,),
            policies=(PolicyEntry(pattern="#", settings={"max_deliveries": -1}),),
        )
        return Blueprint(config=config)

    def _pulled(self, name: str, options: FetchOptions) -> FetchOptions:
        """Return what holds for queues: in part of the runs they are pulled."""
        lots = Lots(f"{self.seed}/pulling/{name}")
        if not lots.chance(0.4):
            return options
        made = FetchOptions(credit=0, pull=lots.one_of((1, 3, 100)), large_octets=LARGE_FROM)
        self.ceilings |= {(name, f"{FETCHED}-{name}"): made.pull, (HUB, f"{SENT}-{name}"): 2 * made.pull}
        return made

    def _readers(self, name: str) -> list[tuple[str, str]]:
        return [
            (name, f"{FETCHED}-{name}"),
            (name, f"{NEWS}-{name}{KEPT}"),
            (HUB, f"{SENT}-{name}"),
            (HUB, f"{TOLD}-{name}{KEPT}"),
        ]

    def _ways(self, name: str) -> tuple[tuple[str, str, str], ...]:
        return (
            (name, f"{SENT}-{name}", f"{SENT}-{name}"),
            (name, f"{TOLD}-{name}", f"{TOLD}-{name}{KEPT}"),
            (HUB, f"{FETCHED}-{name}", f"{FETCHED}-{name}"),
            (HUB, f"{NEWS}-{name}", f"{NEWS}-{name}{KEPT}"),
        )

    def _routing(self, address: str) -> int:
        return MULTICAST if address.startswith((NEWS, TOLD)) else ANYCAST

    def _read(self, place: str, queue: str, prefetch: int) -> None:
        super()._read(place, queue, prefetch)
        if (place, queue) in self.ceilings:
            self.ceilings[place, queue] += prefetch

    def _begin(self) -> None:
        """Let the brokers meet until each address is read: what was sent before would be nobody's."""
        for _ in range(BEGIN_S_MAX):
            self.network.run(1_000)
            if self._fetching() == 2 * len(self.dialers):
                return
        self._fault(f"addresses are not fetched: {sorted(queue.name for queue in self._reading())}")

    def _mute(self, duration: int) -> None:
        """The hub answers always: credit that is swallowed is never granted again, and nobody waits for an answer."""

    def _fetching(self) -> int:
        """Return how many links fetch from addresses: their brokers were told that the queues are there."""
        sessions = [
            end.session
            for site in self.network.brokers.values()
            for end in site.ends
            if isinstance(end.session, AmqpServerSession) and not end.gone
        ]
        links = [link for one in sessions for each in one.channels.values() for link in each.links.values()]
        return sum(isinstance(link, AddressFetching) and link.credit > 0 for link in links)

    def _reading(self) -> list[Queue]:
        """Return the queues by which a broker reads an address of another one."""
        return [
            queue
            for site in self.network.sites.values()
            if site.broker is not None
            for queue in site.broker.table.queues.values()
            if queue.name.startswith("federation.")
        ]

    def _is_quiet(self) -> bool:
        return super()._is_quiet() and not self._unread()

    def _unread(self) -> list[str]:
        """Return what is not fetched as it is to be: queues and addresses that no broker reads, or more than one."""
        found: dict[str, int] = {}
        for name in self.dialers:
            found |= {f"{FETCHED}-{name} of {HUB}": 0, f"{SENT}-{name} of {name}": 0}
        for site in self.network.sites.values():
            for queue in () if site.broker is None else site.broker.table.queues.values():
                key = f"{queue.name} of {site.name}"
                if key in found or queue.name.startswith("federation."):
                    found[key] = len(queue.roster.consumers)
        return [f"{key}: {count}" for key, count in found.items() if count != 1]

    def _judge(self) -> None:
        super()._judge()
        if len(self._reading()) != 2 * len(self.dialers):
            self._fault(f"addresses are not fetched at the end: {sorted(queue.name for queue in self._reading())}")
        unread = self._unread()
        if unread:
            self._fault(f"read by none, or by several: {unread}")
        self._leave()

    def _leave(self) -> None:
        """Nobody reads queues any more: nothing is fetched for them, and what is sent stays where it is."""
        network = self.network
        for name in self.dialers:
            for site, queue in ((name, f"{FETCHED}-{name}"), (HUB, f"{SENT}-{name}")):
                network.sites[site].leave(f"queue://{queue}")
        for _ in range(LEAVE_S_MAX):
            network.run(1_000)
            read = self._read_for_nobody()
            if not read:
                return
        self._fault(f"read for somebody who has left: {read}")

    def _read_for_nobody(self) -> list[str]:
        found: list[str] = []
        for name in self.dialers:
            for site, queue in ((HUB, f"{FETCHED}-{name}"), (name, f"{SENT}-{name}")):
                broker = self.network.sites[site].broker
                held = None if broker is None else broker.table.queues.get(queue)
                if held is not None and held.roster.consumers:
                    found.append(f"{queue} of {site}")
        return found


def _queues(pattern: str, options: FetchOptions) -> FetchPolicy:
    policy = QueuePolicy(name=pattern, priorities=False, keeps=True, includes=(Match(address=pattern),))
    return FetchPolicy(queues=policy, options=options)


def _addresses(pattern: str, options: FetchOptions) -> FetchPolicy:
    policy = AddressPolicy(
        name=pattern,
        auto_delete=False,
        auto_delete_delay_ms=0,
        auto_delete_messages=0,
        includes=(Match(address=pattern),),
    )
    return FetchPolicy(addresses=policy, options=options)


def _queue(name: str) -> QueueDefinition:
    return QueueDefinition(name=name, address=name, routing=ANYCAST)


def _kept(address: str) -> QueueDefinition:
    """Return the queue of a subscriber who stays."""
    return QueueDefinition(name=f"{address}{KEPT}", address=address, routing=MULTICAST)
