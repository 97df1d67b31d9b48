"""A primary of a replicated store without I/O, for tests: its disk is simulated, and what it says is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.base.environment import SECOND
from entrepot.ha.follower import Fetched, Follower, Host, Link
from entrepot.ha.mirror import Mirror
from entrepot.ha.replication import Replication
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import JOIN, JOINED, LAYOUT, SYNC, SYNCED, WELCOME, Frame, Frames
from entrepot.journal.inspect import Damage
from entrepot.journal.ports import JournalEvents
from entrepot.simulation.disk import SimulatedDisk
from journals import Lots


class Told(Link, Host, JournalEvents):
    """Everything that a replication says."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.closed = ""
        self.proposals: list[tuple[int, dict[str, int]]] = []
        self.said: list[str] = []
        self.confirmed: list[int] = []
        self.reads: list[tuple[str, int, int, Fetched]] = []
        self.examined: list[tuple[str, Callable[[list[Damage]], None]]] = []

    def fetch(self, name: str, offset: int, length: int, then: Fetched) -> None:
        self.reads.append((name, offset, length, then))

    def send(self, octets: bytes) -> None:
        self.frames += Frames().feed(octets)

    def close(self, why: str) -> None:
        self.closed = why

    def record(self, serial: int, eligible: dict[str, int]) -> None:
        self.proposals.append((serial, eligible))

    def say(self, text: str, *, loud: bool) -> None:
        self.said.append(text)

    def examine(self, name: str, then: Callable[[list[Damage]], None]) -> None:
        self.examined.append((name, then))

    def asked_back(self, follower: Follower) -> None:
        self.said.append(f"{follower.name} asks")

    def synced(self, token: int) -> None:
        self.confirmed.append(token)


class Primary:
    def __init__(self, copies_min: int = 1, confirm: str = "synced") -> None:
        self.told = Told()
        self.disk = SimulatedDisk(Lots(1), lambda delay, action: action())
        self.mirror = Mirror(self.disk)
        options = ReplicationOptions(copies_min=copies_min, confirm=confirm)
        self.replication = Replication(self.mirror, self.told, options, copy="a", name="alpha", store="s")
        self.mirror.attach(self.told)
        self.replication.begin(3, {"a": 3}, SECOND)

    def greet(self, **more: Any) -> Follower:
        facts = {"layout": LAYOUT, "copy": "b", "name": "beta", "store": "s", "seen": 2, "files": {}, **more}
        return self.replication.greeted(self.told, facts, SECOND)

    def said(self, kind: int) -> list[Frame]:
        return [frame for frame in self.told.frames if frame.kind == kind]

    def join(self) -> Follower:
        follower = self.greet()
        assert self.said(WELCOME)
        self.hear(follower)
        self.hear(follower, Frame(SYNCED, first=self.said(SYNC)[-1].first))
        assert self.said(JOIN)
        self.hear(follower, Frame(JOINED, first=3))
        return follower

    def hear(self, follower: Follower, *frames: Frame) -> None:
        self.replication.take(follower, list(frames), SECOND)
        self.read()

    def read(self) -> None:
        """Answer what was asked of the disk."""
        while self.told.reads:
            name, offset, length, then = self.told.reads.pop(0)
            then(self.disk.read(name, offset, length))
