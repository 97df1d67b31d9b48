"""Two hosts on one machine: a network namespace at the end of a wire that has weather.

Where the kernel has netem, the wire is a pair of veth devices and netem is its weather. Elsewhere packets go through
two tunnel devices and a process between them (`tun_cable.py`): TCP is that of the kernels on both sides in either case.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NamedTuple

from tun_cable import TUNNEL, tunnel

CABLE: Final = Path(__file__).with_name("tun_cable.py")
PATIENCE_S: Final = 10
CLONE_NEWNET: Final = 0x4000_0000
QUEUE_PACKETS: Final = 10_000  # of a tunnel: what is lost, the weather decides


class Weather(NamedTuple):
    """What becomes of packets in one direction. ``jitter_ms``: either way, evenly; so one may overtake another."""

    delay_ms: float = 0
    jitter_ms: float = 0
    loss: float = 0  # 0 to 1
    rate_kbit: float = 0  # 0: as fast as it goes

    @property
    def netem(self) -> list[str]:
        """The same, as the words of `tc`."""
        words = ["netem", "delay", f"{self.delay_ms}ms", f"{self.jitter_ms}ms"]
        words += ["loss", f"{self.loss * 100}%"] if self.loss else []
        return words + (["rate", f"{self.rate_kbit}kbit"] if self.rate_kbit else [])


CALM: Final = Weather()
NOTHING: Final = Weather(loss=1)


class Unavailable(Exception):
    """Why this machine has no such wire."""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=PATIENCE_S)


class Wire:
    """This side is ``here``, the other ``there``; addresses of both. `lay` first, `remove` at last."""

    def __init__(self) -> None:
        tag = f"{os.getpid() % 10_000}"
        self.name = f"ent{tag}"
        self.near, self.far = f"ena{tag}", f"enb{tag}"
        net = f"10.213.{os.getpid() % 250}"
        self.here, self.there = f"{net}.1", f"{net}.2"
        self.out = self.back = CALM
        self._cable: subprocess.Popen[str] | None = None

    @property
    def kind(self) -> str:
        """What does the weather."""
        return "tunnel" if self._cable is not None else "netem"

    def lay(self) -> None:
        """Make the namespace and the wire to it. Raises Unavailable."""
        try:
            ip("netns", "add", self.name)
            self._lay_veth()
            try:
                self._netem(CALM, CALM)
            except subprocess.CalledProcessError:  # this kernel has none
                ip("link", "del", self.near)
                self._lay_tunnel()
            self.inside("ip", "link", "set", "lo", "up")
        except Unavailable:
            self.remove()
            raise
        except (subprocess.SubprocessError, OSError) as error:
            self.remove()
            why = f"{error} {getattr(error, 'stderr', '') or ''}".strip()
            raise Unavailable(f"this machine joins no network namespaces: {why}") from error

    def _lay_veth(self) -> None:
        ip("link", "add", self.near, "type", "veth", "peer", "name", self.far, "netns", self.name)
        ip("addr", "add", f"{self.here}/30", "dev", self.near)
        ip("link", "set", self.near, "up")
        self.inside("ip", "addr", "add", f"{self.there}/30", "dev", self.far)
        self.inside("ip", "link", "set", self.far, "up")

    def _lay_tunnel(self) -> None:
        if not Path(TUNNEL).exists():
            raise Unavailable(f"this kernel has no netem (`tc qdisc add ... netem`), and no {TUNNEL}")
        device = tunnel(self.near)
        command = ["ip", "netns", "exec", self.name, sys.executable, str(CABLE), str(device), self.far]
        try:
            self._cable = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[device], text=True
            )
        finally:
            os.close(device)
        assert self._cable.stdout is not None
        if self._cable.stdout.readline().strip() != "ready":
            raise Unavailable("the cable of user space did not start")
        queue = ["txqueuelen", str(QUEUE_PACKETS), "up"]
        ip("addr", "add", self.here, "peer", self.there, "dev", self.near)
        ip("link", "set", self.near, *queue)
        self.inside("ip", "addr", "add", self.there, "peer", self.here, "dev", self.far)
        self.inside("ip", "link", "set", self.far, *queue)

    def inside(self, *command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*self.prefix, *command], capture_output=True, timeout=PATIENCE_S, check=True)

    @property
    def prefix(self) -> list[str]:
        """What stands before a command that shall run on the other side."""
        return ["ip", "netns", "exec", self.name]

    def weather(self, out: Weather, back: Weather | None = None) -> list[list[int]]:
        """Change it: ``out`` for packets that leave this side, ``back`` (the same, if not given) for the others.

        Returns how many packets went in, were lost by it, and did not fit; of each direction; nothing with netem.
        """
        self.out, self.back = out, out if back is None else back
        return self._apply(self.out, self.back)

    def cut(self) -> None:
        """Packets vanish, those under way too; nobody is told."""
        self._apply(NOTHING, NOTHING)

    def deafen(self, *, here: bool) -> None:
        """Let this side (or else the other) hear nothing any more; the other hears it still."""
        self._apply(*((self.out, NOTHING) if here else (NOTHING, self.back)))

    def heal(self) -> None:
        """Let packets through again, in the weather that was."""
        self._apply(self.out, self.back)

    def _apply(self, out: Weather, back: Weather) -> list[list[int]]:
        if self._cable is None:
            self._netem(out, back)
            return []
        assert self._cable.stdin is not None
        assert self._cable.stdout is not None
        print(json.dumps({"out": out._asdict(), "back": back._asdict()}), file=self._cable.stdin, flush=True)
        counts: list[list[int]] = json.loads(self._cable.stdout.readline())
        return counts

    def _netem(self, out: Weather, back: Weather) -> None:
        replace = ["tc", "qdisc", "replace", "dev"]
        words = [*replace, self.near, "root", *out.netem]
        subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE_S)
        self.inside(*replace, self.far, "root", *back.netem)

    def remove(self) -> None:
        if self._cable is not None:
            self._cable.kill()
            self._cable.wait()
            for end in (self._cable.stdin, self._cable.stdout):
                if end is not None:
                    with contextlib.suppress(OSError):
                        end.close()
            self._cable = None
        for command in (("link", "del", self.near), ("netns", "del", self.name)):
            subprocess.run(["ip", *command], capture_output=True, timeout=PATIENCE_S, check=False)

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine whose sockets are on the other side."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                enter(self.name)
                asyncio.run(main())
            except BaseException as error:  # told to whoever waits for it
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]


def enter(namespace: str) -> None:
    """Let this thread be in the namespace: what it opens from now on is there."""
    place = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(place, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns to {namespace}")
    finally:
        os.close(place)


def laid() -> Wire:
    """Return a wire of now. Raises Unavailable, saying what is missing."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    if shutil.which("ip") is None or shutil.which("tc") is None:
        raise Unavailable("no `ip` and `tc` on the PATH; Debian: apt install iproute2")
    made = Wire()
    made.lay()
    return made
