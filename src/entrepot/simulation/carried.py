"""Core bridges among simulated brokers: one seed of a chain or a star, under faults, and what must hold in the end.

Every message is durable. What a producer was told is stored reaches the reader at the end of its way, with the body
that it had; and with duplicate detection it is stored there once. A message that comes twice because the broker of its
reader fell is no second message: it has the number that it had. So a repetition is one that was settled, and that on
disk, under two numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.bridge import CoreBridge
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.cluster.link import State, described
from entrepot.config.model import BrokerConfig, BrokerSettings, PolicyEntry
from entrepot.core.addressing.address_settings import Full
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.journal.log import Waiter
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.headers import properties_in
from entrepot.simulation.postings import LARGE_MAX, PIECE, Posted, post
from entrepot.simulation.sites import Blueprint, Confirmed, Site
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.trial import Trial
from entrepot.simulation.world import Lots

INTERVAL: Final = SECOND
HEALING_S_MAX: Final = 120
FULL: Final = 60_000  # octets of the address at the end of a way, where it has a limit
EVENTS_MAX: Final = 2_000_000


class Firm(Waiter):
    """Notes that a message is settled, on disk."""

    def __init__(self, network: Carried, identity: str, number: int) -> None:
        self.network = network
        self.identity = identity
        self.number = number

    def stored(self, token: bytes) -> None:
        """No crash takes it back."""
        self.network.firm.setdefault(self.identity, {})[self.number] = None

    def store_failed(self, token: bytes, error: Exception) -> None:
        """It may come again."""


class CarriedSite(Site):
    """A broker's machine with core bridges."""

    def switch_bridge(self, number: int, *, start: bool) -> None:
        """Stop or start the core bridge ``number``, as ``entrepot bridge`` does."""
        if self.broker is None or self.stopping:
            return
        made = self._running()
        core = made.core_connectors[number]
        if start and not core.started:
            self.turn(lambda: made.carry(core, self._perform, self.world.time))
        elif not start and core.started:
            self.turn(lambda: core.leave(self.world.time))


class Carried(Posted):
    """The ledger. ``firm``: what was settled -> under which numbers."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.firm: dict[str, dict[int, None]] = {}
        super().__init__(seed, blueprints, lines=lines)

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return CarriedSite(self, name, blueprint)

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        identity = self.identity_of(message)
        if any(name.startswith("_AMQ_BRIDGE") for name in properties_in(message.raw)):
            self.world.violation(f"{identity} shows what is between brokers")
        self.seen.setdefault(identity, []).append(site.name)
        self.world.note(f"consumed {identity} at {site.name} as {message.number}")
        assert site.broker is not None
        site.broker.journal.confirm(Firm(self, identity, int(message.number)), b"")

    def carriers(self) -> list[CoreBridge]:
        """Return the core bridges of the brokers that run."""
        return [
            bridge
            for site in self.sites.values()
            if site.broker is not None and site.made is not None
            for core in site.made.core_connectors
            for bridge in core.bridges.values()
        ]

    def check(self) -> None:
        """Ask the links for their invariants."""
        for bridge in self.carriers():
            if bridge.broker.options.name in self.touched:
                bridge.link.check()
        super().check()


class CarriedRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        lots = Lots(f"{seed}/carried")
        self.lots: Final = lots
        self.deduplicates: Final = lots.chance(0.8)
        self.names: Final = [chr(ord("a") + number) for number in range(lots.between(2, 4))]
        self.chain: Final = len(self.names) > 2 and lots.chance(0.5)
        self.limited: Final = lots.chance(0.3)
        self.wires: Final = (
            list(zip(self.names, self.names[1:], strict=False))
            if self.chain
            else [(name, self.names[0]) for name in self.names[1:]]
        )
        self.large: Final = lots.chance(0.4)
        blueprints = {name: self._blueprint(name) for name in self.names}
        self.network: Final = Carried(seed, blueprints, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        self.sent = 0

    def _blueprint(self, name: str) -> Blueprint:
        lots = self.lots
        bridges = []
        for near, far in self.wires:
            if near == name:
                window = lots.one_of((-1, PIECE, 10 << 20))
                options = CoreBridgeOptions(
                    name=f"to-{far}",
                    queue="Q",
                    forwards=lots.one_of(("", "Q")),
                    retry_interval=50 * MILLISECOND,
                    retry_interval_max=500 * MILLISECOND,
                    deduplicates=self.deduplicates,
                    confirmation_window=window,
                    producer_window=lots.one_of((-1, 4_000, 1 << 20)),
                    large_from=PIECE,
                    ttl=lots.one_of((3, 20)) * SECOND,
                    concurrency=lots.one_of((1, 1, 3)),
                )
                bridges.append(CoreBridgeEntry(options=options, places=(Endpoint("tcp", far, 61616),)))
        policies: tuple[PolicyEntry, ...] = ()
        if self.limited and not bridges:
            policies = (PolicyEntry(pattern="Q", settings={"max_octets": FULL, "full": Full.BLOCK}),)
        config = BrokerConfig(
            broker=BrokerSettings(name=name),
            queues=(QueueDefinition(name="Q", address="Q", routing=ANYCAST),),
            core_bridges=tuple(bridges),
            policies=policies,
        )
        return Blueprint(config=config, interval=INTERVAL)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        words = ["chain" if self.chain else "star", str(len(self.names)), "" if self.deduplicates else "doubling"]
        return " ".join(word for word in words if word)

    @property
    def end(self) -> str:
        """Where every way ends."""
        return self.names[-1] if self.chain else self.names[0]

    def _live(self) -> None:
        network = self.network.start()
        network.sites[self.end].read("queue://Q", prefetch=self.lots.one_of((1, 10, 1_000)))
        network.run(500)
        for _ in range(self.lots.between(15, 50)):
            self._step()
            network.run(self.lots.skewed(1, 600))
            network.explained()
        network.heal()
        for site in network.sites.values():
            self._switch(site, start=True)
        for _ in range(HEALING_S_MAX):
            network.run(1_000)
            if not self._missing() and self._is_quiet() and not self._kept():
                break
        self._judge()

    def _is_quiet(self) -> bool:
        return all(bridge.link.state is State.OPEN and not bridge.link.under_way for bridge in self.network.carriers())

    def _kept(self) -> dict[str, int]:
        """Return how many messages wait, by broker: repetitions, where ids are off, take the reader a while."""
        found: dict[str, int] = {}
        for site in self.network.sites.values():
            queue = None if site.broker is None else site.broker.table.queues.get("Q")
            if queue is not None and queue.count:
                found[site.name] = int(queue.count)
        return found

    def _missing(self) -> list[str]:
        return [identity for identity in self.network.accepted if identity not in self.network.seen]

    def _judge(self) -> None:
        network = self.network
        missing = self._missing()
        if missing:
            self._fault(f"{len(missing)} of {len(network.accepted)} never came: {missing[:5]}")
        if not self._is_quiet():
            self._fault(f"bridges do not come to rest: {[described(bridge.link) for bridge in network.carriers()]}")
        if not missing:
            for name, count in self._kept().items():
                self._fault(f"{name} keeps {count} messages")
        twice = [identity for identity, numbers in network.firm.items() if len(numbers) > 1]
        if twice and self.deduplicates:
            self._fault(f"{len(twice)} came twice: {twice[:5]}")

    # -- what happens --------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots, network = self.lots, self.network
        what = lots.below(24)
        near, far = lots.one_of(self.wires)
        if lots.chance(0.5):
            near, far = far, near
        if what < 12:
            self._send()
        elif what < 15:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 17:
            network.deafen(near, far)
        elif what < 18:
            network.slow(near, far)
        elif what < 20:
            network.heal()
        elif what < 21:
            self._switch(network.sites[near], start=lots.chance(0.5))
        elif what < 22:
            network.sites[lots.one_of(self.names)].stop()
        else:
            network.sites[lots.one_of(self.names)].crash(torn=lots.chance(0.5))
            if lots.chance(0.7):
                network.heal()

    def _switch(self, site: Site, *, start: bool) -> None:
        assert isinstance(site, CarriedSite)
        for number in range(len(site.blueprint.config.core_bridges)):
            site.switch_bridge(number, start=start)

    def _send(self) -> None:
        starts = [name for name in self.names if name != self.end]
        alive = [name for name in starts if self.network.sites[name].broker is not None]
        if not alive:
            return
        site = self.network.sites[self.lots.one_of(alive)]
        for _ in range(self.lots.between(1, 12)):
            identity = f"m{self.sent}"
            self.sent += 1
            octets = self.lots.between(1, LARGE_MAX) if self.large and self.lots.chance(0.15) else 0
            if octets:
                self.network.large[identity] = octets
            site.turn(partial(self._publish, site, identity, octets))

    def _publish(self, site: Site, identity: str, octets: int) -> None:
        broker = site.broker
        assert broker is not None
        post(broker, Destination("Q", ANYCAST), identity, octets)
        broker.journal.confirm(Confirmed(self.network, "queue://Q"), identity.encode())

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        bridges = network.carriers()
        return {
            "messages sent": self.sent,
            "messages confirmed": len(network.accepted),
            "messages consumed": sum(len(places) for places in network.seen.values()),
            "large messages sent": len(network.large),
            "brokers": len(network.sites),
            "connections of bridges": sum(bridge.link.counts.connections for bridge in bridges),
            "messages given back by bridges": sum(bridge.link.counts.requeued for bridge in bridges),
            "repetitions dropped": sum(
                int(site.broker.sending.repetitions.count) for site in network.sites.values() if site.broker is not None
            ),
            "events": network.world.events,
            f"carried: {'chain' if self.chain else 'star'}": 1,
        }
