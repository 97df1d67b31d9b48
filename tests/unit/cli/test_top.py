"""What `entrepot top` makes of what brokers answer: rates, order, alarms, and a picture that names cannot break."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from rich.console import Console

from entrepot.base.errors import InvalidOption, Unreachable
from entrepot.cli import top
from entrepot.cli.top import SORTS, Watch, _places
from entrepot.cli.top_screen import ASKED_AS, Board
from entrepot.core.operators.views import QueueView
from entrepot.management.view import Glance

EMPTY = dict.fromkeys(
    ("messages", "waiting", "in_flight", "delayed", "leased", "on_disk", "consumers", "octets", "oldest_ms", "accepted",
     "delivered", "settled", "expired", "dead", "dropped", "requeued"), 0
)  # fmt: skip


def queue(name: str, **more: Any) -> QueueView:
    flags: dict[str, Any] = dict.fromkeys(("paused", "temporary", "auto_created"), False)
    said = {
        "name": name,
        "address": name,
        "routing": "ANYCAST",
        "durable": True,
        "selector": "",
        **EMPTY,
        **flags,
        **more,
    }
    return msgspec.convert(said | more, QueueView)


def seen(name: str, at: float, accepted: int = 0, settled: int = 0, **more: Any) -> Glance:
    facts = {
        "name": name,
        "uptimeMillis": int(at * 1000),
        "connectionCount": 3,
        "addressMemoryUsagePercentage": 12,
        **more,
    }
    sums = {"queues": 3, "temporary": 1, "messages": 7, "consumers": 2}
    sums |= {"accepted": accepted, "delivered": settled, "settled": settled}
    return Glance(facts | more, sums, [], [], [], at, 0.01)


def board(*places: str, **more: Any) -> Board:
    return Board({one: f"stomp://{one}" for one in places}, **more)


def text_of(shown: Board, width: int = 100) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(shown.screen(width))
    return out.getvalue()


def test_rates_are_between_two_looks_and_none_after_a_restart() -> None:
    shown = board("a")
    shown.answered("a", seen("A", 10.0, 100, 50), [queue("q", accepted=100, settled=50)])
    assert shown.facts()[0]["in_per_s"] is None
    shown.answered("a", seen("A", 12.0, 300, 90), [queue("q", accepted=300, settled=90), queue("new", accepted=1)])
    (row,) = shown.facts()
    assert (row["in_per_s"], row["out_per_s"]) == (100.0, 20.0)
    assert [(one["queue"], one["in_per_s"], one["out_per_s"]) for one in row["top"]] == [
        ("new", None, None),
        ("q", 100.0, 20.0),
    ]
    shown.answered("a", seen("A", 1.0, 5, 5), [queue("q", accepted=5, settled=5)])
    (row,) = shown.facts()
    assert row["in_per_s"] == 0.0
    assert row["top"][0]["in_per_s"] is None


def test_a_broker_that_does_not_answer_is_an_alarm_and_its_rates_begin_anew() -> None:
    shown = board("a", "b")
    shown.answered("a", seen("A", 10.0), [queue("q", messages=3)])
    shown.answered("b", seen("B", 10.0), [queue("q", messages=4)])
    shown.failed("a", "nobody answers")
    assert [(where, one.what, one.why) for where, one in shown.alarms()] == [
        ("A", "it does not answer", "nobody answers")
    ]
    assert [(one.broker, one.view.messages) for one in shown.queues()] == [("B", 4)]
    assert shown.facts()[0] == {"broker": "A", "url": "a", "error": "nobody answers"}
    shown.answered("a", seen("A", 20.0, 1_000), [])
    assert shown.facts()[0]["in_per_s"] is None


@pytest.mark.parametrize(
    ("sort", "first"),
    [("messages", "b"), ("consumers", "c"), ("age", "a"), ("dead", "c"), ("name", "a"), ("in", "a"), ("out", "b")],
)
def test_queues_of_all_brokers_are_sorted_together(sort: str, first: str) -> None:
    shown = board("x", "y", sort=sort, rows=2)
    for at, factor in ((1.0, 0), (2.0, 1)):
        shown.answered("x", seen("X", at), [queue("a", messages=1, oldest_ms=9, accepted=50 * factor)])
        rest = [queue("b", messages=5, settled=9 * factor, accepted=factor), queue("c", consumers=2, dead=1)]
        shown.answered("y", seen("Y", at), rest)
    assert shown.queues()[0].view.name == first
    assert len(shown.queues()) == 2


def test_every_sort_is_known_to_the_broker_and_has_a_key() -> None:
    assert set(SORTS) == set(ASKED_AS)
    assert len({one[0] for one in SORTS} | {"q"}) == len(SORTS) + 1


@pytest.mark.parametrize("width", [80, 200])
def test_numbers_are_whole_and_names_do_nothing_to_a_terminal(width: int) -> None:
    shown = board("a", "b")
    evil = "q\x1b[31m\n[bold]" + "x" * 200
    glance = seen("A", 2.0, addressMemoryUsagePercentage=95)
    glance.bridges.append({"connector": "NC", "peer": "B", "state": "waiting", "error": "refused", "sent": 12_345})
    shown.answered("a", glance, [queue(evil, messages=12_345_678, waiting=1)])
    shown.failed("b", "gone")
    text = text_of(shown, width)
    for part in ("12,345,678", "95 %", "12,345", "NC", "waiting", "does no"):
        assert part in text
    assert "\x1b" not in text
    assert "[bol" in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_more_alarms_than_fit_are_counted() -> None:
    shown = board(*(f"b{number}" for number in range(12)))
    for number in range(12):
        shown.failed(f"b{number}", "gone")
    assert "and 4 more" in text_of(shown)


def test_keys_sort_stop_and_end() -> None:
    watch = Watch(board("a"), every=1, search="")
    for key, sort in (("d", "dead"), ("i", "in"), ("?", "in"), ("n", "name")):
        watch.pressed(key)
        assert watch.board.sort == sort
    watch.pressed(" ")
    assert watch.held
    watch.pressed("q")
    assert watch.over


def test_places_are_urls_and_contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert _places((), everyone=False, url="stomp://x:1") == ["stomp://x:1"]
    with pytest.raises(InvalidOption, match="there are no contexts"):
        _places((), everyone=True, url="")
    from entrepot.cli.context import Contexts, write

    write(Contexts("berlin", {"berlin": "stomp://u:p@b:1", "paris": "stomp://p:1"}))
    assert _places(("berlin", "c:2", "berlin"), everyone=False, url="") == ["stomp://u:p@b:1", "c:2"]
    assert _places(("c:2",), everyone=True, url="") == ["stomp://u:p@b:1", "stomp://p:1", "c:2"]
    with pytest.raises(InvalidOption, match="neither a URL nor a context"):
        _places(("rome",), everyone=False, url="")


@pytest.mark.parametrize("others", [0, 1])
def test_one_that_was_never_there_ends_it_only_where_it_is_alone(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    def refused(url: str) -> Any:
        raise Unreachable(f"no broker at {url}")

    monkeypatch.setattr(top, "managing", refused)
    watch = Watch(board("a", *("b" * others)), every=0.05, search="")
    looks: list[int] = []
    run = watch.run(lambda: looks.append(1), 2)
    if others:
        asyncio.run(run)
        assert (len(looks), len(watch.board.alarms())) == (2, 2)
    else:
        with pytest.raises(Unreachable):
            asyncio.run(run)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Let brokers answer after so many seconds: of each place its pause."""
    pauses: dict[str, float] = {}
    numbers = iter(range(1, 1000))

    @asynccontextmanager
    async def managing(url: str) -> AsyncIterator[str]:
        yield url

    async def page_of(url: str, _: object) -> Any:
        await asyncio.sleep(pauses[url])
        return SimpleNamespace(rows=[])

    async def glance(url: str) -> Glance:
        return seen(url, next(numbers))

    monkeypatch.setattr(top, "managing", managing)
    monkeypatch.setattr("entrepot.management.view.page_of", page_of)
    monkeypatch.setattr("entrepot.management.view.glance", glance)
    return pauses


def test_a_look_waits_until_each_broker_answered_anew(slow: dict[str, float]) -> None:
    slow |= {"stomp://a": 0.0, "stomp://b": 0.2}
    watch = Watch(board("a", "b"), every=0.02, search="", patience=10)
    looks: list[list[bool]] = []
    asyncio.run(watch.run(lambda: looks.append([line.rates is not None for line in watch.board.lines.values()]), 2))
    assert looks[0][1] is False
    assert looks[1] == [True, True]
    assert all(line.glance is not None for line in watch.board.lines.values())


def test_one_that_hangs_holds_up_one_look_of_the_others(slow: dict[str, float]) -> None:
    slow |= {"stomp://a": 0.0, "stomp://b": 3600.0}
    watch = Watch(board("a", "b"), every=0.02, search="", patience=0.3)
    began = time.monotonic()
    looks: list[float] = []
    asyncio.run(watch.run(lambda: looks.append(time.monotonic() - began), 4))
    assert looks[0] >= 0.3
    assert looks[3] - looks[0] < 0.3


def test_a_key_renews_the_picture_at_once(slow: dict[str, float]) -> None:
    slow["stomp://a"] = 3600.0
    watch = Watch(board("a"), every=3600, search="", patience=3600)
    looks: list[str] = []

    def show() -> None:
        looks.append(watch.board.sort)
        watch.pressed("n" if len(looks) == 1 else "q")

    async def run() -> None:
        asyncio.get_running_loop().call_later(0.05, watch.pressed, "d")
        await asyncio.wait_for(watch.run(show), 10)

    asyncio.run(run())
    assert looks == ["dead", "name"]
