"""A network of brokers in one thread, from one seed: sites, the cables between them, faults, and a ledger.

The ledger knows what was confirmed to a producer and what a reader settled, over which brokers it came and whether it
came twice. What must hold is judged after every event (`check`, `consumed`) and, once all is healed, by whoever runs
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.cluster.link import State
from entrepot.cluster.networks.bridge import Bridge
from entrepot.core.operators.explain import UNEXPLAINED, explain
from entrepot.model.message import Message
from entrepot.protocols.openwire.bodies import text_of_body
from entrepot.protocols.openwire.commands import ActiveMQTextMessage
from entrepot.protocols.openwire.convert import decode
from entrepot.simulation.cables import End, Machine
from entrepot.simulation.sites import CABLE_MAX, CABLE_MIN, Blueprint, Site, SiteCensus
from entrepot.simulation.subscribers import Reader
from entrepot.simulation.world import Lots, World

SLOW_FACTOR: Final = 100  # what a slow link multiplies delays by


class Network:
    """Sites by name. ``accepted``: identity of each confirmed message -> its destination."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.world = World(seed, lines=lines)
        self.lots: Lots = self.world.lots("network")
        self.cables: list[tuple[str, str, End, End]] = []
        self.cuts: dict[tuple[str, str], None] = {}
        self.accepted: dict[str, str] = {}
        self.seen: dict[str, list[str]] = {}  # identity -> the sites where it was settled
        self.kept: dict[tuple[str, str], dict[str, int]] = {}  # site and reader -> identity -> how often
        self.hops: dict[int, int] = {}  # brokers crossed -> messages
        self.unmarked: list[str] = []
        self.marked: dict[str, None] = {}  # came as one that may have come before, at least once
        self.crashed = False
        self.touched: dict[str, None] = {}  # sites that did something since the last check
        self.octets = 0  # that were sent from one broker to another
        self.sites: dict[str, Site] = {name: self.site(name, plan) for name, plan in blueprints.items()}
        self.world.after = self.check

    def site(self, name: str, blueprint: Blueprint) -> Site:
        """Return a new site."""
        return Site(self, name, blueprint)

    def start(self) -> Network:
        """Start every broker."""
        for site in self.sites.values():
            site.boot()
        return self

    def run(self, ms: int) -> None:
        """Let ``ms`` of virtual time pass. Raises AssertionError when a promise is broken."""
        self.world.run(self.world.time + ms * MILLISECOND)
        assert not self.world.violations, self.world.violations

    def check(self) -> None:
        """Ask the bridges for their invariants, where something happened."""
        for name in self.touched:
            for bridge in self.sites[name].bridges():
                bridge.check()
        self.touched.clear()

    # -- the ledger ----------------------------------------------------------------------------------------------------

    def carried(self, octets: int) -> None:
        """Octets leave a machine on a cable."""
        self.octets += octets

    def confirmed(self, identity: str, text: str) -> None:
        """A producer was told that its message is safe."""
        self.world.note(f"confirmed {identity}")
        self.accepted[identity] = text

    def consumed(self, site: Site, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""
        command = decode(message.raw)
        body = identity_of(message)
        path = [one.value or "" for one in command.broker_path or ()]
        if len(path) != len(set(path)) or (site.broker is not None and site.broker.ids.node_id in path):
            self.circled(site, body, path)
        self.arrived(body, path)
        mine = self.kept.setdefault((site.name, reader.key), {})
        again = body in mine if reader.text.startswith("topic") else body in self.seen
        if deliveries > 0 or message.redelivered:
            self.marked[body] = None
        elif again:
            self.unmarked.append(body)
        mine[body] = mine.get(body, 0) + 1
        self.seen.setdefault(body, []).append(site.name)
        self.hops[len(path)] = self.hops.get(len(path), 0) + 1
        self.world.note(f"consumed {body} at {site.name} over {len(path)}")

    def arrived(self, body: str, path: list[str]) -> None:
        """A message reached a reader through the brokers of ``path``."""

    def circled(self, site: Site, body: str, path: list[str]) -> None:
        """A message came through a broker twice: never, unless a replay filter lets it go back."""
        self.world.violation(f"{body} went in a circle: {path} to {site.name}")

    def explained(self) -> None:
        """Assert that every message that waits has a reason, whatever is broken at this moment."""
        for site in self.sites.values():
            broker = site.broker
            if broker is None:
                continue
            for queue in list(broker.table.queues.values()):
                said = explain(broker, queue, SiteCensus(site))
                held_back = [reason for reason in said.reasons if reason.messages]
                wrong = [reason.text for reason in said.reasons if reason.code == UNEXPLAINED]
                assert not wrong, f"{site.name}: {queue.name}: {wrong}"
                assert held_back or not said.waiting, (
                    f"{site.name}: {said.waiting} messages wait in {queue.name} unexplained"
                )

    # -- cables and faults ---------------------------------------------------------------------------------------------

    def lay(self, near: Machine, far: Machine) -> tuple[End, End]:
        """Return the two ends of a new cable."""
        delay = self.lots.skewed(CABLE_MIN, CABLE_MAX)
        one, other = near.end(delay), far.end(delay)
        one.other, other.other = other, one
        self.cables.append((near.name, far.name, one, other))
        return one, other

    def is_cut(self, one: str, other: str) -> bool:
        """Return whether nothing can be dialled between two sites."""
        return (one, other) in self.cuts or (other, one) in self.cuts

    def cut(self, one: str, other: str, *, silent: bool = False) -> None:
        """Break what joins two sites. ``silent``: nobody is told, octets just vanish."""
        self.world.note(f"cut {one} {other} silent={silent}")
        self.cuts[(one, other)] = None
        for near, far in self._between(one, other):
            near.deaf = far.deaf = True
            if not silent:
                near.lose()
                far.lose()
        self.cables = [cable for cable in self.cables if not (cable[2].gone and cable[3].gone)]

    def mend(self, one: str, other: str) -> None:
        """End what `cut` did between two sites: they may dial again."""
        self.cuts.pop((one, other), None)
        self.cuts.pop((other, one), None)

    def deafen(self, one: str, other: str) -> None:
        """Let nothing more that ``one`` writes arrive at ``other`` on what is open now: half-open connections."""
        self.world.note(f"deafen {one} {other}")
        for near_name, far_name, near, far in self.cables:
            if (near_name, far_name) == (one, other):
                near.deaf = True
            elif (near_name, far_name) == (other, one):
                far.deaf = True

    def slow(self, one: str, other: str) -> None:
        """Make what joins two sites slow, as long as these connections last."""
        self.world.note(f"slow {one} {other}")
        for near, far in self._between(one, other):
            near.delay = min(near.delay * SLOW_FACTOR, SLOW_FACTOR * MILLISECOND)
            far.delay = near.delay

    def _between(self, one: str, other: str) -> list[tuple[End, End]]:
        return [(near, far) for a, b, near, far in self.cables if (a, b) in ((one, other), (other, one))]

    def heal(self) -> None:
        """End every cut and start every broker that is down."""
        self.cuts.clear()
        for site in self.sites.values():
            site.boot()

    def dialled(self) -> list[Bridge]:
        """Return the bridges that the running brokers dial."""
        return [
            bridge
            for site in self.sites.values()
            if site.broker is not None
            for connector in site.connectors
            for bridge in connector.bridges.values()
        ]

    def is_open(self) -> bool:
        """Return whether every bridge that somebody dials is open."""
        return all(bridge.link.state is State.OPEN for bridge in self.dialled())


def identity_of(message: Message) -> str:
    """Return what a site's `send` called ``message``; "" for one that it did not send."""
    command = decode(message.raw)
    return (text_of_body(command) if isinstance(command, ActiveMQTextMessage) else None) or ""
