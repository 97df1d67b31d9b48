"""What a console costs: the same load with no page open and with ten pages that live in a real browser.

    python bench/console.py [--pairs 5] [--seconds 6] [--row flood] [--quick] [--elsewhere]

One broker and one console stay up; pages are opened and left between rounds that alternate, and who goes first
alternates too. A share is the median of the ratios within the pairs, so that what else the machine does mostly divides
out. The browser would be on another machine: it has a lower priority than all the rest here. README.md has what a row
means. Needs Debian's Chromium and playwright; without them it says so and measures only what needs no browser.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from brokers import BenchError, Entrepot, Ports, Running, processor_s
from rows import FLOWS, MEGABYTE, SETTLE_S, TRIP_P99, Effort, Load, round_trip
from stall_rows import Peer, frame

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests")]

from shell.consoles import Process  # noqa: E402 - the line above must come first
from shell.live_pages import CHROMIUM, PLACES, LivePages  # noqa: E402

MANY: Final = 10_000  # queues
WATCHED: Final = "console.watched"
LISTS: Final = tuple(f"/queues?sort={sort}&page={page}" for sort in ("messages", "name") for page in (1, 2, 3, 4, 5))
HUNG: Final = 30  # browsers that ask and never read
LOWER: Final = 10  # niceness of the browser
SCRAPES: Final = 5
EVERY_S: Final = 3.0  # a page renews itself, as its templates say
BETWEEN_S: Final = 3.0  # scrapes, so that each has a view of its own
LEAST_SHARE: Final = 0.97
NOISE: Final = 1.25  # p99 with pages over p99 without them: what two runs of the same differ by
IDLE_MB: Final = 3.0
SCRAPE_MS: Final = 150.0
PAGE_MS: Final = 300.0

Figure = Callable[[int], dict[str, float]]


class Consoled(Entrepot):
    """The broker with a console beside it."""

    name = "consoled"
    title = "entrepot --console"

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        words = super().command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to)
        return [*words, "--console", "127.0.0.1:0"]


class Bench:
    """One run: its load, its effort, and what it found. ``missed``: rows that are not as they should be."""

    def __init__(self, load: Load, effort: Effort, pairs: int, home: Path, *, elsewhere: bool = False) -> None:
        self.load: Final = load
        self.opened: Final = asking if elsewhere else opened
        self.effort: Final = effort
        self.pairs: Final = pairs
        self.home: Final = home
        self.missed: Final[list[str]] = []

    def say(self, row: str, text: str, well: bool | None) -> None:
        """Print a row. ``well``: None where nothing is asked of it."""
        verdict = "" if well is None else "  well" if well else "  MISSED"
        sys.stdout.write(f"{row:12} {text}  (load of the machine {os.getloadavg()[0]:.1f}){verdict}\n")
        sys.stdout.flush()
        if well is False:
            self.missed.append(row)

    def flood(self) -> None:
        """Messages a second, and the broker's processor time for each, with ten pages open."""
        with self._shown("flood") as (broker, url), self.opened(url) as pages:

            def measure(number: int) -> dict[str, float]:
                sample = FLOWS[0].measure(self.load, broker, self.effort, number)
                return {"rate": sample.figures[FLOWS[0].row.key], "cpu": sample.record["broker_cpu_us_per_message"]}

            closed, open_, renewals = self._alternate(measure, pages)
        share, cpu = ratio(open_, closed, "rate"), ratio(open_, closed, "cpu")
        text = f"{middle(closed, 'rate'):,.0f} -> {middle(open_, 'rate'):,.0f} msg/s: {share:.1%}, CPU {cpu:.1%}, "
        self.say("flood", f"{text}{renewals} renewals", share >= LEAST_SHARE)

    def trips(self) -> None:
        """The p99 of round trips at 500 a second, with ten pages open."""
        with self._shown("trips") as (broker, url), self.opened(url) as pages:
            closed, open_, renewals = self._alternate(lambda number: self._trip(broker, number), pages)
        self._say_p99("trips", closed, open_, f"{renewals} renewals")

    def many(self) -> None:
        """The same over 10,000 queues, with ten lists of them open and browsers that hang; then pages and metrics."""
        with self._shown("many") as (broker, url):
            peer = Peer(broker.port)
            for first in range(0, MANY, 500):
                names = (f"/queue/many.{number:05}" for number in range(first, first + 500))
                peer.ask(b"".join(frame("SEND", b"x", destination=name) for name in names), "SEND",
                         b"x", destination=f"/queue/{WATCHED}")  # fmt: skip
            self._first_page(url)
            self._scrape(broker, url)
            with self.opened(url, LISTS) as pages, ExitStack() as stack:

                def hang() -> None:
                    for _ in range(HUNG):
                        stack.enter_context(hanging(url))

                measured = self._alternate(lambda number: self._trip(broker, number), pages, hang, stack.close)
            self._say_p99("many", measured[0], measured[1], f"{measured[2]} renewals, {HUNG} hang")

    def idle(self) -> None:
        """What an idle broker weighs more with a console beside it."""
        weights: dict[str, list[float]] = {}
        for number in range(self.pairs):
            for recipe in (Entrepot(), Consoled()):
                with recipe.running(
                    self.home / f"idle-{recipe.name}-{number}", ports=Ports.free(openwire=True)
                ) as broker:
                    time.sleep(SETTLE_S * 3)
                    weights.setdefault(recipe.name, []).append(broker.weigh().rss / MEGABYTE)
        before, after = (statistics.median(each) for each in weights.values())
        more = after - before
        self.say("idle-memory", f"{before:.1f} -> {after:.1f} MB: {more:+.2f} (at most {IDLE_MB:g})", more <= IDLE_MB)

    def _first_page(self, url: str) -> None:
        times = [1000 * asked(url, "/queues?q=many")[0] for _ in range(SCRAPES)]
        text = f"{times[0]:.0f} ms, then {statistics.median(times[1:]):.0f} (at most {PAGE_MS:g})"
        self.say("first-page", f"of {MANY:,} queues: {text}", times[0] <= PAGE_MS)

    def _scrape(self, broker: Running, url: str) -> None:
        spent = []
        for _ in range(SCRAPES):
            time.sleep(BETWEEN_S)
            before, brokers = processor_s(self.console.process.pid), broker.cpu_s()
            took, octets = asked(url, "/metrics")
            spent.append((processor_s(self.console.process.pid) - before, broker.cpu_s() - brokers, took, octets))
        cpu, brokers, took, octets = (statistics.median(column) for column in zip(*spent, strict=True))
        text = f"{1000 * cpu:.0f} ms of the console, {1000 * brokers:.0f} of the broker, {1000 * took:.0f} to wait"
        self.say("scrape", f"{text}, {octets / MEGABYTE:.1f} MB (at most {SCRAPE_MS:g})", 1000 * cpu <= SCRAPE_MS)

    def _trip(self, broker: Running, number: int) -> dict[str, float]:
        return {"p99": round_trip(self.load, broker, self.effort, number).figures[TRIP_P99.key]}

    def _say_p99(self, row: str, closed: list[dict[str, float]], open_: list[dict[str, float]], more: str) -> None:
        share = ratio(open_, closed, "p99")
        text = f"p99 {middle(closed, 'p99'):.2f} -> {middle(open_, 'p99'):.2f} ms: {share:.2f} times, {more}"
        self.say(row, text, share <= NOISE)

    def _alternate(
        self,
        measure: Figure,
        pages: Pages,
        begin: Callable[[], None] = lambda: None,
        end: Callable[[], None] = lambda: None,
    ) -> tuple[list[dict[str, float]], list[dict[str, float]], int]:
        """Measure with and without pages in turn; returns the figures of both, and how often pages renewed."""
        found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
        renewals = 0
        for number in range(2 * self.pairs):
            shown = (number % 2 == 0) == (number // 2 % 2 == 1)
            if shown:
                pages.open()
                begin()
            found[shown].append(measure(number))
            if shown:
                swaps = pages.swaps()
                if not any(swaps.values()):
                    raise BenchError("no page renewed itself: measure longer, --seconds 10")
                renewals += sum(swaps.values())
                pages.close()
                end()
        return found[False], found[True], renewals

    @contextmanager
    def _shown(self, name: str) -> Iterator[tuple[Running, str]]:
        """Have a broker and a console of it."""
        home = self.home / name
        with Entrepot().running(home, ports=Ports.free(openwire=True)) as broker:
            Peer(broker.port).ask(b"", "SEND", b"x", destination=f"/queue/{WATCHED}")
            self.console = Process(
                home, "console", "console", "--broker", f"bench={broker.openwire}", "--listen", "127.0.0.1:0"
            )
            try:
                yield broker, self.console.facts["url"]
            finally:
                self.console.stop()


class Askers:
    """Ask for what living pages ask for, as often as they do, and read it: pages whose browser is elsewhere."""

    def __init__(self, url: str, places: Sequence[str]) -> None:
        self._url: Final = url
        self._places: Final = [place.format(queue=WATCHED) for place in places]
        self._renewed: Counter[str] = Counter()
        self._left = threading.Event()
        self._asking: list[threading.Thread] = []

    def open(self) -> None:
        """Begin to ask; each place has been answered once when this returns."""
        self._renewed.clear()
        self._left.clear()
        for place in self._places:
            asked(self._url, place)
        self._asking = [threading.Thread(target=self._renew, args=(place,)) for place in self._places]
        for thread in self._asking:
            thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._left.set()
        for thread in self._asking:
            thread.join()

    def swaps(self) -> dict[str, int]:
        """Return how often each place was answered since it was opened."""
        return {place: self._renewed[place] for place in self._places}

    def _renew(self, place: str) -> None:
        while not self._left.wait(EVERY_S):
            asked(self._url, place)
            self._renewed[place] += 1


Pages = LivePages | Askers


@contextmanager
def asking(url: str, places: Sequence[str] = PLACES) -> Iterator[Pages]:
    """Have what the pages ask for without a browser."""
    yield Askers(url, places)


@contextmanager
def opened(url: str, places: Sequence[str] = PLACES) -> Iterator[Pages]:
    """Have a browser for pages, which takes what others leave it."""
    with LivePages(url, WATCHED, places) as pages:
        for pid in descendants(os.getpid()):
            os.setpriority(os.PRIO_PROCESS, pid, LOWER)
        yield pages


def descendants(pid: int) -> list[int]:
    """Return the processes of the browser among those that a process has begun, and what they have begun."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(place.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(parent, []).append(int(place.parent.name))
    found, more = [], [pid]
    while more:
        more = [child for one in more for child in children.get(one, ())]
        found += more
    return [one for one in found if "chrom" in Path(f"/proc/{one}/comm").read_text()]


@contextmanager
def hanging(url: str) -> Iterator[None]:
    """Ask for a long page and read nothing of it."""
    place = urlsplit(url)
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect((place.hostname, place.port))
        link.sendall(f"GET /metrics/detailed HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
        yield


def asked(url: str, place: str) -> tuple[float, int]:
    """Return s and octets of an answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    began = time.monotonic()
    try:
        connection.request("GET", place)
        answer = connection.getresponse()
        octets = len(answer.read())
    finally:
        connection.close()
    if answer.status != 200:
        raise BenchError(f"{place} was answered with {answer.status}")
    return time.monotonic() - began, octets


def middle(samples: list[dict[str, float]], key: str) -> float:
    """Return the median of a figure."""
    return statistics.median(sample[key] for sample in samples)


def ratio(after: list[dict[str, float]], before: list[dict[str, float]], key: str) -> float:
    """Return the median of the ratios within the pairs."""
    return statistics.median(a[key] / b[key] for a, b in zip(after, before, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--quick", action="store_true", help="one short pair: shows that it runs, proves nothing")
    parser.add_argument(
        "--elsewhere", action="store_true", help="no browser: ask for what its pages ask for, and read it"
    )
    parser.add_argument("--row", action="append", help="flood, trips, many or idle; repeatable")
    chosen = parser.parse_args()
    load = Load(HERE / "load.c", HERE.parent / "build" / "bench")
    load.build()
    seconds, pairs = (4.0, 1) if chosen.quick else (chosen.seconds, chosen.pairs)
    effort = Effort(warm_s=0.3, measure_s=seconds, jvm_warm_s=0.0, idle_connections=0)
    browser = bool(CHROMIUM) and importlib.util.find_spec("playwright") is not None
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(load, effort, pairs, Path(place), elsewhere=chosen.elsewhere)
        rows: dict[str, Callable[[], Any]] = {"idle": bench.idle}
        if browser or chosen.elsewhere:
            rows |= {"flood": bench.flood, "trips": bench.trips, "many": bench.many}
        else:
            sys.stdout.write("no chromium or no playwright here: flood, trips and many are not measured\n")
        for name, measure in rows.items():
            if not chosen.row or name in chosen.row:
                measure()
    return 1 if bench.missed and not chosen.quick else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
