"""The memory of Python workers is bounded by the size of a batch, not by how many messages a task has to do with."""

from __future__ import annotations

from collections.abc import Callable

from entrepot import pipeline
from spark.soak import workers_peak
from spark.stand import Stand

MIB = 1 << 20
BODY = "x" * 1024
FEW = 8_000
MANY = 10 * FEW  # 72 MiB more of bodies alone
BATCH = 1 * MIB
WRITTEN = 80_000
SLACK = 12 * MIB  # what one portion, its copy for Arrow and the allocators' habits may differ by

# The order counts: a peak is for ever, and the test that reads raises it at its end.


def growth(work: Callable[[int], None], few: int = FEW, many: int = MANY) -> int:
    """Return by how much ``many`` messages raise what ``few`` needed."""
    for _ in range(2):  # a worker keeps what the allocators had for its first task, and the second one adds to that
        work(few)
    before = workers_peak()
    work(many)
    return workers_peak() - before


def test_writing_twice_as_much_needs_no_more_memory(stand: Stand) -> None:
    def write(count: int) -> None:
        rows = stand.spark.range(count, numPartitions=1).selectExpr("repeat('x', 1024) AS text")
        rows.write.format("entrepot").options(url=stand.url, queue=stand.queue).mode("append").save()

    assert growth(write, WRITTEN, 2 * WRITTEN) < SLACK  # 78 MiB more of bodies alone
    assert len(stand.left()) == 4 * WRITTEN


def test_reading_ten_times_as_much_needs_no_more_memory_and_larger_batches_do(stand: Stand) -> None:
    def read(count: int, octets: int = BATCH) -> None:
        stand.produce([BODY] * count)
        held = pipeline.claim(url=stand.url, queue=stand.queue, subscription="s", limit=count)
        assert held.count == count
        frame = held.read(stand.spark, minPartitions="1", batchOctets=str(octets))
        frame.write.format("noop").mode("overwrite").save()
        held.settle()

    assert growth(read) < SLACK
    before = workers_peak()
    read(MANY, 256 * MIB)  # the measure sees it when a batch is all there is
    assert workers_peak() - before > 2 * SLACK
