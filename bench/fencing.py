"""What fencing costs on the persistent path: the row "persistent" with and without ``--ha shared-store``.

    python bench/fencing.py [--pairs 12] [--seconds 2] [--scratch DIR]
    python bench/fencing.py --count

Both brokers stay up and take turns under the same load, and who goes first alternates; the price is the median of the
ratios within the pairs, so that what else the machine does mostly divides out. Many short pairs say more than few long
ones; on a busy machine look at the processor time. At most 3 % is the target.

Time says little about so small a difference. ``--count`` counts instructions instead, with valgrind: a broker takes a
few messages, another one many, and what the many took more, divided by how many more they were, is what one takes. What
else the machine does leaves that alone: it repeats to one percent. The system's own instructions are not in it: the
fence asks for the time at each sync, which is no call into the system, and looks at its file every 50 ms. It is asked
once for all that it wrote, so the fewer messages wait for their receipts, the more it may cost.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from brokers import BenchError, Entrepot, Ports
from rows import FLOWS, Effort, Load

HERE = Path(__file__).resolve().parent
PERSISTENT = next(flow for flow in FLOWS if flow.row.key == "persistent")
TARGET = 0.03
COUNTED = {1: (1_000, 6_000), 50: (4_000, 24_000), 500: (5_000, 45_000)}
"""Messages that wait for their receipts -> how many the two brokers take; valgrind is 50 times slower than none."""
LONG = "1000"
"""s of a lease: one renewal a second would weigh 50 times as much here. It takes 10 us."""
START_S = 60.0  # with valgrind, on a machine that is busy


class Fenced(Entrepot):
    """The same broker, which shares its store, holds a lease, and looks at it before it confirms."""

    name = "fenced"
    title = "entrepot --ha"

    def __init__(self, *more: str) -> None:
        super().__init__()
        self._more = more

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        plain = super().command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to)
        return [*plain, "--ha", "shared-store", *self._more]


class Counted(Entrepot):
    """A broker whose instructions are counted; what they were is known once it has ended."""

    def __init__(self, recipe: Entrepot) -> None:
        super().__init__()
        self.recipe = recipe

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        counting.append(f"--log-file={home}/counted")
        return [*counting, *self.recipe.command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to)]

    def taking(self, load: Load, home: Path, messages: int, window: int) -> int:
        """Return the instructions of a broker from its start to its end, with so many messages in between."""
        with self.running(home, patience_s=START_S) as broker:
            place = ("--destination", "/queue/bench", "--size", "100", "--persistent", "--consumers", "0")
            load.run(broker, *place, "--window", f"{window}", "--count", f"{messages}", at_most_s=300)
        found = re.search(r"I\s+refs:\s+([\d,]+)", (home / "counted").read_text())
        if found is None:
            raise BenchError(f"valgrind did not say how many:\n{(home / 'counted').read_text()}")
        return int(found[1].replace(",", ""))


def count(load: Load, place: Path) -> None:
    """Print the instructions of a message, for each window. Raises BenchError without valgrind."""
    if shutil.which("valgrind") is None:
        raise BenchError("instructions are counted with valgrind, and there is none on the PATH")
    os.environ["PYTHONHASHSEED"] = "0"  # so that both do the same while they start
    for window, (few, many) in COUNTED.items():
        each: dict[str, float] = {}
        for recipe in (Entrepot(), Fenced("--lease-duration", LONG)):
            counted = Counted(recipe)
            home = place / f"{recipe.name}.{window}"
            with recipe.running(home / "first"):
                pass  # so that all is compiled to byte code by now
            more = counted.taking(load, home / "many", many, window) - counted.taking(load, home / "few", few, window)
            each[recipe.name] = more / (many - few)
        price = each["fenced"] / each["entrepot"] - 1
        print(
            f"{window:4} wait for their receipts: {each['entrepot']:8,.0f} instructions a message without, "
            f"{each['fenced']:8,.0f} with --ha, price {price:+.2%} (target at most {TARGET:.0%})"
        )


def ratios(found: dict[str, list[float]]) -> list[float]:
    """Return what each pair says: fenced by not fenced."""
    return [b / a for a, b in zip(found["entrepot"], found["fenced"], strict=True)]


def spread(found: list[float]) -> tuple[float, float]:
    """Return between what the true median lies with 95 %: order statistics, for it is no normal distribution."""
    ordered = sorted(found)
    apart = int(0.98 * math.sqrt(len(ordered))) + 1  # half of 1.96 standard deviations of a fair coin
    middle = len(ordered) // 2
    return ordered[max(0, middle - apart)], ordered[min(len(ordered) - 1, middle + apart)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--count", action="store_true", help="count instructions instead; a busy machine does no harm")
    parser.add_argument("--scratch", type=Path, help="where the stores are put; must be a real disk")
    chosen = parser.parse_args()
    load = Load(HERE / "load.c", HERE.parent / "build" / "bench")
    load.build()
    if chosen.count:
        with tempfile.TemporaryDirectory(dir=chosen.scratch) as place:
            count(load, Path(place))
        return 0
    effort = Effort(warm_s=0.3, measure_s=chosen.seconds, jvm_warm_s=0.0, idle_connections=0)
    rates: dict[str, list[float]] = {"entrepot": [], "fenced": []}
    costs: dict[str, list[float]] = {"entrepot": [], "fenced": []}
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as place, ExitStack() as stack:
        recipes = [Entrepot(), Fenced()]
        up = {each.name: stack.enter_context(each.running(Path(place) / each.name)) for each in recipes}
        for each in recipes:
            PERSISTENT.warm(load, up[each.name], 2.0)
        for number in range(chosen.pairs):
            for each in recipes if number % 2 == 0 else recipes[::-1]:
                sample = PERSISTENT.measure(load, up[each.name], effort, number)
                rates[each.name].append(sample.figures["persistent"])
                costs[each.name].append(float(sample.record["broker_cpu_us_per_message"]))
    price = 1 - statistics.median(ratios(rates))
    dearer = ratios(costs)
    cpu = statistics.median(dearer) - 1
    low, high = spread(dearer)
    for name, title in (("entrepot", "without"), ("fenced", "with --ha")):
        print(
            f"{title:10} {statistics.median(rates[name]):9,.0f} messages a second, "
            f"{statistics.median(costs[name]):.2f} us of processor each"
        )
    print(
        f"price of fencing {price:+.1%} of the rate, {cpu:+.1%} of the processor time "
        f"(95 % sure: {low - 1:+.1%} to {high - 1:+.1%})"
    )
    print(f"{chosen.pairs} pairs; load of the machine {os.getloadavg()[0]:.1f}; target at most {TARGET:.0%}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(str(problem))
