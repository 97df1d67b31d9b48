"""One seed of a network: its plan is carried out under faults, everything heals, and the ledger is judged.

What must hold: nothing confirmed is lost; every message reaches a willing reader, or the plan says that it may stay and
it is somewhere with a reason; none runs in a circle where nothing lets it go back; none comes a second time unmarked
where no broker died and there is one way only.
"""

from __future__ import annotations

import traceback
from typing import Final

from entrepot.base.patterns import MIXED, matches
from entrepot.core.queue import Queue
from entrepot.protocols.openwire.ids import is_queue
from entrepot.simulation.network_plans import MOVING, VIRTUAL, Plan, Reading, draw
from entrepot.simulation.networks import Network, identity_of
from entrepot.simulation.sites import Site
from entrepot.simulation.world import Lots

SETTLING_MS: Final = 1_500  # every bridge is open and demand has gone round, also over nine hops
HEALING_MS: Final = 25_000  # below the 30 s after which OpenWire itself gives a silent connection up
CAME_TWICE_SHOWN: Final = 5
WALK_STEP: Final = 200
EVENTS_MAX: Final = 2_000_000  # ten brokers in a mesh of demand, each with supervision


class NetworkRun:
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False) -> None:
        self.lots: Final = Lots(f"{seed}/plan")
        self.plan: Final[Plan] = draw(self.lots)
        self.network: Final = Drawn(seed, self.plan, lines=lines)
        self.network.world.events_max = EVENTS_MAX
        self.sent = 0
        self.expected: dict[str, list[Reading]] = {}  # identity -> who must see it
        self.texts: dict[str, str] = {}  # identity -> where it was sent
        self.places: dict[str, str] = {reading.key: reading.site for reading in self.plan.readings}
        self.wrong: list[str] = []

    def run(self) -> list[str]:
        """Return what went wrong."""
        try:
            self._live()
        except Exception as error:  # a fault of the product or of the simulation: either is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._fault(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
        return self.wrong

    def _fault(self, text: str) -> None:
        self.wrong.append(f"{self.plan.title}: {text}")
        self.network.world.note(f"WRONG {text}")

    def _live(self) -> None:
        network = self.network.start()
        for reading in self.plan.readings:
            if not reading.late:
                self._seat(reading, reading.site)
        network.run(SETTLING_MS)
        for _ in range(self.lots.between(10, 40)):
            self._step()
            network.run(self.lots.skewed(1, 600))
            network.explained()
        network.heal()
        network.run(2_000)
        for reading in self.plan.readings:
            if reading.late:
                self._seat(reading, reading.site)
        for _ in range(HEALING_MS // 1000):
            network.run(1000)
            if network.is_open() and not self._missing():
                break
        network.explained()
        self._judge()

    # -- what happens --------------------------------------------------------------------------------------------------

    def _seat(self, reading: Reading, name: str) -> None:
        selector = f"colour = '{reading.colour}'" if reading.colour else ""
        self.places[reading.key] = name
        self.network.sites[name].read(
            reading.text, key=reading.key, durable=reading.durable, prefetch=reading.prefetch, selector=selector
        )

    def _step(self) -> None:
        lots, network = self.lots, self.network
        what = lots.below(24)
        near, far = lots.one_of(self.plan.wires)
        if lots.chance(0.5):
            near, far = far, near
        if what < 13:
            self._send()
        elif what < 16:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 17:
            network.deafen(near, far)
        elif what < 18:
            network.slow(near, far)
        elif what < 20:
            network.heal()
        elif what < 21:
            self._move()
        else:
            network.crashed = True
            network.sites[lots.one_of(list(network.sites))].crash(torn=lots.chance(0.5))
            if lots.chance(0.7):
                network.heal()

    def _send(self) -> None:
        alive = [name for name in self.plan.producers if self.network.sites[name].broker is not None]
        if not alive:
            return
        site = self.network.sites[self.lots.one_of(alive)]
        for _ in range(self.lots.between(1, 12)):
            reading = self.lots.one_of(self.plan.readings)
            identity = f"m{self.sent}"
            self.sent += 1
            text = self.lots.one_of(reading.targets)
            colours = {"colour": reading.colour} if reading.colour else None
            wanted = [one for one in self.plan.readings if text in one.targets and one.colour == reading.colour]
            if text == f"topic://{VIRTUAL}" and not self._has(site, reading):
                wanted = []  # nobody's queue was known here yet: as with any topic
            self.expected[identity] = wanted
            self.texts[identity] = text
            site.send(text, identity, properties=colours)

    def _has(self, site: Site, reading: Reading) -> bool:
        return site.broker is not None and reading.text.partition("://")[2] in site.broker.table.queues

    def _move(self) -> None:
        for reading in self.plan.readings:
            if reading.mover:
                self.network.sites[self.places[reading.key]].leave(reading.key)
                self._seat(reading, self.lots.one_of(self.plan.producers))

    # -- what must hold ------------------------------------------------------------------------------------------------

    def _missing(self) -> list[tuple[str, Reading]]:
        """Return what was confirmed and has not reached somebody who must see it."""
        found = []
        for identity, text in self.network.accepted.items():
            for reading in self.expected[identity]:
                if text.startswith("topic") and reading.durable:
                    key = (reading.site, reading.key)
                    if identity not in self.network.kept.get(key, {}):
                        found.append((identity, reading))
                elif identity not in self.network.seen:
                    found.append((identity, reading))
        return found

    def _judge(self) -> None:
        missing = self._missing()
        if not self.network.is_open():
            shut = [bridge.link.name for bridge in self.network.dialled() if bridge.link.state.name != "OPEN"]
            self._fault(f"bridges stay down: {shut}")
        if missing:
            where = self._whereabouts()
            lost = [
                identity
                for identity, reading in missing
                if identity not in where and (self._must_arrive(reading) or not self._is_topic(identity))
            ]
            if lost:
                self._fault(f"{len(lost)} of {len(self.network.accepted)} lost: {lost[:5]}")
            stuck = [
                f"{identity} for {reading.text} in {' '.join(f'{site.name}:{name}' for site, name in where[identity])}"
                for identity, reading in missing
                if identity in where and self._must_arrive(reading) and not self._has_no_way_on(where[identity])
            ]
            if stuck:
                self._fault(f"{len(stuck)} of {len(self.network.accepted)} stuck: {stuck[:3]}")
        twice = [identity for identity in self.network.unmarked if not self._is_copied(identity)]
        if twice and not self.network.crashed and not self.plan.cyclic:
            self._fault(f"came twice unmarked: {twice[:CAME_TWICE_SHOWN]}")

    def _is_topic(self, identity: str) -> bool:
        """Return whether it was sent to a topic: without demand that is nowhere, and rightly so."""
        return self.texts[identity].startswith("topic")

    def _is_copied(self, identity: str) -> bool:
        """Return whether each reader of a topic is sent a copy, and sees those of others too (classic.md 1.7)."""
        return self._is_topic(identity) and any(
            not connector.options.conduit_subscriptions
            for blueprint in self.plan.blueprints.values()
            for connector in blueprint.config.networks
        )

    def _has_no_way_on(self, places: list[tuple[Site, str]]) -> bool:
        """Return whether a way on is suppressed (``suppressDuplicateQueueSubscriptions``, 1.9), here or further on.

        It came from where the way that is left leads to, and nothing lets it go back: as in Classic it stays.
        """
        if self.plan.replay or not self.plan.cyclic:
            return False
        return all(any(_suppresses(site, name) for site in self.network.sites.values()) for _, name in places)

    def _must_arrive(self, reading: Reading) -> bool:
        return not any(text.partition("://")[2] in self.plan.may_stay for text in reading.targets)

    def _whereabouts(self) -> dict[str, list[tuple[Site, str]]]:
        """Return for each message that is in a queue, waiting or under way, the queues that it is in."""
        found: dict[str, list[tuple[Site, str]]] = {}
        for site in self.network.sites.values():
            assert site.broker is not None
            for queue in site.broker.table.queues.values():
                for identity in _identities(queue):
                    found.setdefault(identity, []).append((site, queue.name))
        return found

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        found = {
            "messages sent": self.sent,
            "messages confirmed": len(network.accepted),
            "messages consumed": sum(len(places) for places in network.seen.values()),
            "hops": sum(hops * count for hops, count in network.hops.items()),
            "brokers": len(network.sites),
            "connections of bridges": sum(bridge.link.counts.connections for bridge in network.dialled()),
            "messages given back by bridges": sum(bridge.link.counts.requeued for bridge in network.dialled()),
            "events": network.world.events,
            f"networks: {self.plan.shape}": 1,
        }
        if any(reading.text.endswith(MOVING) for reading in self.plan.readings):
            found["networks whose reader moves"] = 1
        return found


class Drawn(Network):
    """The network of a plan: with a replay filter a message may come to a broker twice."""

    def __init__(self, seed: int, plan: Plan, *, lines: bool = False) -> None:
        self.replay = plan.replay
        super().__init__(seed, plan.blueprints, lines=lines)

    def start(self) -> Drawn:
        """Start every broker."""
        super().start()
        return self

    def circled(self, site: Site, body: str, path: list[str]) -> None:
        """Allow it where the plan has a replay filter."""
        if not self.replay:
            super().circled(site, body, path)


def _suppresses(site: Site, queue: str) -> bool:
    assert site.neighbourhood is not None
    return any(
        is_queue(demand.where) and matches(demand.name, queue, MIXED)
        for demand in site.neighbourhood.interests.suppressed
    )


def _identities(queue: Queue) -> list[str]:
    found = [reference.message for consumer in queue.roster.consumers for reference in consumer.in_flight.values()]
    found += [reference.message for reference in queue.delayed.values()]
    walk = queue.walk()
    while not walk.done:
        found += [one.message for one in walk.step(WALK_STEP)]
    return [identity_of(message) for message in found]
