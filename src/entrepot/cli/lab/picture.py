"""How a lab looks: a drawing of the network, tables of brokers and links, the last events; or one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from entrepot.cli.lab.brokers import Link, Network
from entrepot.cli.lab.load import Load
from entrepot.cli.lab.watch import Watch

WIDTH: Final = 38
HEIGHT: Final = 13
EVENTS_SHOWN: Final = 7
EVENTS_LEAST: Final = 3
TABLE_LINES: Final = 3  # two heads, and the line between the tables
AROUND: Final = 4  # lines: the frame, the figures, and one that is empty
BESIDE: Final = 104  # columns for the drawing beside the tables
STYLES: Final = {"open": "green", "cut": "red", "stalled": "magenta"}
KEYS: Final = "[1-9] kill/restart broker  [letter] cut/heal link  [space] load  [q] end"


def picture(
    network: Network, watch: Watch, load: Load, events: Sequence[str], *, width: int, height: int
) -> RenderableType:
    """Return everything, for a terminal of this size: what does not fit is the drawing first, then old events."""
    tables = Group(_brokers(network, watch), Text(), _links(network, watch))
    rows = len(network.brokers) + len(network.links) + TABLE_LINES
    room = height - AROUND
    if width >= BESIDE and max(HEIGHT, rows) + EVENTS_LEAST <= room:
        top: RenderableType = Columns([_drawing(network, watch), tables], padding=(0, 2))
        rows = max(HEIGHT, rows)
    elif HEIGHT + rows + EVENTS_SHOWN <= room:
        top = Group(_drawing(network, watch), tables)
        rows += HEIGHT
    else:
        top = tables
    ledger = load.ledger
    figures = Text(
        f"load {'on' if load.running else 'off'} · sent {ledger.sent:,} · promised {len(ledger.promised):,} · "
        f"arrived {len(ledger.arrived):,} · again {ledger.twice:,}"
    )
    last = list(events)[-min(EVENTS_SHOWN, max(EVENTS_LEAST, room - rows)) :]
    shown = Text("\n".join(last), style="dim", no_wrap=True, overflow="ellipsis")
    title = f"entrepot lab: {len(network.brokers)} brokers, {network.shape}"
    body = Group(figures, Text(), top, shown)
    return Panel(body, title=title, subtitle=Text(KEYS), subtitle_align="left")


def line(network: Network, watch: Watch, load: Load) -> str:
    """Return the state as one line, where there is no terminal."""
    brokers = []
    for broker in network.brokers:
        facts = watch.facts[broker.name]
        if not broker.up:
            brokers.append(f"{broker.name} down")
        else:
            depth = facts.waiting + facts.in_flight
            brokers.append(
                f"{broker.name} {facts.clients} clients {depth} deep "
                f"{facts.rate_in:.0f}/s in {facts.rate_out:.0f}/s out"
            )
    links = " ".join(f"{link.letter}:{state_of(network, watch, link)}" for link in network.links)
    ledger = load.ledger
    return f"{' | '.join(brokers)} | links {links} | promised {len(ledger.promised)} arrived {len(ledger.arrived)}"


def state_of(network: Network, watch: Watch, link: Link) -> str:
    """Return how a link is."""
    if link.relay.cut_off:
        return "cut"
    return watch.state_of(network.brokers[link.near], network.brokers[link.far])


def _brokers(network: Network, watch: Watch) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("broker")
    table.add_column("state")
    for column in ("clients", "waiting", "in flight", "in/s", "out/s"):
        table.add_column(column, justify="right")
    for broker in network.brokers:
        facts = watch.facts[broker.name]
        if broker.starting:
            state = Text("starting", style="yellow")
        elif not broker.up:
            state = Text("down", style="red")
        else:
            state = Text("up", style="green") if facts.answering else Text("silent", style="yellow")
        figures = [facts.clients, facts.waiting, facts.in_flight, round(facts.rate_in), round(facts.rate_out)]
        table.add_row(broker.name, state, *(f"{figure:,}" for figure in figures))
    return table


def _links(network: Network, watch: Watch) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("link")
    table.add_column("joins")
    table.add_column("state")
    table.add_column("over it", justify="right")
    table.add_column("canary", justify="right")
    for link in network.links:
        near, far = network.brokers[link.near], network.brokers[link.far]
        state = state_of(network, watch, link)
        row = next((row for row in watch.facts[near.name].bridges if row["connector"] == f"{near.name}-{far.name}"), {})
        crossed = row.get("sent", 0) + row.get("received", 0)
        canary = row.get("canary_us", -1)
        table.add_row(
            link.letter,
            f"{near.name} ─ {far.name}",
            Text(state, style=STYLES.get(state, "yellow")),
            f"{crossed:,}",
            "" if canary < 0 else f"{canary / 1000:.1f} ms",
        )
    return table


def _drawing(network: Network, watch: Watch) -> Text:
    """Draw brokers on an ellipse (a chain in a row, a hub in the middle) and the links between them."""
    cells: dict[tuple[int, int], tuple[str, str]] = {}
    at = _places(network)
    for link in network.links:
        state = state_of(network, watch, link)
        style = STYLES.get(state, "yellow")
        (x, y), (to_x, to_y) = at[link.near], at[link.far]
        steps = max(abs(to_x - x) // 2, abs(to_y - y), 1)
        for step in range(1, steps):
            place = (round(x + (to_x - x) * step / steps), round(y + (to_y - y) * step / steps))
            cells[place] = ("·" if state == "open" else "x", style)
        middle = (round((2 * x + to_x) / 3), round((2 * y + to_y) / 3))
        cells[middle] = (link.letter, f"bold {style}")
    for broker, (x, y) in zip(network.brokers, at, strict=True):
        style = "bold green" if broker.up else "bold red"
        for offset, letter in enumerate(f"[{broker.name}]"):
            cells[(x - 1 + offset, y)] = (letter, style)
    text = Text(no_wrap=True)
    for row in range(HEIGHT):
        for column in range(WIDTH + 4):
            letter, style = cells.get((column, row), (" ", ""))
            text.append(letter, style=style)
        if row < HEIGHT - 1:
            text.append("\n")
    return text


def _places(network: Network) -> list[tuple[int, int]]:
    count = len(network.brokers)
    if network.shape == "chain":
        step = (WIDTH - 4) / max(1, count - 1)
        return [(2 + round(step * at), HEIGHT // 2 + (at % 2 if count > 6 else 0)) for at in range(count)]
    around = count - 1 if network.shape == "hub" else count
    places = []
    for at in range(around):
        angle = 2 * math.pi * at / around - math.pi / 2
        x = WIDTH / 2 + (WIDTH / 2 - 4) * math.cos(angle)
        places.append((round(x), round((HEIGHT - 1) / 2 * (1 + math.sin(angle)))))
    return [(WIDTH // 2, HEIGHT // 2), *places] if network.shape == "hub" else places
