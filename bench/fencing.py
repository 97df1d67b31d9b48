"""What fencing costs on the persistent path: the row "persistent" with and without ``--ha shared-store``.

    python bench/fencing.py [--pairs 12] [--seconds 2] [--scratch DIR]

Both brokers stay up and take turns under the same load, and who goes first alternates; the price is the median of the
ratios within the pairs, so that what else the machine does mostly divides out. Many short pairs say more than few long
ones; on a busy machine look at the processor time. At most 3 % is the target.
"""

from __future__ import annotations

import argparse
import math
import os
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


class Fenced(Entrepot):
    """The same broker, which shares its store, holds a lease, and looks at it before it confirms."""

    name = "fenced"
    title = "entrepot --ha"

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        return [*super().command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to), "--ha", "shared-store"]


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
    parser.add_argument("--scratch", type=Path, help="where the stores are put; must be a real disk")
    chosen = parser.parse_args()
    load = Load(HERE / "load.c", HERE.parent / "build" / "bench")
    load.build()
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
