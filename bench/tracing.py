"""What the trace costs: every flood of the bench with and without ``--trace``.

    python bench/tracing.py [--pairs 8] [--seconds 2] [--row queue-4-4]

Both brokers stay up and take turns under the same load, and who goes first alternates; the price is the median of the
ratios within the pairs, so that what else the machine does mostly divides out. At most 5 % is the target.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from brokers import BenchError, Entrepot, Ports
from rows import FLOWS, Effort, Load

HERE = Path(__file__).resolve().parent
TARGET = 0.05


class Traced(Entrepot):
    """The same broker, which keeps a trace."""

    name = "traced"
    title = "entrepot --trace"

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        words = super().command(home, ports, fast_fill=fast_fill, bridge_to=bridge_to)
        return [*words, "--trace", str(home / "trace"), "--trace-limit", "256mb"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--row", action="append", help="only this row; repeatable")
    chosen = parser.parse_args()
    load = Load(HERE / "load.c", HERE.parent / "build" / "bench")
    load.build()
    effort = Effort(warm_s=0.3, measure_s=chosen.seconds, jvm_warm_s=0.0, idle_connections=0)
    flows = [flow for flow in FLOWS if not chosen.row or flow.row.key in chosen.row]
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        recipes = [Entrepot(), Traced()]
        up = {each.name: stack.enter_context(each.running(Path(place) / each.name)) for each in recipes}
        for flow in flows:
            rates: dict[str, list[float]] = {each.name: [] for each in recipes}
            costs: dict[str, list[float]] = {each.name: [] for each in recipes}
            for number in range(chosen.pairs):
                for each in recipes if number % 2 == 0 else recipes[::-1]:
                    sample = flow.measure(load, up[each.name], effort, number)
                    rates[each.name].append(sample.figures[flow.row.key])
                    costs[each.name].append(float(sample.record["broker_cpu_us_per_message"]))
            price = 1 - statistics.median(b / a for a, b in zip(rates["entrepot"], rates["traced"], strict=True))
            cpu = statistics.median(b / a for a, b in zip(costs["entrepot"], costs["traced"], strict=True)) - 1
            print(
                f"{flow.row.key:14} {statistics.median(rates['entrepot']):11,.0f} -> "
                f"{statistics.median(rates['traced']):11,.0f}   price {price:+.1%} of the figure, {cpu:+.1%} of the "
                f"processor time (target at most {TARGET:.0%}; load of the machine {os.getloadavg()[0]:.1f})",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
