"""A cable of user space: packets of two kernels, passed on late, out of order, or never. A process of its own.

``python tun_cable.py FD NAME`` runs inside a network namespace. FD is this side's tunnel device, open already; NAME is
the device to make on the other side. It says "ready", and then obeys lines of JSON: what becomes of packets in each of
both directions, as `wires.Weather` has it. It ends with its standard input.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from typing import Final

TUNNEL: Final = "/dev/net/tun"
TUNSETIFF: Final = 0x400454CA
WITHOUT_HEADER_OF_DEVICE: Final = 0x0001 | 0x1000  # IFF_TUN | IFF_NO_PI: whole packets of IP, and nothing else
PACKET_MAX: Final = 65_536
WAITING_MAX: Final = 1000  # packets under way in one direction; netem's own limit
AT_ONCE: Final = 64  # packets read before what is due goes out


def tunnel(name: str) -> int:
    """Make the device ``name`` in the namespace of this process, and return its file descriptor."""
    device = os.open(TUNNEL, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), WITHOUT_HEADER_OF_DEVICE))
    return device


class Direction:
    """Packets from ``source`` to ``target``. Counts what went in, what was lost, and what did not fit."""

    def __init__(self, source: int, target: int, chance: random.Random) -> None:
        self.source, self.target, self.chance = source, target, chance
        self.delay_s = self.jitter_s = self.loss = self.octets_s = 0.0
        self.free = 0.0  # when the packet before has left the sender, at the rate given
        self.waiting: list[tuple[float, int, bytes]] = []
        self.came = self.lost = self.dropped = 0

    def become(self, said: dict[str, float]) -> None:
        self.delay_s, self.jitter_s = said["delay_ms"] / 1000, said["jitter_ms"] / 1000
        self.loss, self.octets_s = said["loss"], said["rate_kbit"] * 125
        if self.loss >= 1:
            self.waiting.clear()  # a cut: nor does anything arrive that is under way

    def take(self, now: float) -> None:
        """Read what is there."""
        for _ in range(AT_ONCE):
            try:
                packet = os.read(self.source, PACKET_MAX)
            except BlockingIOError:
                return
            self.came += 1
            if self.chance.random() < self.loss:
                self.lost += 1
            elif len(self.waiting) >= WAITING_MAX:
                self.dropped += 1
            else:
                heapq.heappush(self.waiting, (self._due(now, len(packet)), self.came, packet))

    def _due(self, now: float, size: int) -> float:
        left = now
        if self.octets_s:
            left = self.free = max(now, self.free) + size / self.octets_s
        return left + max(0.0, self.delay_s + self.chance.uniform(-self.jitter_s, self.jitter_s))

    def give(self, now: float) -> float:
        """Write what is due, and return when something will be; infinity where nothing waits."""
        while self.waiting and self.waiting[0][0] <= now:
            try:
                os.write(self.target, heapq.heappop(self.waiting)[2])
            except OSError:  # the device is down, or its queue is full: packets are lost that way, too
                self.dropped += 1
        return self.waiting[0][0] if self.waiting else float("inf")


def main(near: int, name: str) -> None:
    far = tunnel(name)
    os.set_blocking(near, False)
    chance = random.Random(1)
    out, back = Direction(near, far, chance), Direction(far, near, chance)
    poll = select.epoll()
    for each in (near, far, sys.stdin.fileno()):
        poll.register(each, select.EPOLLIN)
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        due = min(out.give(now), back.give(now))
        events = poll.poll(max(0.0, due - time.monotonic()) if due != float("inf") else -1)
        now = time.monotonic()
        for ready, _ in events:
            if ready == near:
                out.take(now)
            elif ready == far:
                back.take(now)
            else:
                line = sys.stdin.readline()
                if not line:
                    return
                said = json.loads(line)
                out.become(said["out"])
                back.become(said["back"])
                counts = [[each.came, each.lost, each.dropped] for each in (out, back)]
                print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
