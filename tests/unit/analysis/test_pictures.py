"""A network as text and as SVG: the same each time, with everything on it, and nothing on top of anything."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest

from entrepot.analysis.layout import place
from entrepot.analysis.picture import picture
from entrepot.analysis.text import draw

from .networks import Files, chain, connector, listed

SVG = "{http://www.w3.org/2000/svg}"


def star(leaves: int) -> Files:
    files = Files().add("hub")
    for number in range(leaves):
        files.add(f"leaf{number}", connector("hub:61616", 'duplex="true" networkTTL="2"'))
    return files


def mesh(count: int) -> Files:
    files = Files()
    for one in range(count):
        files.add(f"m{one}", *(connector(f"m{two}:61616") for two in range(count) if one != two))
    return files


SHAPES = {"chain": chain("a", "b", "c", "d"), "star": star(5), "mesh": mesh(4), "one": Files().add("only")}


def test_text_says_direction_ttl_lists_and_hops() -> None:
    files = Files().add("a", connector("b:61616", 'duplex="true"', listed("excludedDestinations", "queue:own.>")))
    files.add("b", connector("c:61616", 'messageTTL="2"')).add("c", connector("gone:1"))
    assert draw(files.network()).splitlines() == [
        "a  openwire:61616  a.xml",
        "  <=> b       connector to-b, TTL 1, not queue own.>",
        "b  openwire:61616  b.xml",
        "  <=> a       the other's connector, TTL 1, not queue own.>",
        "  --> c       connector to-c, messageTTL 2, consumerTTL 1",
        "c  openwire:61616  c.xml",
        "  --> gone:1 (in none of these files)  connector to-gone, TTL 1",
        "  <-- b       connector to-c, messageTTL 2, consumerTTL 1",
        "",
        "hops from \\ to   a   b   c",
        "a                .   1  2!",
        "b                1   .   1",
        "c                -   -   .",
        "(-: no way; !: a way, and a TTL too short for it)",
    ]


@pytest.mark.parametrize("name", SHAPES)
def test_a_picture_is_well_formed_and_the_same_each_time(name: str) -> None:
    network = SHAPES[name].network()
    text = picture(network)
    assert text == picture(SHAPES[name].network())
    root = ElementTree.fromstring(text)
    written = [element.text for element in root.iter(f"{SVG}text")]
    assert [node.name for node in network.nodes if node.name not in written] == []
    paths = [element for element in root.iter(f"{SVG}path") if element.get("class") == "link"]
    heads = len(paths) + sum(element.get("marker-start") is not None for element in paths)
    assert heads == len(network.links), "one head for each direction"
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    for box in root.iter(f"{SVG}rect"):
        x, y = float(box.get("x", 0)), float(box.get("y", 0))
        assert left <= x <= x + float(box.get("width", 0)) <= left + width
        assert top <= y <= y + float(box.get("height", 0)) <= top + height


@pytest.mark.parametrize("name", SHAPES)
def test_no_two_boxes_overlap(name: str) -> None:
    root = ElementTree.fromstring(picture(SHAPES[name].network()))
    boxes = [
        [float(box.get(key, 0)) for key in ("x", "y", "width", "height")]
        for box in root.iter(f"{SVG}rect")
        if box.get("class") == "box"
    ]
    for (ax, ay, aw, ah), (bx, by, bw, bh) in itertools.combinations(boxes, 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay


def test_a_chain_is_a_line_a_star_has_a_middle_and_a_ring_does_not_cross_itself() -> None:
    line = place(4, SHAPES["chain"].network().links)
    assert len({y for _, y in line}) == 1
    assert sorted(line) == line
    assert place(6, SHAPES["star"].network().links)[0] == (0.0, 0.0)
    ring = chain("a", "c", "e", "b", "d").add("x", connector("a:61616"), connector("d:61616")).network()
    at = place(6, ring.links)
    edges = {(min(link.source, link.target), max(link.source, link.target)) for link in ring.links}
    lengths = sorted(round((at[a][0] - at[b][0]) ** 2 + (at[a][1] - at[b][1]) ** 2) for a, b in edges)
    assert lengths[-1] < 2.8 * lengths[0], "neighbours in the ring are neighbours in the picture"
    assert len({round(x) for x, _ in at}) > 2
