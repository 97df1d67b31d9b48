"""How long the confirmation of a persistent message takes: one connection, so many a second. Prints JSON.

A process of its own, so that nothing that floods a broker beside it takes its time. Arguments: port, place, how many a
second, for how many seconds. A message is due at its moment, whatever became of those before it: who is late is counted
from then.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

PATIENCE_S = 60.0


def measured(port: int, place: str, rate: float, seconds: float) -> dict[str, float]:
    """Return p50, p99 and the longest in ms, and how many were confirmed."""
    wire = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.sendall(b"CONNECT\naccept-version:1.2\nhost:bench\n\n\0")
    if b"CONNECTED" not in wire.recv(65536):
        raise SystemExit("the broker lets nobody in")
    wire.setblocking(False)
    total = int(rate * seconds)
    began = time.monotonic()
    due = [began + number / rate for number in range(total)]
    took: list[float] = []
    sent = 0
    seen = b""
    while len(took) < total and time.monotonic() < began + seconds + PATIENCE_S:
        now = time.monotonic()
        while sent < total and due[sent] <= now:
            wire.sendall(
                b"SEND\ndestination:%s\npersistent:true\nreceipt:r%d\n\n%s\0" % (place.encode(), sent, b"x" * 100)
            )
            sent += 1
        wait = max(0.0, due[sent] - time.monotonic()) if sent < total else 1.0
        if select.select([wire], [], [], wait)[0]:
            piece = wire.recv(1 << 16)
            if not piece:
                raise SystemExit("the broker ended the connection")
            at = time.monotonic()
            *frames, seen = (seen + piece).split(b"\0")
            for frame in frames:
                if frame.lstrip().startswith(b"RECEIPT"):
                    number = int(frame.rpartition(b"receipt-id:r")[2].split(b"\n")[0])
                    took.append((at - due[number]) * 1000)
    if len(took) < total:
        raise SystemExit(f"{total - len(took)} of {total} were not confirmed")
    took.sort()
    return {"p50_ms": took[total // 2], "p99_ms": took[total * 99 // 100], "max_ms": took[-1], "confirmed": total}


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))))
