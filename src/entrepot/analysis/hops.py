"""What the way from one broker to another does to messages, hop by hop, and which hop is the weakest.

What every hop does, whatever its settings: a persistent message is settled on this side when the other has it on disk,
so none is lost and one whose answer was lost goes again; a non-persistent one is lost with a broker that stops; topic
messages cross for the subscribers that are known, so those without a durable subscription miss what is said while a
link is down. What is found here is what settings add to that (docs/networks/guarantees.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from msgspec import Struct

from entrepot.analysis.clusters import OFF, OFF_WITH_REDISTRIBUTION, STRICT
from entrepot.analysis.graph import passes, shortest
from entrepot.analysis.model import CoreBridge, Link, Member, Network
from entrepot.base.errors import InvalidOption


class Grade(IntEnum):
    """What may become of a message, the worst last."""

    KEEPS = 0
    STRANDS = 1
    DOUBLES = 2
    LOSES = 3
    STOPS = 4


WORDS: Final = {
    Grade.KEEPS: "keeps",
    Grade.STRANDS: "may strand",
    Grade.DOUBLES: "may double",
    Grade.LOSES: "may lose",
    Grade.STOPS: "stops",
}


class Risk(Struct, frozen=True):
    """One thing that may happen on a hop, and what changes it."""

    grade: Grade
    what: str
    remedy: str


class Hop(Struct, frozen=True):
    """One link of a way. ``risks``: the worst first."""

    source: str
    target: str
    link: Link
    risks: tuple[Risk, ...]

    @property
    def grade(self) -> Grade:
        """The worst that may happen."""
        return self.risks[0].grade if self.risks else Grade.KEEPS


def ends(network: Network, text: str) -> tuple[int, int]:
    """Return the nodes of ``FROM:TO``, by the names of brokers. Raises InvalidOption."""
    nodes = {member.name: network.node_of(number) for number, member in enumerate(network.members)}
    for at, letter in enumerate(text):
        if letter == ":" and text[:at] in nodes and text[at + 1 :] in nodes:
            return nodes[text[:at]], nodes[text[at + 1 :]]
    raise InvalidOption(
        f"--path {text!r} does not name two of these brokers", remedy=f"write FROM:TO with {', '.join(nodes)}"
    )


def way(network: Network, source: int, target: int) -> list[Hop]:
    """Return the hops of a shortest way; [] where there is none."""
    links = shortest(source, target, len(network.nodes), network.links)
    found = []
    for at, link in enumerate(links):
        risks = sorted(_risks(network, link, at, len(links)), key=lambda risk: -risk.grade)
        found.append(Hop(network.nodes[link.source].name, network.nodes[link.target].name, link, tuple(risks)))
    return found


def weakest(hops: list[Hop]) -> int:
    """Return the number of the hop on which most may happen, from 0: the first of several."""
    return max(range(len(hops)), key=lambda at: (hops[at].grade, -at))


def _members(network: Network, node: int) -> list[Member]:
    return [network.members[number] for number in network.nodes[node].members]


def _risks(network: Network, link: Link, at: int, length: int) -> Iterator[Risk]:
    channel = link.channel
    if not passes(link, at, length):
        what = "max-hops" if channel.cluster else "the TTL of this connector"
        remedy = f"max-hops {length}" if channel.cluster else f'networkTTL="{length}" on every connector of the way'
        yield Risk(Grade.STOPS, f"{what} is too small for hop {at + 1} of {length}: no demand and no message", remedy)
    if at == 0:
        yield from _memory(network, link.source, "was not sent on yet")
    yield from _memory(network, link.target, "has come")
    if channel.bridge is not None:
        yield from _of_core_bridge(network, link, channel.bridge)
    else:
        yield from _of_cluster(network, link) if channel.cluster else _of_bridge(network, link)


def _memory(network: Network, node: int, which: str) -> Iterator[Risk]:
    for member in _members(network, node):
        if not member.store:
            what = f"{member.name} keeps nothing on disk: what {which} is lost when it stops"
            yield Risk(Grade.LOSES, what, 'persistent="true" and a store')


def _of_bridge(network: Network, link: Link) -> Iterator[Risk]:
    channel = link.channel
    target = network.nodes[link.target].name
    if not channel.always_sync:
        what = 'alwaysSyncSend="false": non-persistent messages under way are lost with the connection'
        yield Risk(Grade.LOSES, what, "take it out")
    if not _audited(network, link):
        where = 'checkDuplicateMessagesOnDuplex="false"' if link.back else f'auditNetworkProducers="false" at {target}'
        what = "a message whose answer was lost with the connection comes again, and nobody compares"
        yield Risk(Grade.DOUBLES, what, f"take out {where}")
    if channel.conduit and any(member.selectors for member in _members(network, link.target)):
        what = f"conduitSubscriptions: messages that no selector at {target} wants cross too, and wait there"
        yield Risk(Grade.STRANDS, what, 'conduitSubscriptions="false"')
    if any(not entry.topic for entry in channel.static):
        what = f"queues that are included statically cross without consumers at {target}"
        yield Risk(Grade.STRANDS, what, "dynamicallyIncludedDestinations")
    members = _members(network, link.target)
    if members and not all(member.replays for member in members):
        what = f"queue messages that came to {target} do not go on or back when its consumers leave"
        yield Risk(Grade.STRANDS, what, 'replayWhenNoConsumers="true" there')


def _audited(network: Network, link: Link) -> bool:
    if link.back:
        return link.channel.checks_duplicates
    ports = {place.port for target in link.channel.targets for place in target}
    listeners = [one for member in _members(network, link.target) for one in member.listeners if one.bridged]
    dialled = [one for one in listeners if one.port in ports] or listeners
    return bool(dialled) and all(one.audits for one in dialled)


def _of_core_bridge(network: Network, link: Link, bridge: CoreBridge) -> Iterator[Risk]:
    target = network.nodes[link.target].name
    what = f"only messages of {bridge.entry.queue} cross"
    what += f", those where {bridge.entry.selector}; the rest waits there" if bridge.entry.selector else ""
    what += f", wanted at {target} or not"
    yield Risk(Grade.STRANDS, what, "a cluster connection goes by what consumers want")
    if max(bridge.entry.attempts, bridge.entry.attempts_first) >= 0:
        what = "it gives up after some attempts to connect, and messages wait until somebody starts it"
        yield Risk(Grade.STRANDS, what, "reconnect-attempts and initial-connect-attempts of -1")
    if not link.channel.deduplicates:
        what = "use-duplicate-detection is false: what was under way when the bridge broke comes again"
        yield Risk(Grade.DOUBLES, what, "take it out: true is the default")


def _of_cluster(network: Network, link: Link) -> Iterator[Risk]:
    channel = link.channel
    source = network.members[link.owner]
    moved = () if source.clustering is None else source.clustering.redistributes
    moves = source.clustering is not None and source.clustering.redistributes_all
    but = f" (but for {', '.join(moved)})" if moved else ""
    if channel.balancing == OFF or (channel.balancing == OFF_WITH_REDISTRIBUTION and not moves):
        what = f"{channel.balancing}: messages of queues stay on {source.name}{but}"
        yield Risk(Grade.STOPS, what, "message-load-balancing ON_DEMAND")
    elif channel.balancing == STRICT:
        what = f"STRICT: messages go to {network.nodes[link.target].name} without consumers too, and stay there"
        yield Risk(Grade.STRANDS, what, "ON_DEMAND, with a redistribution-delay")
    elif not moves:
        what = f"redistribution-delay is -1{but}: what waits on {source.name} when its consumers leave does not move"
        yield Risk(Grade.STRANDS, what, 'redistribution-delay of 0 or more in <address-setting match="#">')
    if not channel.deduplicates:
        what = "use-duplicate-detection is false: what was under way when a link broke comes again"
        yield Risk(Grade.DOUBLES, what, "take it out: true is the default")
