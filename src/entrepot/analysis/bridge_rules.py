"""What is wrong with core bridges of Artemis (artemis.md 4.11): they take without being asked, and know no hops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from entrepot.analysis.cluster_rules import DEFAULTS_REFUSED_SINCE
from entrepot.analysis.model import Channel, CoreBridge, Issue, Link, Member, Network
from entrepot.base.patterns import ARTEMIS, matches
from entrepot.config.findings import Severity

Stop = tuple[int, str]  # a node of the network, and an address there
Step = tuple[Stop, bool, Channel | None]  # where it leads, whether only for some messages, by which bridge


def _bridges(network: Network) -> Iterator[tuple[int, Member, Channel, CoreBridge]]:
    for number, member in enumerate(network.members):
        for channel in member.channels:
            if channel.bridge is not None:
                yield number, member, channel, channel.bridge


def _links(network: Network) -> Iterator[tuple[Link, CoreBridge]]:
    for link in network.links:
        if link.channel.bridge is not None:
            yield link, link.channel.bridge


# -- a single bridge ---------------------------------------------------------------------------------------------------


def sources(network: Network) -> Iterator[Issue]:
    """Find bridges whose queue may not be there, and several that take from one."""
    seen: dict[tuple[int, str], Channel] = {}
    for number, member, channel, bridge in _bridges(network):
        entry = bridge.entry
        if not bridge.defined:
            what = f"there is no queue {entry.queue!r} in the addresses of {member.name}: the bridge {channel.name!r} "
            what += "is not deployed unless its store has one"
            yield Issue(Severity.WARNING, channel.spot, what, "add it to <addresses>")
        first = seen.setdefault((number, entry.queue), channel)
        assert first.bridge is not None
        if first is not channel and not (first.bridge.entry.selector and entry.selector):
            what = f"the bridge {first.name!r} takes from {entry.queue!r} too: each gets some of its messages"
            remedy = "give each a queue of its own, bound to that address, or filters that exclude one another"
            yield Issue(Severity.WARNING, channel.spot, what, remedy)
        if entry.concurrency > 1:
            what = f"concurrency {entry.concurrency}: that many consumers of {entry.queue!r}, so the order of "
            what += "messages is lost"
            yield Issue(Severity.NOTE, channel.spot, what, "1, where the order matters")


def retries(network: Network) -> Iterator[Issue]:
    """Find bridges that give up, and delays that do not grow."""
    for _, member, channel, bridge in _bridges(network):
        entry = bridge.entry
        for name, count in (
            ("initial-connect-attempts", entry.attempts_first),
            ("reconnect-attempts", entry.attempts),
        ):
            if count >= 0:
                what = f"{name} {count}: then the bridge {channel.name!r} of {member.name} stays down, and "
                what += f"{entry.queue!r} fills until somebody starts it"
                yield Issue(Severity.WARNING, channel.spot, what, f"{name} -1: for ever")
        if entry.multiplier > 1 and entry.retry_ms_max <= entry.retry_ms:
            what = f"retry-interval-multiplier has no effect: max-retry-interval is {entry.retry_ms_max} ms, and "
            what += f"retry-interval {entry.retry_ms} ms"
            yield Issue(Severity.NOTE, channel.spot, what, "a greater max-retry-interval")


def deduplication(network: Network) -> Iterator[Issue]:
    """Find bridges whose messages may come twice."""
    for _, member, channel, _ in _bridges(network):
        if not channel.deduplicates:
            what = f"use-duplicate-detection is false: after the bridge {channel.name!r} of {member.name} broke, "
            what += "messages may come twice"
            yield Issue(Severity.NOTE, channel.spot, what, "take it out: true is the default")


def credentials(network: Network) -> Iterator[Issue]:
    """Find bridges that sign in as the user of the cluster, with what anybody can look up."""
    for _, _, channel, bridge in _bridges(network):
        if bridge.user:
            continue
        what = f"the bridge {channel.name!r} names no user, so it signs in as the cluster's, which is left at its "
        what += f"default here; Artemis refuses that since {DEFAULTS_REFUSED_SINCE} where security is enabled"
        yield Issue(Severity.WARNING, channel.spot, what, "give <user> and <password> of a user of the other broker")


# -- a bridge and the broker that it leads to --------------------------------------------------------------------------


def ways(network: Network) -> Iterator[Issue]:
    """Find bridges that may lead to several brokers, to this one, or not on to a backup."""
    for number, member, channel, bridge in _bridges(network):
        meant = network.meant.get((number, channel.name), ())
        reached = dict.fromkeys(node for nodes in meant for node in nodes)
        reached |= dict.fromkeys(link.target for link in network.links if link.channel is channel)
        if network.node_of(number) in reached:
            what = f"the bridge {channel.name!r} leads back to {member.name} itself"
            yield Issue(Severity.WARNING, channel.spot, what, "a <divert> does that without a connection")
        if len(reached) > 1:
            names = ", ".join(network.nodes[node].name for node in reached)
            what = f"the bridge {channel.name!r} leads to one of {names}, whichever answers: they are no pair"
            yield Issue(Severity.WARNING, channel.spot, what, "a bridge for each, with a queue of its own")
        for node in reached:
            if len(network.nodes[node].members) > 1 and not bridge.entry.ha and network.node_of(number) != node:
                what = f'the bridge {channel.name!r} does not follow when {network.nodes[node].name} fails over: "ha" '
                yield Issue(Severity.WARNING, channel.spot, what + "is not true", "<ha>true</ha>")


def unbound(network: Network) -> Iterator[Issue]:
    """Find addresses at the far side to which no queue is bound."""
    for link, bridge in _links(network):
        members = [network.members[number] for number in network.nodes[link.target].members]
        if not bridge.target or not members or any(_takes(member, bridge.target) for member in members):
            continue
        name = network.nodes[link.target].name
        what = f"no queue in the file of {name} is bound to {bridge.target!r}: what the bridge {link.channel.name!r} "
        what += "sends there is dropped while nobody has made one"
        remedy = f"add the address and its queue to <addresses> of {name}, or send-to-dla-on-no-route to its settings"
        yield Issue(Severity.WARNING, link.channel.spot, what, remedy)


def _takes(member: Member, address: str) -> bool:
    orders = [order.address for order in member.orders]
    return any(matches(bound, address, ARTEMIS) for bound in [*orders, *(place for _, place in member.bound)])


def circles(network: Network) -> Iterator[Issue]:
    """Find messages that come back to where a bridge took them: nothing counts their hops."""
    onward = _onward(network)
    said: dict[tuple[Stop, ...], None] = {}
    for start in onward:
        way = _way_back(start, onward)
        stops = tuple(sorted(stop for stop, _, _ in way))
        if not way or stops in said:
            continue
        said[stops] = None
        names = " - ".join(f"{network.nodes[node].name}: {address}" for node, address in [start, *(s[0] for s in way)])
        filtered = any(step[1] for step in way)
        channel = next(step[2] for step in way if step[2] is not None)
        what = f"messages go round, {names}: core bridges know no hop limit"
        what += ", so they end only where a filter stops them" if filtered else ", so they never end"
        remedy = "a filter that leaves out what has been here, or another address for what comes back"
        yield Issue(Severity.WARNING if filtered else Severity.ERROR, channel.spot, what, remedy)


def _onward(network: Network) -> dict[Stop, list[Step]]:
    """Return where a message at an address goes: by bridges from queues that are bound to it, and by diverts."""
    found: dict[Stop, list[Step]] = {}
    for link, bridge in _links(network):
        if bridge.source:
            step = ((link.target, bridge.target), bool(bridge.entry.selector), link.channel)
            found.setdefault((link.source, bridge.source), []).append(step)
    for node, members in enumerate(one.members for one in network.nodes):
        for member in (network.members[number] for number in members):
            for order in member.orders:
                found.setdefault((node, order.address), []).append(((node, order.target), order.filtered, None))
    return found


def _way_back(start: Stop, onward: dict[Stop, list[Step]]) -> list[Step]:
    """Return a shortest way from ``start`` to itself that leads over a bridge; [] where there is none."""
    pending: list[tuple[Stop, list[Step]]] = [(start, [])]
    seen: dict[Stop, None] = {}
    for here, way in pending:
        for step in onward.get(here, []):
            if step[0] == start and any(one[2] is not None for one in [*way, step]):
                return [*way, step]
            if step[0] not in seen:
                seen[step[0]] = None
                pending.append((step[0], [*way, step]))
    return []


BRIDGE_RULES: Final[tuple[Callable[[Network], Iterable[Issue]], ...]] = (
    sources,
    retries,
    deduplication,
    credentials,
    ways,
    unbound,
    circles,
)
