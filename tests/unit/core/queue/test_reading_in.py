"""What is read from disk at once is bounded by octets as well as by number, whoever reads (`core/queue/stock.py`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.core.broker import selector_or_none
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.stock import RELOAD_OCTETS
from entrepot.core.queue.taking import SWEEP_READS, Pick
from entrepot.model.message import Message
from kit import Rig

pytestmark = pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")

LARGE = 300_000
TTL = 1_000


def filled(monkeypatch: pytest.MonkeyPatch, **fields: object) -> tuple[Rig, list[int]]:
    """Return a broker with messages on disk, many small ones in front of 100 large ones, and what each read had."""
    rig = Rig({"#": {"max_octets": "2000"}})
    rig.send_all("Q", [f"small {number}" for number in range(600)], **fields)
    rig.send_all("Q", ["x" * LARGE for _ in range(100)], **fields)
    rig.restart()
    genuine = rig.journal.reading.load_range
    read: list[int] = []

    def counted(numbers: list[int], octets: int = 0) -> list[Message]:
        found = genuine(numbers, octets)
        read.append(sum(int(message.size) for message in found))
        return found

    monkeypatch.setattr(rig.journal.reading, "load_range", counted)
    return rig, read


def swept(rig: Rig) -> None:
    assert rig.queue("Q").stock.expiring == 700
    rig.wait(60_000)
    assert rig.queue("Q").count == 0
    assert rig.queue("ActiveMQ.DLQ").count == 700


def delivered(rig: Rig) -> None:
    reader = rig.reader("Q", 1000)
    rig.wait(10)
    assert len(reader.bodies) == 700


def walked(rig: Rig) -> None:
    queue = rig.queue("Q")
    assert len(queue.taking.take(queue.stock.walk(), 600, 10_000, Pick(None))) == 600
    assert len(queue.taking.take(queue.stock.walk(), 60, 10_000, Pick(None))) == 56  # 16 MiB and a little


def browsed(rig: Rig) -> None:
    browser = Browser([rig.queue("Q")], None, waiting=True)
    found = 0
    while not browser.done:
        found += len(browser.next(10_000))
    assert found == 700


def searched(rig: Rig) -> None:
    assert selector_or_none("colour = 'red'") is not None
    reader = rig.reader("Q", 1000, selector="colour = 'red'")
    rig.wait(10_000)
    assert reader.bodies == []


@pytest.mark.parametrize("use", [swept, delivered, walked, browsed, searched])
def test_large_messages_behind_small_ones_are_read_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[Rig], None]
) -> None:
    rig, read = filled(monkeypatch, **({"ttl": TTL} if use is swept else {}))
    use(rig)
    assert max(read) > LARGE
    assert max(read) <= RELOAD_OCTETS + LARGE


def test_a_sweep_leaves_no_more_in_memory_than_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, _ = filled(monkeypatch, ttl=1_000_000)
    rig.wait(5_000)
    assert 0 < rig.broker.memory.used <= RELOAD_OCTETS + 2 * LARGE
    assert rig.queue("Q").count == 700


def test_a_sweep_reads_on_where_all_that_it_read_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, read = filled(monkeypatch, ttl=60_000)
    rig.wall += 60_000
    rig.broker.tick(rig.now, rig.wall)
    read.clear()
    gone = rig.queue("Q").taking.sweep(10_000)
    assert gone > 600
    assert (SWEEP_READS - 1) * RELOAD_OCTETS <= sum(read) <= SWEEP_READS * (RELOAD_OCTETS + LARGE)
    assert rig.queue("Q").backlog.loaded == 0
