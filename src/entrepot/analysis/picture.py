"""A network as a picture: SVG that needs no fonts, scripts or files of others, and follows light and dark pages.

A box is a broker, two boxes behind one another are a pair, a dashed one is dialled and in none of the files. An arrow
is the way of messages; one with two heads is a duplex connector. On it stand the TTL and what it carries.
"""

from __future__ import annotations

import math
from html import escape
from typing import Final

from entrepot.analysis.layout import GAP, Point, place
from entrepot.analysis.model import Channel, Link, Listener, Network
from entrepot.analysis.text import carried, ttl

BOX_HEIGHT: Final = 46.0
BOX_WIDTH_MIN: Final = 96.0
LETTER: Final = 7.6  # width of a letter of 13 px, on the safe side
SMALL: Final = 6.0  # of 10.5 px
LINE: Final = 13.0
MARGIN: Final = 24.0
BEND: Final = 46.0  # how far apart the middles of two lines between the same boxes are
LABEL_WIDTH_MAX: Final = 34  # letters
ARROWS: Final = 70.0  # what must be seen of a line beside its label
PLACES: Final = (0.5, 0.36, 0.64, 0.27, 0.73)  # on a line, for its label; the first that is free
SAID_ONCE: Final = 3  # lines with one label share a legend

STYLE: Final = """
  text{font:13px system-ui,sans-serif;text-anchor:middle;fill:#1b2733}
  .small{font-size:10.5px;fill:#52606d}.box{fill:#eef3f8;stroke:#3b5b7d;stroke-width:1.4}
  .outside{fill:none;stroke:#8a97a5;stroke-dasharray:5 4}.link{fill:none;stroke:#3b5b7d;stroke-width:1.5}
  .plate{fill:#ffffff;fill-opacity:.95}.head{fill:#3b5b7d}
  @media (prefers-color-scheme:dark){text{fill:#e4ebf2}.small{fill:#a9b6c3}.box{fill:#22303e;stroke:#7fa6cf}
  .link{stroke:#7fa6cf}.head{fill:#7fa6cf}.plate{fill:#131a21}}
"""


class _Box:
    def __init__(self, middle: Point, width: float) -> None:
        self.middle = middle
        self.width = width


class _Line:
    """One line to draw: a link, a duplex connector, or two connectors that say the same of either way."""

    def __init__(self, link: Link, *, both: bool) -> None:
        self.link = link
        self.both = both
        self.texts = _said(link.channel, both=both and not link.channel.duplex)


class _Plate:
    """The place that a label takes."""

    def __init__(self, middle: Point, texts: list[str]) -> None:
        self.middle = middle
        self.width = _width(texts)
        self.height = len(texts) * LINE

    @property
    def corners(self) -> list[Point]:
        (x, y), across, down = self.middle, self.width / 2, self.height / 2
        return [(x - across, y - down), (x + across, y + down)]

    def touches(self, other: _Plate) -> bool:
        (ax, ay), (bx, by) = self.middle, other.middle
        return abs(ax - bx) * 2 < self.width + other.width and abs(ay - by) * 2 < self.height + other.height


def picture(network: Network, title: str = "Network of brokers") -> str:
    """Return the whole file. Raises nothing: a network without links is boxes."""
    lanes = _lanes(network)
    common = _common([line for lane in lanes for line in lane])
    boxes = _boxes(network, [line.texts for lane in lanes for line in lane if line.texts != common])
    lines: list[str] = []
    plates: list[_Plate] = []
    written: list[str] = []
    for lane in lanes:
        for number, line in enumerate(lane):
            bend = (number - (len(lane) - 1) / 2) * BEND
            lines.append(_arrow(boxes, line, bend))
            if line.texts != common:
                plate = _free(boxes, line, bend, plates)
                plates.append(plate)
                written.append(_label(plate, line))
    left, top, right, bottom = _frame(boxes, plates)
    if common:
        legend = "each link: " + "; ".join(part for part in (common[0], " ".join(common[1:])) if part)
        right = max(right, left + len(legend) * SMALL + MARGIN)
        written.append(f'<text class="small" x="{(left + right) / 2:.1f}" y="{bottom + 4:.1f}">{escape(legend)}</text>')
        bottom += MARGIN
    drawn = [_box(network, number, box) for number, box in enumerate(boxes)]
    width, height = right - left, bottom - top
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n<defs>{_head()}</defs>\n" + "\n".join([*lines, *written, *drawn]) + "\n</svg>\n"
    )


def _boxes(network: Network, labels: list[list[str]]) -> list[_Box]:
    """Return the boxes, so far apart that ``labels`` fit between them."""
    widths = [
        max(BOX_WIDTH_MIN, len(node.name) * LETTER + 24, len(_below(network, number)) * SMALL + 20)
        for number, node in enumerate(network.nodes)
    ]
    gap = max(GAP, max(widths) + max((_width(texts) for texts in labels), default=0) + ARROWS)
    middles = place(len(network.nodes), network.links, gap)
    return [_Box(middle, width) for middle, width in zip(middles, widths, strict=True)]


def _frame(boxes: list[_Box], plates: list[_Plate]) -> tuple[float, float, float, float]:
    """Return the left, upper, right and lower edge of what holds all of them, with a margin."""
    reach = [
        (box.middle[0] + side * box.width / 2, box.middle[1] + side * BOX_HEIGHT / 2)
        for box in boxes
        for side in (-1, 1)
    ]
    reach += [corner for plate in plates for corner in plate.corners]
    across, down = [x for x, _ in reach], [y for _, y in reach]
    return min(across) - MARGIN, min(down) - MARGIN, max(across) + MARGIN, max(down) + MARGIN


def _width(texts: list[str]) -> float:
    return max(len(text) for text in texts) * SMALL + 8


def _head() -> str:
    return (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path class="head" d="M0 0 10 5 0 10z"/></marker>'
    )


def _lanes(network: Network) -> list[list[_Line]]:
    """Return the lines to draw, those between the same two boxes together."""
    found: dict[tuple[int, int], list[_Line]] = {}
    for link in network.links:
        if link.back:
            continue
        lane = found.setdefault((min(link.source, link.target), max(link.source, link.target)), [])
        back = [one for one in lane if one.link.source == link.target and not one.both]
        if not link.channel.duplex and back and back[0].texts == _said(link.channel):
            lane[lane.index(back[0])] = _Line(back[0].link, both=True)
        else:
            lane.append(_Line(link, both=link.channel.duplex))
    return list(found.values())


def _common(lines: list[_Line]) -> list[str]:
    """Return the label that most lines have, if it is worth to be said once; [] if not."""
    counts: dict[tuple[str, ...], int] = {}
    for line in lines:
        counts[tuple(line.texts)] = counts.get(tuple(line.texts), 0) + 1
    best = max(counts, key=lambda texts: counts[texts], default=())
    return list(best) if counts.get(best, 0) >= SAID_ONCE else []


def _below(network: Network, number: int) -> str:
    """Return the small line in a box: where the broker listens."""
    node = network.nodes[number]
    if node.outside:
        return "in none of the files"
    listeners = network.members[node.members[0]].listeners
    return "  ".join(_place(one) for one in listeners[:3]) + (" ..." if len(listeners) > 3 else "")


def _place(one: Listener) -> str:
    return f"{one.protocol}{'+ssl' if one.secure else ''} {one.port}"


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


def _middle(boxes: list[_Box], line: _Line, bend: float) -> Point:
    """Return the point that a line is bent towards; always to the same side of the two boxes."""
    one, two = sorted((line.link.source, line.link.target))
    (ax, ay), (bx, by) = boxes[one].middle, boxes[two].middle
    length = math.hypot(bx - ax, by - ay) or 1.0
    return (ax + bx) / 2 - (by - ay) / length * bend, (ay + by) / 2 + (bx - ax) / length * bend


def _curve(boxes: list[_Box], line: _Line, bend: float) -> tuple[Point, Point, Point]:
    """Return start, handle and end. A curve through a point needs twice the distance as its handle."""
    mx, my = _middle(boxes, line, bend)
    sx, sy = _edge(boxes[line.link.source], (mx, my))
    tx, ty = _edge(boxes[line.link.target], (mx, my))
    return (sx, sy), (2 * mx - (sx + tx) / 2, 2 * my - (sy + ty) / 2), (tx, ty)


def _arrow(boxes: list[_Box], line: _Line, bend: float) -> str:
    (sx, sy), (hx, hy), (tx, ty) = _curve(boxes, line, bend)
    both = ' marker-start="url(#head)"' if line.both else ""
    spot = line.link.channel.spot
    tip = f"<title>{escape(f'{line.link.channel.kind} {line.link.channel.name}, {spot.file}:{spot.line}')}</title>"
    way = f"M{sx:.1f} {sy:.1f}Q{hx:.1f} {hy:.1f} {tx:.1f} {ty:.1f}"
    return f'<path class="link" d="{way}" marker-end="url(#head)"{both}>{tip}</path>'


def _edge(box: _Box, towards: Point) -> Point:
    """Return where the line from the middle of a box towards a point leaves it."""
    (x, y), (px, py) = box.middle, towards
    dx, dy = px - x, py - y
    across = (box.width / 2 + 3) / abs(dx) if dx else math.inf
    down = (BOX_HEIGHT / 2 + 3) / abs(dy) if dy else math.inf
    share = min(across, down, 1.0)
    return x + dx * share, y + dy * share


def _free(boxes: list[_Box], line: _Line, bend: float, taken: list[_Plate]) -> _Plate:
    """Return a place on the line where no other label is: the middle, or beside it."""
    start, handle, end = _curve(boxes, line, bend)
    first: _Plate | None = None
    for share in PLACES:
        rest = 1 - share
        x, y = (
            rest * rest * a + 2 * rest * share * b + share * share * c
            for a, b, c in zip(start, handle, end, strict=True)
        )
        plate = _Plate((x, y), line.texts)
        first = plate if first is None else first
        if not any(plate.touches(other) for other in taken):
            return plate
    assert first is not None
    return first


def _label(plate: _Plate, line: _Line) -> str:
    x, (left, top) = plate.middle[0], plate.corners[0]
    rows = "".join(
        f'<text class="small" x="{x:.1f}" y="{top + LINE * at + 10:.1f}">{escape(text)}</text>'
        for at, text in enumerate(line.texts)
    )
    size = f'width="{plate.width:.1f}" height="{plate.height:.1f}"'
    return f'<g><rect class="plate" x="{left:.1f}" y="{top:.1f}" {size} rx="3"/>{rows}</g>'


def _said(channel: Channel, *, both: bool = False) -> list[str]:
    texts = [ttl(channel) + (", duplex" if channel.duplex else ", each way" if both else "")]
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
