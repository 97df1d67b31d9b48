"""What is wrong with a network as a whole: names, ports, ways, TTLs, circles (classic.md 1 and 8.6).

Each rule is a function from a network to issues, and says what happens and what to do. An ERROR is what cannot work, a
WARNING what surprises in production, a NOTE what one should have decided on purpose. Rules about a single channel are
in `channels.py`, those about who may connect in `access.py`, those of Artemis in `cluster_rules.py` and
`bridge_rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from entrepot.analysis.access import ACCESS_RULES
from entrepot.analysis.bridge_rules import BRIDGE_RULES
from entrepot.analysis.channels import CHANNEL_RULES
from entrepot.analysis.circle_rules import REPLAY, SHOWN_MAX, circles, named, priorities, some
from entrepot.analysis.cluster_rules import CLUSTER_RULES
from entrepot.analysis.graph import UNREACHED, components, distances, passes, served, shortest
from entrepot.analysis.model import ANY_HOST, Channel, Issue, Link, Listener, Member, Network
from entrepot.base.patterns import MIXED, overlaps
from entrepot.config.findings import Findings, Severity

Rule = Callable[[Network], Iterable[Issue]]


def judge(network: Network) -> list[Issue]:
    """Return every issue, in the order of the rules. With one broker, only what needs no other."""
    rules = [priorities, *CHANNEL_RULES, *ACCESS_RULES, *CLUSTER_RULES, *BRIDGE_RULES]
    if len(network.members) > 1:
        rules = [*NETWORK_RULES, *rules]
    found = [*network.issues]
    for rule in rules:
        found += rule(network)
    return list(dict.fromkeys(found))


def report(network: Network, findings: Findings) -> None:
    """Add every issue to ``findings``."""
    for issue in judge(network):
        spot = issue.spot
        findings.add(issue.severity, spot.file, spot.line, spot.path, issue.what, issue.remedy)


# -- brokers -----------------------------------------------------------------------------------------------------------


def names(network: Network) -> Iterator[Issue]:
    """Find brokers of one name: client ids of bridges and durable names are made of it."""
    seen: dict[str, int] = {}
    for number, member in enumerate(network.members):
        first = seen.setdefault(member.name, number)
        if first != number and network.node_of(first) != network.node_of(number):
            there = network.members[first].spot
            what = f"there are two brokers {member.name!r}; the other is {there.file}:{there.line}"
            if member.clustering is not None:
                what += ": logs and notifications cannot tell them apart"
                yield Issue(Severity.WARNING, member.spot, what, "give each broker a <name> of its own")
                continue
            what += ": their bridges take each other's client ids, and one of them is refused"
            yield Issue(Severity.ERROR, member.spot, what, "give each broker a brokerName of its own")


def stores(network: Network) -> Iterator[Issue]:
    """Say which brokers are a pair, and find two on one machine that would be one without meaning it."""
    near = _neighbours_by_loopback(network)
    for number, member in enumerate(network.members):
        for other in range(number):
            there = network.members[other]
            if not member.store or member.store != there.store:
                continue
            if network.node_of(number) == network.node_of(other):
                what = f"it and {there.name} ({there.file}) are a pair: they share {member.store}, and one waits"
                yield Issue(Severity.NOTE, member.spot, what, "if these are two brokers, give each a name and a store")
            elif (other, number) in near or _one_machine(member, there):
                what = (
                    f"its store {member.store} is that of {there.name} ({there.file}) on the same machine, too: while "
                )
                what += "one of them runs, the other does not"
                yield Issue(Severity.ERROR, member.spot, what, "give each broker a directory of its own")


def ports(network: Network) -> Iterator[Issue]:
    """Find two brokers of one machine that want one port."""
    near = _neighbours_by_loopback(network)
    for number, member in enumerate(network.members):
        for other in range(number):
            if network.node_of(number) == network.node_of(other):
                continue
            for mine in member.listeners:
                for theirs in network.members[other].listeners:
                    together = (other, number) in near or _one_machine(member, network.members[other])
                    if _clash(mine, theirs, together=together):
                        yield Issue(
                            Severity.ERROR,
                            mine.spot,
                            f"{mine.text} is taken by {network.members[other].name} ({theirs.spot.file}:"
                            f"{theirs.spot.line}) on the same machine: the one that starts second does not",
                            "give each its own port",
                        )


def _neighbours_by_loopback(network: Network) -> dict[tuple[int, int], None]:
    """Return pairs of members of which one dials the other by a loopback address."""
    found: dict[tuple[int, int], None] = {}
    for link in network.links:
        places = [place for target in link.channel.targets for place in target]
        if not link.back and places and all(place.local for place in places):
            for member in network.nodes[link.target].members:
                found[min(member, link.owner), max(member, link.owner)] = None
    return found


def _one_machine(one: Member, other: Member) -> bool:
    return bool(one.host) and one.host.lower() == other.host.lower()


def _clash(mine: Listener, theirs: Listener, *, together: bool) -> bool:
    if mine.port != theirs.port or mine.port <= 0:
        return False
    if together:
        return mine.host == theirs.host or mine.host in ANY_HOST or theirs.host in ANY_HOST
    loopback = mine.host in ("localhost", "::1") or mine.host.startswith("127.")
    return mine.host == theirs.host and mine.host not in ANY_HOST and not loopback


# -- ways --------------------------------------------------------------------------------------------------------------


def connection(network: Network) -> Iterator[Issue]:
    """Find brokers that are not connected, and networks that are several."""
    if len(network.nodes) == 1:
        return  # a pair: one of them serves
    if not any(member.channels for member in network.members):
        spot = network.members[0].spot
        what = "none of these brokers has a network connector or a cluster connection: they do not know each other"
        yield Issue(Severity.WARNING, spot, what, 'add <networkConnectors> with uri="static:(tcp://HOST:61616)"')
        return
    alone = [number for number, node in enumerate(network.nodes) if node.members and not _touched(network, number)]
    for number in alone:
        member = network.members[network.nodes[number].members[0]]
        what = f"no link leads from or to {member.name}: its clients see nothing of the others"
        yield Issue(Severity.WARNING, member.spot, what, "add a network connector here, or one to it elsewhere")
    parts = [
        part
        for part in components(len(network.nodes), network.links)
        if any(network.nodes[node].members for node in part) and part[0] not in alone
    ]
    if len(parts) > 1:
        said = "; ".join(some(network.nodes[node].name for node in part) for part in parts)
        spot = network.members[network.nodes[parts[1][0]].members[0]].spot
        what = f"this is not one network but {len(parts)}: {said}"
        yield Issue(Severity.WARNING, spot, what, "connect one broker of each part")


def _touched(network: Network, node: int) -> bool:
    return any(node in (link.source, link.target) for link in network.links)


def one_way(network: Network) -> Iterator[Issue]:
    """Name pairs between which messages go one way only: right for a DMZ, and a surprise elsewhere."""
    far = distances(len(network.nodes), network.links)
    known = [number for number, node in enumerate(network.nodes) if node.members]
    found = [
        (one, two)
        for one in known
        for two in known
        if far[one][two] == UNREACHED and far[two][one] not in (UNREACHED, 0)
    ]
    if not found:
        return
    said = some(f"{network.nodes[one].name} to {network.nodes[two].name}" for one, two in found)
    link = next(link for link in network.links if far[link.target][link.source] == UNREACHED)
    yield Issue(
        Severity.NOTE,
        link.channel.spot,
        f"messages go one way only: there is no way from {said}; replies cannot return either",
        "a bridge of that broker brings them back"
        if link.channel.bridge is not None
        else "name that node in the static-connectors of the other, too"
        if link.channel.cluster
        else 'duplex="true" on the connector opens the way back over the same connection',
    )


def hops(network: Network) -> Iterator[Issue]:
    """Find TTLs that are shorter than the ways: messages for consumers behind them wait where they were sent."""
    count = len(network.nodes)
    far, real = distances(count, network.links), served(count, network.links)
    short: dict[tuple[int, str], tuple[Channel, dict[str, int]]] = {}
    for one in range(count):
        for two in range(count):
            inside = network.nodes[one].members and network.nodes[two].members
            if inside and far[one][two] > 0 and real[one][two] == UNREACHED:
                for link in _too_short(shortest(one, two, count, network.links)):
                    said = f"{network.nodes[one].name} to {network.nodes[two].name}"
                    _, pairs = short.setdefault((link.owner, link.channel.name), (link.channel, {}))
                    pairs[said] = far[one][two]
    for channel, pairs in short.values():
        needed = max(pairs.values())
        length = f"{needed} hops" if needed == min(pairs.values()) else f"up to {needed} hops"
        remedy = (
            f'networkTTL="{needed}" on every connector of the way (messageTTL and consumerTTL where they are given)'
        )
        yield Issue(
            Severity.WARNING,
            channel.spot,
            f"messages do not get from {some(list(pairs))}: that takes {length}, and {_ttl_text(channel)}",
            f"max-hops {needed} on every node of the way" if channel.cluster else remedy,
        )


def _too_short(way: list[Link]) -> list[Link]:
    return [link for at, link in enumerate(way) if not passes(link, at, len(way))]


def _ttl_text(channel: Channel) -> str:
    message, consumer = channel.hops
    if channel.cluster:
        return f"cluster-connection {channel.name!r} has max-hops {consumer}"
    if message == consumer:
        return f"connector {channel.name!r} has networkTTL {message}"
    return f"connector {channel.name!r} has messageTTL {message} and consumerTTL {consumer}"


def too_far(network: Network) -> Iterator[Issue]:
    """Find TTLs that are longer than any way: demand is announced where it cannot be of use."""
    inside = [number for number, node in enumerate(network.nodes) if node.members]
    if len(inside) != len(network.nodes) or len(inside) < 2:
        return  # what is outside may need them
    longest = max(far for row in distances(len(network.nodes), network.links) for far in row)
    # Demand is all that is announced; messages may need a TTL for each broker that their consumers move to.
    more = [one for one in _channels(network) if one.consumer_ttl > max(longest, 1) and not one.core]
    if more:
        yield Issue(
            Severity.NOTE,
            more[0].spot,
            f"the TTL of {max(one.consumer_ttl for one in more)} on {named(more)} is longer than the longest way of "
            f"this network, {longest}: subscriptions are announced over detours, which costs memory and may turn "
            "messages round",
            f'consumerTTL="{max(longest, 1)}" is enough',
        )


def _channels(network: Network) -> list[Channel]:
    return list({(link.owner, link.channel.name): link.channel for link in network.links}.values())


# -- several ways ------------------------------------------------------------------------------------------------------


def doubled(network: Network) -> Iterator[Issue]:
    """Find two links in one direction between two brokers: topic messages and subscriptions cross twice."""
    seen: dict[tuple[int, int], Link] = {}
    said: dict[tuple[int, int], None] = {}
    for link in network.links:
        first = seen.setdefault((link.source, link.target), link)
        pair = (min(link.source, link.target), max(link.source, link.target))
        apart = link.channel.cluster and first.channel.destination_filter != link.channel.destination_filter
        apart = apart or first.channel.bridge is not None or link.channel.bridge is not None  # one queue each
        if first is link or pair in said or apart or not _overlap(first.channel, link.channel):
            continue
        said[pair] = None
        one, two = network.nodes[link.source].name, network.nodes[link.target].name
        if first.owner == link.owner:
            what = f"connectors {first.channel.name!r} and {link.channel.name!r} both lead from {one} to {two}, and"
            what += " carry the same destinations: consumers count twice"
            remedy = "give each its own destinations, by dynamicallyIncludedDestinations and excludedDestinations"
        else:
            both = first.channel.duplex and link.channel.duplex
            which = "both are duplex" if both else "one of them is duplex"
            what = f"{one} and {two} each have a connector to the other, and {which}: there are two links from {one} to"
            what += f" {two} (the other is {first.channel.spot.file}:{first.channel.spot.line}), and subscriptions and"
            what += " topic messages cross over both"
            remedy = "keep one connector with duplex, or one on each side without"
        yield Issue(Severity.WARNING, link.channel.spot, what, remedy)


def _overlap(one: Channel, other: Channel) -> bool:
    """Say whether two channels may carry one destination; lists that name other kinds or names keep them apart."""
    mine, theirs = (*one.included, *one.static), (*other.included, *other.static)
    if not mine or not theirs or not one.included or not other.included:
        excluded = {(entry.topic, entry.pattern) for entry in (*one.excluded, *other.excluded)}
        kinds = {topic for topic, pattern in excluded if pattern in (">", "#")}
        named = {entry.topic for entry in (*mine, *theirs)} or {True, False}
        return not named <= kinds
    return any(a.topic == b.topic and overlaps(a.pattern, b.pattern, MIXED) for a in mine for b in theirs)


# -- messages that do not return ---------------------------------------------------------------------------------------


def stranded(network: Network) -> Iterator[Issue]:
    """Find brokers from which queue messages could return and are not let (classic.md 1.13)."""
    found: list[Member] = []
    for number, node in enumerate(network.nodes):
        bridges = [link for link in network.links if not link.channel.core]
        sources = [link.source for link in bridges if link.target == number]
        if any(link.target in sources for link in bridges if link.source == number):
            found += [network.members[one] for one in node.members if not network.members[one].replays]
    if found:
        yield Issue(
            Severity.NOTE,
            found[0].spot,
            f"queue messages that came to {some(one.name for one in found)} over the network do not go back when "
            "their consumers leave: they wait there, even while somebody asks for them where they came from",
            f"where consumers move, {REPLAY}",
        )


def replays(network: Network) -> Iterator[Issue]:
    """Find replay that ActiveMQ itself would undo, and replay without a way back."""
    audited = [replay for member in network.members for replay in member.replays if replay.audited]
    if audited:
        where = " and ".join(dict.fromkeys(f"{one.spot.file}:{one.spot.line}" for one in audited[:SHOWN_MAX]))
        more = len(audited) - SHOWN_MAX
        yield Issue(
            Severity.NOTE,
            audited[0].spot,
            f"replay of {some(repr(one.pattern) for one in audited)} works here as it is (at {where}"
            f"{f' and {more} more' if more > 0 else ''}); ActiveMQ Classic takes what returns for a "
            "duplicate and drops it",
            'add enableAudit="false" to the policyEntry of every broker of ActiveMQ in this network',
        )
    for number, node in enumerate(network.nodes):
        leaves = any(link.source == number for link in network.links)
        for member in (network.members[one] for one in node.members):
            for replay in member.replays:
                if not leaves:
                    yield Issue(
                        Severity.WARNING,
                        replay.spot,
                        f"replay of {replay.pattern!r} has no way to go: no link leads away from {member.name}",
                        'make the connector that leads here duplex="true"',
                    )


NETWORK_RULES: Final[tuple[Rule, ...]] = (
    names,
    stores,
    ports,
    connection,
    one_way,
    hops,
    too_far,
    doubled,
    circles,
    stranded,
    replays,
)
