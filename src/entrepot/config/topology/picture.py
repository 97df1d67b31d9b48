"""A network as a picture: SVG that needs no fonts, scripts or files of others, and follows light and dark pages.

A box is a broker, two boxes behind one another are a pair, a dashed one is dialled and in none of the files. An arrow
is the way of messages; one with two heads is a duplex connector. On it stand the TTL and what it carries.
"""

from __future__ import annotations

import math
from html import escape
from typing import Final

from entrepot.config.topology.layout import Point, place
from entrepot.config.topology.model import Channel, Link, Network
from entrepot.config.topology.text import carried, ttl

BOX_HEIGHT: Final = 46.0
BOX_WIDTH_MIN: Final = 96.0
LETTER: Final = 7.6  # width of a letter of 13 px, on the safe side
SMALL: Final = 6.0  # of 10.5 px
LINE: Final = 13.0
MARGIN: Final = 24.0
BEND: Final = 46.0  # how far apart the middles of two lines between the same boxes are
LABEL_WIDTH_MAX: Final = 30  # letters

STYLE: Final = """
  text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1b2733}
  .small{font-size:10.5px;fill:#52606d}.box{fill:#eef3f8;stroke:#3b5b7d;stroke-width:1.4}
  .outside{fill:none;stroke:#8a97a5;stroke-dasharray:5 4}.link{fill:none;stroke:#3b5b7d;stroke-width:1.5}
  .plate{fill:#ffffff;fill-opacity:.9}.head{fill:#3b5b7d}
  @media (prefers-color-scheme:dark){text{fill:#e4ebf2}.small{fill:#a9b6c3}.box{fill:#22303e;stroke:#7fa6cf}
  .link{stroke:#7fa6cf}.head{fill:#7fa6cf}.plate{fill:#131a21}}
"""


class _Box:
    def __init__(self, middle: Point, width: float) -> None:
        self.middle = middle
        self.width = width


def picture(network: Network, title: str = "Network of brokers") -> str:
    """Return the whole file. Raises nothing: a network without links is boxes."""
    middles = place(len(network.nodes), network.links)
    boxes = [
        _Box(middle, max(BOX_WIDTH_MIN, len(node.name) * LETTER + 24, len(_below(network, number)) * SMALL + 20))
        for number, (middle, node) in enumerate(zip(middles, network.nodes, strict=True))
    ]
    lines: list[str] = []
    plates: list[str] = []
    reach = [
        (box.middle[0] + sign * box.width / 2, box.middle[1] + sign * BOX_HEIGHT / 2)
        for box in boxes
        for sign in (-1, 1)
    ]
    for links in _lanes(network):
        for number, link in enumerate(links):
            bend = (number - (len(links) - 1) / 2) * BEND
            lines.append(_arrow(boxes, link, bend))
            plate, corners = _label(boxes, link, bend)
            plates.append(plate)
            reach += corners
    left, top = min(x for x, _ in reach) - MARGIN, min(y for _, y in reach) - MARGIN
    width, height = max(x for x, _ in reach) + MARGIN - left, max(y for _, y in reach) + MARGIN - top
    drawn = [_box(network, number, box) for number, box in enumerate(boxes)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<defs>{_head()}</defs>\n" + "\n".join([*lines, *drawn, *plates]) + "\n</svg>\n"
    )


def _head() -> str:
    return (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path class="head" d="M0 0 10 5 0 10z"/></marker>'
    )


def _lanes(network: Network) -> list[list[Link]]:
    """Return the links to draw, those between the same two boxes together; a duplex connector is one."""
    found: dict[tuple[int, int], list[Link]] = {}
    for link in network.links:
        if not link.back:
            found.setdefault((min(link.source, link.target), max(link.source, link.target)), []).append(link)
    return list(found.values())


def _below(network: Network, number: int) -> str:
    """Return the small line in a box: where the broker listens."""
    node = network.nodes[number]
    if node.outside:
        return "in none of the files"
    listeners = network.members[node.members[0]].listeners
    return "  ".join(f"{one.protocol} {one.port}" for one in listeners[:3]) + (" ..." if len(listeners) > 3 else "")


def _box(network: Network, number: int, box: _Box) -> str:
    node = network.nodes[number]
    x, y = box.middle[0] - box.width / 2, box.middle[1] - BOX_HEIGHT / 2
    shape = f'width="{box.width:.1f}" height="{BOX_HEIGHT:.1f}" rx="7"'
    kind = "outside" if node.outside else "box"
    behind = f'<rect class="box" x="{x + 6:.1f}" y="{y - 6:.1f}" {shape}/>' if len(node.members) > 1 else ""
    files = ", ".join(network.members[member].file for member in node.members) or node.outside
    return (
        f'<g><title>{escape(files)}</title>{behind}<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {shape}/>'
        f'<text x="{box.middle[0]:.1f}" y="{box.middle[1] - 2:.1f}">{escape(node.name)}</text>'
        f'<text class="small" x="{box.middle[0]:.1f}" y="{box.middle[1] + 14:.1f}">{escape(_below(network, number))}'
        "</text></g>"
    )


def _middle(boxes: list[_Box], link: Link, bend: float) -> Point:
    """Return the point that a line is bent towards; always to the same side of the two boxes."""
    one, two = sorted((link.source, link.target))
    (ax, ay), (bx, by) = boxes[one].middle, boxes[two].middle
    length = math.hypot(bx - ax, by - ay) or 1.0
    return (ax + bx) / 2 - (by - ay) / length * bend, (ay + by) / 2 + (bx - ax) / length * bend


def _arrow(boxes: list[_Box], link: Link, bend: float) -> str:
    mx, my = _middle(boxes, link, bend)
    sx, sy = _edge(boxes[link.source], (mx, my))
    tx, ty = _edge(boxes[link.target], (mx, my))
    both = ' marker-start="url(#head)"' if link.channel.duplex else ""
    # A curve through a point needs twice the distance as its handle.
    hx, hy = 2 * mx - (sx + tx) / 2, 2 * my - (sy + ty) / 2
    return (
        f'<path class="link" d="M{sx:.1f} {sy:.1f}Q{hx:.1f} {hy:.1f} {tx:.1f} {ty:.1f}" marker-end="url(#head)"{both}/>'
    )


def _edge(box: _Box, towards: Point) -> Point:
    """Return where the line from the middle of a box towards a point leaves it."""
    (x, y), (px, py) = box.middle, towards
    dx, dy = px - x, py - y
    across = (box.width / 2 + 3) / abs(dx) if dx else math.inf
    down = (BOX_HEIGHT / 2 + 3) / abs(dy) if dy else math.inf
    share = min(across, down, 1.0)
    return x + dx * share, y + dy * share


def _label(boxes: list[_Box], link: Link, bend: float) -> tuple[str, list[Point]]:
    """Return what stands on a line, and the corners that it takes."""
    x, y = _middle(boxes, link, bend)
    texts = _said(link.channel)
    width = max(len(text) for text in texts) * SMALL + 8
    top = y - len(texts) * LINE / 2
    rows = "".join(
        f'<text class="small" x="{x:.1f}" y="{top + LINE * at + 10:.1f}">{escape(text)}</text>'
        for at, text in enumerate(texts)
    )
    plate = (
        f'<rect class="plate" x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
        f'height="{len(texts) * LINE:.1f}" rx="3"/>'
    )
    spot = link.channel.spot
    tip = f"<title>{escape(f'connector {link.channel.name}, {spot.file}:{spot.line}')}</title>"
    return f"<g>{tip}{plate}{rows}</g>", [(x - width / 2, top), (x + width / 2, top + len(texts) * LINE)]


def _said(channel: Channel) -> list[str]:
    texts = [ttl(channel) + (", duplex" if channel.duplex else "")]
    for part in carried(channel).split("; "):
        line = ""
        for word in part.split():
            if line and len(line) + len(word) >= LABEL_WIDTH_MAX:
                texts.append(line)
                line = ""
            line = f"{line} {word}".strip()
        if line:
            texts.append(line)
    return texts
