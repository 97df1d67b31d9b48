"""Large bodies over OpenWire in parts, between two brokers, under faults: whole or not at all, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from librt.strings import BytesWriter

from bridge_bugs import patched
from bridged import Network, Site
from entrepot.base.compiled import is_compiled
from entrepot.base.environment import MILLISECOND
from entrepot.journal.overflow import STRETCH
from entrepot.model.address import parse
from entrepot.model.message import Message
from entrepot.protocols.openwire.large import StreamedBody
from entrepot.protocols.outflow import Outflow, Outflows
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.simulation.world import Lots

SEEDS = 6
SEEDS_MAX = 10
HEALING_S = 20
EVENTS_MAX = 2_000  # ten times what these take: a body that is never whole goes again and again
Q = "queue://Q"


def body_of(number: int, octets: int) -> str:
    """Return a text in which no two stretches are alike."""
    return f"{number}:" + "".join(f"{at:08x}" for at in range(octets // 8))


def store(site: Site, text: str) -> None:
    """Send what a client of STOMP streamed to disk."""
    broker = site.broker
    assert broker is not None
    overflow = broker.journal.overflow
    blob = broker.ids.next_number()
    overflow.create(blob)
    overflow.write(blob, text.encode())
    overflow.seal(blob)
    message = Message(STOMP_LANGUAGE, "Q", b"\n")
    message.body_at = 1
    message.durable = True
    rare = message.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = blob, len(text), True
    broker.send(message, broker.target(parse(Q)))
    overflow.release(blob)


def crowd(network: Network, site: Site, pause: int) -> None:
    """Let the sockets of ``site`` take nothing for ``pause`` ns. Within the turn in which a body was begun."""
    ends = [end for a, b, one, other in network.cables for name, end in ((a, one), (b, other)) if name == site.name]
    for end in ends:
        if end.session is not None and not end.gone:
            end.session.writable(False, network.world.time)

    def relieve() -> None:
        for end in ends:
            if end.session is not None and not end.gone:
                end.session.writable(True, network.world.time)
                end.dirty()

    network.world.later(pause, lambda: site.turn(relieve))


def run(seed: int) -> list[str]:
    """Return what went wrong with ``seed``."""
    try:
        return wrong_in(seed)
    except AssertionError as error:  # of the world: it is never quiet
        return [str(error)]


def wrong_in(seed: int) -> list[str]:
    """Let large and small bodies cross a duplex bridge one way, and small ones come back; return what is amiss."""
    lots = Lots(f"{seed}/streams")
    network = Network(seed, [("A", "B")], duplex=True).start()
    network.world.events_max = EVENTS_MAX
    network.run(300)
    near, far = ("A", "B") if lots.chance(0.5) else ("B", "A")  # whose end dialled, or accepted
    network.sites[far].read(Q, prefetch=lots.one_of((1, 10)))
    network.sites[near].read("queue://BACK")
    network.run(300)
    expected: dict[str, None] = {}
    for number in range(lots.between(3, 6)):
        if lots.chance(0.6):
            text = body_of(number, lots.between(2 * STRETCH, 4 * STRETCH))
            pause = lots.between(0, 50) * MILLISECOND

            def act(text: str = text, pause: int = pause) -> None:
                store(network.sites[near], text)
                crowd(network, network.sites[near], pause)

            network.sites[near].turn(act)
        else:
            text = f"small {number}"
            network.sites[near].send(Q, text)
        expected[text] = None
        back = f"back {number}"
        network.sites[far].send("queue://BACK", back)
        expected[back] = None
        if lots.chance(0.3):
            network.slow("A", "B")
        network.run(lots.skewed(1, 100))
        if lots.chance(0.25):
            network.cut("A", "B", silent=lots.chance(0.3))
            network.run(lots.skewed(1, 500))
            network.heal()
    network.heal()
    for _ in range(HEALING_S):
        network.run(1_000)
        if len(network.seen) == len(expected):
            break
    network.run(1_000)
    found = [f"{text[:20]}... of {len(text)} is nothing that was sent" for text in network.seen if text not in expected]
    found += [f"{text[:20]} is lost or stuck" for text in expected if text not in network.seen]
    for name, site in network.sites.items():
        if site.disk.blobs():
            found.append(f"bodies that nobody needs are still on the disk of {name}")
        found += [f"{bridge.link.name} is owed answers" for bridge in site.bridges() if bridge.link.under_way]
    return found


def skips_a_stretch(genuine: Callable[[StreamedBody], bytes]) -> Any:
    def piece(self: StreamedBody) -> bytes:
        if not self.ahead:  # the chain is resumed
            self.body.at += STRETCH
            self.body.left -= STRETCH
        return genuine(self)

    return piece


def says_a_stretch_twice(genuine: Callable[[StreamedBody], bytes]) -> Any:
    def piece(self: StreamedBody) -> bytes:
        first = bool(self.ahead)
        octets = genuine(self)
        if first:
            self.ahead = octets
        return octets

    return piece


def loses_what_waits(genuine: Callable[[Outflows, BytesWriter], Outflow | None]) -> Any:
    def flow(self: Outflows, writer: BytesWriter) -> Outflow | None:
        gone = genuine(self, writer)
        if gone is None and self.current is not None:
            self.current.after = BytesWriter()
            self.out = self.current.after
        return gone

    return flow


BUGS: dict[str, tuple[type, str, Callable[[Any], Any]]] = {
    "a stretch is skipped where the chain goes on": (StreamedBody, "piece", skips_a_stretch),
    "a stretch goes twice where the chain goes on": (StreamedBody, "piece", says_a_stretch_twice),
    "what waits behind a body is lost": (Outflows, "flow", loses_what_waits),
}


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_large_bodies_cross_whole_and_nothing_is_lost(seed: int) -> None:
    assert run(seed) == []


@pytest.mark.skipif(is_compiled(), reason="native callers do not see a replaced method: planted in the plain build")
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    owner, name, make = BUGS[bug]
    with patched(owner, name, make):
        found = next((seed for seed in range(1, SEEDS_MAX + 1) if run(seed)), 0)
    assert found, f"{SEEDS_MAX} seeds did not find: {bug}"
    assert run(found) == [], f"seed {found} fails without the bug too"
