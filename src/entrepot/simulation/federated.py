"""Federations among simulated brokers: one seed of two to four of them, under faults, and what must hold in the end.

Every message is durable. What a producer was told is stored is settled by one reader, if it was sent to a queue, and by
each subscription that the federations lead to, if to an address: once, on disk, under one number. Nothing stays
anywhere. And who wants nothing any more fetches nothing: consumers at upstreams end with the last reader, and upstreams
that were deployed with the connection that brought them, whatever became of it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.options import FederationEntries
from entrepot.cluster.federation.policies import Wish
from entrepot.cluster.federation.reader import State as Reading
from entrepot.cluster.fetching import Fetcher
from entrepot.cluster.link import State
from entrepot.config.model import BrokerConfig, BrokerSettings
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.simulation.federation_plans import ADDRESS, QUEUE, SUBSCRIPTION, FederationDraft
from entrepot.simulation.postings import LARGE_MAX, Promised, post
from entrepot.simulation.sites import Blueprint, Confirmed, Site
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.trial import Trial
from entrepot.simulation.world import Lots

INTERVAL: Final = SECOND
HEALING_S_MAX: Final = 150
FOUNDING_S_MAX: Final = 30  # so long a calm network may take until all is fetched that is wanted
RESTING_S: Final = 3
EVENTS_MAX: Final = 3_000_000
LAST: Final = "last"


class FederatedSite(Site):
    """A broker's machine with federations."""

    def _connect(self) -> None:
        super()._connect()
        made = self._running()
        made.federations.begin = self._fetch
        for fetcher in made.fetchers:
            self._fetch(fetcher)

    def _fetch(self, fetcher: Fetcher) -> None:
        self._running().fetch(fetcher, self._perform, self.world.time)

    def switch(self, number: int, *, start: bool) -> None:
        """Stop or start the upstream or downstream ``number`` of the file, as ``entrepot bridge`` does."""
        if self.broker is None or self.stopping:
            return
        one = self._running().federations.heard()[number]
        if start and not one.started:
            self.turn(lambda: self._fetch(one))
        elif not start and one.started:
            self.turn(lambda: one.leave(self.world.time))

    def reload(self, entries: FederationEntries) -> None:
        """The file says ``entries`` now: to a broker that runs (`Links.follow`), and to one that starts."""
        config = replace(self.blueprint.config, federations=entries)
        self.blueprint = replace(self.blueprint, config=config)
        if self.broker is None or self.stopping:
            return
        made = self._running()
        made.follow(config, self.turn)
        self.turn(partial(self._federate, entries))

    def _federate(self, entries: FederationEntries) -> None:
        for one in self._running().federations.follow(entries, self.world.time):
            self._fetch(one)

    def sources(self) -> list[FederationConnector]:
        """Return the upstreams of a broker that runs, of its file and deployed."""
        return [] if self.broker is None or self.made is None else self.made.federations.sources()

    def fetchers(self) -> list[Fetcher]:
        """Return all that a running broker dials for its federations."""
        return [] if self.broker is None or self.made is None else self.made.federations.fetchers()

    def consumers_of_others(self) -> list[str]:
        """Return the queues here that federations of other brokers read."""
        queues = [] if self.broker is None else list(self.broker.table.queues.values())
        return [
            queue.name
            for queue in queues
            for consumer in queue.roster.consumers
            if consumer.subscriber.kind == INCOMING_BRIDGE
        ]


class Federated(Promised):
    """The ledger."""

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return FederatedSite(self, name, blueprint)

    @property
    def brokers(self) -> dict[str, FederatedSite]:
        """Return the sites, as what they are."""
        return {name: site for name, site in self.sites.items() if isinstance(site, FederatedSite)}

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        what = f"{SUBSCRIPTION} of {site.name}" if reader.durable_name else QUEUE
        self.fulfil(site, f"{self.identity_of(message)} {what}", message)

    def check(self) -> None:
        """Ask the links of who did something for their invariants."""
        for name in self.touched:
            for one in self.brokers[name].sources():
                if one.peer is not None:
                    one.peer.link.check()
        super().check()


class FederatedRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        self.lots: Final = Lots(f"{seed}/federation")
        self.draft: Final = FederationDraft(self.lots)
        blueprints = {name: self._blueprint(name) for name in self.draft.names}
        self.network: Final = Federated(seed, blueprints, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        self.sent = 0
        self.readers = 0
        self.reloads = 0
        self.disturbed = False

    def _blueprint(self, name: str) -> Blueprint:
        draft = self.draft
        config = BrokerConfig(
            broker=BrokerSettings(name=name),
            queues=(QueueDefinition(name=QUEUE, address=QUEUE, routing=ANYCAST),) if draft.defined[name] else (),
            federations=draft.entries(name),
        )
        return Blueprint(config=config, interval=INTERVAL)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        return self.draft.title

    def _live(self) -> None:
        network = self.network
        network.start()
        for name in self.draft.subscribed:
            prefetch = self.lots.one_of((1, 10, 1_000))
            network.brokers[name].read(f"topic://{ADDRESS}", durable=SUBSCRIPTION, prefetch=prefetch)
        self._found()
        for _ in range(self.lots.between(15, 60)):
            self._step()
            network.run(self.lots.skewed(1, 800))
        self._settle()
        self._judge()
        self._leave()

    def _found(self) -> None:
        """Let every queue be made that upstreams keep for others: what is sent from now on must be in them."""
        for _ in range(FOUNDING_S_MAX):
            self.network.run(1_000)
            if self._is_fetched():
                return
        self._fault(f"what is wanted is not fetched: {self._fetched()}")

    def _is_fetched(self) -> bool:
        """Return whether every link is open and every wish has its reader, of the address exactly as the plan says."""
        if self._ends_open():
            return False
        fetched = self._fetched()
        return all(fetched.get((one.near, one.far), False) is self._wants(one.near) for one in self.draft.fetchings)

    def _wants(self, near: str) -> bool:
        return self.draft.addresses and self.draft.wants_address(near)

    def _ends_open(self) -> list[str]:
        """Return what is not as it should be: links that are not open, readers that do not read."""
        found: list[str] = []
        for site in self.network.brokers.values():
            for fetcher in site.fetchers():
                report = fetcher.report(self.world.time)
                if report["state"] != State.OPEN.value:
                    found.append(f"{site.name} {fetcher.name}: {report['state']}")
            for source in site.sources():
                readers = [] if source.upstream is None else source.upstream.everyone()
                idle = [one for one in readers if one.state is not Reading.READING and self._is_there(source, one.wish)]
                found += [f"{site.name} {one.wish.queue}: {one.state.value} {one.why}" for one in idle]
        return found

    def _is_there(self, source: FederationConnector, wish: Wish) -> bool:
        """Return whether there is at the upstream what ``wish`` is about, or it may be made."""
        far = self.network.brokers[source.entry.places[0].host].broker
        return wish.policy is not None or (far is not None and wish.queue in far.table.queues)

    def _fetched(self) -> dict[tuple[str, str], bool]:
        """Return who fetches from whom, and whether the address is among that."""
        found: dict[tuple[str, str], bool] = {}
        for site in self.network.brokers.values():
            for source in site.sources():
                if source.upstream is not None and source.started:
                    wishes = source.upstream.demand.wishes.values()
                    found[site.name, source.entry.places[0].host] = any(one.address == ADDRESS for one in wishes)
        return found

    # -- the end -------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """End every fault, seat the readers of the end, and wait until all that can come came."""
        network = self.network
        network.heal()
        for site in network.brokers.values():
            site.disk.sync_delay_max = 2 * MILLISECOND
        network.run(2_500)  # who stops in order starts again within so long
        network.heal()
        for site in network.brokers.values():
            site.reload(self.draft.entries(site.name))
            for number in range(len(site.made.federations.heard()) if site.made is not None else 0):
                site.switch(number, start=True)
        for site in network.brokers.values():
            for key in [one for one, reader in site.readers.items() if not reader.durable_name]:
                site.leave(key)
        if self.draft.queues:
            for name in self.draft.last_readers(self.lots):
                network.brokers[name].read(f"queue://{QUEUE}", prefetch=self.lots.one_of((1, 10, 1_000)), key=LAST)
        still = 0
        for _ in range(HEALING_S_MAX):
            network.run(1_000)
            still = still + 1 if self._is_fetched() and not self._kept() else 0
            if still >= RESTING_S and not network.missing():
                return

    def _kept(self) -> dict[str, dict[str, int]]:
        """Return how many messages wait, by broker and queue."""
        found: dict[str, dict[str, int]] = {}
        for site in self.network.brokers.values():
            queues = [] if site.broker is None else list(site.broker.table.queues.values())
            kept = {queue.name: int(queue.count) for queue in queues if queue.count}
            if kept:
                found[site.name] = kept
        return found

    def _judge(self) -> None:
        network = self.network
        missing = network.missing()
        if missing:
            self._fault(f"{len(missing)} of {len(network.accepted)} never came: {missing[:5]}, {self._kept()}")
        if not self._is_fetched():
            self._fault(f"federations do not come to rest: {self._ends_open()} {self._fetched()}")
        if not missing and self._kept():
            self._fault(f"messages stay: {self._kept()}")
        twice = [f"{key} {list(places)}" for key, places in network.firm.items() if self._is_twice(key, places)]
        if twice:
            self._fault(f"{len(twice)} came twice: {twice[:5]}")
        strange = [key for key in network.came if key.partition(" ")[2] not in network.wanted[key.partition(" ")[0]]]
        if strange:
            self._fault(f"{len(strange)} went where no policy leads: {strange[:5]}")
        before = self._brought()
        network.run(RESTING_S * 1_000)
        if self._brought() != before and not missing:
            self._fault(f"{self._brought() - before} messages go round though all came")
        deployed = {name: len(site.made.federations.deployed) for name, site in network.brokers.items() if site.made}
        for name, count in deployed.items():
            wanted = sum(one.near == name and one.deployed for one in self.draft.fetchings)
            if count != wanted:
                self._fault(f"{count} upstreams are deployed to {name}, not {wanted}")

    def _is_twice(self, key: str, places: dict[str, None]) -> bool:
        """Return whether what was settled at ``places`` came twice, with nothing that excuses it."""
        excused = self.disturbed and not self.draft.firm and key.endswith(f" {QUEUE}")
        if len(places) > 1 and excused:
            self.world.count("came twice, to two takers")
        return len(places) > 1 and not excused

    def _brought(self) -> int:
        """Return how many messages came over upstreams."""
        reports = [one.report(self.world.time) for site in self.network.brokers.values() for one in site.sources()]
        return sum(int(str(report.get("received", 0))) for report in reports)

    def _leave(self) -> None:
        """Let every reader of queues leave, then say no federation any more: what each was there for ends."""
        for site in self.network.brokers.values():
            if LAST in site.readers:
                site.leave(LAST)
        self.network.run(RESTING_S * 1_000)
        for site in self.network.brokers.values():
            if QUEUE in site.consumers_of_others():
                self._fault(f"{QUEUE} of {site.name} is read by a federation that nobody wants anything of")
        for site in self.network.brokers.values():
            site.reload(FederationEntries())
        self.network.run(RESTING_S * 1_000)
        for site in self.network.brokers.values():
            names = [one.name for one in site.sources()]
            if names:
                self._fault(f"{site.name} fetches, though no file says so any more: {names}")
            if site.consumers_of_others():
                self._fault(f"{site.consumers_of_others()} of {site.name} are read, though no file says so any more")

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots, draft, network = self.lots, self.draft, self.network
        what = lots.below(32)
        if what < 12:
            self._send()
        elif what < 20:
            self._come_or_go()
        elif draft.calm:
            return
        elif what < 22:
            self.disturbed = True
            one = lots.one_of(draft.fetchings)
            self.reloads += 1
            without = one.upstream if lots.chance(0.4) else ""
            network.brokers[one.keeper].reload(draft.entries(one.keeper, without, lots.one_of((0, 0, -2))))
        elif what < 23:
            self.disturbed = True
            self._switch(network.brokers[lots.one_of(draft.fetchings).keeper])
        else:
            self.disturbed = True
            self._disturb(what - 23)

    def _switch(self, site: FederatedSite) -> None:
        said = site.blueprint.config.federations
        count = len(said.upstreams) + len(said.downstreams)
        if count:
            site.switch(self.lots.below(count), start=self.lots.chance(0.5))

    def _disturb(self, what: int) -> None:
        lots, network = self.lots, self.network
        one = lots.one_of(self.draft.fetchings)
        near, far = (one.near, one.far) if lots.chance(0.5) else (one.far, one.near)
        if what < 2:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 3:
            network.deafen(near, far)
        elif what < 4:
            network.slow(near, far)
        elif what < 5:
            network.brokers[near].disk.sync_delay_max = lots.one_of((2, 50, 400)) * MILLISECOND
        elif what < 6:
            network.heal()
        elif what < 7:
            network.brokers[near].stop()
        else:
            network.brokers[near].crash(torn=lots.chance(0.6))
            if lots.chance(0.7):
                network.heal()

    def _come_or_go(self) -> None:
        if not self.draft.queues:
            return
        lots = self.lots
        site = self.network.brokers[lots.one_of(self.draft.visited)]
        keys = [key for key, reader in site.readers.items() if not reader.durable_name]
        if keys and lots.chance(0.4):
            site.leave(lots.one_of(keys))
            return
        self.readers += 1
        site.read(f"queue://{QUEUE}", prefetch=lots.one_of((1, 10, 1_000)), key=f"q{self.readers}")

    def _send(self) -> None:
        lots, draft = self.lots, self.draft
        alive = [name for name in draft.names if self.network.brokers[name].broker is not None]
        if not alive:
            return
        site = self.network.brokers[lots.one_of(alive)]
        for _ in range(lots.between(1, 12)):
            identity = f"m{self.sent}"
            self.sent += 1
            octets = lots.between(1, LARGE_MAX) if draft.large and lots.chance(0.15) else 0
            if octets:
                self.network.large[identity] = octets
            topic = draft.addresses and (not draft.queues or lots.chance(0.5))
            site.turn(partial(self._publish, site, identity, octets, topic=topic))

    def _publish(self, site: Site, identity: str, octets: int, *, topic: bool) -> None:
        broker = site.broker
        assert broker is not None
        reached = tuple(f"{SUBSCRIPTION} of {name}" for name in self.draft.reached(site.name)) if topic else (QUEUE,)
        self.network.wanted[identity] = reached
        where = Destination(ADDRESS, MULTICAST) if topic else Destination(QUEUE, ANYCAST)
        post(broker, where, identity, octets)
        broker.journal.confirm(Confirmed(self.network, where.name), identity.encode())

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        return {
            "messages sent": self.sent,
            "messages confirmed": len(network.accepted),
            "messages settled": len(network.came),
            "large messages sent": len(network.large),
            "brokers": len(network.brokers),
            "files read anew": self.reloads,
            "messages that came over upstreams (last connections)": self._brought(),
            "repetitions dropped": sum(
                int(site.broker.sending.repetitions.count)
                for site in network.brokers.values()
                if site.broker is not None
            ),
            **network.world.counts,
            "events": network.world.events,
            f"federation: {self.draft.shape}": 1,
        }
