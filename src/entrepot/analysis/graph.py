"""Who reaches whom over the links of a network, in how many hops, and whether the TTLs let it (classic.md 1.5, 1.11).

A message that crosses ``h`` links needs, at the link that is number ``i`` on its way (from 0), a messageTTL of more
than ``i``; the demand that fetches it came the other way, so the same link needs a consumerTTL of more than
``h - 1 - i``. Both rules get easier when a loop is cut out of a way, so looking at walks is enough. -1: no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from entrepot.analysis.model import FOREVER, Link

UNREACHED: Final = -1


def distances(nodes: int, links: Sequence[Link]) -> list[list[int]]:
    """Return hops from each node to each, whatever the TTLs; UNREACHED where there is no way."""
    onward: list[list[int]] = [[] for _ in range(nodes)]
    for link in links:
        if link.target not in onward[link.source]:
            onward[link.source].append(link.target)
    found = []
    for start in range(nodes):
        row = [UNREACHED] * nodes
        row[start] = 0
        pending = [start]
        for node in pending:
            for other in onward[node]:
                if row[other] == UNREACHED:
                    row[other] = row[node] + 1
                    pending.append(other)
        found.append(row)
    return found


def served(nodes: int, links: Sequence[Link]) -> list[list[int]]:
    """Return hops that messages really can make from each node to consumers at each, within the TTLs."""
    reach = [[UNREACHED] * nodes for _ in range(nodes)]
    for node in range(nodes):
        reach[node][node] = 0
    for length in range(1, nodes):
        steps = [_passable(nodes, links, at, length) for at in range(length)]
        for start in range(nodes):
            for node in _members(_walk(1 << start, steps)):
                if reach[start][node] == UNREACHED:
                    reach[start][node] = length
    return reach


def passes(link: Link, at: int, length: int) -> bool:
    """Say whether a way of ``length`` links may lead over ``link`` as its number ``at``."""
    message, consumer = link.channel.hops
    return (message == FOREVER or message > at) and (consumer == FOREVER or consumer > length - 1 - at)


def _passable(nodes: int, links: Sequence[Link], at: int, length: int) -> list[int]:
    """Return for each node, as bits, where a message may go in step ``at`` of ``length``."""
    found = [0] * nodes
    for link in links:
        if passes(link, at, length):
            found[link.source] |= 1 << link.target
    return found


def _walk(here: int, steps: Sequence[Sequence[int]]) -> int:
    for onward in steps:
        there = 0
        for node in _members(here):
            there |= onward[node]
        here = there
    return here


def _members(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def shortest(source: int, target: int, nodes: int, links: Sequence[Link]) -> list[Link]:
    """Return one shortest way, the same each time; [] where there is none."""
    came: dict[int, Link] = {}
    pending = [source]
    for node in pending:
        for link in links:
            if link.source == node and link.target != source and link.target not in came:
                came[link.target] = link
                pending.append(link.target)
    way: list[Link] = []
    node = target
    while node != source:
        if node not in came:
            return []
        way.append(came[node])
        node = came[node].source
    return way[::-1]


def components(nodes: int, links: Sequence[Link]) -> list[list[int]]:
    """Return the parts of the network that no link joins, whatever its direction."""
    group = list(range(nodes))

    def head(node: int) -> int:
        while group[node] != node:
            node = group[node]
        return node

    for link in links:
        group[max(head(link.source), head(link.target))] = min(head(link.source), head(link.target))
    parts: dict[int, list[int]] = {}
    for node in range(nodes):
        parts.setdefault(head(node), []).append(node)
    return list(parts.values())


def circle(nodes: int, links: Sequence[Link]) -> list[int]:
    """Return a shortest circle of three nodes or more, by either direction; [] in a tree."""
    beside: list[list[int]] = [[] for _ in range(nodes)]
    for link in links:
        for one, other in ((link.source, link.target), (link.target, link.source)):
            if other not in beside[one]:
                beside[one].append(other)
    best: list[int] = []
    for start in range(nodes):
        found = _circle_through(start, beside)
        if found and (not best or len(found) < len(best)):
            best = found
    return best


def _circle_through(start: int, beside: Sequence[Sequence[int]]) -> list[int]:
    came = {start: start}
    pending = [start]
    for node in pending:
        for other in beside[node]:
            if other == came[node]:
                continue
            if other in came:
                one, two = _way(came, node, start), _way(came, other, start)
                if not set(one[:-1]) & set(two[:-1]):
                    return [*one[::-1], *two[:-1]]
                continue
            came[other] = node
            pending.append(other)
    return []


def _way(came: dict[int, int], node: int, start: int) -> list[int]:
    way = [node]
    while node != start:
        node = came[node]
        way.append(node)
    return way


def count_pairs(nodes: int, holds: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Return the ordered pairs of different nodes for which ``holds`` is true."""
    return [(one, two) for one in range(nodes) for two in range(nodes) if one != two and holds(one, two)]
