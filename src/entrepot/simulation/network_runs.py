"""One seed of a network: its plan is carried out under faults, everything heals, and the ledger is judged.

What must hold: nothing confirmed is lost; every message reaches a willing reader, or the plan says that it may stay and
it is somewhere with a reason; none runs in a circle where nothing lets it go back; none comes a second time unmarked
where no broker died and there is one way only; what is asked over temporary destinations is answered; and nothing is
left behind for readers and programs that are gone.
"""

from __future__ import annotations

import traceback
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.networks.admission import message_path
from entrepot.cluster.networks.durables import subscription_of
from entrepot.cluster.networks.feed import BridgeFeed
from entrepot.core.queue import Queue
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.openwire.ids import is_queue
from entrepot.simulation.network_plans import (
    MOVING,
    NO_EXTRAS,
    VIRTUAL,
    Plan,
    Reading,
    Wire,
    draw,
    draw_extras,
    with_audits,
)
from entrepot.simulation.networks import Network, identity_of
from entrepot.simulation.requests import ANSWER, PATIENCE, Talk
from entrepot.simulation.sites import Site
from entrepot.simulation.world import Lots

SETTLING_MS: Final = 1_500  # every bridge is open and demand has gone round, also over nine hops
HEALING_MS: Final = 25_000  # far beyond three intervals of supervision and the redelivery of all that was under way
MOVING_S_MAX: Final = 120
LULL_MS: Final = 5_000  # what is cut is found within three intervals of 1 s
QUESTIONS: Final = 3  # the first may come before the news of its temporary destination
PATIENCE_MS: Final = PATIENCE // MILLISECOND + 1
STOPS: Final = 0.05  # of the steps: a broker stops in order as well
PARTING_MS: Final = 3_000  # that somebody is gone has gone round
PARTINGS_MAX: Final = 20  # with a prefetch of 1 over a slow cable, behind hundreds of other advisories
BESIDE_IT: Final = " (another)"
CAME_TWICE_SHOWN: Final = 5
WALK_STEP: Final = 200
EVENTS_MAX: Final = 2_000_000  # ten times what large networks take: what runs in a circle never ends


class NetworkRun:
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False, extras: bool = True, stops: bool = False) -> None:
        """``extras``: False makes the world that ``seed`` was before there were any: regressions are found so.

        ``stops``: brokers stop in order as well, now and then.
        """
        self.stopping: Final = stops
        lots, more, plan = self._draw(seed, extras)
        self.lots: Final = lots
        self.more: Final = more
        self.stops: Final = Lots(f"{seed}/stops")
        self.plan: Final = with_audits(plan, Lots(f"{seed}/audits")) if extras else plan
        self.network: Final = Drawn(seed, self.plan, lines=lines)
        self.network.world.events_max = EVENTS_MAX
        self.sent = 0
        self.expected: dict[str, list[Reading]] = {}  # identity -> who must see it
        self.texts: dict[str, str] = {}  # identity -> where it was sent
        self.places: dict[str, str] = {reading.key: reading.site for reading in self.plan.readings}
        self.wrong: list[str] = []
        self.away: dict[str, Reading] = {}  # readers of durable subscriptions that will be back
        self.talk: Final = Talk(self.network)
        for seat in self.plan.seats:
            if seat.asks:
                self.talk.ask_at(seat.site, topic=seat.topic)
            else:
                self.talk.answer_at(seat.site)

    def _draw(self, seed: int, extras: bool) -> tuple[Lots, Lots, Plan]:
        """Return the plan, and the lots that it left for what happens."""
        lots, more = Lots(f"{seed}/plan"), Lots(f"{seed}/extras")
        return lots, more, draw(lots, draw_extras(more) if extras else NO_EXTRAS)

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
        self.talk.start()
        network.run(SETTLING_MS)
        self._begin()
        for _ in range(self.lots.between(10, 40)):
            self._step()
            self._extra_step()
            if self.stopping and self.stops.chance(STOPS):
                network.crashed = True
                network.sites[self.stops.one_of(list(network.sites))].stop()
            network.run(self.lots.skewed(1, 600))
            network.explained()
        self._between()
        self._mend()
        network.run(2_000)
        for reading in self.plan.readings:
            if reading.late:
                self._seat(reading, reading.site)
        moved = -1
        for seconds in range(MOVING_S_MAX):
            before, moved = moved, sum(bridge.link.counts.confirmed for bridge in network.dialled())
            if seconds >= HEALING_MS // 1000 and moved == before:
                break  # nothing is stuck that moves: without a conduit the copies for a few readers fill a slow link
            network.run(1000)
            if network.is_open() and not self._missing():
                break
        network.explained()
        self._judge()
        if not self.wrong:
            self._calm()

    def _mend(self) -> None:
        """End every fault."""
        self.network.heal()
        for site in self.network.sites.values():
            for number in range(len(site.connectors)):
                site.switch(number, start=True)
        for reading in list(self.away.values()):
            self._return(reading)
        for reading in self.plan.readings:
            self.network.sites[reading.site].leave(reading.key + BESIDE_IT)

    def _begin(self) -> None:
        """Every bridge is open, and nothing was sent yet."""

    def _between(self) -> None:
        """One cable stays cut, and there is another way: what is asked is answered all the same."""
        if not (self.plan.seats and self.plan.cyclic and self.more.chance(0.5)):
            return
        self._mend()
        near, far = self.more.one_of(self.plan.wires)
        if is_joined(self.plan, (near, far)):
            self._cut_and_ask(near, far, silent=self.more.chance(0.3))

    def _cut_and_ask(self, near: str, far: str, *, silent: bool) -> None:
        self.network.cut(near, far, silent=silent)
        self.network.run(LULL_MS)
        self._ask_and_judge(f"while {near} and {far} are cut")

    def _calm(self) -> None:
        """Nothing is broken any more: ask, and then let everybody leave."""
        network = self.network
        if self.talk.requesters:
            network.run(LULL_MS)  # what was known another way is known again
        self._ask_and_judge("in the end")
        lost = [identity for identity in self.talk.lost() if not self._whereabouts().get(identity)]
        if lost:
            self._fault(f"{len(lost)} requests are lost: {lost[:5]}")
        self.talk.finish()
        for _ in range(PARTINGS_MAX):
            network.run(PARTING_MS)
            left = self.talk.left_behind()
            if not left:
                break
        if left:
            self._fault(f"temporary destinations stay: {left[:5]}")
        idle = [] if self._has_leftovers() else self._unread_durables(circles=self.plan.cyclic)
        if idle:
            self._fault(f"durable subscriptions of bridges that nobody reads: {idle}")
        for reading in self.plan.readings:
            if reading.durable:
                network.sites[reading.site].forget(reading.key)
        stay: list[str] = []  # in a circle they keep one another alive, as in Classic
        for _ in range(0 if self.plan.static or self.plan.cyclic else PARTINGS_MAX):
            network.run(PARTING_MS)
            stay = [f"{site.name}:{name}" for site, name in self._durables_of_bridges()]
            if not stay:
                break
        if stay:
            self._fault(f"durable subscriptions of bridges stay: {stay}")

    def _ask_and_judge(self, when: str) -> None:
        """Have questions asked in peace; all are answered, or, without a way back, refused."""
        talk = self.talk
        if not talk.requesters:
            return
        talk.calm = True
        for _ in range(QUESTIONS):
            talk.question()
            self.network.run(PATIENCE_MS)
        self.network.run(PATIENCE_MS)
        talk.calm = False
        vanished = [one for one in talk.vanished() if not self._has_spent_its_ttl(one)]
        if vanished:
            self._fault(f"{when}, replies that a broker took vanish: {vanished[:5]}")
        unanswered = [one for one in talk.unanswered() if self.plan.replies and not self._waits(one)]
        if unanswered:
            self._fault(f"{when}, requests are not answered: {unanswered[:5]}")

    def _has_spent_its_ttl(self, identity: str) -> bool:
        """Return whether a reply waits where it may go no further, as anything else that this plan sends may.

        Demand goes further than messages there: two bridges of one rank take turns, and one of them leads too far.
        """
        return self.plan.ttl < len(self.plan.blueprints) and bool(self._whereabouts().get(ANSWER + identity))

    def _waits(self, identity: str) -> bool:
        """Return whether a request waits where nothing lets it go back."""
        where = self._whereabouts().get(identity)
        return bool(where) and self._has_no_way_on(where or [])

    def _durables_of_bridges(self) -> list[tuple[Site, str]]:
        return [
            (site, name)
            for site in self.network.sites.values()
            if site.broker is not None
            for name, queue in site.broker.table.queues.items()
            if queue.owner.partition("\t")[0] not in ("", site.name) and queue.routing == MULTICAST
        ]

    def _unread_durables(self, *, circles: bool = False) -> list[str]:
        """Return durable subscriptions of bridges that would fill for ever.

        ``circles``: except those of ``dynamicOnly`` bridges that hear of nobody. They wait for a reader who is away;
        nobody can tell that there was none, only news of a reader here that came round.
        """
        found = []
        for site, name in self._durables_of_bridges():
            assert site.broker is not None
            if site.broker.table.queues[name].roster.consumers:
                continue
            if not (circles and self._is_dynamic_only() and not _is_told_of(site, name)):
                found.append(f"{site.name}:{name}")
        return found

    def _is_dynamic_only(self) -> bool:
        networks = (connector for one in self.plan.blueprints.values() for connector in one.config.networks)
        return any(connector.options.dynamic_only for connector in networks)

    def _has_leftovers(self) -> bool:
        """Return whether durable subscriptions of bridges may be left, and what is in them, as in Classic.

        Without a conduit nobody knows which of two subscriptions of one name stand for the same reader.
        """
        return self.plan.cyclic and not self._is_conduit()

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

    def _extra_step(self) -> None:
        """What plans have got since, besides: it draws from lots of its own, and the other steps stay as they were."""
        lots = self.more
        if self.plan.seats and lots.chance(0.5):
            self.talk.question()
        if not self.plan.operated or lots.chance(0.6):
            return
        what = lots.below(10)
        if what < 6:
            site = lots.one_of(list(self.network.sites.values()))
            if site.connectors:
                number = lots.below(len(site.connectors))
                site.switch(number, start=not site.connectors[number].started)
        elif what < 8:
            self._doze(lots)
        else:
            self._join(lots)

    def _join(self, lots: Lots) -> None:
        """A second reader sits down beside one of a queue, or leaves again: the first goes on."""
        queues = [one for one in self.plan.readings if one.text.startswith("queue") and not one.mover and not one.late]
        reading = lots.one_of(queues) if queues else None
        if reading is None:
            return
        site = self.network.sites[reading.site]
        key = reading.key + BESIDE_IT
        if key in site.readers:
            site.leave(key)
        elif site.broker is not None:
            selector = f"colour = '{reading.colour}'" if reading.colour else ""
            site.read(reading.text, key=key, prefetch=reading.prefetch, selector=selector)

    def _doze(self, lots: Lots) -> None:
        """A reader of a durable subscription goes away, or comes back."""
        durables = [reading for reading in self.plan.readings if reading.durable]
        if not durables:
            return
        reading = lots.one_of(durables)
        if reading.key in self.away:
            self._return(reading)
        elif self.network.sites[reading.site].broker is not None:
            self.network.sites[reading.site].leave(reading.key)
            self.away[reading.key] = reading

    def _return(self, reading: Reading) -> None:
        if self.network.sites[reading.site].broker is not None:
            del self.away[reading.key]
            self._seat(reading, reading.site)

    def _send(self) -> None:
        alive = [name for name in self.plan.producers if self.network.sites[name].broker is not None]
        if not alive:
            return
        site = self.network.sites[self.lots.one_of(alive)]
        for _ in range(self.lots.between(1, 12)):
            reading = self.lots.one_of(self.plan.readings)
            self._send_for(site, reading, self.lots.one_of(reading.targets))

    def _send_for(self, site: Site, reading: Reading, text: str = "") -> None:
        """Send what ``reading`` is owed; to the destination ``text``, its first one if not said."""
        text = text or reading.targets[0]
        identity = f"m{self.sent}"
        self.sent += 1
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
            for reading in self.expected.get(identity, ()):
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
                if identity in where
                and self._must_arrive(reading)
                and not self._has_no_way_on(where[identity])
                and not self._came_from_where_it_would_go(identity, where[identity])
                and not (self._has_leftovers() and self._is_left_over(where[identity]))
                and not self._is_kept_by_selector(where[identity], reading)
            ]
            if stuck:
                self._fault(f"{len(stuck)} of {len(self.network.accepted)} stuck: {stuck[:3]}")
        twice = [
            identity
            for identity in self.network.unmarked
            if not self._is_copied(identity) and not self._may_overtake(identity)
        ]
        if twice and not self.network.crashed and not self.plan.cyclic:
            self._fault(f"came twice unmarked: {twice[:CAME_TWICE_SHOWN]}")

    def _may_overtake(self, identity: str) -> bool:
        """Return whether the copy that is marked may have come first, on the link beside one that was stopped.

        What is on a cable arrives when its bridge is stopped; where the cable is cut it does not.
        """
        return self.plan.twins and self.plan.operated and identity in self.network.marked

    def _is_topic(self, identity: str) -> bool:
        """Return whether it was sent to a topic: without demand that is nowhere, and rightly so."""
        return self.texts[identity].startswith("topic")

    def _is_copied(self, identity: str) -> bool:
        """Return whether each reader of a topic is sent a copy, and sees those of others too (classic.md 1.7)."""
        return self._is_topic(identity) and not self._is_conduit()

    def _is_conduit(self) -> bool:
        return all(
            connector.options.conduit_subscriptions
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

    def _came_from_where_it_would_go(self, identity: str, places: list[tuple[Site, str]]) -> bool:
        """Return whether all that would take a message leads to brokers that it has passed, in a circle (1.9, 1.11).

        It went the longer way while a cable was cut, into a corner. Nothing lets it go back without a replay: as in
        Classic it stays, and `explain` says so.
        """
        if self.plan.replay or not self.plan.cyclic:
            return False
        for site, name in places:
            assert site.broker is not None
            queue = site.broker.table.queues[name]
            feeds = [getattr(consumer, "feed", None) for consumer in queue.roster.consumers]
            paths = [message_path(message) for message in _messages(queue) if identity_of(message) == identity]
            if not all(isinstance(feed, BridgeFeed) and feed.there_id in paths[0] for feed in feeds):
                return False
        return True

    def _is_left_over(self, places: list[tuple[Site, str]]) -> bool:
        """Return whether a message is in durable subscriptions alone of whose bridges no far side tells of a reader."""
        unread = self._unread_durables()
        return all(f"{site.name}:{name}" in unread and not _is_told_of(site, name) for site, name in places)

    def _is_kept_by_selector(self, places: list[tuple[Site, str]], reading: Reading) -> bool:
        """Return whether a message waits beside a reader with another selector, and the replay filter heeds none.

        Without ``selectorAware`` any reader here counts as one who wants it, so it does not go back (1.13).
        """
        if not self.plan.replay or self.plan.selector_aware or not reading.colour:
            return False
        others = [one.key for one in self.plan.readings if one.text == reading.text and one is not reading]
        return all(any(key in site.readers for key in others) for site, _ in places)

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
            f"networks: {self.plan.audits or 'audit of copies'}": 1,
            "repetitions dropped": sum(
                int(site.broker.sending.repetitions.count) for site in network.sites.values() if site.broker is not None
            ),
            **self.talk.counts(),
        }
        for word in ("static", "twins", "operated"):
            if getattr(self.plan, word):
                found[f"networks: {word}"] = 1
        if any(reading.text.endswith(MOVING) for reading in self.plan.readings):
            found["networks whose reader moves"] = 1
        return found


class Drawn(Network):
    """The network of a plan: with a replay filter a message may come to a broker twice."""

    def __init__(self, seed: int, plan: Plan, *, lines: bool = False) -> None:
        self.replay = plan.replay
        self.ttl = plan.ttl
        super().__init__(seed, plan.blueprints, lines=lines)

    def start(self) -> Drawn:
        """Start every broker."""
        super().start()
        return self

    def arrived(self, body: str, path: list[str]) -> None:
        """Assert that it crossed no more brokers than it may; what is let back counts anew."""
        if len(path) > self.ttl and not self.replay:
            self.world.violation(f"{body} came through {len(path)} brokers, and messageTTL is {self.ttl}")

    def circled(self, site: Site, body: str, path: list[str]) -> None:
        """Allow it where the plan has a replay filter."""
        if not self.replay:
            super().circled(site, body, path)


def is_joined(plan: Plan, without: Wire) -> bool:
    """Return whether the network is one also without a cable."""
    first = next(iter(plan.blueprints))
    known, at = {first: None}, [first]
    while at:
        name = at.pop()
        for wire in plan.wires:
            if name in wire and wire != without:
                other = wire[0] if wire[1] == name else wire[1]
                if other not in known:
                    known[other] = None
                    at.append(other)
    return len(known) == len(plan.blueprints)


def _suppresses(site: Site, queue: str) -> bool:
    assert site.neighbourhood is not None
    return any(
        is_queue(demand.where) and matches(demand.name, queue, MIXED)
        for demand in site.neighbourhood.interests.suppressed
    )


def _is_told_of(site: Site, name: str) -> bool:
    """Return whether a bridge hears of a reader for its durable subscription ``name``, though another serves him."""
    assert site.neighbourhood is not None
    for bridge in site.neighbourhood.bridges:
        waiting = [one for one, owner in site.neighbourhood.interests.suppressed.items() if owner is bridge.demand]
        if any(subscription_of(one) == name for one in (*bridge.demand.demands, *waiting)):
            return True
    return False


def _identities(queue: Queue) -> list[str]:
    return [identity_of(message) for message in _messages(queue)]


def _messages(queue: Queue) -> list[Message]:
    found = [reference.message for consumer in queue.roster.consumers for reference in consumer.in_flight.values()]
    found += [reference.message for reference in queue.delayed.values()]
    walk = queue.walk()
    while not walk.done:
        found += [one.message for one in walk.step(WALK_STEP)]
    return found
