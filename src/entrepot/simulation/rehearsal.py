"""A user's own network, from its configurations: load on named destinations, brokers killed, and what came of it.

The brokers are the real cores, made as a node makes them; time, disks and cables are simulated. The same
configurations, load and seed are the same run, to the last octet: `Outcome.trace` is the hash of all that happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from entrepot.cluster.networks.outlook import across
from entrepot.core.operators.explaining import explained
from entrepot.simulation.networks import Network
from entrepot.simulation.sites import Blueprint, SiteCensus
from entrepot.simulation.world import Lots

SETTLING_MS: Final = 5_000  # bridges open, and demand goes round
STEP_MS_MAX: Final = 500
DOWN_MS: Final = 2_000
HEALING_MS: Final = 120_000  # the longest wait between two attempts to connect is 30 s as ActiveMQ is shipped
EVENTS_MAX: Final = 5_000_000


class Load(Struct, frozen=True):
    """What is done with ``destination``, like ``queue://orders``: sent at some brokers, read at others."""

    destination: str
    senders: tuple[str, ...]
    readers: tuple[str, ...]


class Arrival(Struct, frozen=True):
    """What came of one destination. ``places``: broker -> messages that were settled there."""

    destination: str
    sent: int
    confirmed: int
    arrived: int
    twice: int
    places: dict[str, int]


class Stuck(Struct, frozen=True):
    """Messages that wait when all is over, and why."""

    broker: str
    queue: str
    messages: int
    reasons: tuple[str, ...]


class Outcome(Struct, frozen=True):
    """What one seed came to. ``hops``: brokers crossed -> deliveries; ``down``: bridges."""

    seed: int
    trace: str
    arrivals: tuple[Arrival, ...]
    stuck: tuple[Stuck, ...]
    hops: dict[int, int]
    down: tuple[str, ...]
    faults: tuple[str, ...]


def rehearse(
    seed: int, blueprints: Mapping[str, Blueprint], loads: Sequence[Load], *, messages: int, kill: Sequence[str] = ()
) -> Outcome:
    """Run the network once: ``messages`` from every sender, each broker of ``kill`` dies once on the way."""
    network = Network(seed, blueprints)
    network.world.events_max = EVENTS_MAX
    lots = Lots(f"{seed}/rehearsal")
    sent: dict[str, str] = {}
    faults: list[str] = []
    try:
        _live(network.start(), lots, loads, messages, kill, sent)
    except AssertionError as error:
        faults.append(str(error))
    return Outcome(
        seed=seed,
        trace=network.world.digest(),
        arrivals=tuple(_arrival(network, load.destination, sent) for load in loads),
        stuck=tuple(_stuck(network, loads)),
        hops=dict(sorted(network.hops.items())),
        down=tuple(bridge.link.name for bridge in network.dialled() if bridge.link.state.name != "OPEN"),
        faults=tuple(faults),
    )


def _live(
    network: Network, lots: Lots, loads: Sequence[Load], messages: int, kill: Sequence[str], sent: dict[str, str]
) -> None:
    for load in loads:
        for name in load.readers:
            network.sites[name].read(load.destination)
    network.run(SETTLING_MS)
    jobs = [(load, name) for load in loads for name in load.senders for _ in range(messages)]
    deaths = sorted((lots.below(max(1, len(jobs))), name) for name in kill)
    for number in range(len(jobs)):
        while deaths and deaths[0][0] <= number:
            _, name = deaths.pop(0)
            network.sites[name].crash(torn=lots.chance(0.5))
            network.run(DOWN_MS)
            network.heal()
        load, name = jobs.pop(lots.below(len(jobs)))
        sent[f"m{number}"] = load.destination
        network.sites[name].send(load.destination, f"m{number}")
        network.run(lots.skewed(1, STEP_MS_MAX))
    for _ in range(HEALING_MS // 1000):
        network.run(1000)
        if network.is_open() and all(identity in network.seen for identity in network.accepted):
            return


def _arrival(network: Network, destination: str, sent: Mapping[str, str]) -> Arrival:
    mine = [identity for identity, text in sent.items() if text == destination]
    places: dict[str, int] = {}
    for identity in mine:
        for place in network.seen.get(identity, ()):
            places[place] = places.get(place, 0) + 1
    return Arrival(
        destination=destination,
        sent=len(mine),
        confirmed=sum(1 for identity in mine if identity in network.accepted),
        arrived=sum(1 for identity in mine if identity in network.seen),
        twice=sum(1 for identity in network.unmarked if sent.get(identity) == destination),
        places=dict(sorted(places.items())),
    )


def _stuck(network: Network, loads: Sequence[Load]) -> list[Stuck]:
    found: list[Stuck] = []
    for load in loads:
        told: list[dict[str, Any]] = [
            explained(site.broker, SiteCensus(site), load.destination)
            for site in network.sites.values()
            if site.broker is not None
        ]
        beyond = across(told)
        for answer in told:
            for queue in answer["queues"]:
                if queue["waiting"]:
                    reasons = [reason["text"] for reason in queue["reasons"]]
                    reasons += [str(one["text"]) for one in beyond if one["broker"] == answer["broker"]]
                    found.append(Stuck(answer["broker"], queue["queue"], queue["waiting"], tuple(reasons)))
    return found
