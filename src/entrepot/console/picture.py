"""A picture of the network: brokers by zone, links that can be followed, as SVG whose every word is escaped.

Each zone is an ellipse of brokers, and zones stand in rows. A line is a link to its page, reached with the Tab key as
any other; it is the thicker the more goes over it. Numbers stand beside lines where there are few, or at those that
matter; all of them are in what a line says when it is pointed at, read aloud, or followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, hypot, log10, pi, sin
from typing import Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from entrepot.management.topology import ANSWERS, Link, Spot, Topology

SPOTS_MOST: Final = 200
LINKS_MOST: Final = 400  # that are drawn: those that are ill, then the busiest
LABELS_FREE: Final = 16  # lines that all have numbers beside them; of more the first few
LABELS_MOST: Final = 8
CROWD: Final = 12  # brokers of a zone from which on names are short, and stand outside
SHORT: Final = 14  # characters
LONG: Final = 24
WIDE: Final = 1200  # of a row of zones
STEP: Final = 62  # between neighbours on the ellipse
LEAST: Final = 130  # half of the width of an ellipse
FLAT: Final = 0.72
LOWEST: Final = 44  # half of the height that a zone has at least for its brokers
MARGIN_X: Final = 110
MARGIN_Y: Final = 62
RADIUS: Final = 14


class Point(NamedTuple):
    """A place in the picture; ``x`` and ``y`` from its left upper corner. ``dx``, ``dy``: outward, where names go."""

    x: float
    y: float
    dx: float
    dy: float


class Zone(NamedTuple):
    """A zone of the picture: its name, its corner, its size, and where its brokers are."""

    name: str
    x: float
    y: float
    wide: float
    high: float
    points: Mapping[str, Point]


def picture(net: Topology) -> Markup | None:
    """Return it; None where there is nothing to join."""
    if len(net.spots) < 2:
        return None
    shown = {spot.key: spot for spot in _chosen(net)}
    groups = [[spot for spot in spots if spot.key in shown] for spots in net.zones().values()]
    zones = laid_out([group for group in groups if group])
    at = {key: point for zone in zones for key, point in zone.points.items()}
    links = _drawn(net, at)
    parts = [_frame(zone) for zone in zones if len(zones) > 1 or zone.name]
    parts += [_line(link, at) for link in sorted(links, key=lambda link: link.ends)]
    parts += [_broker(shown[key], at[key], len(zone.points) > CROWD) for zone in zones for key in zone.points]
    labelled = links if len(links) <= LABELS_FREE else links[:LABELS_MOST]
    parts += [_numbers(link, at) for link in labelled]
    wide, high = max(zone.x + zone.wide for zone in zones), max(zone.y + zone.high for zone in zones)
    head = Markup('<svg class="map" viewBox="0 0 {:.0f} {:.0f}" role="group" aria-label="Brokers and their links">')
    return head.format(wide, high) + Markup("").join(parts) + Markup("</svg>")


def _drawn(net: Topology, at: Mapping[str, Point]) -> list[Link]:
    """Return the links that are drawn: those that are ill first, then the busiest."""
    links = [link for link in net.links.values() if all(end in at for end in link.ends)]
    links.sort(key=lambda link: (not link.ill, -link.busy()))
    return links[:LINKS_MOST]


def left_out(net: Topology) -> str:
    """Return in words what is not drawn, "" for nothing."""
    spots, links = len(net.spots) - SPOTS_MOST, len(net.links) - LINKS_MOST
    told = [f"{spots:,} brokers" if spots > 0 else "", f"{links:,} links" if links > 0 else ""]
    return " and ".join(one for one in told if one)


def _chosen(net: Topology) -> list[Spot]:
    """Return the brokers that are drawn: those that are asked first."""
    return sorted(net.spots.values(), key=lambda spot: spot.state not in (ANSWERS,))[:SPOTS_MOST]


# -- places ------------------------------------------------------------------------------------------------------------


def laid_out(groups: Sequence[Sequence[Spot]]) -> list[Zone]:
    """Return where each zone and each of its brokers is."""
    zones: list[Zone] = []
    x = y = row = 0.0
    for number, spots in enumerate(groups):
        half = max(LEAST, len(spots) * STEP / (pi * (1 + FLAT))) if len(spots) > 1 else 0.0
        wide, high = 2 * (half + MARGIN_X), 2 * (max(LOWEST, half * FLAT if len(spots) > 2 else 0) + MARGIN_Y)
        if x and x + wide > WIDE:
            x, y, row = 0.0, y + row, 0.0
        lower = 0.0 if half else (-LOWEST, LOWEST)[number % 2] * 0.6  # those in one row would hide lines behind them
        points = _around(spots, x + wide / 2, y + high / 2 + lower, half)
        zones.append(Zone(spots[0].zone, x, y, wide, high, points))
        x, row = x + wide, max(row, high)
    return zones


def _around(spots: Sequence[Spot], x: float, y: float, half: float) -> dict[str, Point]:
    count = len(spots)
    turn = pi / 2.8 if count == 2 else 0.0  # two stand nearly side by side
    found = {}
    for at, spot in enumerate(sorted(spots, key=lambda spot: spot.key)):
        angle = 2 * pi * at / count - turn
        found[spot.key] = Point(x + half * sin(angle), y - half * FLAT * cos(angle), sin(angle), -cos(angle))
    return found


# -- shapes ------------------------------------------------------------------------------------------------------------


def _frame(zone: Zone) -> Markup:
    shape = Markup(
        '<rect class="zone" x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" rx="10"></rect>'
        '<text class="zone" x="{:.0f}" y="{:.0f}">{}</text>'
    )
    name = zone.name or "zone not told"
    return shape.format(zone.x + 4, zone.y + 4, zone.wide - 8, zone.high - 8, zone.x + 18, zone.y + 24, name[:LONG])


def _broker(spot: Spot, at: Point, crowded: bool) -> Markup:
    told = "" if spot.state == ANSWERS else spot.state
    kind = {ANSWERS: ""}.get(spot.state, "away")
    if crowded:
        far = RADIUS + 14 + (0 if abs(at.dy) < 0.9 else 14 * (len(spot.key) % 2))
        x, y = at.x + at.dx * far, at.y + at.dy * far + 4
        anchor = "middle" if abs(at.dx) < 0.35 else "start" if at.dx > 0 else "end"
        shape = Markup(
            '<circle class="{kind}" cx="{cx:.0f}" cy="{cy:.0f}" r="{r}"><title>{whole}</title></circle>'
            '<text class="{kind}" text-anchor="{anchor}" x="{x:.0f}" y="{y:.0f}">{name}</text>'
        )
        whole = f"{spot.key}, {told}" if told else spot.key
        return shape.format(
            kind=kind, cx=at.x, cy=at.y, r=9, whole=whole, anchor=anchor, x=x, y=y, name=cut(spot.key, SHORT)
        )
    shape = Markup(
        '<circle class="{kind}" cx="{cx:.0f}" cy="{cy:.0f}" r="{r}"><title>{whole}</title></circle>'
        '<text x="{cx:.0f}" y="{below:.0f}">{name}</text><text class="soft" x="{cx:.0f}" y="{under:.0f}">{told}</text>'
    )
    return shape.format(
        kind=kind, cx=at.x, cy=at.y, r=RADIUS, whole=spot.key, below=at.y + 31, under=at.y + 46,
        name=cut(spot.key, LONG), told=told,
    )  # fmt: skip


def _line(link: Link, at: Mapping[str, Point]) -> Markup:
    one, other = (at[end] for end in link.ends)
    wide = 1.5 + min(4.0, log10(1 + link.busy()))
    kind = "bad" if link.ill else "" if link.state == "open" else "rest"
    shape = Markup(
        '<a class="{kind}" href="{href}" aria-label="{told}"><title>{told}</title>'
        '<line class="hit" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"></line>'
        '<line class="seen" x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke-width="{wide:.1f}">'
        "</line></a>"
    )
    return shape.format(
        kind=kind, href=place_of(link), told=told_of(link), x1=one.x, y1=one.y, x2=other.x, y2=other.y, wide=wide
    )


def _numbers(link: Link, at: Mapping[str, Point]) -> Markup:
    """Return what each end sends, near to it, and in the middle what waits and how long an answer takes."""
    parts = []
    for sender, other in (link.ends, link.ends[::-1]):
        rate = link.rate(sender)
        if rate:
            parts.append(_number(at[sender], at[other], 0.3, f"{figure(rate)}/s {_arrow(at[sender], at[other])}", ""))
    lag, late = sum(link.lag(end) for end in link.ends), duration(link.canary_us)
    middle = ", ".join(one for one in (f"{lag:,} wait" if lag else "", late) if one)
    if link.state != "open":
        middle = f"{link.state}, {middle}" if middle else link.state
    if middle:
        parts.append(_number(at[link.ends[0]], at[link.ends[1]], 0.5, middle, "bad" if link.ill else "soft"))
    return Markup("").join(parts)


def _number(one: Point, other: Point, part: float, text: str, kind: str) -> Markup:
    x, y = one.x + (other.x - one.x) * part, one.y + (other.y - one.y) * part
    flat = abs(other.y - one.y) < 0.2 * hypot(other.x - one.x, other.y - one.y)
    shape = Markup('<text class="rate {}" x="{:.0f}" y="{:.0f}">{}</text>')
    return shape.format(kind, x, y + (-7 if flat else 4), text)


def _arrow(one: Point, other: Point) -> str:
    if abs(other.x - one.x) >= abs(other.y - one.y):
        return "→" if other.x > one.x else "←"
    return "↓" if other.y > one.y else "↑"


# -- words -------------------------------------------------------------------------------------------------------------


def place_of(link: Link) -> str:
    """Return where the page of a link is."""
    return "/link?" + urlencode({"from": link.ends[0], "to": link.ends[1]})


def told_of(link: Link) -> str:
    """Return in words how a link stands."""
    one, other = link.ends
    parts = [f"{one} and {other}: {link.state}"]
    for sender, receiver in ((one, other), (other, one)):
        rate, lag = link.rate(sender), link.lag(sender)
        if rate is not None:
            parts.append(f"{figure(rate)} messages a second to {receiver}")
        if lag:
            parts.append(f"{lag:,} wait at {sender}")
    if link.canary_us >= 0:
        parts.append(f"an answer takes {duration(link.canary_us)}")
    return ", ".join(parts)


def figure(rate: float | None) -> str:
    """Return messages a second as people read them; "?" for what is not known yet."""
    if rate is None:
        return "?"
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def duration(us: int) -> str:
    """Return a time that is given in us as people read it; "" for one that is negative."""
    if us < 0:
        return ""
    return f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:.1f} s"


def cut(text: str, most: int) -> str:
    """Return a name that is no longer than ``most``."""
    return text if len(text) <= most else text[: most - 1] + "…"
