"""A picture of the network: brokers in a circle, links between them, as SVG whose every word is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, pi, sin
from typing import Any, Final

from markupsafe import Markup

WIDE: Final = 900
HIGH: Final = 460
NODES_MOST: Final = 60


def network(
    brokers: Sequence[str],
    silent: Sequence[str],
    links: Sequence[Mapping[str, Any]],
    members: Sequence[Mapping[str, Any]],
) -> Markup | None:
    """Return the picture; None where there is nothing to join. ``silent``: brokers that do not answer."""
    pairs: dict[tuple[str, str], bool] = {}
    for row in links:
        if row.get("to"):
            pairs[str(row["broker"]), str(row["to"])] = row.get("state") == "open"
    for row in members:
        if row.get("state") != "here":
            pairs[str(row["broker"]), str(row["place"])] = row.get("state") == "met"
    names = list(dict.fromkeys([*brokers, *(end for pair in pairs for end in pair)]))[:NODES_MOST]
    if len(names) < 2:
        return None
    at = {
        name: (
            WIDE / 2 + WIDE * 0.36 * sin(2 * pi * n / len(names)),
            HIGH / 2 - HIGH * 0.34 * cos(2 * pi * n / len(names)),
        )
        for n, name in enumerate(names)
    }
    parts = [
        Markup(
            '<line x1="{:.0f}" y1="{:.0f}" x2="{:.0f}" y2="{:.0f}" class="{}"><title>{} to {}: {}</title></line>'
        ).format(*at[one], *at[other], "" if well else "bad", one, other, "open" if well else "not open")
        for (one, other), well in pairs.items()
        if one in at and other in at
    ]
    for name, (x, y) in at.items():
        told = "does not answer" if name in silent else ("" if name in brokers else "not asked")
        parts.append(
            Markup(
                '<circle cx="{x:.0f}" cy="{y:.0f}" r="16"></circle><text x="{x:.0f}" y="{below:.0f}">{name}</text>'
                '<text class="soft" x="{x:.0f}" y="{under:.0f}">{told}</text>'
            ).format(x=x, y=y, below=y + 34, under=y + 50, name=name[:40], told=told)
        )
    head = Markup('<svg class="map" viewBox="0 0 {} {}" role="img" aria-label="Brokers and the links between them">')
    return head.format(WIDE, HIGH) + Markup("").join(parts) + Markup("</svg>")
