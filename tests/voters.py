"""Voters as processes, and machines to put them on: network namespaces whose wires are cut in one direction or both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from pairs import PATIENCE, BrokerProcess, free_port, until

ROUTER = 100  # priority of a rule that cuts


class WitnessProcess:
    """`entrepot witness`, at an address that it keeps through restarts."""

    def __init__(
        self, place: Path, name: str, *more: str, host: str = "127.0.0.1", inside: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.address = f"{host}:{free_port()}"
        self.data = place / name
        self.log = place / f"{name}.log"
        self.secret = secret_of(place)
        self.more = more
        self.inside = inside
        self.start()

    def start(self) -> None:
        ports = self.data.with_suffix(".ports")
        ports.unlink(missing_ok=True)
        command = [*self.inside, sys.executable, "-m", "entrepot", "witness", "--listen", self.address]
        command += ["--data", str(self.data), "--secret-file", str(self.secret), "--ports-file", str(ports), *self.more]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until(lambda: ports.exists() or self.process.poll() is not None, f"{self.name} votes")

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def clear(self) -> None:
        if self.process.poll() is None:
            self.kill()

    def resident(self) -> int:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("it is gone")

    def shown(self) -> dict:
        """Return what its store says; it must not run."""
        command = [sys.executable, "-m", "entrepot", "witness", "--show", "--data", str(self.data)]
        return dict(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))


def secret_of(place: Path) -> Path:
    """Return the file with the secret that all voters of a test share."""
    path = place / "quorum.secret"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text("what brokers and voters of a test share\n")
    return path


def locker(voters: list[WitnessProcess], *options: str) -> tuple[str, str]:
    """Return the options of a broker."""
    query = "&".join((f"secret-file={voters[0].secret}", *options))
    return ("--locker", f"quorum:({','.join(each.address for each in voters)})?{query}")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def free_net() -> str:
    """Return the first two numbers of a network that no other test on this machine has."""
    routes = subprocess.run(["ip", "route", "show"], check=True, capture_output=True, text=True).stdout
    return next(net for at in range(50) if f"{(net := f'10.{200 + (os.getpid() + at) % 50}')}.0.0/16" not in routes)


class Machines:
    """Namespaces with one wire each to a router, and this machine's own to it: so any way from A to B can be cut."""

    def __init__(self, *names: str) -> None:
        self.net = free_net()
        self.mark = f"ev{os.getpid() % 100_000}"
        self.names = (*names, "here")
        self.router = f"{self.mark}r"
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        ip("netns", "add", self.router)
        subprocess.run(
            ["ip", "netns", "exec", self.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"], check=True
        )
        for number, name in enumerate(self.names):
            self._wire(number, name)

    def _wire(self, number: int, name: str) -> None:
        near, gate, host = f"{self.mark}g{number}", f"{self.net}.{number}.1", self.host(name)
        far = "e0" if name != "here" else f"{self.mark}h"
        if name != "here":
            ip("netns", "add", self.space(name))
        inside = () if name == "here" else ("netns", self.space(name))
        ip("link", "add", near, "netns", self.router, "type", "veth", "peer", "name", far, *inside)
        ip("-n", self.router, "addr", "add", f"{gate}/24", "dev", near)
        ip("-n", self.router, "link", "set", near, "up")
        at = () if name == "here" else ("-n", self.space(name))
        ip(*at, "addr", "add", f"{host}/24", "dev", far)
        ip(*at, "link", "set", far, "up")
        if name == "here":
            ip("route", "add", f"{self.net}.0.0/16", "via", gate, "dev", far)
        else:
            ip(*at, "link", "set", "lo", "up")
            ip(*at, "route", "add", "default", "via", gate)

    def space(self, name: str) -> str:
        return f"{self.mark}{name}"

    def host(self, name: str) -> str:
        return f"{self.net}.{self.names.index(name)}.2"

    def inside(self, name: str) -> tuple[str, ...]:
        """Return what a command begins with that runs there."""
        return ("ip", "netns", "exec", self.space(name))

    def cut(self, sender: str, receiver: str) -> None:
        """Let nothing more through from one to the other."""
        ip("-n", self.router, "rule", "add", "from", self.host(sender), "to", self.host(receiver), *self._drops())

    def heal(self) -> None:
        """Let everything through."""
        while True:
            done = subprocess.run(
                ["ip", "-n", self.router, "rule", "del", "pref", str(ROUTER)], capture_output=True, check=False
            )
            if done.returncode:
                return

    @staticmethod
    def _drops() -> tuple[str, ...]:
        return ("blackhole", "pref", str(ROUTER))

    def close(self) -> None:
        for name in self.names:
            if name != "here":
                subprocess.run(["ip", "netns", "del", self.space(name)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", f"{self.mark}h"], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.router], capture_output=True, check=False)


class FarBroker(BrokerProcess):
    """A broker of a pair on a machine of its own."""

    def __init__(self, machines: Machines, on: str, data: Path, logs: Path, *more: str) -> None:
        self.host = machines.host(on)
        super().__init__(data, on, logs, *more, host=self.host, inside=machines.inside(on))


class Watcher:
    """Asks brokers all the time whether they are master: one that is seen as master with an epoch that a younger one
    has replaced is one too many."""

    def __init__(self, brokers: list[BrokerProcess]) -> None:
        self.brokers = brokers
        self.seen: list[tuple[float, float, int, str]] = []  # asked, answered, epoch, who
        self._quit = False
        self._threads = [threading.Thread(target=self._watch, args=(one,), daemon=True) for one in brokers]
        for thread in self._threads:
            thread.start()

    def _watch(self, broker: BrokerProcess) -> None:
        while not self._quit:
            asked = time.monotonic()
            facts = broker.facts()
            if facts.get("ready"):
                self.seen.append((asked, time.monotonic(), facts["master"]["epoch"], broker.name))
            time.sleep(0.01)

    def stop(self) -> None:
        self._quit = True
        for thread in self._threads:
            thread.join(PATIENCE)

    def wrong(self) -> list[str]:
        return two_at_once(self.seen)


def two_at_once(seen: list[tuple[float, float, int, str]]) -> list[str]:
    """Return who answered as master, to a question that was put after a younger epoch had answered."""
    wrong: list[str] = []
    first: dict[int, float] = {}  # epoch -> when it was first known to serve
    for _, answered, epoch, _ in seen:
        first[epoch] = min(first.get(epoch, answered), answered)
    owners: dict[int, str] = {}
    for asked, _, epoch, who in seen:
        if owners.setdefault(epoch, who) != who:
            wrong.append(f"{who} and {owners[epoch]} both with epoch {epoch}")
        younger = [one for one, at in first.items() if one > epoch and at < asked]
        if younger:
            wrong.append(
                f"{who} was master with epoch {epoch} after {owners.get(younger[0], '?')} was with {younger[0]}"
            )
    return wrong
