"""Reports: text in columns, and pages of HTML that need no other file and no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from entrepot.pipeline.jobs.related import Related

Row = Sequence[object]

STYLE: Final = """
:root { --ink: #1d2733; --soft: #5b6b7c; --line: #d9e0e7; --back: #ffffff; --good: #1a7f4b; --bad: #b3261e;
        --row: #f4f7fa; --shade: #8fa1b340; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #9aa8b6; --line: #34404c; --back: #141a20; --good: #55c78a; --bad: #ff8a80;
          --row: #1b232b; --shade: #00000090; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 76rem;
       margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
p, .note { color: var(--soft); max-width: 60rem }
.verdict { border-left: 4px solid; padding: .5rem .9rem; font-size: 1.05rem; color: var(--ink); margin: .6rem 0 }
.good { border-color: var(--good) } .bad { border-color: var(--bad) }
.wide { overflow-x: auto; background: linear-gradient(90deg, var(--back) 40%, transparent) 0 0 / 3rem 100% local,
        linear-gradient(270deg, var(--back) 40%, transparent) 100% 0 / 3rem 100% local,
        linear-gradient(90deg, var(--shade), transparent) 0 0 / .9rem 100% scroll,
        linear-gradient(270deg, var(--shade), transparent) 100% 0 / .9rem 100% scroll; background-repeat: no-repeat }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .7rem .25rem 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top }
th { color: var(--soft); font-weight: 600; white-space: nowrap; vertical-align: bottom }
.n { text-align: right; white-space: nowrap } th.n { white-space: normal }
td { overflow-wrap: break-word; max-width: 24rem } tr:hover td { background: var(--row) }
code { font: .92em ui-monospace, monospace; color: var(--ink); overflow-wrap: anywhere }
@media (max-width: 40rem) { td:first-child { max-width: 9rem; overflow-wrap: anywhere; min-width: 6rem } }
p, .verdict, .card, .key, .tile { overflow-wrap: anywhere }
.cards, .tiles { display: flex; flex-wrap: wrap; gap: .7rem; margin: 1rem 0 }
.tile { border: 1px solid var(--line); border-radius: 8px; padding: .5rem .9rem; min-width: 7.5rem; flex: 1 }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; line-height: 1.3 }
.tile span { color: var(--soft); font-size: .82rem }
.card { flex: 1 1 16rem; border: 1px solid var(--line); border-left: 4px solid; border-radius: 6px;
        padding: .5rem .9rem; color: var(--ink); text-decoration: none }
.card:hover b, .card:focus b { text-decoration: underline } .card span { display: block; color: var(--soft) }
.card.good { border-left-color: var(--good) } .card.bad { border-left-color: var(--bad) }
svg { width: 100%; min-width: 34rem; height: auto } svg text { fill: var(--soft); font: 11px system-ui, sans-serif }
svg .axis { stroke: var(--line); stroke-width: 1 } .key { display: inline-block; margin-right: 1.2rem }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem }
"""
COLOURS: Final = ("#3b7dd8", "#e07b39", "#3fa45b", "#a25ddc", "#c9a227", "#d6456b", "#2aa7a7", "#7c8896")
WIDTH: Final = 860
HEIGHT: Final = 240
LEFT: Final = 64
BOTTOM: Final = 26
SERIES_MAX: Final = len(COLOURS)


def moment(us: int) -> str:
    """Return a time (us since 1970) for people; "" for 0."""
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] if us else ""


def number(value: object) -> str:
    """Return a value as a cell shows it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def columns(names: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """Return a table as lines of text, numbers to the right."""
    if not rows:
        return ["nothing"]
    cells = [[number(value) for value in row] for row in rows]
    widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(names)]
    right = [all(isinstance(row[at], int | float) for row in rows) for at in range(len(names))]

    def line(texts: Sequence[str]) -> str:
        parts = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(texts, widths, right, strict=True))
        return "  ".join(parts).rstrip()

    return [line(names), *(line(row) for row in cells)]


def page(title: str, parts: Sequence[str]) -> str:
    """Return a whole page."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    body = "\n".join(parts)
    start = f"{head}{view}<style>{STYLE}</style></head><body><h1>{escape(title)}</h1><p>{made}</p>"
    return f"{start}\n{body}\n</body></html>\n"


def heading(text: str) -> str:
    """Return a heading."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{_said(text)}</p>"


def verdict(text: str, *, good: bool) -> str:
    """Return a sentence that stands out."""
    return f'<div class="verdict {"good" if good else "bad"}">{_said(text)}</div>'


def _said(text: str) -> str:
    """Return a sentence; what stands between backquotes is a command."""
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(escape(text).split("`")))


def table(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table; "nothing" without rows."""
    if not rows:
        return paragraph("nothing")
    right = [all(isinstance(row[at], int | float) or row[at] is None for row in rows) for at in range(len(names))]
    style = [' class="n"' if one else "" for one in right]
    head = "".join(f"<th{s}>{escape(name)}</th>" for name, s in zip(names, style, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{s}>{escape(number(v))}</td>" for v, s in zip(row, style, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


class Colours:
    """Those of the names on one page: a name has the same in each plot, as far as there are colours."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def of(self, names: Sequence[str]) -> list[str]:
        """Return a colour for each of ``names``, at most `SERIES_MAX`, no two alike."""
        taken = {self._given[name] for name in names if name in self._given}
        free = [one for one in COLOURS if one not in {*taken, *self._given.values()}]
        free += [one for one in COLOURS if one not in {*taken, *free}]
        found: list[str] = []
        for name in names:
            colour = self._given.get(name, "")
            if not colour or colour in found:
                colour = next(one for one in free if one not in found)
                self._given.setdefault(name, colour)
            found.append(colour)
        return found


def lines(series: Mapping[str, Sequence[tuple[int, float]]], unit: str, colours: Colours | None = None) -> str:
    """Return a plot: name -> (us since 1970, value), rising in time. The largest `SERIES_MAX` series are drawn.

    ``colours``: of the page, where names come in several plots.
    """
    drawn = sorted(series.items(), key=lambda item: -sum(value for _, value in item[1]))[:SERIES_MAX]
    points = [point for _, found in drawn for point in found]
    if not points:
        return paragraph("nothing")
    first, last = min(time for time, _ in points), max(time for time, _ in points)
    top = nice(max(value for _, value in points))
    hues = (colours or Colours()).of([name for name, _ in drawn])
    span = max(last - first, 1)

    def place(time: int, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - 10) * (time - first) / span
        y = 10 + (HEIGHT - 10 - BOTTOM) * (1 - value / top)
        return f"{x:.1f},{y:.1f}"

    parts = []
    for step in range(5):
        y = 10 + (HEIGHT - 10 - BOTTOM) * (1 - step / 4)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(number(top * step / 4))}</text>')
    for anchor, time in (("start", first), ("middle", (first + last) // 2), ("end", last)):
        x = LEFT + (WIDTH - LEFT - 10) * (time - first) / span
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{moment(time)[11:19]}</text>')
    for at, (name, found) in enumerate(drawn):
        path = " ".join(place(*point) for point in found)
        shape = f'<polyline fill="none" stroke="{hues[at]}" stroke-width="1.8" points="{path}"/>'
        if len(found) == 1:
            across, down = path.split(",")
            shape = f'<circle cx="{across}" cy="{down}" r="3" fill="{hues[at]}"/>'
        spots = "".join(_spot(place(*point), name, point) for point in found)
        parts.append(f"<g><title>{escape(name)}</title>{shape}{spots}</g>")
    key = "".join(
        f'<span class="key"><i style="background:{hues[at]}"></i>{escape(name)}</span>'
        for at, (name, _) in enumerate(drawn)
    )
    left = (
        f'<p class="note">{len(series) - len(drawn)} smaller ones are not drawn.</p>'
        if len(series) > len(drawn)
        else ""
    )
    drawing = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{escape(unit)}">'
    plot = f'<div class="wide">{drawing}{"".join(parts)}</svg></div>'
    return f'<p class="note">{escape(unit)}; times in UTC</p>{plot}<div>{key}</div>{left}'


def _spot(place: str, name: str, point: tuple[int, float]) -> str:
    """Return something to point at: it says what is there."""
    across, down = place.split(",")
    said = escape(f"{name}: {number(float(point[1]))} at {moment(point[0])[11:]} UTC")
    return f'<circle cx="{across}" cy="{down}" r="5" fill-opacity="0"><title>{said}</title></circle>'


def tiles(rows: Sequence[tuple[str, str]]) -> str:
    """Return figures, large, each with its name."""
    made = "".join(
        f'<div class="tile"><b>{escape(figure)}</b><span>{escape(name)}</span></div>' for name, figure in rows
    )
    return f'<div class="tiles">{made}</div>'


def cards(rows: Sequence[Related]) -> list[str]:
    """Return what other jobs said, each with the way to its page; nothing for none."""
    if not rows:
        return []
    made = "".join(
        f'<a class="card {"good" if one.good else "bad"}" href="{escape(one.link, quote=True)}">'
        f"<b>{escape(one.kind.capitalize())}</b><span>{escape(one.sentence)}</span></a>"
        for one in rows
    )
    return [f'<nav class="cards">{made}</nav>']


def bars(rows: Sequence[tuple[str, float]], unit: str) -> str:
    """Return a plot of named values, one below the other."""
    if not rows:
        return paragraph("nothing")
    top = max(value for _, value in rows) or 1.0
    height = 22 * len(rows) + 4
    label = 300
    parts = []
    for at, (name, value) in enumerate(rows):
        width = max(1.0, (WIDTH - label - 90) * value / top)
        y = 22 * at + 4
        shown = name if len(name) <= 48 else name[:47] + "…"
        parts.append(f'<text x="{label - 8}" y="{y + 12}" text-anchor="end">{escape(shown)}</text>')
        parts.append(f'<rect x="{label}" y="{y}" width="{width:.1f}" height="15" rx="2" fill="{COLOURS[0]}"/>')
        parts.append(f'<text x="{label + width + 6:.1f}" y="{y + 12}">{escape(number(value))}</text>')
    drawing = f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img" aria-label="{escape(unit)}">'
    return f'<p class="note">{escape(unit)}</p><div class="wide">{drawing}{"".join(parts)}</svg></div>'


def nice(value: float) -> float:
    """Return a round number that is at least ``value``."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 < value:
        power *= 10
    for step in (1, 2, 4, 5, 8, 10):
        if value <= power * step:
            return power * step
    return power * 10
