"""What is wrong with single channels, and with a channel and the broker at its far end (classic.md 1.2 to 1.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from entrepot.analysis.model import ANY_HOST, FOREVER, Channel, Issue, Link, Listener, Member, Network
from entrepot.base.patterns import MIXED, matches
from entrepot.config.findings import Severity
from entrepot.config.model import IncludedDestination
from entrepot.protocols.openwire.negotiation import UNLIMITED

DESCEND: Final = (">", "#")


def covers(wide: IncludedDestination, narrow: IncludedDestination) -> bool:
    """Say whether every destination of ``narrow`` is one of ``wide``."""
    if wide.topic != narrow.topic:
        return False
    if narrow.pattern.rpartition(".")[2] in DESCEND and wide.pattern.rpartition(".")[2] not in DESCEND:
        return False
    return matches(wide.pattern, narrow.pattern, MIXED)


def _said(entry: IncludedDestination) -> str:
    return f"{'topic' if entry.topic else 'queue'} {entry.pattern}"


def _channels(network: Network) -> Iterator[tuple[Member, Channel]]:
    for member in network.members:
        for channel in member.channels:
            yield member, channel


def _remotes(network: Network) -> Iterator[tuple[Link, Member]]:
    """Yield links with a broker at the far end of each."""
    for link in network.links:
        for number in network.nodes[link.target].members:
            yield link, network.members[number]


# -- lists -------------------------------------------------------------------------------------------------------------


def filters(network: Network) -> Iterator[Issue]:
    """Find entries of the lists that contradict one another, or have no effect."""
    for _, channel in _channels(network):
        for kind, entries in (
            ("staticallyIncludedDestinations", channel.static),
            ("dynamicallyIncludedDestinations", channel.included),
        ):
            for entry in entries:
                for out in channel.excluded:
                    if covers(out, entry):
                        yield Issue(
                            Severity.ERROR,
                            channel.spot,
                            f"{_said(entry)} is in {kind} and excluded, by {_said(out)}: nothing of it crosses",
                            "take it out of one of the two lists",
                        )
                        break
        for entry in channel.static:
            if any(covers(other, entry) for other in channel.included):
                yield Issue(
                    Severity.NOTE,
                    channel.spot,
                    f"{_said(entry)} is included both statically and dynamically: it is forwarded without any demand",
                    "keep one of the two",
                )
        if channel.static_only and channel.included:
            yield Issue(
                Severity.WARNING,
                channel.spot,
                "staticBridge listens to no demand: dynamicallyIncludedDestinations has no effect",
                "name the destinations in staticallyIncludedDestinations, or take staticBridge out",
            )
        if channel.destination_filter and channel.included:
            yield Issue(
                Severity.NOTE,
                channel.spot,
                "destinationFilter replaces the filter that follows from dynamicallyIncludedDestinations: demand that "
                "only one of the two lets through is not heard",
                "take destinationFilter out",
            )
        if channel.static and channel.included == () and not channel.static_only and not channel.excluded:
            named = ", ".join(_said(entry) for entry in channel.static[:4])
            yield Issue(
                Severity.NOTE,
                channel.spot,
                f"{named}: forwarded always; everything else crosses too, as soon as somebody asks for it",
                'staticBridge="true", or dynamicallyIncludedDestinations, restricts it to what is named',
            )


def forwarded_unasked(network: Network) -> Iterator[Issue]:
    """Find queues that are emptied to the far side although nobody reads them there."""
    for _, channel in _channels(network):
        queues = [entry.pattern for entry in channel.static if not entry.topic]
        if queues and channel.duplex:
            yield Issue(
                Severity.WARNING,
                channel.spot,
                f"queue {', '.join(queues[:4])} is included statically on a duplex connector: each side draws "
                "the other's messages, whether it has consumers or not, and what has crossed does not come back",
                "use dynamicallyIncludedDestinations, or a connector without duplex",
            )
        elif queues:
            yield Issue(
                Severity.NOTE,
                channel.spot,
                f"queue {', '.join(queues[:4])} is forwarded even without consumers there: consumers here compete with "
                "the bridge",
                "use dynamicallyIncludedDestinations to forward on demand",
            )


# -- demand ------------------------------------------------------------------------------------------------------------


def advisories(network: Network) -> Iterator[Issue]:
    """Find brokers of ActiveMQ that would not announce their consumers."""
    for link, remote in _remotes(network):
        if not remote.advisories and not link.channel.static_only:
            owner = network.members[link.owner].name
            yield Issue(
                Severity.WARNING,
                remote.spot,
                f'advisorySupport="false": as ActiveMQ Classic, {remote.name} would announce no consumer to the '
                f"dynamic connector {link.channel.name!r} of {owner}, and nothing would cross, replies neither "
                "(entrepot announces always)",
                'take it out, or use staticBridge="true" with staticallyIncludedDestinations',
            )


def virtual_demand(network: Network) -> Iterator[Issue]:
    """Find demand for virtual topics that the far side does not announce."""
    for link, remote in _remotes(network):
        if link.channel.virtual_demand and not remote.virtual_demand:
            yield Issue(
                Severity.WARNING,
                link.channel.spot,
                f"useVirtualDestSubs asks {remote.name} for what it does not announce",
                f'give <broker brokerName="{remote.name}"> useVirtualDestSubs="true"',
            )


def durables(network: Network) -> Iterator[Issue]:
    """Find a reconciliation of durable subscriptions that compares nothing."""
    for _, channel in _channels(network):
        if channel.syncs_durables and not any(entry.topic for entry in channel.included):
            yield Issue(
                Severity.WARNING,
                channel.spot,
                "syncDurableSubs compares subscriptions of the topics in dynamicallyIncludedDestinations, and there "
                "are none",
                'name them: <dynamicallyIncludedDestinations><topic physicalName=">"/>',
            )


def selectors(network: Network) -> Iterator[Issue]:
    """Say once what conduit subscriptions do to selectors; warn where a file shows that there are some."""
    conduit = [(link, remote) for link, remote in _remotes(network) if link.channel.conduit]
    if not conduit:
        return
    certain = [(link, remote) for link, remote in conduit if remote.selectors]
    link, remote = (certain or conduit)[0]
    yield Issue(
        Severity.WARNING if certain else Severity.NOTE,
        link.channel.spot,
        f"conduitSubscriptions: consumers of {remote.name} with selectors share one subscription without any, so "
        "messages that none of them wants cross too, and wait there",
        'conduitSubscriptions="false", where consumers of queues have selectors'
        + ("" if certain else f" (said once, for {len(conduit)} link{'s' if len(conduit) > 1 else ''})"),
    )


def limits(network: Network) -> Iterator[Issue]:
    """Find TTLs with which nothing crosses, or that do not fit together."""
    for member, channel in _channels(network):
        if channel.core:
            continue
        message, consumer = channel.hops
        replays = bool(member.replays)
        if message == 0:
            yield Issue(Severity.ERROR, channel.spot, "messageTTL 0: no message may cross", "use 1 or more")
        elif consumer == 0 and not channel.static:
            what = "consumerTTL 0: no demand is heard, so nothing crosses"
            yield Issue(Severity.ERROR, channel.spot, what, "use 1 or more, or staticallyIncludedDestinations")
        elif replays and FOREVER != consumer < message:
            continue  # what may go back to brokers that it has seen needs a TTL for each of them
        elif consumer not in (0, message):
            less = "consumerTTL" if message == FOREVER or FOREVER != consumer < message else "messageTTL"
            yield Issue(
                Severity.NOTE,
                channel.spot,
                f"messageTTL {message} and consumerTTL {consumer}: the smaller, {less}, decides how far messages go",
                "networkTTL sets both",
            )
        if not channel.always_sync:
            yield Issue(
                Severity.NOTE,
                channel.spot,
                'alwaysSyncSend="false": a non-persistent message is settled here before anybody there has it, and is '
                "lost with the connection",
                "take it out, where that matters",
            )


# -- finding brokers ---------------------------------------------------------------------------------------------------


def discovery(network: Network) -> Iterator[Issue]:
    """Find lists of brokers that say another thing than they mean."""
    for _, channel in _channels(network):
        if channel.core:
            continue
        if channel.nested_failover:
            yield Issue(
                Severity.WARNING,
                channel.spot,
                "failover: within static: hides from the bridge that it has come to another broker: in ActiveMQ the "
                "paths of its messages and its demand are those of the broker before",
                "use masterslave:(...) for a pair; or maxReconnectAttempts=0 in the failover: options",
            )
        if channel.scheme == "failover":
            yield Issue(
                Severity.WARNING,
                channel.spot,
                "failover: is how clients find brokers; ActiveMQ has no discovery of this name and refuses it",
                "use masterslave:(...) for a pair, static:(...) for brokers that all should be linked",
            )
        places = [place for target in channel.targets for place in target]
        if len({(place.host.lower(), place.port) for place in places}) < len(places):
            what = "it names one place twice: the second bridge is refused, since it has the client id of the first"
            yield Issue(Severity.WARNING, channel.spot, what, "name each place once")
        if channel.groups and len(network.members) > 1:
            yield from _in_group(network, channel)


def _in_group(network: Network, channel: Channel) -> Iterator[Issue]:
    for group in channel.groups:
        heard = [
            member
            for member in network.members
            if channel not in member.channels and any(group in listener.groups for listener in member.listeners)
        ]
        if not heard:
            uri = group.removesuffix("?group=default")
            what = f"no other broker of these files announces itself in {uri}"
            yield Issue(Severity.WARNING, channel.spot, what, f'give a transportConnector discoveryUri="{uri}"')


def pairs(network: Network) -> Iterator[Issue]:
    """Find pairs that are linked as if they were two brokers, and brokers that are linked as if they were a pair."""
    for (owner, name), targets in network.meant.items():
        channel = next(one for one in network.members[owner].channels if one.name == name)
        if channel.core:
            continue  # its nodes are known by their identity, which a pair has once
        single: dict[int, None] = {}
        for nodes in targets:
            known = dict.fromkeys(node for node in nodes if network.nodes[node].members)
            if len(known) > 1:
                names = " and ".join(network.nodes[node].name for node in known)
                scheme = "masterslave" if channel.scheme == "masterslave" else "failover"
                yield Issue(
                    Severity.WARNING,
                    channel.spot,
                    f"{scheme}: makes one bridge, to the first that answers, and {names} are no pair: they do not "
                    "share a store, and the others get no bridge",
                    "use static:(...) to link them all",
                )
            elif len(nodes) == 1 and known:
                if nodes[0] in single:
                    yield Issue(
                        Severity.WARNING,
                        channel.spot,
                        f"{network.nodes[nodes[0]].name} is a pair, and static: makes a bridge to each of the two: the "
                        "one to the one that waits is dialled for ever, and its delays grow",
                        "use masterslave:(...), one bridge to whoever serves",
                    )
                single[nodes[0]] = None


def virtual_topics(network: Network) -> Iterator[Issue]:
    """Find virtual topics that would be doubled: both the topic and the queues behind it cross."""
    for link, remote in _remotes(network):
        owner = network.members[link.owner]
        if not (owner.virtual_topics and remote.virtual_topics) or link.channel.static_only or link.back:
            continue
        topic = IncludedDestination(pattern="VirtualTopic.x", topic=True)
        queue = IncludedDestination(pattern="Consumer.x.VirtualTopic.x", topic=False)
        if all(_carries(link.channel, one) for one in (topic, queue)):
            yield Issue(
                Severity.NOTE,
                link.channel.spot,
                "both topics VirtualTopic.> and queues Consumer.*.VirtualTopic.> cross: a message of such a topic with "
                "a plain subscriber there is copied into the queues of both brokers, and consumed twice",
                'exclude one of them: <excludedDestinations><queue physicalName="Consumer.*.VirtualTopic.>"/>',
            )
            return


def _carries(channel: Channel, entry: IncludedDestination) -> bool:
    if any(covers(out, entry) for out in channel.excluded):
        return False
    return not channel.included or any(covers(one, entry) for one in (*channel.included, *channel.static))


def frames(network: Network) -> Iterator[Issue]:
    """Find links over which the larger messages of one broker do not get into the other."""
    said: dict[tuple[int, str, int], None] = {}
    for link in network.links:
        if link.channel.core or (link.owner, link.channel.name, link.target) in said:
            continue
        takes = [one for one in _dialled(network, link) if one.frame_max]
        sends = [one.frame_max for member in _members(network, link.source) for one in member.listeners]
        if takes and sends and takes[0].frame_max < max(sends):
            said[link.owner, link.channel.name, link.target] = None
            limit, names = takes[0].frame_max, (network.nodes[link.source].name, network.nodes[link.target].name)
            yield Issue(
                Severity.WARNING,
                takes[0].spot,
                f"messages of more than {limit} octets do not cross from {names[0]} to {names[1]}: {takes[0].text} "
                f"takes no larger frame, {names[0]} takes up to {_octets(max(sends))} from its clients, and such "
                "messages become dead letters there",
                "give both ends the same wireFormat.maxFrameSize",
            )


def _dialled(network: Network, link: Link) -> list[Listener]:
    """Return the listeners that the connection of ``link`` may be at; a duplex one has the same in both directions."""
    ports = {place.port: None for target in link.channel.targets for place in target}
    return [
        listener
        for member in _members(network, link.source if link.back else link.target)
        for listener in member.listeners
        if listener.bridged
        and (listener.port in ports or any(group in listener.groups for group in link.channel.groups))
    ]


def _members(network: Network, node: int) -> list[Member]:
    return [network.members[number] for number in network.nodes[node].members]


def _octets(count: int) -> str:
    return "any size" if count >= UNLIMITED else f"{count}"


# -- clients -----------------------------------------------------------------------------------------------------------


def told_clients(network: Network) -> Iterator[Issue]:
    """Find brokers that tell clients of the others while the others do not, and addresses that are only a name."""
    bridged = [member for member in network.members if any(one.bridged for one in member.listeners)]
    telling = [member for member in bridged if any(one.tells_clients for one in member.listeners)]
    silent = [member for member in bridged if member not in telling]
    if telling and silent:
        yield Issue(
            Severity.WARNING,
            silent[0].spot,
            f"{telling[0].name} tells its clients of the other brokers, and {_names(silent)} does not: a client that "
            "has moved there hears of no change any more, and goes to brokers that are gone",
            'updateClusterClients="true" on a transportConnector of every broker',
        )
    for member in telling if len(network.members) > 1 else ():
        open_to_all = [one for one in member.listeners if one.tells_clients and one.host in ANY_HOST]
        if open_to_all:
            yield Issue(
                Severity.NOTE,
                open_to_all[0].spot,
                f"{open_to_all[0].text} is no address for clients: with updateClusterClients they are told the name of "
                "the machine instead, and one that cannot resolve it does not find this broker",
                f"write a host that every client reaches, like tcp://mq1.example:{open_to_all[0].port}",
            )


def _names(members: list[Member]) -> str:
    return ", ".join(member.name for member in members[:4]) + (" and others" if len(members) > 4 else "")


CHANNEL_RULES: Final[tuple[Callable[[Network], Iterable[Issue]], ...]] = (
    filters,
    forwarded_unasked,
    advisories,
    virtual_demand,
    durables,
    selectors,
    limits,
    discovery,
    pairs,
    virtual_topics,
    frames,
    told_clients,
)
