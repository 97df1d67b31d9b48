"""What is wrong where there are several ways between two brokers (classic.md 1.8, 1.9, 1.11): each finding once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from entrepot.analysis.graph import circle
from entrepot.analysis.model import FOREVER, Channel, Issue, Link, Network
from entrepot.config.findings import Severity

SHOWN_MAX: Final = 4  # pairs or names that one sentence lists
PRIORITY: Final = "decreaseNetworkConsumerPriority"
REPLAY: Final = (
    "give the queue's policyEntry <networkBridgeFilterFactory>"
    '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
)


def some(texts: Iterable[str]) -> str:
    """Return ``texts``, each once, as a sentence lists them: the first few, and how many more there are."""
    known = list(dict.fromkeys(texts))
    more = len(known) - SHOWN_MAX
    return ", ".join(known[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def named(channels: Iterable[Channel]) -> str:
    """Return connectors by name and place."""
    return some(f"{channel.name} ({channel.spot.file}:{channel.spot.line})" for channel in channels)


def priorities(network: Network) -> Iterator[Issue]:
    """Find files that do not say how bridges rank beside consumers: releases of ActiveMQ differ. Every one is named."""
    bridging = [one for member in network.members for one in member.channels if not one.core]
    unsaid = [one for one in bridging if PRIORITY not in one.given and _carries(one, topic=False)]
    if unsaid:
        where = ", ".join(f"{one.name} ({one.spot.file}:{one.spot.line})" for one in unsaid)
        yield Issue(
            Severity.NOTE,
            unsaid[0].spot,
            f"{PRIORITY} is not said on {where}: it is false here, as the documentation of ActiveMQ says and its "
            "releases up to 5.17 do, so a bridge gets its share beside the consumers of its own broker; ActiveMQ since "
            "5.18 takes it for true, and serves those first",
            f'write {PRIORITY}="true", and messages cross only when nobody here has room; or "false"',
        )


def circles(network: Network) -> Iterator[Issue]:
    """Find several ways between two brokers, and connectors that do not cope with them."""
    round_trip = circle(len(network.nodes), network.links)
    if not round_trip:
        return
    said = " - ".join(network.nodes[node].name for node in [*round_trip, round_trip[0]])
    inside = [
        link
        for link in network.links
        if link.source in round_trip and link.target in round_trip and not (link.back or link.channel.core)
    ]
    travels = [link for link in inside if any(ttl == FOREVER or ttl > 1 for ttl in link.channel.hops)]
    yield from _ways(network, f"there is a circle, {said}", travels, mesh=_is_mesh(network, round_trip))
    yield from _returns(network)
    yield from _copies(network)


def _ways(network: Network, circle_said: str, travels: list[Link], *, mesh: bool) -> Iterator[Issue]:
    channels = list(dict.fromkeys(link.channel for link in travels))

    def found(wrong: Callable[[Channel], bool], what: str, remedy: str) -> Iterator[Issue]:
        those = [channel for channel in channels if wrong(channel)]
        if those:
            yield Issue(Severity.WARNING, those[0].spot, what.format(f"{circle_said}, and", named(those)), remedy)

    yield from found(
        lambda channel: not channel.decreases_priority and _carries(channel, topic=False),
        "{} " + PRIORITY + " is false on {}: a message may take the longer way, or go round among brokers whose "
        "consumers are busy",
        f'{PRIORITY}="true" prefers local consumers and short ways',
    )
    yield from found(
        lambda channel: not channel.suppresses_queues and _demands_far(channel) and _carries(channel, topic=False),
        "{} with a TTL above 1 on {} a consumer of a queue is seen over each way, so messages are shared between a "
        "short and a long way to it",
        'suppressDuplicateQueueSubscriptions="true" keeps the shortest'
        + (', or consumerTTL="1", since all are neighbours' if mesh else ""),
    )
    kept = {link.channel for link in travels if _keeps(network, link)}
    yield from found(
        lambda channel: channel.suppresses_queues and channel in kept,
        "{} suppressDuplicateQueueSubscriptions keeps one way to each consumer of a queue ({}): messages that came the "
        "long way round while a link was down wait where the way that is kept leads back to where they were, as in "
        "ActiveMQ",
        f"let them go back: {REPLAY}",
    )
    yield from found(
        lambda channel: not channel.suppresses_topics and _carries(channel, topic=True),
        "{} suppressDuplicateTopicSubscriptions is false on {}: subscribers get topic messages more than once",
        "take it out: true is the default",
    )


def _demands_far(channel: Channel) -> bool:
    return channel.consumer_ttl == FOREVER or channel.consumer_ttl > 1


def _returns(network: Network) -> Iterator[Issue]:
    """Find a messageTTL with which messages that may go back cannot go on to a broker that they have not seen."""
    core = _core(network)
    needed = len(core) - 1
    short = [
        link.channel
        for link in network.links
        if link.source in core
        and link.target in core
        and not link.channel.core
        and 0 < link.channel.message_ttl < needed
        and _carries(link.channel, topic=False)
        and any(network.members[one].replays for one in network.nodes[link.source].members)
    ]
    if short:
        channel = short[0]
        far = f' consumerTTL="{channel.consumer_ttl}"' if channel.consumer_ttl != needed else ""
        yield Issue(
            Severity.WARNING,
            channel.spot,
            f"messageTTL is {channel.message_ttl} on {named(short)}: replayWhenNoConsumers lets queue messages go back "
            "where they came from, but when their consumers moved to a third broker they have no TTL left for it and "
            "wait; a message counts the brokers that it came through, also when all are neighbours",
            f'messageTTL="{needed}"{far}, so that each of the {len(core)} brokers of the circle can be reached from '
            'each; carry topics over connectors of their own, with networkTTL="1" in a mesh',
        )


def _copies(network: Network) -> Iterator[Issue]:
    """Find two ways that a topic message takes to one broker: every broker on the way passes it on."""
    carrying = [link for link in network.links if not link.channel.core and _carries(link.channel, topic=True)]
    for source in range(len(network.nodes)):
        for target in range(len(network.nodes)):
            ways = _ways_between(carrying, source, target) if source != target else []
            if len(ways) > 1:
                names = [
                    " - ".join(network.nodes[node].name for node in [source, *(link.target for link in way)])
                    for way in ways
                ]
                longer = max(ways, key=len)
                yield Issue(
                    Severity.WARNING,
                    longer[-1].channel.spot,
                    f"where each broker has subscribers, a topic message comes to {network.nodes[target].name} more "
                    f"than once, as in ActiveMQ: {' and '.join(names)} are within messageTTL "
                    f"{longer[-1].channel.message_ttl}",
                    "carry topics over connectors of their own, whose messageTTL is enough for the shortest ways alone",
                )
                return


def _ways_between(links: list[Link], source: int, target: int) -> list[list[Link]]:
    """Return two ways from ``source`` to ``target``, over different brokers, that messageTTL allows; or one."""
    found: dict[tuple[int, ...], list[Link]] = {}

    def go(node: int, passed: list[Link], visited: tuple[int, ...]) -> None:
        for link in links:
            if len(found) > 1:
                return
            ttl = link.channel.message_ttl
            if link.source != node or link.target in visited or (ttl != FOREVER and len(passed) >= ttl):
                continue
            if link.target == target:
                found.setdefault((*visited, target), [*passed, link])
            else:
                go(link.target, [*passed, link], (*visited, link.target))

    go(source, [], (source,))
    return list(found.values())


def _carries(channel: Channel, *, topic: bool) -> bool:
    """Return whether a connector lets destinations of this kind cross at all."""
    if any(one.topic == topic and one.pattern in (">", "#") for one in channel.excluded):
        return any(one.topic == topic for one in channel.static)
    lists = (*channel.included, *channel.static)
    return not channel.included or any(one.topic == topic for one in lists)


def _core(network: Network) -> dict[int, None]:
    """Return the brokers that are left when those with one neighbour are taken away, again and again."""
    beside: dict[int, dict[int, None]] = {number: {} for number in range(len(network.nodes))}
    for link in network.links:
        if not link.channel.core:
            beside[link.source][link.target] = None
            beside[link.target][link.source] = None
    while True:
        alone = [node for node, others in beside.items() if len(others) < 2]
        if not alone:
            return dict.fromkeys(beside)
        for node in alone:
            for other in beside.pop(node):
                if other in beside:
                    beside[other].pop(node, None)


def _keeps(network: Network, link: Link) -> bool:
    """Return whether queue messages do not go back over ``link``: a broker at its source has no replay."""
    return any(not network.members[one].replays for one in network.nodes[link.source].members)


def _is_mesh(network: Network, nodes: list[int]) -> bool:
    joined = {frozenset((link.source, link.target)) for link in network.links}
    return all(frozenset((one, two)) in joined for one in nodes for two in nodes if one != two)
