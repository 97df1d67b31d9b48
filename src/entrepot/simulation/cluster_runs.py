"""One seed of a cluster of two to eight nodes, under faults, and what must hold in the end.

What is judged once all is healed and readers stay: every message that was confirmed was settled wherever it was
promised; with duplicate detection nothing was settled twice; what nodes know of each other's consumers is so; nothing
waits for another node any more, and nothing goes on moving. A queue's message may be read at any node; a subscription's
by whoever reads that subscription, at any node.

Where nodes agree about groups, and no queue goes for good, all of a group is read at one node, what was sent to one
node in its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.link import State, described
from entrepot.config.model import BrokerConfig, BrokerSettings, PolicyEntry
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.simulation.cluster_plans import BLUE, DURABLE, GROUP, RED, Draft
from entrepot.simulation.clusters import Clustered, ClusteredSite
from entrepot.simulation.postings import LARGE_MAX, post
from entrepot.simulation.sites import Blueprint, Confirmed, Site
from entrepot.simulation.trial import Trial
from entrepot.simulation.world import Lots

INTERVAL: Final = SECOND
HEALING_S_MAX: Final = 150
RESTING_S: Final = 3  # so long nothing moves before a cluster is said to be at rest
EVENTS_MAX: Final = 3_000_000
COLOURS: Final = ("red", "blue")
READERS: Final = ("", "", RED, BLUE)


class ClusterRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, chains: bool = False, groups: bool = False, lines: bool = False) -> None:
        lots = Lots(f"{seed}/clusters{' of groups' if groups else ''}")
        self._begin(seed, lots, Draft(lots, chains=chains, groups=groups), lines=lines)

    def _begin(self, seed: int, lots: Lots, draft: Draft, *, lines: bool) -> None:
        self.lots = lots
        self.draft = draft
        self.switches = Lots(f"{seed}/switches")  # of its own: other seeds remain the worlds that they were
        self.switching = self.switches.chance(0.2) and not draft.groups  # a group moves when its queue is gone
        self.switched = 0
        blueprints = {name: self._blueprint(name) for name in draft.names}
        self.network = self._ledger(seed, blueprints, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        self.wishes = ("",) if draft.groups else READERS  # of a group its owner gets all, whatever he wants
        self.sent = 0
        self.moved = 0
        self.readers = 0

    def _blueprint(self, name: str) -> Blueprint:
        draft = self.draft
        settings: dict[str, object] = {"redistribution_delay": draft.delay} if draft.delay >= 0 else {}
        config = BrokerConfig(
            broker=BrokerSettings(name=name),
            queues=(QueueDefinition(name="Q", address="Q", routing=ANYCAST),) if draft.has_queue(name) else (),
            policies=(PolicyEntry(pattern="#", settings=settings),) if settings else (),
            peering=draft.peering(name),
        )
        return Blueprint(config=config, interval=INTERVAL)

    def _ledger(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool) -> Clustered:
        return Clustered(seed, blueprints, lines=lines)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        return self.draft.title

    def _live(self) -> None:
        network = self.network
        network.start()
        network.run(200)
        for name in self.draft.names:  # a subscription that is on several nodes has one name there
            for number in range(self.draft.durables):
                if self.lots.chance(0.6):
                    self._subscribe(self._site(name), f"{DURABLE}{number}", 10)
        network.run(1_000)
        for _ in range(self.lots.between(15, 60)):
            self._step()
            network.run(self.lots.skewed(1, 800))
            network.inspect()
        self._settle()
        self._judge()

    def _settle(self) -> None:
        """End every fault, seat the readers of the end, and wait until all that can come came."""
        network = self.network
        network.heal()
        for site in network.sites.values():
            site.disk.sync_delay_max = 2 * MILLISECOND
        network.run(100)
        network.heal()
        for site in network.sites.values():
            self._switch(site, on=True)
        before = {site.name: list(site.readers) for site in network.sites.values()}
        for name, selector in self.draft.last_readers(self.lots):
            prefetch = self.lots.one_of((1, 10, 1_000))
            self._site(name).read("queue://Q", prefetch=prefetch, key="last", selector=selector)
        for name in self.draft.names:
            for number in range(self.draft.durables):
                self._subscribe(self._site(name), f"{DURABLE}{number}", 10)
        network.run(self.lots.one_of((1, 50, 500)))
        for site in network.sites.values():
            for key in before[site.name]:
                if key not in self._durables(site):
                    site.leave(key)
        still, moved = 0, -1
        for _ in range(HEALING_S_MAX):
            network.run(1_000)
            network.inspect()
            forwarded = self._forwarded()
            still = still + 1 if self._is_quiet() and not self._waiting() and forwarded == moved else 0
            moved = forwarded
            if still >= RESTING_S and not (network.missing() or network.misjudged() or self._unknown()):
                return

    def _forwarded(self) -> int:
        return sum(bridge.link.counts.forwarded for bridge in self.network.carriers())

    def _durables(self, site: Site) -> list[str]:
        return [key for key, reader in site.readers.items() if reader.durable_name]

    def _is_quiet(self) -> bool:
        carriers = self.network.carriers()
        return all(one.link.state is State.OPEN and not one.link.under_way for one in carriers)

    def _waiting(self) -> dict[str, dict[str, int]]:
        found = {}
        for site in self.network.sites.values():
            assert isinstance(site, ClusteredSite)
            stores = site.stores()
            if stores:
                found[site.name] = stores
        return found

    def _judge(self) -> None:
        network = self.network
        missing = network.missing()
        if missing:
            self._fault(f"{len(missing)} of {len(network.accepted)} never came: {missing[:5]}, {self._whereabouts()}")
        if not self._is_quiet():
            found = [described(one.link) for one in network.carriers() if one.link.state is not State.OPEN]
            self._fault(f"the ways do not come to rest: {found}")
        for name, stores in self._waiting().items():
            self._fault(f"{name} keeps messages for other nodes: {stores}")
        before = self._forwarded()
        network.run(RESTING_S * 1_000)
        if self._forwarded() != before and not missing:
            self._fault(f"{self._forwarded() - before} messages go round though all came")
        for what in [*network.misjudged(), *self._unknown()]:
            self._fault(what)
        if self.draft.groups and self.draft.firm:
            for what in [*network.torn(), *network.overtaken()]:
                self._fault(f"the group {what}")
        twice = self._twice()
        if twice and (self.draft.deduplicates or not self.draft.disturbed):
            self._fault(f"{len(twice)} came twice: {twice[:5]}")

    def _twice(self) -> list[str]:
        return [f"{key} {list(places)}" for key, places in self.network.firm.items() if len(places) > 1]

    def _unknown(self) -> list[str]:
        """Return the queues that a node does not know of one that it is connected to."""
        found: list[str] = []
        for near in self.network.sites.values():
            for far in [self._site(name) for name in self.draft.met_by(near.name)]:
                assert near.made is not None
                assert far.broker is not None
                known = {one.cluster_name for one in near.made.clusters[0].registry.all()}
                for queue in far.broker.table.queues.values():
                    own = queue.name.startswith("$") or queue.address.startswith(("activemq.", *self.draft.alone))
                    if not own and queue.name + far.broker.ids.node.uuid_text not in known:
                        found.append(f"{near.name} does not know {queue.name} at {far.name}")
        return found

    def _whereabouts(self) -> dict[str, dict[str, int]]:
        return {
            site.name: {queue.name: int(queue.count) for queue in site.broker.table.queues.values() if queue.count}
            for site in self.network.sites.values()
            if site.broker is not None
        }

    # -- what happens --------------------------------------------------------------------------------------------------

    def _site(self, name: str) -> Site:
        return self.network.sites[name]

    def _step(self) -> None:
        lots, draft = self.lots, self.draft
        if self.switching and self.switches.chance(0.2):
            self._switch(self._site(self.switches.one_of(draft.names)), on=self.switches.chance(0.5))
        what = lots.below(32)
        if what < 12:
            self._send()
        elif what >= 30 and not draft.firm:
            self._renew(self._site(lots.one_of(draft.names)))
        elif what < 21:
            self._come_or_go()
        elif draft.calm:
            return
        else:
            draft.disturbed = True
            self._disturb(9 if draft.rough and lots.chance(0.5) else what - 21)

    def _switch(self, site: Site, *, on: bool) -> None:
        """The operator starts or stops the cluster connection of a node."""
        if site.made is None or site.broker is None or site.stopping:
            return
        for cluster in site.made.clusters:
            if cluster.started is not on:
                self.switched += 1
                self.draft.disturbed = True  # what is on the way when it begins anew is said again
                site.turn(cluster.resume if on else cluster.suspend)

    def _disturb(self, what: int) -> None:
        lots, network, firm = self.lots, self.network, self.draft.firm
        near, far = lots.one_of(self.draft.pairs)
        if what < 2:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 3:
            network.deafen(near, far)
        elif what < 4:
            network.slow(near, far)
        elif what < 5:
            self._site(near).disk.sync_delay_max = lots.one_of((2, 50, 400)) * MILLISECOND
        elif what < 7:
            network.heal()
        elif what < 8 and not firm:
            self._site(lots.one_of(self.draft.names)).stop()
        else:
            self._site(lots.one_of(self.draft.names)).crash(torn=lots.chance(0.5))
            if lots.chance(0.7):
                network.heal()

    def _come_or_go(self) -> None:
        lots = self.lots
        site = self._site(lots.one_of(self._visited()))
        keys = list(site.readers)
        if keys and lots.chance(0.5):
            key = lots.one_of(keys)
            reader = site.readers[key]
            site.leave(key)
            if lots.chance(0.3):  # it blinks
                again = partial(self._back, site, reader.text, key, reader.durable_name, reader.condition)
                self.network.world.later(lots.skewed(1, 300) * MILLISECOND, again)
            return
        self.readers += 1
        prefetch = lots.one_of((1, 10, 1_000))
        if lots.chance(0.7):
            site.read("queue://Q", prefetch=prefetch, key=f"q{self.readers}", selector=lots.one_of(self.wishes))
        elif lots.chance(0.5):
            site.read("topic://T", prefetch=prefetch, key=f"t{self.readers}", selector=lots.one_of(self.wishes))
        elif self.draft.durables:
            self._subscribe(site, f"{DURABLE}{lots.below(self.draft.durables)}", prefetch)

    def _visited(self) -> list[str]:
        """Return the nodes where readers come and go."""
        return self.draft.names

    def _subscribe(self, site: Site, name: str, prefetch: int) -> None:
        if name not in site.readers:
            site.read("topic://T", durable=name, prefetch=prefetch, key=name)

    def _renew(self, site: Site) -> None:
        """Delete the queue if it is empty, perhaps make it anew: what is on the way comes for one that is gone."""
        broker = site.broker
        queue = None if broker is None else broker.table.queues.get("Q")
        if broker is None or queue is None or queue.count or queue.roster.is_read():
            return

        anew = self.lots.chance(0.5)

        def act() -> None:
            broker.queues.delete(queue, "an operator wants a new one")
            if anew:
                broker.queues.need(Destination("Q", ANYCAST))

        site.turn(act)

    def _back(self, site: Site, text: str, key: str, durable: str, selector: str) -> None:
        if key not in site.readers:
            site.read(text, durable=durable, key=key, selector=selector)

    def _send(self) -> None:
        lots = self.lots
        alive = [name for name in self.draft.starts if self._site(name).broker is not None]
        if not alive:
            return
        site = self._site(lots.one_of(alive))
        for _ in range(lots.between(1, 15)):
            identity = f"m{self.sent}"
            self.sent += 1
            octets = lots.between(1, LARGE_MAX) if self.draft.large and lots.chance(0.1) else 0
            if octets:
                self.network.large[identity] = octets
            group = f"g{lots.below(3)}" if lots.chance(self.draft.grouped) else ""
            where = "Q" if lots.chance(0.7) or not self.draft.topics else "T"
            if group and self.draft.groups:
                self.network.groups[identity] = (group, site.name)
            site.turn(partial(self._publish, site, identity, octets, where, lots.one_of(COLOURS), group))

    def _publish(self, site: Site, identity: str, octets: int, where: str, colour: str, group: str) -> None:
        broker = site.broker
        assert broker is not None
        destination = Destination(where, ANYCAST if where == "Q" else MULTICAST)
        self.network.wanted[identity] = ("Q",) if where == "Q" else self._promised(broker, where)
        properties: dict[str, object] = {"colour": colour}
        if group:
            properties[GROUP] = group
        post(broker, destination, identity, octets, properties)
        broker.journal.confirm(Confirmed(self.network, where), identity.encode())

    def _promised(self, broker: BrokerCore, address: str) -> tuple[str, ...]:
        """Return the durable subscriptions that the node knows, its own and those of others."""
        known = broker.table.addresses.get(address)
        names = [] if known is None else list(known.multicasts)
        found = [name.rpartition(".")[2] for name in names if DURABLE in name]
        return tuple(name for name in found if not self.network.unsure.get(name))

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        bridges = network.carriers()
        return {
            "messages sent": self.sent,
            "messages confirmed": len(network.accepted),
            "messages settled": len(network.came),
            "large messages sent": len(network.large),
            "nodes": len(network.sites),
            "cluster connections stopped or started": self.switched,
            "messages that crossed (last connections)": sum(bridge.link.counts.forwarded for bridge in bridges),
            "repetitions dropped": sum(
                int(site.broker.sending.repetitions.count) for site in network.sites.values() if site.broker is not None
            ),
            "events": network.world.events,
            f"clusters: {self.draft.shape}": 1,
            f"balancing: {self.draft.balancing}": 1,
        }
