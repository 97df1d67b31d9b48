"""How long clients wait when the master of a pair dies, or stops in good order.

    python bench/takeover.py [--messages 100000] [--rate 5000] [--rounds 5]

Two brokers share a directory that holds ``--messages`` messages of 1 KiB; a producer sends ``--rate`` persistent ones a
second with 50 in flight. Each round ends the master and measures from that moment until the other one has acknowledged
a new send. Prints milliseconds. The same with ActiveMQ Classic on the same machine: see docs/high-availability.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from pairs import BrokerProcess, Connection, Producer, until  # noqa: E402 - the line above must come first


def fill(port: int, count: int) -> None:
    connection = Connection(port, 60.0)
    body = b"x" * 1024
    frame = b"SEND\ndestination:/queue/stored\npersistent:true\ncontent-length:1024\n\n" + body + b"\0"
    for start in range(0, count, 500):
        connection.socket.sendall(frame * min(500, count - start))
        connection.send("/queue/last", [f"filled{start}"])
        connection.receipts(1)
    connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=5000.0)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        data, logs = Path(place) / "data", Path(place)
        brokers = [BrokerProcess(data, "b0", logs)]
        made = list(brokers)
        try:
            until(brokers[0].serves, "the first serves")
            fill(brokers[0].port, chosen.messages)
            for kind in ("kill -9", "graceful stop"):
                gaps: list[float] = []
                idle: list[int] = []
                for _ in range(chosen.rounds):
                    brokers.append(BrokerProcess(data, f"b{len(made)}", logs))
                    made.append(brokers[-1])
                    until(brokers[1].waits, "the second waits")
                    producer = Producer([one.port for one in brokers], "/queue/load", rate=chosen.rate)
                    producer.flow(2000)
                    time.sleep(1.0)
                    idle.append(brokers[1].resident())
                    ended = time.monotonic()
                    if kind == "kill -9":
                        brokers[0].kill()
                    else:
                        brokers[0].process.terminate()
                    until(brokers[1].serves, "the second takes over", 60.0)
                    producer.flow(1)
                    late = [at for at in producer.promised.values() if at > ended]
                    late.sort()
                    gap = max(after - before for before, after in zip([ended, *late], late, strict=False))
                    producer.stop()
                    gaps.append(gap * 1000)
                    brokers.pop(0).stop()
                print(
                    f"{kind:14} median {statistics.median(gaps):6.0f} ms  min {min(gaps):6.0f}  max {max(gaps):6.0f}  "
                    f"idle backup {max(idle) / 1e6:.1f} MB  ({chosen.rounds} rounds, {chosen.messages} messages)"
                )
        finally:
            for broker in made:
                broker.clear()


if __name__ == "__main__":
    main()
