"""A model of demand forwarding: what becomes of what is produced in a network of brokers. Arithmetic, no Spark.

- What is produced for a *queue* at a broker goes round among its own consumers and its bridges: a bridge has one place
  in the row for each broker with consumers behind it that asked for itself. Or bridges get only what consumers cannot
  take (they have a lower priority): ``bridges_last``. What comes over a bridge goes round in the same way at the broker
  behind it, but never where it has been, and crosses at most ``reach`` bridges. `rotation.py` plays it through.
- Nodes of a cluster of Artemis (``balanced``) give a message to each node with consumers in turn, however many these
  are and whatever they can take; there it stays.
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
from entrepot.pipeline.jobs.rotation import Bridge, Local, Rotation

FOLLOW: Final = "follow"
GONE: Final = "gone"
CLIENTS: Final = (FOLLOW, GONE)
MARGIN: Final = 0.7  # of what its consumers have shown that they can take, a queue should need at most so much
ALIKE: Final = 0.15  # of a limit: what was counted in seconds is a message or two off
LEAST: Final = 1e-9
TOPIC: Final = "/topic/"


class Place:
    """One queue or topic at one broker. Rates: messages a second.

    ``capacity``: what one consumer was seen to take, 0 when none was seen. ``limited``: it could not have taken more,
    because messages waited for it or it was busy all the time; otherwise it takes at least so much.
    """

    def __init__(
        self, produced: float = 0.0, consumers: float = 0.0, capacity: float = 0.0, *, limited: bool = True
    ) -> None:
        self.produced = produced
        self.consumers = consumers
        self.capacity = capacity
        self.limited = limited


class Network:
    """What was measured. ``edges``: (from, to) of every bridge; ``forwarded``: (from, to, queue) -> rate.

    ``wanted``: (from, to, queue) of every bridge that asked for a queue. ``reach``: how many bridges a message crosses
    at most. ``balanced``: the brokers are nodes of a cluster.
    """

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self.edges: set[tuple[str, str]] = set()
        self.places: dict[tuple[str, str], Place] = {}
        self.forwarded: dict[tuple[str, str, str], float] = {}
        self.wanted: set[tuple[str, str, str]] = set()
        self.reach = 1
        self.seconds = 0.0
        self.bridges_last = False
        self.order_measured = False
        self.balanced = False

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

    def limit(self, queue: str) -> float:
        """Return the most that one consumer of ``queue`` takes; infinite while none was seen at its limit.

        Infinite, too, where one took more than that by `ALIKE`, without being at its own.
        """
        limits = [place.capacity for (_, name), place in self.places.items() if name == queue and place.limited]
        best = self.capacity(queue)
        return best if best and best <= max(limits, default=0.0) * (1 + ALIKE) else math.inf

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

    def find_reach(self, crossed: int = 1) -> None:
        """Take from what bridges asked for how far demand reaches: a broker asks for what those behind it ask for.

        ``crossed``: how many bridges a message was seen to cross; in a full mesh what is asked for does not tell.
        """
        ways = [1 + max(0, self.distance(queue, (here, there))) for here, there, queue in self.wanted]
        self.reach = max(crossed, *ways) if ways else crossed

    def find_order(self) -> None:
        """Find out whether bridges stand among consumers or behind them: what says better what was forwarded."""
        self.order_measured = any(
            place.consumers > LEAST and self._flows(broker, queue) and self.demand(queue, (broker,))
            for (broker, queue), place in self.places.items()
            if not queue.startswith(TOPIC)
        )
        if self.order_measured and not self.balanced:
            self.bridges_last = min((False, True), key=self._misfit)

    def _flows(self, broker: str, queue: str) -> bool:
        return self.places[broker, queue].produced > LEAST or any(
            rest == [broker, queue] for _, *rest in self.forwarded
        )

    def _misfit(self, last: bool) -> float:
        """Return how many messages a second the model has cross where they did not, or the other way round."""
        self.bridges_last = last
        said = predict(self).forwarded
        return sum(
            abs(self.forwarded.get(edge, 0.0) - said.get(edge, 0.0))
            for edge in {*self.forwarded, *said}
            if not edge[2].startswith(TOPIC)
        )

    def changed(self, times: float, without: str | None, clients: str) -> Network:
        """Return this network with ``times`` the load and without a broker, whose clients go elsewhere or are gone."""
        rest = [broker for broker in self.brokers if broker != without]
        if not rest:
            raise InvalidOption("nothing is left of the network without its only broker")
        made = Network(rest)
        made.edges = {edge for edge in self.edges if without not in edge}
        made.bridges_last, made.order_measured, made.seconds = self.bridges_last, self.order_measured, self.seconds
        made.reach, made.balanced = self.reach, self.balanced
        for (broker, queue), place in self.places.items():
            homes = [broker] if broker != without else (rest if clients == FOLLOW else [])
            for home in homes:
                there = made.place(home, queue)
                there.produced += place.produced * times / len(homes)
                there.consumers += place.consumers / len(homes)
                if place.capacity > there.capacity:
                    there.capacity, there.limited = place.capacity, place.limited
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
        """Return which part of what its consumers can take they get; None without consumers.

        None too where what one of them can take is not known.
        """
        able = taken = 0.0
        for (name, queue), place in self.network.places.items():
            if name == broker and place.consumers > LEAST:
                able += place.consumers * self.network.limit(queue)
                taken += self.consumed.get((name, queue), 0.0)
        return taken / able if 0 < able < math.inf else None

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
    each = network.limit(topic)
    for broker in network.brokers:
        produced = network.place(broker, topic).produced
        if produced > LEAST:
            for path in _spread(network, topic, (broker,)):
                made.cross(path[-2:], topic, produced)
    for broker in network.brokers:
        subscribers = network.consumers(broker, topic)
        if subscribers:
            arriving = made.arriving(broker, topic)
            taken = min(arriving, each)
            made.consumed[broker, topic] = taken * subscribers
            if arriving - taken > LEAST:
                made.waiting[broker, topic] = (arriving - taken) * subscribers


def _spread(network: Network, topic: str, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield every way that a copy takes."""
    for there in network.demand(topic, path):
        yield (*path, there)
        yield from _spread(network, topic, (*path, there))


# -- queues ------------------------------------------------------------------------------------------------------------


def _predict_queue(network: Network, queue: str, made: Prediction) -> None:
    produced: dict[str, float] = {}
    for broker in network.brokers:
        rate = network.place(broker, queue).produced
        if rate <= LEAST:
            continue
        if network.consumers(broker, queue) or network.demand(queue, (broker,)):
            produced[broker] = rate
        else:
            made.stranded[broker, queue] = rate
    if not produced:
        return
    if network.balanced:
        _balance(network, queue, produced, made)
        return
    rows: dict[str, list[Local | Bridge]] = {
        broker: [*_locals(network, broker, queue), *_bridges(network, broker, queue)] for broker in network.brokers
    }
    flow = Rotation(rows, network.reach, last=network.bridges_last).play(produced)
    for (here, there), rate in flow.crossed.items():
        made.forwarded[here, there, queue] = rate
    for broker, rate in flow.consumed.items():
        made.consumed[broker, queue] = rate
    for broker, rate in flow.waiting.items():
        made.waiting[broker, queue] = rate


def _balance(network: Network, queue: str, produced: dict[str, float], made: Prediction) -> None:
    """Divide what each node produces among all with consumers that it reaches, itself among them, in equal parts."""
    for broker, rate in produced.items():
        takers = _takers(network, broker, queue)
        for there in takers:
            made.cross((broker, there) if there != broker else (broker,), queue, rate / len(takers))
    for broker, rate in node_shares(network, queue).items():
        able = network.consumers(broker, queue) * network.limit(queue)
        made.consumed[broker, queue] = min(rate, able)
        if rate - able > LEAST:
            made.waiting[broker, queue] = rate - able


def _takers(network: Network, broker: str, queue: str) -> list[str]:
    near = [there for here, there in sorted(network.edges) if here == broker]
    return [one for one in (broker, *near) if network.consumers(one, queue)]


def node_shares(network: Network, queue: str) -> dict[str, float]:
    """Return how much of ``queue`` comes to each node of a cluster that has consumers, whatever these can take."""
    found: dict[str, float] = {}
    for broker in network.brokers:
        rate = network.places[broker, queue].produced if (broker, queue) in network.places else 0.0
        takers = _takers(network, broker, queue) if rate > LEAST else []
        for there in takers:
            found[there] = found.get(there, 0.0) + rate / len(takers)
    return found


def weakest(network: Network, queue: str) -> tuple[float, str]:
    """Return which node of a cluster has the least room, and how many times its load its consumers can take.

    Infinite, and "", where nobody consumes: in a cluster each node gets its share, and no other helps it out.
    """
    each = network.capacity(queue)
    rooms = [(network.consumers(node, queue) * each / rate, node) for node, rate in node_shares(network, queue).items()]
    return min(rooms, default=(math.inf, ""))


def _locals(network: Network, broker: str, queue: str) -> list[Local]:
    """Return the consumers of ``queue`` at ``broker``; one that was there for a part of the time has that share."""
    count = network.consumers(broker, queue)
    limit = network.limit(queue)
    rest = count - math.floor(count)
    return [Local(limit) for _ in range(math.floor(count))] + ([Local(limit, rest)] if rest > LEAST else [])


def _bridges(network: Network, broker: str, queue: str) -> list[Bridge]:
    return [Bridge(there) for there, brokers in network.demand(queue, (broker,)).items() for _ in range(brokers)]


# -- what follows from it ----------------------------------------------------------------------------------------------


def headroom(network: Network) -> dict[str, float]:
    """Return for each queue and topic how many times the load its consumers can take.

    Those of a queue all together, but in a cluster, where the node with the least room counts; each subscriber of a
    topic by itself, so the one with the most counts.
    """
    found = {}
    made = Prediction(network)
    for queue in network.queues:
        each = network.capacity(queue)
        if queue.startswith(TOPIC):
            _predict_topic(network, queue, made)
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
            found[queue] = min(able / produced, weakest(network, queue)[0] if network.balanced else math.inf)
    return found


def recommend(network: Network) -> list[str]:
    """Return where consumers of queues are missing, and from where some could come.

    Where no consumer was seen at its limit, a broker that produces needs one.
    """
    said = []
    for queue in network.queues:
        if queue.startswith(TOPIC):  # a further subscriber takes nothing off the others
            continue
        limit = network.limit(queue)
        each = limit if limit < math.inf else 0.0
        shares = node_shares(network, queue) if network.balanced else {}
        spare: dict[str, int] = {}
        lacking: dict[str, int] = {}
        for broker in network.brokers:
            place = network.place(broker, queue)
            rate = shares.get(broker, 0.0) if shares else place.produced
            wanted = math.ceil(rate / (each * MARGIN)) if each else int(rate > LEAST)
            has = round(place.consumers)
            if has > wanted:
                spare[broker] = has - wanted
            elif has < wanted:
                lacking[broker] = wanted - has
        for broker, count in lacking.items():
            place = network.place(broker, queue)
            comes = f"which gets {shares[broker]:.3g}" if shares else f"where {place.produced:.3g}"
            comes += " a second" if shares else " a second are produced"
            said.append(_advice(queue, f"{broker}, {comes}", place, count, each, spare))
    return said


def _advice(queue: str, where: str, place: Place, count: int, each: float, spare: dict[str, int]) -> str:
    has = f"has {place.consumers:.3g} of the {place.consumers + count:.3g} consumers that it needs for it"
    text = f"{queue}: {where}, {has}"
    moves = []
    for there in sorted(spare, key=lambda name: -spare[name]):
        moved = min(count, spare[there])
        if moved > 0:
            spare[there] -= moved
            count -= moved
            moves.append(f"move {moved} there from {there}")
    if count:
        moves.append(f"add {count} there")
    assumed = "" if each else " (no consumer was seen at its limit: one is taken to be enough)"
    return f"{text}: {', '.join(moves)}{assumed}"
