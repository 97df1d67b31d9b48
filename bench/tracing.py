"""What the trace costs: every flood of the bench with and without ``--trace``.

    python bench/tracing.py [--pairs 8] [--seconds 2] [--row queue-4-4] [--row openwire]

Both brokers stay up and take turns under the same load, and who goes first alternates; the price is the median of the
ratios within the pairs, so that what else the machine does mostly divides out. At most 5 % is the target.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from brokers import BenchError, Entrepot, Ports, Running
from openwire_rows import python_client
from rows import FLOWS, Effort, Flow, Load, Sample

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
    loads: dict[str, Callable[[Running, int], Sample]] = {
        flow.row.key: partial(_flood, flow, load, effort) for flow in FLOWS
    }
    loads["openwire"] = partial(_client, effort)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        recipes = [Entrepot(), Traced()]
        up = {
            each.name: stack.enter_context(each.running(Path(place) / each.name, ports=Ports.free(openwire=True)))
            for each in recipes
        }
        for row, measure in loads.items():
            if chosen.row and row not in chosen.row:
                continue
            samples: dict[str, list[Sample]] = {each.name: [] for each in recipes}
            for number in range(chosen.pairs):
                for each in recipes if number % 2 == 0 else recipes[::-1]:
                    samples[each.name].append(measure(up[each.name], number))
            _say(samples["entrepot"], samples["traced"])
    return 0


def _flood(flow: Flow, load: Load, effort: Effort, broker: Running, number: int) -> Sample:
    return flow.measure(load, broker, effort, number)


def _client(effort: Effort, broker: Running, number: int) -> Sample:
    """Messages that bring an identity of their own, which the trace keeps too."""
    return python_client(broker, effort.measure_s, f"{number}")


def _say(plain: list[Sample], traced: list[Sample]) -> None:
    cost = "broker_cpu_us_per_message"
    cpu = statistics.median(b.record[cost] / a.record[cost] for a, b in zip(plain, traced, strict=True)) - 1
    for row in plain[0].figures:
        before, after = [one.figures[row] for one in plain], [one.figures[row] for one in traced]
        price = 1 - statistics.median(b / a for a, b in zip(before, after, strict=True))
        print(
            f"{row:14} {statistics.median(before):11,.0f} -> {statistics.median(after):11,.0f}   "
            f"price {price:+.1%} of the figure, {cpu:+.1%} of the processor time "
            f"(target at most {TARGET:.0%}; load of the machine {os.getloadavg()[0]:.1f})",
            flush=True,
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(f"bench: {problem}")
