"""The brokers behind the queries of the kill harness, and what can become of them while the queries run.

A `Place` says where producers send, where queries read and write, which disasters it knows, and what has come out at
its end. `Alone` is one broker, `Pair` a replicated one, `Nodes` a cluster whose nodes give all that they have to the
other; `soak_foreign.py` has those that others wrote.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import entrepot
from pairs import BrokerProcess, free_port
from shell.daemon import PATIENCE as OF_A_BROKER
from shell.daemon import Daemon, Wire

PATIENCE: Final = max(120.0, OF_A_BROKER)  # s, on a machine that does other things too
QUEUES: Final = ("in", "archive")
QUIET_LOOKS: Final = 5  # a second apart, that find nothing
Row = dict[str, Any]


def until(holds: Callable[[], bool], why: str, patience: float = PATIENCE) -> None:
    """Wait until ``holds``. Raises AssertionError."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"not within {patience:.0f} s: {why}"
        time.sleep(0.05)


def told(*words: str, patience: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    """Run `entrepot` with ``words``. Raises AssertionError, with what it said, when it does not end."""
    command = [sys.executable, "-m", "entrepot", *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired as expired:
        said = (expired.stderr or b"").decode()[-2_000:]
        raise AssertionError(f"{' '.join(words)} does not end within {patience:.0f} s: {said}") from None


def rows(port: int, *words: str) -> list[Row]:
    """Return what `entrepot` lists at a broker of ours."""
    done = told(*words, "--output", "json", "--url", f"stomp://127.0.0.1:{port}")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_empty(port: int, state: list[str], leases: int, watched: Sequence[str] = QUEUES) -> bool:
    """Return whether a broker of ours holds nothing for queries, and nothing waits there; tell ``state``."""
    held = rows(port, "lease", "list")
    queues = {row["name"]: row for row in rows(port, "queue", "list")}
    state.append(f"{port}: {held} {list(queues.values())}")
    waiting = sum(int(queues[name]["messages"]) for name in watched if name in queues)
    return len(held) >= leases and not waiting and all(int(row["held"]) == 0 for row in held)


class Place:
    """``faults``: what `fault` knows. ``kinds``: rounds of a run, faults among them. ``url``: for the queries."""

    faults: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[tuple[str, ...]] = ()
    competes: ClassVar[bool] = True  # an ordinary consumer of ``in``: its losses of acknowledgements are known here
    url: str = ""
    more: ClassVar[dict[str, str]] = {}  # options of the source

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """End every process, in whatever state they are."""
        raise NotImplementedError

    def fault(self, kind: str, lots: random.Random) -> None:
        """Let one of ``faults`` happen."""
        raise NotImplementedError

    def wire(self, lots: random.Random) -> Wire:
        """Return a connection for a producer or a consumer. Raises OSError when nobody is there."""
        raise NotImplementedError

    def serves(self, wire: Wire) -> bool:
        """Return whether a client may stay where it is."""
        return True

    def destination(self, queue: str) -> dict[str, str]:
        return {"destination": f"/queue/{queue}"}

    def settled(self, state: list[str]) -> bool:
        """Return whether the queries are at their end; what was seen goes to ``state``."""
        raise NotImplementedError

    def carried(self) -> list[str]:
        """Take what came out at ``out``."""
        raise NotImplementedError

    def left(self) -> list[str]:
        """Take what nobody carried from ``in``: for the words of a failure."""
        return []


class Alone(Place):
    """One broker, which is killed."""

    faults = ("broker",)
    kinds = ("worker", "broker", "worker", "both", "broker", "driver", "worker", "broker", "all", "worker")

    def __init__(self, home: Path) -> None:
        port = free_port()  # the same when it is started again
        self.url = f"stomp://127.0.0.1:{port}"
        self.daemon = Daemon(home, "--listen", self.url)
        self.port = port

    def start(self) -> None:
        self.daemon.start()

    def stop(self) -> None:
        if self.daemon.process is not None and self.daemon.process.poll() is None:
            self.daemon.stop()

    def fault(self, kind: str, lots: random.Random) -> None:
        self.daemon.kill()
        time.sleep(lots.uniform(0.0, 0.5))
        self.daemon.start()

    def wire(self, lots: random.Random) -> Wire:
        return Wire(self.port)

    def settled(self, state: list[str]) -> bool:
        return is_empty(self.port, state, 2)

    def carried(self) -> list[str]:
        return [frame.body.decode() for frame in Wire(self.port).drain("/queue/out")]

    def left(self) -> list[str]:
        return [frame.body.decode() for frame in Wire(self.port).drain("/queue/in")]


class Copy(BrokerProcess):
    """One of a replicated pair."""

    ha = "replication"

    def in_sync(self) -> bool:
        return bool(self.facts().get("replication", {}).get("in_sync"))


class Pair(Place):
    """Two brokers with a store each. Who serves is killed or stopped, the other takes over, the dead one returns."""

    faults = ("failover", "handover")
    kinds = ("failover", "worker", "failover", "handover", "driver-failover", "failover", "driver", "failover")

    def __init__(self, home: Path) -> None:
        self._home = home
        (home / "lock").mkdir()
        self._ports = [free_port(), free_port()]
        self._places = [free_port(), free_port()]
        self._brokers: list[Copy] = []  # who serves, and who has a copy
        self.url = "failover:({})".format(",".join(f"stomp://127.0.0.1:{port}" for port in self._ports))

    def start(self) -> None:
        first = self._begin(0)
        until(first.serves, "the first serves")
        second = self._begin(1)
        until(second.in_sync, "the second is in sync")
        self._brokers = [first, second]

    def stop(self) -> None:
        for broker in self._brokers:
            broker.clear()

    def fault(self, kind: str, lots: random.Random) -> None:
        primary, replica = self._brokers
        if kind == "failover":
            primary.kill()
        else:
            assert primary.stop() == 0, primary.text()[-2_000:]
        until(replica.serves, "the replica takes over")
        time.sleep(lots.uniform(0.0, 1.0))  # it is alone, and goes on
        reborn = self._begin(self._ports.index(primary.port))
        self._brokers = [replica, reborn]
        until(reborn.in_sync, "the dead one returns, and is in sync")

    def wire(self, lots: random.Random) -> Wire:
        try:
            return Wire(self._ports[0])
        except OSError:
            return Wire(self._ports[1])

    def settled(self, state: list[str]) -> bool:
        return is_empty(self._brokers[0].port, state, 2)

    def carried(self) -> list[str]:
        return [frame.body.decode() for frame in Wire(self._brokers[0].port).drain("/queue/out")]

    def left(self) -> list[str]:
        return [frame.body.decode() for frame in Wire(self._brokers[0].port).drain("/queue/in")]

    def _begin(self, which: int) -> Copy:
        build = Path(entrepot.__file__).resolve().parent.parent  # a relative PYTHONPATH leads elsewhere, or nowhere
        return Copy(
            self._home / f"store{which}",
            ("alpha", "beta")[which],
            self._home,
            *("--locker", f"file:{self._home / 'lock'}", "--peer", f"127.0.0.1:{self._places[1 - which]}"),
            *("--replication", f"127.0.0.1:{self._places[which]}", "--copies", "1"),
            port=self._ports[which],
            build=build,
        )


CONFIGURATION: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{journal}</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{own}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector></connectors>
<ha-policy><primary-only><scale-down><connectors><connector-ref>other</connector-ref></connectors></scale-down>
</primary-only></ha-policy>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP</acceptor>
<acceptor name="core">tcp://127.0.0.1:{own}?protocols=CORE</acceptor></acceptors>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>ON_DEMAND</message-load-balancing>
<static-connectors><connector-ref>other</connector-ref></static-connectors></cluster-connection></cluster-connections>
<address-settings><address-setting match="#"><redistribution-delay>0</redistribution-delay></address-setting>
</address-settings></core></configuration>
"""


class Nodes(Place):
    """Two nodes of a cluster, and one query over both. In turns one of them gives all to the other, goes, and is back.

    ``drain``: an operator says so, and stops it then. ``scale-down``: it is stopped, and says so itself. Clients go
    first, as docs/clusters.md wants it; the query stays. What it holds is waited for while it lives, and stays where it
    is when its driver is dead. Messages are redistributed meanwhile to where the competitor is.
    """

    faults = ("drain", "scale-down")
    kinds = ("drain", "worker", "scale-down", "driver-drain", "driver", "scale-down", "drain")

    def __init__(self, home: Path) -> None:
        stomp, core = ([free_port(), free_port()] for _ in range(2))
        self._ports = stomp
        self._core = core
        self._going = -1
        self._last = 1
        self._nodes: list[Daemon] = []
        self.url = ",".join(f"stomp://127.0.0.1:{port}" for port in stomp)
        for which, name in enumerate(("north", "south")):
            folder = home / name
            folder.mkdir()
            text = CONFIGURATION.format(
                name=name, journal=folder / "data", own=core[which], other=core[1 - which], stomp=stomp[which]
            )
            (folder / "broker.xml").write_text(text)
            self._nodes.append(Daemon(folder, "broker.xml", files=True))

    def start(self) -> None:
        for node in self._nodes:
            node.start()

    def stop(self) -> None:
        for node in self._nodes:
            if node.process is not None and node.process.poll() is None:
                node.kill()

    def fault(self, kind: str, lots: random.Random) -> None:
        which = self._last = 1 - self._last
        node = self._nodes[which]
        self._going = which
        time.sleep(0.5)  # clients go
        if kind == "drain":
            place = f"127.0.0.1:{self._core[1 - which]}"
            done = told("drain", "--url", f"stomp://127.0.0.1:{self._ports[which]}", "--to", place)
            held = "stay that somebody holds" in done.stderr  # the driver is dead, and its leases are here
            assert done.returncode == 0 or held, done.stdout + done.stderr
        assert node.process is not None
        node.process.terminate()
        assert node.process.wait(PATIENCE) == 0, node.told()[-2_000:]  # what a lease holds it keeps
        time.sleep(lots.uniform(0.0, 1.0))
        node.start()
        self._going = -1

    def wire(self, lots: random.Random) -> Wire:
        return Wire(self._ports[lots.choice([which for which in (0, 1) if which != self._going])])

    def serves(self, wire: Wire) -> bool:
        return self._going < 0 or wire.socket.getpeername()[1] != self._ports[self._going]

    def settled(self, state: list[str]) -> bool:
        return all(is_empty(port, state, 2) for port in self._ports)

    def carried(self) -> list[str]:
        return self._drained("out")

    def left(self) -> list[str]:
        return self._drained("in")

    def _drained(self, queue: str) -> list[str]:
        """Take what is at both: a consumer at one draws what the other has, which comes when it has left again."""
        found: list[str] = []
        quiet = 0
        while quiet < QUIET_LOOKS:
            some = [frame.body.decode() for port in self._ports for frame in Wire(port).drain(f"/queue/{queue}")]
            found += some
            quiet = 0 if some else quiet + 1
            time.sleep(1)
        return found
