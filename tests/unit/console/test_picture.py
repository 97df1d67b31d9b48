"""The picture of a network: every word escaped, every broker in its zone, lines that can be followed, bounds."""

from __future__ import annotations

import itertools
import re
from math import hypot
from xml.etree import ElementTree

import pytest

pytest.importorskip("starlette")

from entrepot.console import picture as drawing
from entrepot.console.picture import cut, duration, figure, laid_out, left_out, picture, told_of
from entrepot.management.topology import ANSWERS, Link, Spot, Topology, Way, ends_of

HOSTILE = "</svg><script>alert(1)</script>\"'&"


def way(one: str, other: str, state: str = "open", out: float | None = 0.0, **row: object) -> Way:
    told = {"sent": 1, "received": 0, "under_way": 0, "canary_us": -1, "error": "", **row}
    return Way(one, other, "network", state, dict(told), {}, out, 0.0)


def net(zones: dict[str, int], *ways: Way) -> Topology:
    spots = {f"{zone}{n}": Spot(f"{zone}{n}", ANSWERS, zone) for zone, count in zones.items() for n in range(count)}
    made = Topology(spots, {}, [])
    for one in ways:
        ends = ends_of(one.teller, one.other)
        made.links.setdefault(ends, Link(ends, [])).ways.append(one)
        for end in ends:
            made.spots.setdefault(end, Spot(end))
    return made


def test_hostile_names_are_words_and_a_line_leads_to_its_page() -> None:
    text = str(picture(net({HOSTILE: 1}, way(HOSTILE + "0", "b", out=120.0))))
    root = ElementTree.fromstring(text)
    assert "<script" not in text
    (line,) = root.iter("a")
    assert line.get("href") == "/link?from=%3C%2Fsvg%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%260&to=b"
    told = f"{HOSTILE}0 and b: open, 120 messages a second to b, 0 messages a second to {HOSTILE}0"
    assert line.get("aria-label") == told
    assert {one.text for one in root.iter("text")} >= {cut(HOSTILE + "0", 24), "not asked"}


def test_numbers_stand_at_the_lines_and_an_ill_one_says_so() -> None:
    text = str(picture(net({"a": 2}, way("a0", "a1", "waiting", 4.5, under_way=7, canary_us=2_300))))
    assert 'class="bad"' in text
    assert "4.5/s →" in text
    assert "waiting, 7 wait, 2.3 ms" in text
    assert picture(net({"a": 1})) is None


@pytest.mark.parametrize("zones", [{"": 50}, {"ams": 20, "fra": 20, "lon": 10}, {"a": 1, "b": 2, "c": 3}, {"a": 13}])
def test_brokers_stand_in_their_zone_and_none_on_another(zones: dict[str, int]) -> None:
    made = net(zones)
    placed = laid_out(list(made.zones().values()))
    points = []
    for zone in placed:
        assert zone.x >= 0
        for point in zone.points.values():
            assert zone.x + 20 < point.x < zone.x + zone.wide - 20
            assert zone.y + 20 < point.y < zone.y + zone.high - 20
            points.append(point)
    assert len(points) == sum(zones.values())
    assert min((hypot(a.x - b.x, a.y - b.y) for a, b in itertools.combinations(points, 2)), default=99) > 36
    for one, other in itertools.combinations(placed, 2):
        beside = one.x + one.wide <= other.x or other.x + other.wide <= one.x
        assert beside or one.y + one.high <= other.y or other.y + other.high <= one.y


def test_of_very_many_the_ill_and_the_busy_are_drawn_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "LINKS_MOST", 3)
    pairs = list(itertools.combinations([f"a{n}" for n in range(5)], 2))
    ways = [way(one, other, out=float(at)) for at, (one, other) in enumerate(pairs)]
    ways[0].state = "waiting"
    made = net({"a": 5}, *ways)
    text = str(picture(made))
    assert re.findall(r'aria-label="(a\d and a\d)', text) == ["a0 and a1", "a2 and a4", "a3 and a4"]
    assert left_out(made) == "7 links"
    assert left_out(net({"a": 2})) == ""


def test_figures_are_as_people_read_them() -> None:
    assert [figure(one) for one in (None, 0.0, 0.25, 9.96, 12_345.6)] == ["?", "0", "0.2", "10.0", "12,346"]
    assert [duration(one) for one in (-1, 0, 1_234, 2_500_000)] == ["", "0.0 ms", "1.2 ms", "2.5 s"]
    link = Link(("a", "b"), [way("a", "b", out=None)])
    link.ways[0].into = None
    assert told_of(link) == "a and b: open"
