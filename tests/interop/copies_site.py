"""A replicated pair and its voters on machines of their own, and what befalls them, one trouble after the other.

Machines are network namespaces, and each store is on a small file system of its own: both take root.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pairs import BrokerProcess, free_port, until
from voters import Machines, Watcher, WitnessProcess, locker

LEASE_S: Final = 5  # shorter than this a machine that does much else stands still by itself
ROOM: Final = "400m"  # of a store: twelve segments of 32 MiB
PATIENCE_S: Final = 180.0  # for a trouble to be over, on a machine that does much else
WIRE: Final = "wireFormat.maxInactivityDuration=4000&connectionTimeout=2000"
FILE: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled>
<cluster-user>nodes</cluster-user><cluster-password>known to nodes alone</cluster-password>
<connectors><connector name="own">tcp://{host}:{core}</connector>
<connector name="other">tcp://{other}:{core}</connector></connectors>
<cluster-connections><cluster-connection name="pair"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><static-connectors><connector-ref>other</connector-ref></static-connectors>
</cluster-connection></cluster-connections>
<address-settings><address-setting match="#"><max-delivery-attempts>-1</max-delivery-attempts>
<id-cache-size>200000</id-cache-size></address-setting></address-settings>
<ha-policy><replication>{part}</replication></ha-policy></core></configuration>
"""
PARTS: Final = {
    "a": "<primary/>",
    "b": "<backup><allow-failback>false</allow-failback></backup>",
}


def unavailable() -> str:
    """Return why there can be no site here, "" where there can."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("mount") is None:
        return "making network namespaces and file systems takes root, ip of iproute2 and mount"
    return ""


class Copy(BrokerProcess):
    """A broker that replicates, on a machine of its own."""

    ha = "replication"

    def counts(self, name: str) -> bool:
        """Say whether that replica may take over: it says so itself a moment before the lock knows."""
        return name in self.facts().get("replication", {}).get("eligible", ())


class Site:
    """Brokers ``a`` and ``b``, a voter beside each and one elsewhere; clients are on this machine."""

    def __init__(self, place: Path, *more: str, parts: bool = True, build: Path | None = None) -> None:
        """``more``: options of the brokers; ``parts``: one is primary, the other backup; ``build``: of broker b."""
        self.place, self.build, self.parts = place, build, parts
        self.machines = Machines("a", "b", "w")
        self.mounts: list[Path] = []
        self.voters: list[WitnessProcess] = []
        self.brokers: dict[str, Copy] = {}
        self.watcher: Watcher | None = None
        self.ended: list[str] = []
        self.ports = {each: free_port() for each in ("stomp", "openwire", "core", "status", "copies")}
        secret = place / "copies.secret"
        secret.touch(mode=0o600)
        secret.write_text("0123456789abcdef0123\n")
        self.more = ("--replication-secret", str(secret), "--lease-duration", str(LEASE_S), *more)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        for name in ("a", "b"):
            store = self.place / f"store-{name}"
            store.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", store], check=True)
            self.mounts.append(store)
        for name in ("a", "b", "w"):
            host, inside = self.machines.host(name), self.machines.inside(name)
            self.voters.append(WitnessProcess(self.place, f"v{name}", host=host, inside=inside))
        self.start("a")
        until(self.brokers["a"].serves, "a serves", PATIENCE_S)
        self.start("b")
        until(lambda: self.brokers["a"].counts("b"), "b is in sync", PATIENCE_S)
        self.watcher = Watcher([self.brokers["a"], self.brokers["b"]])

    def store(self, name: str) -> Path:
        return self.place / f"store-{name}" / "data"

    def start(self, name: str) -> None:
        """Start a broker, at the place where it always is."""
        other = "b" if name == "a" else "a"
        host, far = self.machines.host(name), self.machines.host(other)
        file = self.place / f"{name}.xml"
        part = PARTS[name] if self.parts else ""
        file.write_text(FILE.format(name=name, host=host, other=far, core=self.ports["core"], part=part))
        copies = self.ports["copies"]
        made = Copy(
            self.store(name),
            name,
            self.place,
            *((str(file),) if self.parts else ()),
            *(
                "--listen",
                f"openwire://{host}:{self.ports['openwire']}",
                "--listen",
                f"core://{host}:{self.ports['core']}",
            ),
            *("--replication", f"{host}:{copies}", "--peer", f"{far}:{copies}"),
            *(*locker(self.voters), *self.more),
            port=self.ports["stomp"],
            status=self.ports["status"],
            host=host,
            inside=self.machines.inside(name),
            build=self.build if name == "b" else None,
        )
        self.brokers[name] = made
        if self.watcher is not None:  # it asks at the same place, whichever process is there
            self.watcher.brokers = [self.brokers["a"], self.brokers["b"]]

    # -- for clients ---------------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> list[str]:
        return [self.machines.host(name) for name in ("a", "b")]

    @property
    def openwire(self) -> str:
        ways = ",".join(f"tcp://{host}:{self.ports['openwire']}?{WIRE}" for host in self.hosts)
        return f"failover:({ways})?maxReconnectDelay=200&initialReconnectDelay=20&randomize=false"

    @property
    def core(self) -> str:
        """A factory of Artemis tries the one place that it has drawn for as long as ``initialConnectAttempts`` says,
        and then the next: without an end it would never leave a backup, which does not listen."""
        ways = ",".join(f"tcp://{host}:{self.ports['core']}?connect-timeout-millis=2000" for host in self.hosts)
        return (
            f"({ways})?ha=true&reconnectAttempts=-1&initialConnectAttempts=2&retryInterval=100&callTimeout=10000"
            "&callFailoverTimeout=20000&connectionTTL=4000&clientFailureCheckPeriod=2000"
        )

    @property
    def stomp(self) -> str:
        return "failover:(" + ",".join(f"stomp://{host}:{self.ports['stomp']}" for host in self.hosts) + ")"

    # -- who is what ---------------------------------------------------------------------------------------------------

    def primary(self) -> str:
        """Return who serves, once that is one."""
        found: list[str] = []

        def one() -> bool:
            found[:] = [name for name, each in self.brokers.items() if each.serves()]
            return len(found) == 1

        until(one, "one serves", PATIENCE_S)
        return found[0]

    def well(self) -> str:
        """Wait until one serves and the other is in sync; return who serves."""
        primary = ""

        def both() -> bool:
            nonlocal primary
            self._begin_again(*self.brokers)
            serving = [name for name, each in self.brokers.items() if each.serves()]
            primary = serving[0] if len(serving) == 1 else ""
            return bool(primary) and self.brokers[primary].counts(self.other(primary).name)

        until(both, "one serves, and the other is in sync", PATIENCE_S)
        return primary

    def _begin_again(self, *names: str) -> None:
        """Start who ended by itself, as an init system does: its disk failed, or its lease ran out while it read it."""
        for name in names:
            each = self.brokers[name]
            if each.process.poll() is not None:
                self.ended.append(f"{name} ended with {each.process.returncode}")
                self.start(name)

    def taken_over(self, primary: str) -> None:
        """Wait until the other one serves."""
        name = self.other(primary).name

        def true() -> bool:
            self._begin_again(name)
            return self.brokers[name].serves()

        until(true, "the replica takes over", PATIENCE_S)

    def other(self, name: str) -> Copy:
        return self.brokers["b" if name == "a" else "a"]

    def log_tails(self) -> str:
        return "\n".join(f"--- {name}\n{each.text()[-4000:]}" for name, each in self.brokers.items())

    def close(self) -> None:
        """End and remove all that was made."""
        if self.watcher is not None:
            self.watcher.stop()
        for each in (*self.brokers.values(), *self.voters):
            with suppress(ProcessLookupError):
                each.clear()
        self.machines.close()
        for each in self.mounts:
            subprocess.run(["umount", "--lazy", each], check=False)


class Troubles:
    """What befalls a site, drawn from ``lots``; each ends with one that serves and one in sync."""

    def __init__(self, site: Site, lots: random.Random) -> None:
        self.site, self.lots = site, lots
        self.kinds: Final[dict[str, Callable[[str], None]]] = {
            "the primary is killed": self._kill_primary,
            "the replica is killed": self._kill_replica,
            "both are killed": self._kill_both,
            "the primary stands still": self._stand_still,
            "the replica stands still": self._replica_stands_still,
            "the primary is cut off": self._cut_off,
            "nothing leaves the primary": self._deaf,
            "nothing reaches the primary": self._mute,
            "the two do not see each other": self._apart,
            "the replica is cut off": self._replica_cut_off,
            "the primary's disk is full": self._primary_full,
            "the replica's disk is full": self._replica_full,
            "the primary dies on a full disk": self._dies_full,
            "a voter is killed": self._voter,
            "the primary stops in good order": self._stop,
        }

    def round(self, kind: str) -> str:
        """Let one happen; return who serves afterwards."""
        primary = self.site.well()
        self.kinds[kind](primary)
        self.site.machines.heal()
        return self.site.well()

    def _while(self) -> None:
        """Let it last, for less or more than a lease."""
        time.sleep(self.lots.uniform(0.2, 2.0) * LEASE_S)

    def _restart(self, *names: str) -> None:
        time.sleep(self.lots.uniform(0.0, LEASE_S))
        for name in names:
            self.site.start(name)

    def _replica(self, primary: str) -> str:
        return self.site.other(primary).name

    def _kill_primary(self, primary: str) -> None:
        self.site.brokers[primary].kill()
        self.site.taken_over(primary)
        self._restart(primary)

    def _kill_replica(self, primary: str) -> None:
        replica = self._replica(primary)
        self.site.brokers[replica].kill()
        self._restart(replica)

    def _kill_both(self, primary: str) -> None:
        names = [primary, self._replica(primary)]
        self.lots.shuffle(names)
        for name in names:
            self.site.brokers[name].kill()
        self.lots.shuffle(names)
        self._restart(*names)

    def _stop(self, primary: str) -> None:
        assert self.site.brokers[primary].stop() == 0
        self.site.taken_over(primary)
        self._restart(primary)

    def _stand_still(self, primary: str) -> None:
        self.site.brokers[primary].pause()
        try:
            self.site.taken_over(primary)
            time.sleep(self.lots.uniform(0.0, LEASE_S))
        finally:
            self.site.brokers[primary].resume()

    def _replica_stands_still(self, primary: str) -> None:
        self.site.other(primary).pause()
        try:
            self._while()
        finally:
            self.site.other(primary).resume()

    def _cut(self, *ways: tuple[str, str]) -> None:
        for sender, receiver in ways:
            self.site.machines.cut(sender, receiver)

    def _out(self, name: str) -> list[tuple[str, str]]:
        return [(name, each) for each in ("a", "b", "w", "here") if each != name]

    def _in(self, name: str) -> list[tuple[str, str]]:
        return [(of, to) for to, of in self._out(name)]

    def _gone(self, primary: str) -> None:
        self.site.taken_over(primary)
        self._while()

    def _cut_off(self, primary: str) -> None:
        self._cut(*self._out(primary), *self._in(primary))
        self._gone(primary)

    def _deaf(self, primary: str) -> None:
        self._cut(*self._out(primary))
        self._gone(primary)

    def _mute(self, primary: str) -> None:
        self._cut(*self._in(primary))
        self._gone(primary)

    def _apart(self, primary: str) -> None:
        self._cut(("a", "b"), ("b", "a"))
        self._while()

    def _replica_cut_off(self, primary: str) -> None:
        replica = self._replica(primary)
        self._cut(*self._out(replica), *self._in(replica))
        self._while()

    def _fill(self, name: str) -> Path:
        """Leave nothing of a store's file system."""
        place = self.site.place / f"store-{name}"
        ballast = place / "ballast"
        with ballast.open("wb") as file, suppress(OSError):
            while room := os.statvfs(place).f_bavail * os.statvfs(place).f_frsize:
                os.posix_fallocate(file.fileno(), file.tell(), max(4096, min(room, 1 << 24)))
                file.seek(0, os.SEEK_END)
        return ballast

    def _primary_full(self, primary: str) -> None:
        ballast = self._fill(primary)
        self._while()
        ballast.unlink()

    def _replica_full(self, primary: str) -> None:
        ballast = self._fill(self._replica(primary))
        self._while()
        ballast.unlink()

    def _dies_full(self, primary: str) -> None:
        ballast = self._fill(primary)
        self._while()
        self.site.brokers[primary].clear()
        self.site.taken_over(primary)
        ballast.unlink()
        self._restart(primary)

    def _voter(self, primary: str) -> None:
        voter = self.lots.choice(self.site.voters)
        voter.kill()
        self._while()
        voter.start()
