"""Simulated brokers that are nodes of one cluster: their machines, and the ledger of what was promised there.

`cluster_runs.py` draws what happens and judges it. A message has an identity that its producer gave; on every node it
has a number of its own. One that comes again because the broker of its reader fell has the number that it had: so what
came twice was settled, on disk, at two places or under two numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.cluster.carrying.bridge import CoreBridge
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.clusters.contact import Contact
from entrepot.cluster.clusters.contact import Effect as ContactEffect
from entrepot.cluster.clusters.draining import Drain
from entrepot.core.addressing.binding import STORE_PREFIX
from entrepot.core.broker import BrokerCore
from entrepot.journal.log import Waiter
from entrepot.model.message import Message
from entrepot.protocols.artemis.convert import ROUTES
from entrepot.protocols.artemis.headers import properties_in
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.failover import Dial, Drop
from entrepot.simulation.cables import End
from entrepot.simulation.postings import Promised
from entrepot.simulation.sites import Blueprint, Site
from entrepot.simulation.subscribers import Reader

CLIENT: Final = "shared"  # the client id of every durable subscriber: one name on two nodes is one subscription
TOPIC: Final = "topic"


class Sure(Waiter):
    """Notes that a durable subscription is on disk: before that nobody was told that there is one."""

    def __init__(self, unsure: dict[str, dict[str, None]], name: str, site: str) -> None:
        self.unsure = unsure
        self.name = name
        self.site = site

    def stored(self, token: bytes) -> None:
        """It survives every crash."""
        self.unsure.get(self.name, {}).pop(self.site, None)

    def store_failed(self, token: bytes, error: Exception) -> None:
        """It may be gone after the next one."""


Caller = Contact | Drain  # who dials, and hears what becomes of it


class ClusteredSite(Site):
    """The machine of one node."""

    def __init__(self, network: Clustered, name: str, blueprint: Blueprint) -> None:
        super().__init__(network, name, blueprint)
        self.client_id = CLIENT
        self.ledger = network
        self.meetings: dict[tuple[Caller, int], End] = {}

    def _connect(self) -> None:
        super()._connect()
        made = self._running()
        for cluster in made.clusters:
            cluster.start(self._meet, self._begin_way)
        if made.draining is not None:
            made.draining.connect(self._meet, self._begin_way)

    def _begin_way(self, way: CoreConnector) -> None:
        self._running().carry_more(way, self._perform, self.world.time)

    def _seat(self, reader: Reader) -> None:
        super()._seat(reader)
        broker = self.broker
        if reader.durable_name and broker is not None:
            unsure = self.ledger.unsure
            unsure.setdefault(reader.durable_name, {})[self.name] = None
            self.turn(lambda: broker.journal.confirm(Sure(unsure, reader.durable_name, self.name), b""))

    def crash(self, *, torn: bool) -> None:
        """The process dies, or the machine."""
        self.meetings.clear()
        super().crash(torn=torn)

    def _close(self, broker: BrokerCore) -> None:
        """Hang up, then the rest: `Node._close` has this order."""
        if self.broker is broker:
            for cluster in self._running().clusters:
                self.turn(cluster.stop)
        super()._close(broker)

    def _meet(self, contact: Caller, effects: list[ContactEffect]) -> None:
        broker = self.broker
        for effect in effects:
            if isinstance(effect, Dial):
                self.world.later(MILLISECOND, partial(self._call_soon, broker, contact, effect))
            elif isinstance(effect, Drop):
                end = self.meetings.pop((contact, effect.attempt), None)
                if end is not None and end.session is not None and not end.gone:
                    end.session.shut("dropped", self.world.time)
                    end.dirty()

    def _call_soon(self, broker: BrokerCore | None, contact: Caller, dial: Dial) -> None:
        if self.broker is broker:
            self.turn(lambda: self._call(contact, dial))

    def _call(self, contact: Caller, dial: Dial) -> None:
        target = self.network.sites.get(dial.place.host)
        if target is None or target.broker is None or target.stopping or self.network.is_cut(self.name, target.name):
            contact.failed(dial.attempt, "nobody answers")
            return
        near, far = self.network.lay(self, target)
        self.ends.append(near)
        self.meetings[(contact, dial.attempt)] = near
        near.session = contact.open(near, dial.attempt)

        def accept() -> None:
            target.ends.append(far)
            far.session = target._running().greet_core(far, CoreOptions(), self.name)

        self.world.later(0, lambda: target.turn(accept))

    def stores(self) -> dict[str, int]:
        """Return what waits for other nodes, by queue."""
        broker = self.broker
        queues = [] if broker is None else list(broker.table.queues.values())
        return {one.name: int(one.count) for one in queues if one.name.startswith(STORE_PREFIX) and one.count}


class Clustered(Promised):
    """The ledger: of a topic the subscriptions must get a message, of a queue that one, at whichever node."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.groups: dict[str, tuple[str, str]] = {}  # message -> its group, and where it was sent
        self.order: dict[tuple[str, str], list[str]] = {}  # of those that came, for the first time, from a queue
        self.unsure: dict[str, dict[str, None]] = {}  # durable subscription -> the sites where it may not be on disk
        super().__init__(seed, blueprints, lines=lines)

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return ClusteredSite(self, name, blueprint)

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        identity = self.identity_of(message)
        if any(name.startswith(("_AMQ_BRIDGE", ROUTES)) for name in properties_in(message.raw)):
            self.world.violation(f"{identity} shows what is between nodes")
        if reader.text.startswith(TOPIC):
            what = reader.durable_name or f"{site.name} {reader.key}"
        else:
            what = reader.text.rpartition("/")[2]
        key = f"{identity} {what}"
        if key not in self.came and identity in self.groups and not reader.text.startswith(TOPIC):
            self.order.setdefault(self.groups[identity], []).append(identity)
        self.fulfil(site, key, message)

    def torn(self) -> list[str]:
        """Return the groups of which messages of the queue were read at several nodes."""
        places: dict[str, dict[str, None]] = {}
        for key, where in self.firm.items():
            identity, _, what = key.partition(" ")
            if identity in self.groups and what == "Q":
                group = places.setdefault(self.groups[identity][0], {})
                group.update(dict.fromkeys(one.split()[0] for one in where))
        return [f"{group} at {', '.join(where)}" for group, where in places.items() if len(where) > 1]

    def overtaken(self) -> list[str]:
        """Return where a message of a group overtook one that was sent before it, at the same node."""
        found: list[str] = []
        for (group, site), came in self.order.items():
            numbers = [int(identity[1:]) for identity in came]
            late = [now for before, now in pairwise(numbers) if now < before]
            if late:
                found.append(f"{group} of {site}: m{late[0]} came late, of {came[:40]}")
        return found

    def carriers(self) -> list[CoreBridge]:
        """Return the ways among the nodes that run."""
        return [
            bridge
            for site in self.sites.values()
            if site.broker is not None and site.made is not None
            for core in site.made.core_connectors
            for bridge in core.bridges.values()
        ]

    def misjudged(self) -> list[str]:
        """Return where a node counts other consumers of another node's queue than there are. All are connected."""
        sites = {site.broker.ids.node.uuid_text: site for site in self.sites.values() if site.broker is not None}
        found: list[str] = []
        for site in self.sites.values():
            clusters = [] if site.made is None else site.made.clusters
            for binding in [one for cluster in clusters for one in cluster.registry.all()]:
                far = sites[binding.node]
                assert far.broker is not None
                queue = far.broker.table.queues.get(binding.queue_name)
                there = -1 if queue is None else queue.roster.readers()
                if there != binding.count:
                    what = f"{binding.queue_name} at {far.name}"
                    found.append(f"{site.name} counts {binding.count} readers of {what}, there are {there}")
        return found

    def check(self) -> None:
        """Ask the links of who did something for their invariants."""
        for bridge in self.carriers():
            if bridge.broker.options.name in self.touched:
                bridge.link.check()
        super().check()

    def inspect(self) -> None:
        """Ask every queue for its invariants: now and then, for that takes a while."""
        for site in self.sites.values():
            if site.broker is not None:
                for queue in site.broker.table.queues.values():
                    queue.check()
