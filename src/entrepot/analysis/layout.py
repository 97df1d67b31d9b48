"""Where the boxes of a picture stand: a line for a chain, a hub in the middle of a star, else a circle.

The same network gives the same picture in every run. The order around a circle is the one with the fewest crossing
lines that exchanging two brokers at a time finds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from entrepot.analysis.model import Link

Point = tuple[float, float]

GAP: Final = 230.0  # between the middles of two boxes, at least
EXCHANGED_NODES_MAX: Final = 40  # beyond it, the order of the files is as good as what can be found in a second


def place(nodes: int, links: Sequence[Link], gap: float = GAP) -> list[Point]:
    """Return the middle of each box; neighbours are ``gap`` apart, or a little less if one is above the other."""
    edges = sorted({(min(one.source, one.target), max(one.source, one.target)) for one in links})
    beside: list[list[int]] = [[] for _ in range(nodes)]
    for one, two in edges:
        beside[one].append(two)
        beside[two].append(one)
    if nodes <= 2:
        return [(gap * number, 0.0) for number in range(nodes)]
    line = _line(beside, len(edges))
    if line:
        return _along(line, gap)
    hub = _hub(beside, len(edges))
    if hub >= 0:
        return _star(nodes, hub, gap)
    return _circle(_ordered(nodes, edges), gap)


def _line(beside: Sequence[Sequence[int]], edges: int) -> list[int]:
    """Return the nodes of a chain from one end to the other; [] if it is none."""
    ends = [number for number, others in enumerate(beside) if len(others) == 1]
    if edges != len(beside) - 1 or len(ends) != 2 or any(len(others) > 2 for others in beside):
        return []
    way = [ends[0]]
    while len(way) < len(beside):
        onward = [other for other in beside[way[-1]] if other not in way]
        if not onward:
            return []
        way.append(onward[0])
    return way


def _along(line: Sequence[int], gap: float) -> list[Point]:
    found: list[Point] = [(0.0, 0.0)] * len(line)
    for at, number in enumerate(line):
        found[number] = (gap * at, 0.0)
    return found


def _hub(beside: Sequence[Sequence[int]], edges: int) -> int:
    """Return the node that all others are joined to, and nothing else joins; -1 if there is none."""
    if edges != len(beside) - 1:
        return -1
    return next((number for number, others in enumerate(beside) if len(others) == edges), -1)


def _star(nodes: int, hub: int, gap: float) -> list[Point]:
    around = _ring(nodes - 1, gap)
    rest = iter(around)
    return [(0.0, 0.0) if number == hub else next(rest) for number in range(nodes)]


def _circle(order: Sequence[int], gap: float) -> list[Point]:
    found: list[Point] = [(0.0, 0.0)] * len(order)
    for point, number in zip(_ring(len(order), gap), order, strict=True):
        found[number] = point
    return found


def _ring(count: int, gap: float) -> list[Point]:
    """Return points on an ellipse, from the left over the top; four of them are the corners of a box."""
    across = max(gap * 0.8, gap * count / 6.6)
    turn = math.pi if count != 4 else math.pi * 1.25
    angles = [turn + 2 * math.pi * at / count for at in range(count)]
    return [(round(across * math.cos(angle) * 1.25, 1), round(across * math.sin(angle), 1)) for angle in angles]


def _ordered(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    order = list(range(nodes))
    if nodes > EXCHANGED_NODES_MAX:
        return order
    cost = _cost(order, edges)
    better = True
    while better:
        better = False
        for one, two in combinations(range(nodes), 2):
            order[one], order[two] = order[two], order[one]
            new = _cost(order, edges)
            if new < cost:
                cost, better = new, True
            else:
                order[one], order[two] = order[two], order[one]
    turn = order.index(0)
    return order[turn:] + order[:turn]


def _cost(order: Sequence[int], edges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return how many lines cross, and how long all of them are, around the circle."""
    at = {number: place for place, number in enumerate(order)}
    spans = [tuple(sorted((at[one], at[two]))) for one, two in edges]
    crossing = sum(a < c < b < d or c < a < d < b for (a, b), (c, d) in combinations(spans, 2))
    return crossing, sum(min(b - a, len(order) - b + a) for a, b in spans)
