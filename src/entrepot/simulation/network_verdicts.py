"""What must hold at the end of a simulated network: who is owed what, what is where, and what may stay there."""

from __future__ import annotations

from typing import Final

from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.networks.durables import subscription_of
from entrepot.cluster.networks.feed import BridgeFeed
from entrepot.cluster.source import LinkConsumer
from entrepot.core.queue.queue import Queue
from entrepot.model.message import Message
from entrepot.simulation.network_plans import Plan, Reading
from entrepot.simulation.networks import Network, identity_of
from entrepot.simulation.requests import ANSWER
from entrepot.simulation.sites import Site

CAME_TWICE_SHOWN: Final = 5
WALK_STEP: Final = 200


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


class Judge:
    """The ledger of one run. ``expected``: identity -> who must see it; ``texts``: identity -> where it was sent."""

    def __init__(self, plan: Plan, network: Drawn) -> None:
        self.plan: Final = plan
        self.network: Final = network
        self.expected: Final[dict[str, list[Reading]]] = {}
        self.texts: Final[dict[str, str]] = {}

    def missing(self) -> list[tuple[str, Reading]]:
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

    def faults(self) -> list[str]:
        """Return what is wrong with where messages are."""
        found: list[str] = []
        network = self.network
        if not network.is_open():
            shut = [bridge.link.name for bridge in network.dialled() if bridge.link.state.name != "OPEN"]
            found.append(f"bridges stay down: {shut}")
        missing = self.missing()
        if missing:
            where = self.whereabouts()
            lost = [
                identity for identity, reading in missing if identity not in where and self._is_owed(identity, reading)
            ]
            if lost:
                found.append(f"{len(lost)} of {len(network.accepted)} lost: {lost[:5]}")
            stuck = [
                f"{identity} for {reading.text} in {' '.join(f'{site.name}:{name}' for site, name in where[identity])}"
                for identity, reading in missing
                if identity in where and self._is_stuck(identity, reading, where[identity])
            ]
            if stuck:
                found.append(f"{len(stuck)} of {len(network.accepted)} stuck: {stuck[:3]}")
        twice = [one for one in network.unmarked if not self._is_copied(one) and not self._may_overtake(one)]
        if twice and not network.crashed and not self.plan.cyclic:
            found.append(f"came twice unmarked: {twice[:CAME_TWICE_SHOWN]}")
        return found

    def _is_owed(self, identity: str, reading: Reading) -> bool:
        """Return whether a message that is nowhere should be somewhere."""
        return self._must_arrive(reading) or not self._is_topic(identity)

    def _is_stuck(self, identity: str, reading: Reading, places: list[tuple[Site, str]]) -> bool:
        """Return whether a message should not stay where it is."""
        return (
            self._must_arrive(reading)
            and not self._has_no_way_on(places)
            and not self._came_from_where_it_would_go(identity, places)
            and not (self.has_leftovers() and self._is_left_over(places))
            and not self._is_kept_by_selector(places, reading)
        )

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
            readers = queue.roster.consumers
            feeds = [reader.feed if isinstance(reader, LinkConsumer) else None for reader in readers]
            paths = [message.language.path(message) for message in _messages(queue) if identity_of(message) == identity]
            if not all(isinstance(feed, BridgeFeed) and feed.there_id in paths[0] for feed in feeds):
                return False
        return True

    def _is_left_over(self, places: list[tuple[Site, str]]) -> bool:
        """Return whether a message is in durable subscriptions alone of whose bridges no far side tells of a reader."""
        unread = self.unread_durables()
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

    def whereabouts(self) -> dict[str, list[tuple[Site, str]]]:
        """Return for each message that is in a queue, waiting or under way, the queues that it is in."""
        found: dict[str, list[tuple[Site, str]]] = {}
        for site in self.network.sites.values():
            assert site.broker is not None
            for queue in site.broker.table.queues.values():
                for identity in _identities(queue):
                    found.setdefault(identity, []).append((site, queue.name))
        return found

    # -- what may be left ---------------------------------------------------------------------------------------------

    def has_spent_its_ttl(self, identity: str) -> bool:
        """Return whether a reply waits where it may go no further, as anything else that this plan sends may.

        Demand goes further than messages there: two bridges of one rank take turns, and one of them leads too far.
        """
        return self.plan.ttl < len(self.plan.blueprints) and bool(self.whereabouts().get(ANSWER + identity))

    def waits(self, identity: str) -> bool:
        """Return whether a request waits where nothing lets it go back."""
        where = self.whereabouts().get(identity)
        return bool(where) and self._has_no_way_on(where or [])

    def durables_of_bridges(self) -> list[tuple[Site, str]]:
        """Return every durable subscription that a bridge made, and its site."""
        return [
            (site, name)
            for site in self.network.sites.values()
            if site.broker is not None
            for name, queue in site.broker.table.queues.items()
            if (queue.definition.subscription or ("", ""))[0] not in ("", site.name)
        ]

    def unread_durables(self, *, circles: bool = False) -> list[str]:
        """Return durable subscriptions of bridges that would fill for ever.

        ``circles``: except those of ``dynamicOnly`` bridges that hear of nobody. They wait for a reader who is away;
        nobody can tell that there was none, only news of a reader here that came round.
        """
        found = []
        for site, name in self.durables_of_bridges():
            assert site.broker is not None
            if site.broker.table.queues[name].roster.consumers:
                continue
            if not (circles and self._is_dynamic_only() and not _is_told_of(site, name)):
                found.append(f"{site.name}:{name}")
        return found

    def _is_dynamic_only(self) -> bool:
        networks = (connector for one in self.plan.blueprints.values() for connector in one.config.networks)
        return any(connector.options.dynamic_only for connector in networks)

    def has_leftovers(self) -> bool:
        """Return whether durable subscriptions of bridges may be left, and what is in them, as in Classic.

        Without a conduit nobody knows which of two subscriptions of one name stand for the same reader.
        """
        return self.plan.cyclic and not self._is_conduit()


def _suppresses(site: Site, queue: str) -> bool:
    assert site.neighbourhood is not None
    return any(
        not demand.where.topic and matches(demand.name, queue, MIXED)
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
    found += [reference.message for reference in queue.returns.delayed.values()]
    walk = queue.stock.walk()
    while not walk.done:
        found += [one.message for one in walk.step(WALK_STEP)]
    return found
