"""A model of demand forwarding: what becomes of what is produced in a network of brokers. Arithmetic, no Spark.

- What is produced for a *queue* at a broker is shared by its own consumers, and by one bridge for each neighbour behind
  which there are consumers. A bridge counts as ``weight`` consumers for each broker behind it that has some, however
  many: 1 when it stands in the row with them, 0 when it only gets what they cannot take (it has a lower priority). What
  comes over a bridge is shared in the same way by the broker behind it, but never goes where it has been, and crosses
  at most ``reach`` bridges.
- Nobody gets more than he can take; what is too much for one goes to the others; what is too much for all waits.
- Of what is published to a *topic* every subscriber gets a copy, and one copy goes over each bridge behind which there
  are subscribers.

Rates are messages a second. Topics stand beside queues under their names with ``/topic/`` in front.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from entrepot.base.errors import InvalidOption

FOLLOW: Final = "follow"
GONE: Final = "gone"
CLIENTS: Final = (FOLLOW, GONE)
WEIGHT_UNKNOWN: Final = 1.0
MARGIN: Final = 0.7  # of what its consumers have shown that they can take, a queue should need at most so much
LEAST: Final = 1e-9
TOPIC: Final = "/topic/"
WAYS_MAX: Final = 10_000  # of one queue from one broker: a full mesh of seven that everything may cross


class Place:
    """One queue or topic at one broker. ``capacity``: of one consumer, 0 when none was seen."""

    def __init__(self, produced: float = 0.0, consumers: float = 0.0, capacity: float = 0.0) -> None:
        self.produced = produced
        self.consumers = consumers
        self.capacity = capacity


class Way:
    """From the broker of a message to that of a consumer, with ``weight`` of all that is produced there."""

    def __init__(self, brokers: tuple[str, ...], weight: float) -> None:
        self.brokers: Final = brokers
        self.weight: Final = weight

    @property
    def end(self) -> str:
        """Where it is consumed."""
        return self.brokers[-1]


class Network:
    """What was measured. ``edges``: (from, to) of every bridge; ``forwarded``: (from, to, queue) -> rate.

    ``wanted``: (from, to, queue) of every bridge that asked for a queue. ``reach``: how many bridges a message crosses
    at most.
    """

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self.edges: set[tuple[str, str]] = set()
        self.places: dict[tuple[str, str], Place] = {}
        self.forwarded: dict[tuple[str, str, str], float] = {}
        self.wanted: set[tuple[str, str, str]] = set()
        self.reach = 1
        self.seconds = 0.0
        self.weight = WEIGHT_UNKNOWN
        self.weight_measured = False

    @property
    def queues(self) -> list[str]:
        """Return every queue and topic."""
        return sorted({queue for _, queue in self.places})

    def place(self, broker: str, queue: str) -> Place:
        """Return a place, made when there is none."""
        return self.places.setdefault((broker, queue), Place())

    def consumers(self, broker: str, queue: str) -> float:
        """Return how many consumers ``queue`` has at ``broker``."""
        found = self.places.get((broker, queue))
        return 0.0 if found is None or found.consumers <= LEAST else found.consumers

    def capacity(self, queue: str) -> float:
        """Return what one consumer of ``queue`` takes: the best that any of them showed."""
        return max((place.capacity for (_, name), place in self.places.items() if name == queue), default=0.0)

    def demand(self, queue: str, path: Sequence[str]) -> dict[str, int]:
        """Return the neighbours of the last broker of ``path`` where a message that came this way may go on.

        With each, how many brokers with consumers it can reach there: each of them has asked, over those between.
        """
        left = self.reach - len(path)
        if left < 0:
            return {}
        found = {there: self._behind(queue, (*path, there), left) for there in self._beyond(path)}
        return {there: count for there, count in found.items() if count}

    def distance(self, queue: str, path: Sequence[str]) -> int:
        """Return how many bridges are between the last broker of ``path`` and consumers, -1 for none that count."""
        seen = dict.fromkeys(path)
        near = [path[-1]]
        for steps in range(len(self.brokers)):
            if any(self.consumers(broker, queue) for broker in near):
                return steps
            near = [there for here in near for there in self._beyond([here]) if there not in seen]
            seen.update(dict.fromkeys(near))
        return -1

    def _behind(self, queue: str, path: tuple[str, ...], left: int) -> int:
        """Return how many brokers with consumers are at most ``left`` bridges from the end of ``path``, with itself."""
        seen = dict.fromkeys(path)
        near = [path[-1]]
        count = 0
        for _ in range(left + 1):
            count += sum(1 for broker in near if self.consumers(broker, queue))
            near = list(dict.fromkeys(there for here in near for there in self._beyond([here]) if there not in seen))
            seen.update(dict.fromkeys(near))
        return count

    def _beyond(self, path: Sequence[str]) -> list[str]:
        return sorted(there for here, there in self.edges if here == path[-1] and there not in path)

    def find_reach(self) -> None:
        """Take from what bridges asked for how far demand reaches: a broker asks for what those behind it ask for."""
        ways = [1 + max(0, self.distance(queue, (here, there))) for here, there, queue in self.wanted]
        self.reach = max(ways, default=1)

    def weigh(self) -> None:
        """Find out as how many consumers a bridge counts, where bridges and consumers of a queue stand in one row."""
        shares: list[tuple[float, float]] = []
        for (broker, queue), place in self.places.items():
            came = {here: rate for (here, *rest), rate in self.forwarded.items() if rest == [broker, queue]}
            inflow = place.produced + sum(came.values())
            if queue.startswith(TOPIC) or place.consumers <= LEAST or inflow <= LEAST:
                continue
            links = place.produced * sum(self.demand(queue, (broker,)).values())
            links += sum(rate * sum(self.demand(queue, (here, broker)).values()) for here, rate in came.items())
            links /= inflow
            if links > LEAST:
                crossed = sum(r for (here, _, name), r in self.forwarded.items() if (here, name) == (broker, queue))
                share = min(crossed / inflow, 0.99)
                shares.append((inflow, share * place.consumers / (links * (1 - share))))
        everything = sum(inflow for inflow, _ in shares)
        if everything > 0:
            self.weight = sum(inflow * weight for inflow, weight in shares) / everything
            self.weight_measured = True

    def changed(self, times: float, without: str | None, clients: str) -> Network:
        """Return this network with ``times`` the load and without a broker, whose clients go elsewhere or are gone."""
        rest = [broker for broker in self.brokers if broker != without]
        if not rest:
            raise InvalidOption("nothing is left of the network without its only broker")
        made = Network(rest)
        made.edges = {edge for edge in self.edges if without not in edge}
        made.weight, made.weight_measured, made.seconds = self.weight, self.weight_measured, self.seconds
        made.reach = self.reach
        for (broker, queue), place in self.places.items():
            homes = [broker] if broker != without else (rest if clients == FOLLOW else [])
            for home in homes:
                there = made.place(home, queue)
                there.produced += place.produced * times / len(homes)
                there.consumers += place.consumers / len(homes)
                there.capacity = max(there.capacity, place.capacity)
        return made


class Prediction:
    """What the model says of a network."""

    def __init__(self, network: Network) -> None:
        self.network: Final = network
        self.forwarded: Final[dict[tuple[str, str, str], float]] = {}
        self.consumed: Final[dict[tuple[str, str], float]] = {}
        self.waiting: Final[dict[tuple[str, str], float]] = {}  # grows by so many a second
        self.stranded: Final[dict[tuple[str, str], float]] = {}  # no consumer is in reach

    def edge(self, here: str, there: str) -> float:
        """Return what crosses from ``here`` to ``there``, a second."""
        return sum(rate for (a, b, _), rate in self.forwarded.items() if (a, b) == (here, there))

    def load(self, broker: str) -> float:
        """Return the messages a second that ``broker`` handles: produced there, and come over bridges."""
        produced = sum(place.produced for (name, _), place in self.network.places.items() if name == broker)
        return produced + sum(rate for (_, there, _), rate in self.forwarded.items() if there == broker)

    def arriving(self, broker: str, queue: str) -> float:
        """Return how much of ``queue`` there is at ``broker``: produced there, and come over bridges."""
        produced = self.network.places.get((broker, queue), Place()).produced
        return produced + sum(r for (_, there, name), r in self.forwarded.items() if (there, name) == (broker, queue))

    def utilisation(self, broker: str) -> float | None:
        """Return which part of what its consumers can take they get; None without consumers."""
        able = taken = 0.0
        for (name, queue), place in self.network.places.items():
            if name == broker and place.consumers > LEAST:
                able += place.consumers * self.network.capacity(queue)
                taken += self.consumed.get((name, queue), 0.0)
        return taken / able if able > 0 else None

    def cross(self, way: Sequence[str], queue: str, rate: float) -> None:
        """Let ``rate`` go along ``way``."""
        for here, there in pairwise(way):
            self.forwarded[here, there, queue] = self.forwarded.get((here, there, queue), 0.0) + rate


def predict(network: Network) -> Prediction:
    """Say what becomes of what is produced in ``network``."""
    made = Prediction(network)
    for queue in network.queues:
        if queue.startswith(TOPIC):
            _predict_topic(network, queue, made)
        else:
            _predict_queue(network, queue, made)
    return made


# -- topics ------------------------------------------------------------------------------------------------------------


def _predict_topic(network: Network, topic: str, made: Prediction) -> None:
    each = network.capacity(topic)
    for broker in network.brokers:
        produced = network.place(broker, topic).produced
        if produced > LEAST:
            for path in _spread(network, topic, (broker,)):
                made.cross(path[-2:], topic, produced)
    for broker in network.brokers:
        subscribers = network.consumers(broker, topic)
        if subscribers:
            arriving = made.arriving(broker, topic)
            taken = min(arriving, each) if each else arriving
            made.consumed[broker, topic] = taken * subscribers
            if arriving - taken > LEAST:
                made.waiting[broker, topic] = (arriving - taken) * subscribers


def _spread(network: Network, topic: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield every way that a copy takes."""
    for there in network.demand(topic, path):
        yield (*path, there)
        yield from _spread(network, topic, (*path, there))


# -- queues ------------------------------------------------------------------------------------------------------------


def ways(network: Network, queue: str, broker: str, weight: float) -> list[Way]:
    """Return where what is produced at ``broker`` goes; ``weight``: as how many consumers a bridge counts."""
    found: list[Way] = []
    _follow(network, queue, (broker,), 1.0, weight, found)
    return found


def _follow(network: Network, queue: str, path: tuple[str, ...], share: float, weight: float, found: list[Way]) -> None:
    own = network.consumers(path[-1], queue)
    onward = network.demand(queue, path)
    each = weight if own else 1.0
    total = own + each * sum(onward.values())
    if own:
        found.append(Way(path, share * own / total))
    for there, brokers in onward.items():
        if len(found) < WAYS_MAX:
            _follow(network, queue, (*path, there), share * each * brokers / total, weight, found)


def _predict_queue(network: Network, queue: str, made: Prediction) -> None:
    each = network.capacity(queue)
    free = {b: network.consumers(b, queue) * each if each else math.inf for b in network.brokers}
    left: dict[str, float] = {}
    for broker in network.brokers:
        produced = network.place(broker, queue).produced
        if produced > LEAST and not ways(network, queue, broker, 1.0):
            made.stranded[broker, queue] = produced
        else:
            left[broker] = produced
    # First every taker's share as its weight says, then what was too much for one to those that only get the rest.
    for weight in (network.weight, network.weight or 1.0):
        for broker, produced in left.items():
            left[broker] = _share(queue, produced, ways(network, queue, broker, weight), free, made)
    for broker, produced in left.items():
        if produced > LEAST:
            made.waiting[broker, queue] = produced


def _share(queue: str, produced: float, takers: list[Way], free: dict[str, float], made: Prediction) -> float:
    """Give ``produced`` to those with a weight and room, in proportion; return what nobody could take."""
    takers = [way for way in takers if way.weight > LEAST and free[way.end] > LEAST]
    while produced > LEAST and takers:
        total = sum(way.weight for way in takers)
        at_end: dict[str, float] = {}
        for way in takers:
            at_end[way.end] = at_end.get(way.end, 0.0) + way.weight
        step = min(1.0, *(free[end] * total / (weight * produced) for end, weight in at_end.items()))
        given = produced * step
        for way in takers:
            part = given * way.weight / total
            free[way.end] -= part
            made.consumed[way.end, queue] = made.consumed.get((way.end, queue), 0.0) + part
            made.cross(way.brokers, queue, part)
        produced -= given
        takers = [way for way in takers if free[way.end] > LEAST]
        if step >= 1.0:
            break
    return max(produced, 0.0)


# -- what follows from it ----------------------------------------------------------------------------------------------


def headroom(network: Network) -> dict[str, float]:
    """Return for each queue and topic how many times the load its consumers can take.

    Those of a queue all together; each subscriber of a topic by itself, so the one with the most counts.
    """
    found = {}
    made = predict(network)
    for queue in network.queues:
        each = network.capacity(queue)
        if queue.startswith(TOPIC):
            most = max(
                (made.arriving(broker, queue) for broker in network.brokers if network.consumers(broker, queue)),
                default=0.0,
            )
            if most > LEAST and each:
                found[queue] = each / most
            continue
        produced = sum(place.produced for (_, name), place in network.places.items() if name == queue)
        able = sum(place.consumers for (_, name), place in network.places.items() if name == queue) * each
        if produced > LEAST:
            found[queue] = able / produced
    return found


def recommend(network: Network) -> list[str]:
    """Return where consumers of queues are missing, and from where some could come."""
    said = []
    for queue in network.queues:
        if queue.startswith(TOPIC):  # a further subscriber takes nothing off the others
            continue
        each = network.capacity(queue)
        spare: dict[str, int] = {}
        lacking: dict[str, int] = {}
        for broker in network.brokers:
            place = network.place(broker, queue)
            wanted = math.ceil(place.produced / (each * MARGIN)) if each else int(place.produced > LEAST)
            has = round(place.consumers)
            if has > wanted:
                spare[broker] = has - wanted
            elif has < wanted:
                lacking[broker] = wanted - has
        for broker, count in lacking.items():
            place = network.place(broker, queue)
            said.append(_advice(queue, broker, place, count, each, spare))
    return said


def _advice(queue: str, broker: str, place: Place, count: int, each: float, spare: dict[str, int]) -> str:
    has = f"has {place.consumers:.3g} of the {place.consumers + count:.3g} consumers that it needs for it"
    text = f"{queue}: {broker}, where {place.produced:.3g} a second are produced, {has}"
    moves = []
    for there in sorted(spare, key=lambda name: -spare[name]):
        moved = min(count, spare[there])
        if moved > 0:
            spare[there] -= moved
            count -= moved
            moves.append(f"move {moved} there from {there}")
    if count:
        moves.append(f"add {count} there")
    assumed = "" if each else " (how much a consumer takes was not seen)"
    return f"{text}: {', '.join(moves)}{assumed}"
