"""Ten pages of a console that live in a real browser while messages flow: nothing may grow.

    python tests/shell/console_soak.py --minutes 10

Producers and consumers keep every number on the pages moving; connections come and go, letters die, queues are made
and go away. Weighed are the broker, the console, and the pages (heap and nodes, garbage collected before): the middle
of the samples of the last third is compared with that of the second third, so that what is filled once is no growth.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from entrepot import blocking  # noqa: E402 - the line above must come first
from entrepot.base.errors import EntrepotError  # noqa: E402
from shell.consoles import Console  # noqa: E402
from shell.live_pages import PLACES, LivePages  # noqa: E402

MEGABYTE: Final = 1_000_000
QUEUE: Final = "soak.orders"
LETTERS: Final = "ActiveMQ.DLQ"
SAMPLES: Final = 30
LIMITS: Final = {
    "broker": 4 * MEGABYTE,
    "console": 4 * MEGABYTE,
    "heap": 3 * MEGABYTE,
    "nodes": 3_000,
    "listeners": 200,
}
"""By how much each may have grown; a renewal alone makes hundreds of nodes on each of ten pages."""


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return 1 when something has grown, or a page did not live."""
    parser = argparse.ArgumentParser(description="a soak of a console")
    parser.add_argument("--minutes", type=float, default=10.0)
    chosen = parser.parse_args(arguments)

    def say(text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory() as place:
        return 1 if soak(Path(place), chosen.minutes * 60, say=say) else 0


def soak(home: Path, seconds: float, *, script: str = "", say: Callable[[str], None] = lambda text: None) -> list[str]:
    """Let ten pages live for ``seconds``; return what is wrong. ``script``: something planted on each page."""
    console = Console(home)
    try:
        with traffic(console.tcp) as moved, LivePages(console.url, QUEUE, script=script) as pages:
            pages.wait(1)
            pages.open()
            samples = []
            for _ in range(SAMPLES):
                pages.wait(seconds / SAMPLES)
                samples.append(weighed(console, pages))
            wrong = [f"{place} has not lived: {count} renewals" for place, count in pages.swaps().items() if not count]
            if pages.failed():
                wrong.append(f"{pages.failed()} renewals had no answer")
            wrong += [f"a page says {error}" for error in pages.errors]
            say(f"{sum(pages.swaps().values())} renewals of {len(PLACES)} pages, {moved['messages']} messages")
    finally:
        console.stop()
    if moved["messages"] < SAMPLES:
        wrong.append(f"only {moved['messages']} messages moved")
    return [*wrong, *grown(samples, say)]


def weighed(console: Console, pages: LivePages) -> Counter[str]:
    """Return octets, nodes and listeners now."""
    told = pages.weigh()
    told["broker"] = own_memory(console.broker.process.pid)
    told["console"] = own_memory(console.console.process.pid)
    return told


def own_memory(pid: int) -> int:
    """Return octets of a process that are in no file."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc does not tell what {pid} holds")


def grown(samples: Sequence[Counter[str]], say: Callable[[str], None]) -> list[str]:
    """Return what has grown beyond `LIMITS`."""
    third = len(samples) // 3
    wrong = []
    for what, limit in LIMITS.items():
        before = statistics.median(sample[what] for sample in samples[third : 2 * third])
        after = statistics.median(sample[what] for sample in samples[2 * third :])
        say(f"{what:10} {before:14,.0f} -> {after:14,.0f}   grew by {after - before:12,.0f} of {limit:,} at most")
        if after - before > limit:
            wrong.append(f"{what} grew by {after - before:,.0f}, at most {limit:,}")
    return wrong


@contextlib.contextmanager
def traffic(url: str) -> Iterator[Counter[str]]:
    """Move messages meanwhile; yields how many."""
    moved: Counter[str] = Counter()
    ended = threading.Event()
    thread = threading.Thread(target=_move, args=(url, moved, ended), daemon=True)
    thread.start()
    try:
        yield moved
    finally:
        ended.set()
        thread.join(30)


def _move(url: str, moved: Counter[str], ended: threading.Event) -> None:
    """One visit after the other: a connection, messages in and out, a queue that comes and goes, one that dies."""
    visit = 0
    while not ended.is_set():
        visit += 1
        with contextlib.suppress(EntrepotError), blocking.connect(url) as connection, connection.session() as session:
            producer, consumer = session.producer(f"queue://{QUEUE}"), session.consumer(f"queue://{QUEUE}")
            passing = session.producer(f"queue://soak.passing.{visit % 50}")
            for number in range(20):
                producer.send(f"visit {visit}, message {number}", properties={"n": number})
                passing.send("short", time_to_live=2.0)
                moved["messages"] += consumer.receive(timeout=5) is not None
                ended.wait(0.05)
            letters = session.consumer(f"queue://{LETTERS}")
            while letters.receive(timeout=0.1) is not None:
                moved["letters"] += 1  # what nobody takes away is kept, and would be the growth that is looked for
            session.producer(f"queue://{LETTERS}").send("dead", time_to_live=5.0)


if __name__ == "__main__":
    began = time.monotonic()
    status = main(sys.argv[1:])
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")
    raise SystemExit(status)
