"""What is wrong with clusters of Artemis, and with brokers that stand in for one another (artemis.md 1 and 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from typing import Final

from entrepot.analysis.clusters import OFF, OFF_WITH_REDISTRIBUTION, ON_DEMAND, STRICT
from entrepot.analysis.graph import components
from entrepot.analysis.model import (
    ANY_HOST,
    Channel,
    Clustering,
    Issue,
    Link,
    Member,
    Network,
    Part,
)
from entrepot.cluster.address_filter import AddressFilter
from entrepot.config.findings import Severity

DEFAULTS_REFUSED_SINCE: Final = "2.54"

LOCAL: Final = "LOCAL"
REMOTE: Final = "REMOTE"
"""Types of a grouping-handler."""


def _clustered(network: Network) -> Iterator[tuple[int, Member, Clustering]]:
    for number, member in enumerate(network.members):
        if member.clustering is not None:
            yield number, member, member.clustering


def _channels(network: Network) -> Iterator[tuple[Member, Channel]]:
    for _, member, _ in _clustered(network):
        for channel in member.channels:
            if channel.cluster:
                yield member, channel


def _links(network: Network) -> list[Link]:
    return [link for link in network.links if link.channel.cluster]


def _clusters(network: Network) -> Iterator[list[int]]:
    """Yield the members of each cluster, backups with their primaries."""
    for part in components(len(network.nodes), _links(network)):
        members = [number for node in part for number in network.nodes[node].members]
        found = [number for number in members if network.members[number].clustering is not None]
        if len(found) > 1:
            yield found


def _and(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


# -- who may join ------------------------------------------------------------------------------------------------------


def credentials(network: Network) -> Iterator[Issue]:
    """Compare cluster-user and cluster-password; passwords are never quoted."""
    for cluster in _clusters(network):
        first = network.members[cluster[0]]
        for number in cluster[1:]:
            member = network.members[number]
            assert first.clustering is not None
            assert member.clustering is not None
            mine, theirs = member.clustering, first.clustering
            if mine.user != theirs.user:
                what = f"its cluster-user is {mine.user or 'the default'!r}, that of {first.name} is "
                what += f"{theirs.user or 'the default'!r}: whoever is refused stops its whole cluster"
            elif mine.password == theirs.password:
                continue
            elif mine.masked or theirs.masked:
                what = f"its cluster-password and that of {first.name} are encrypted differently: they may be one"
                yield Issue(Severity.NOTE, mine.spot, what, "see that both decrypt to the same")
                continue
            else:
                what = f"its cluster-password is not that of {first.name}: whoever is refused stops its whole cluster"
            remedy = "the same cluster-user and cluster-password on every node"
            yield Issue(Severity.ERROR, mine.spot, what, remedy)
    unsaid = [(member, said) for _, member, said in _clustered(network) if not (said.user and said.password)]
    if unsaid:
        yield Issue(
            Severity.WARNING,
            unsaid[0][1].spot,
            f"{_and(member.name for member, _ in unsaid)} leave cluster-user or cluster-password at its default, which "
            f"anybody can look up; Artemis refuses that since {DEFAULTS_REFUSED_SINCE} where security is enabled",
            "give both, the same on every node",
        )


def announced(network: Network) -> Iterator[Issue]:
    """Find nodes that tell others a place where these cannot reach them."""
    for _, member, clustering in _clustered(network):
        elsewhere = any(
            not place.local
            for other, channel in _channels(network)
            if other is not member
            for target in channel.targets
            for place in target
        )
        for name, place, spot in clustering.announced:
            if place.host in ANY_HOST:
                what = f"{name!r} tells the others to reach {member.name} at {place.text}, which is no machine"
                yield Issue(Severity.ERROR, spot, what, "name the host in the connector of connector-ref")
            elif place.local and elsewhere:
                what = f"{name!r} tells the others to reach {member.name} at {place.text}: there they find themselves"
                yield Issue(Severity.WARNING, spot, what, "name the host, as others know it, in that connector")
            elif not any(listener.core and listener.port == place.port for listener in member.listeners):
                what = f"{name!r} tells the others to reach {member.name} at port {place.port}, no acceptor for CORE"
                yield Issue(Severity.WARNING, spot, what + " is there", "name a connector with the port of an acceptor")


# -- how they find each other ------------------------------------------------------------------------------------------


def groups(network: Network) -> Iterator[Issue]:
    """Find nodes that listen where nobody speaks, are not heard themselves, or forget others between two calls."""
    several = len(network.members) > 1
    for _, member, clustering in _clustered(network):
        spoken = [group.place for group in clustering.broadcasts]
        heard = {place for channel in member.channels if channel.cluster for place in channel.groups}
        for group in clustering.discoveries:
            if group.place not in heard:
                continue
            others = [
                other
                for _, one, said in _clustered(network)
                if one is not member
                for other in said.broadcasts
                if other.place == group.place
            ]
            if several and not others:
                what = f"no other node of these files announces itself at {group.place}"
                yield Issue(
                    Severity.WARNING, group.spot, what, "give each a broadcast-group with that address and port"
                )
            if group.place not in spoken:
                what = f"{member.name} listens at {group.place} and does not announce itself there: nobody finds it"
                yield Issue(Severity.WARNING, group.spot, what, "add a broadcast-group with that address and port")
            slowest = max((other.period_ms for other in others), default=0)
            if group.period_ms <= slowest:
                what = f"a node is forgotten after {group.period_ms} ms, and announces itself every {slowest} ms"
                yield Issue(Severity.WARNING, group.spot, what, "refresh-timeout well above broadcast-period")
    for member, channel in _channels(network):
        if not channel.targets and not channel.groups:
            what = f"{channel.name!r} names no other node: messages come to {member.name}, and none leaves it"
            yield Issue(Severity.NOTE, channel.spot, what, "add static-connectors or a discovery-group-ref")


def timing(network: Network) -> Iterator[Issue]:
    """Find connections that are given up before anybody looked."""
    for _, _, clustering in _clustered(network):
        for spot in clustering.checked_too_late:
            what = "connection-ttl is not above check-period: a link that is well may be given up"
            yield Issue(Severity.WARNING, spot, what, "a connection-ttl of twice the check-period")


def overlapping(network: Network) -> Iterator[Issue]:
    """Find cluster connections of one node that are about the same addresses (artemis.md 1.12)."""
    for _, member, _ in _clustered(network):
        channels = [channel for channel in member.channels if channel.cluster]
        for one, other in combinations(channels, 2):
            if AddressFilter(one.destination_filter).meets(AddressFilter(other.destination_filter)):
                what = f"cluster-connections {one.name!r} and {other.name!r} of {member.name} are about the same "
                what += "addresses: each message goes to one queue of either cluster, by the way of balancing of the "
                what += "queue that was heard of last; a node in both is heard of twice"
                yield Issue(Severity.WARNING, other.spot, what, "an address for each that leaves out the other's")


def hops(network: Network) -> Iterator[Issue]:
    """Find max-hops with which nothing is learnt, or more than once."""
    joined = dict.fromkeys((link.source, link.target) for link in _links(network))
    for link in _links(network):
        channel = link.channel
        if channel.consumer_ttl <= 1:
            continue
        onward = [other for one, other in joined if one == link.target and other != link.source]
        if any((link.source, other) in joined for other in onward):
            yield Issue(
                Severity.WARNING,
                channel.spot,
                f"max-hops is {channel.consumer_ttl}, and some nodes are reached both directly and over another one: "
                "their queues are known twice, and messages come twice",
                "max-hops 1 where every node links every other; more only for chains",
            )
    for _, channel in _channels(network):
        if channel.consumer_ttl == 0:
            what = "max-hops 0: this node learns nothing of the others' queues, and sends them nothing"
            yield Issue(Severity.ERROR, channel.spot, what, "1, or the number of links of a chain")
        elif channel.consumer_ttl < 0:
            yield Issue(Severity.ERROR, channel.spot, f"max-hops {channel.consumer_ttl} is no number of hops", "use 1")


# -- where messages go -------------------------------------------------------------------------------------------------


def balancing(network: Network) -> Iterator[Issue]:
    """Find nodes of one cluster that share out messages in different ways."""
    for cluster in _clusters(network):
        channels = [
            (network.members[number].name, channel)
            for number in cluster
            for channel in network.members[number].channels
            if channel.cluster
        ]
        said = {name: channel.balancing for name, channel in channels}
        if len(dict.fromkeys(said.values())) > 1:
            ways = ", ".join(f"{name} {way}" for name, way in said.items())
            yield Issue(
                Severity.WARNING,
                channels[0][1].spot,
                f"the nodes share out messages in different ways ({ways}): where a message goes depends on the node "
                "that it is sent to",
                "the same message-load-balancing on every node",
            )


def grouping(network: Network) -> Iterator[Issue]:
    """Find clusters whose nodes cannot agree where message groups go (artemis.md 1.21)."""
    for _, member, clustering in _clustered(network):
        said = clustering.grouping
        if said is not None and said.kind not in (LOCAL, REMOTE):
            what = f"the type of the grouping-handler is {said.kind!r}: {member.name} keeps groups for itself"
            yield Issue(Severity.ERROR, said.spot, what, "LOCAL on one node, REMOTE on all others")
    for cluster in _clusters(network):
        if len(cluster) > 1:
            yield from _grouping_of([network.members[number] for number in cluster])


def _grouping_of(members: list[Member]) -> Iterator[Issue]:
    handlers = [(one, said) for one in members if one.clustering and (said := one.clustering.grouping) is not None]
    local = [(one, said) for one, said in handlers if said.kind == LOCAL]
    if handlers and not local:
        what = "no node has a LOCAL grouping-handler: nobody decides where groups go, and messages of new ones wait"
        yield Issue(Severity.ERROR, handlers[0][1].spot, what, "make that of one node LOCAL")
    if len(local) > 1:
        what = f"{_and(one.name for one, _ in local)} each decide where groups go: a group may be read at several nodes"
        yield Issue(Severity.ERROR, local[1][1].spot, what, "LOCAL on one node, REMOTE on all others")
    without = [one for one in members if one.clustering is not None and one.clustering.grouping is None]
    if handlers and without:
        what = f"{_and(one.name for one in without)} has no grouping-handler: groups that are sent there go anywhere"
        yield Issue(Severity.WARNING, handlers[0][1].spot, what, "give each node one, LOCAL on one of them")
    for one, said in handlers:
        longest = local[0][1].forgets_ms if local else -1
        if said.kind == REMOTE and 0 < longest < 2 * said.forgets_ms:
            what = f"group-timeout of {one.name} is more than half of that of the LOCAL handler: it may send to where "
            what += "a group was, after that is forgotten"
            yield Issue(Severity.WARNING, said.spot, what, f"at most {longest // 2}")


def stranded(network: Network) -> Iterator[Issue]:
    """Find nodes on which messages stay when their consumers leave."""
    for member, channel in _channels(network):
        assert member.clustering is not None
        moved = member.clustering.redistributes
        if not channel.targets and not channel.groups:
            continue
        if channel.balancing == STRICT:
            what = f"STRICT: messages go to every node with the queue, consumers or not, and stay on {member.name} "
            what += "when it has none"
            remedy = "ON_DEMAND, with a redistribution-delay"
            yield Issue(Severity.WARNING, channel.spot, what, remedy)
        elif channel.balancing == OFF:
            what = f"OFF: what is sent to a queue of {member.name} stays there, wherever its consumers are"
            yield Issue(Severity.NOTE, channel.spot, what, "ON_DEMAND, or OFF_WITH_REDISTRIBUTION")
        elif channel.balancing in (ON_DEMAND, OFF_WITH_REDISTRIBUTION) and not member.clustering.redistributes_all:
            but = f" (but for {_and(moved)})" if moved else ""
            yield Issue(
                Severity.WARNING,
                channel.spot,
                f"redistribution-delay is -1{but}: when the consumers of a queue leave {member.name}, its messages "
                "are stranded there while others wait for them elsewhere",
                'redistribution-delay of 0 or more in <address-setting match="#">',
            )


def deduplication(network: Network) -> Iterator[Issue]:
    """Find nodes whose messages may come twice."""
    for member, channel in _channels(network):
        if not channel.deduplicates:
            what = f"use-duplicate-detection is false: after a link of {member.name} broke, messages may come twice"
            yield Issue(Severity.NOTE, channel.spot, what, "take it out: true is the default")


# -- pairs -------------------------------------------------------------------------------------------------------------


def pairs(network: Network) -> Iterator[Issue]:
    """Find backups that no primary wants, and primaries whose backup waits for somebody else."""
    parts = [(number, member, member.part) for number, member in enumerate(network.members) if member.part is not None]
    for number, member, part in parts:
        if part.replicates and member.clustering is None:
            what = (
                f"{member.name} replicates, and has no cluster connection: clients of CORE are not told who takes over"
            )
            yield Issue(
                Severity.WARNING, part.spot, what, "add a cluster-connection; the pair itself is told by --peer"
            )
        if len(network.nodes[network.node_of(number)].members) > 1 or len(parts) < 2:
            continue
        others = [(other, said) for _, other, said in parts if said.backup != part.backup]
        same = [(other, said) for other, said in others if said.replicates == part.replicates]
        yield from _alone(member, part, same, others)
    for node in network.nodes:
        backups = [network.members[one] for one in node.members if _is_backup(network.members[one])]
        if len(backups) > 1 and all(one.part is not None and one.part.replicates for one in backups):
            assert backups[1].part is not None
            what = f"{_and(one.name for one in backups)} would copy one primary, which has one backup"
            yield Issue(
                Severity.WARNING, backups[1].part.spot, what, "give each backup the group-name of its own primary"
            )


def rivals(network: Network) -> Iterator[Issue]:
    """Find primaries of one pair, and votes that cannot be had."""
    first: dict[str, tuple[Member, Part]] = {}
    nodes = len(network.nodes)
    for member in network.members:
        part = member.part
        if part is None or not part.replicates:
            continue
        if part.quorum > nodes > 1:
            what = f"quorum-size of {member.name} is {part.quorum}, and these files are of {nodes} nodes: no vote of "
            what += "Artemis can ever be won"
            yield Issue(Severity.WARNING, part.spot, what, f"at most {nodes}; here a lease decides, and nobody votes")
        if part.backup or not part.group:
            continue
        other, said = first.setdefault(part.group, (member, part))
        if other is not member and not (part.peers and part.peers == said.peers):
            what = f"{other.name} and {member.name} are both the primary of the group {part.group!r}, which has one"
            yield Issue(Severity.ERROR, part.spot, what, "<backup> for one of them, or one coordination-id for both")


def _is_backup(member: Member) -> bool:
    return member.part is not None and member.part.backup


def _alone(
    member: Member, part: Part, same: list[tuple[Member, Part]], others: list[tuple[Member, Part]]
) -> Iterator[Issue]:
    role, other_role = ("backup", "primary") if part.backup else ("primary", "backup")
    severity = Severity.ERROR if part.backup else Severity.WARNING
    if not others:
        return
    if not same:
        how = "replicates" if part.replicates else "shares a store"
        what = f"the {role} {member.name} {how}, and no {other_role} of these files does"
        yield Issue(severity, part.spot, what, "the same ha-policy on both of a pair")
    elif part.replicates:
        groups_ = _and(f"{other.name} {said.group or 'without a group'}" for other, said in same)
        mine = f"group-name {part.group!r}" if part.group else "no group-name"
        what = f"the {role} {member.name} has {mine}, and no {other_role} has the same ({groups_})"
        yield Issue(severity, part.spot, what, "the same group-name on both of a pair")
    else:
        stores = _and(f"{other.name} {other.store}" for other, _ in same)
        what = f"the {role} {member.name} has its store in {member.store}, and no {other_role} has the same ({stores})"
        yield Issue(Severity.WARNING, part.spot, what, "the same journal-directory, mounted alike, on both of a pair")


CLUSTER_RULES: Final[tuple[Callable[[Network], Iterable[Issue]], ...]] = (
    credentials,
    announced,
    groups,
    timing,
    overlapping,
    hops,
    balancing,
    grouping,
    stranded,
    deduplication,
    pairs,
    rivals,
)
