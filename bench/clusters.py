"""Two brokers of a cluster, or a mirror, ours beside two real Artemis nodes, under the same load: figures, verdicts.

    python bench/clusters.py [--pairs 3] [--quick] [--row hop] [--entrepot-command '...']

Both kinds run the same ``broker.xml``: a static cluster connection, ON_DEMAND, no security, a port for STOMP. Producers
and consumers speak STOMP, by the load generator of `run.py`, so that no client limits either kind; what it did not
check is no measurement. Artemis is the broker of Maven Central, embedded, with the heap of its own start script.
A mirror is measured from the first persistent message that is sent at A until B has all of them, by the count of its
queue. Results go to ``build/bench-clusters.json``.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from brokers import HOST, BenchError, Broker, Entrepot, Ports, Running, free_port
from rows import Load

import entrepot

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
sys.path[:0] = [str(ROOT / "tests" / "interop")]

import artemis  # noqa: E402 - the line above must come first

MEMORY: Final = ("-Xms512M", "-Xmx2G", "-XX:+UseParallelGC")
DELAY_MS: Final = 500
PATIENCE_S: Final = 180.0
LENGTH: Final = 1024
RATE: Final = "500"
LEAD: Final = "1"  # seconds in which a node learns of the reader at another one
LOOK_S: Final = 0.05  # between two looks whether a mirror is through
READ_OCTETS: Final = 1 << 20
BATCH: Final = 200
NODE: Final = """\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>{name}</name>
    <journal-type>NIO</journal-type>
    <paging-directory>{home}/paging</paging-directory>
    <bindings-directory>{home}/bindings</bindings-directory>
    <journal-directory>{home}/journal</journal-directory>
    <large-messages-directory>{home}/large-messages</large-messages-directory>
    <security-enabled>false</security-enabled>
    <cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
    <connectors>{connectors}</connectors>
    <acceptors>
      <acceptor name="core">tcp://{host}:{core}?protocols=CORE,AMQP</acceptor>
      <acceptor name="stomp">tcp://{host}:{stomp}?protocols=STOMP;anycastPrefix=/queue/</acceptor>
    </acceptors>
    {cluster}
    {policy}
    {mirror}
    <address-settings>
      <address-setting match="#"><auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses></address-setting>
      <address-setting match="moved.#"><redistribution-delay>{delay}</redistribution-delay></address-setting>
    </address-settings>
  </core>
</configuration>
"""
CLUSTER: Final = """<cluster-connections><cluster-connection name="c"><connector-ref>n{own}</connector-ref>
      <retry-interval>50</retry-interval><static-connectors>{others}</static-connectors>
    </cluster-connection></cluster-connections>"""
MIRROR: Final = """<broker-connections><amqp-connection uri="tcp://{host}:{port}" name="b" user="u" password="p"
      retry-interval="100"><mirror sync="{sync}"/></amqp-connection></broker-connections>"""
SCALES: Final = """<ha-policy><primary-only><scale-down><connectors><connector-ref>n{to}</connector-ref></connectors>
    </scale-down></primary-only></ha-policy>"""


class Plan:
    """The nodes of one cluster: their ports, and the file of each. ``scales``: the first goes into the second.

    ``mirrors``: "false" or "true": the first mirrors itself into the second, and clients wait for that or not.
    """

    def __init__(self, count: int, *, joined: bool = True, scales: bool = False, mirrors: str = "") -> None:
        self.cores: Final = [free_port() for _ in range(count)]
        self.joined: Final = joined
        self.scales: Final = scales
        self.mirrors: Final = mirrors

    def write(self, home: Path, at: int, stomp: int) -> Path:
        """Write the file of the node number ``at``."""
        connectors = [f'<connector name="n{n}">tcp://{HOST}:{port}</connector>' for n, port in enumerate(self.cores)]
        others = "".join(f"<connector-ref>n{n}</connector-ref>" for n in range(len(self.cores)) if n != at)
        file = home / "broker.xml"
        file.write_text(
            NODE.format(
                name=f"n{at}",
                home=home,
                host=HOST,
                connectors="".join(connectors),
                core=self.cores[at],
                stomp=stomp,
                cluster=CLUSTER.format(own=at, others=others) if self.joined else "",
                policy=SCALES.format(to=1) if self.scales and at == 0 else "",
                mirror=MIRROR.format(host=HOST, port=self.cores[1], sync=self.mirrors)
                if self.mirrors and at == 0
                else "",
                delay=DELAY_MS,
            )
        )
        return file

    def _mirror(self) -> str:
        return MIRROR.format(host=HOST, port=self.cores[1], sync=self.mirrors) if self.mirrors else ""


class Ours(Entrepot):
    """A node of this project."""

    def __init__(self, command: str | None = None) -> None:
        super().__init__(command)
        self.plan: tuple[Plan, int] = (Plan(1), 0)

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        plan, at = self.plan
        return [*self._command, "run", str(plan.write(home, at, ports.stomp)), "--data", str(home / "data")]


class Theirs(Broker):
    """A node of Artemis, in the form that programs embed."""

    name = "artemis"
    title = f"Artemis {artemis.VERSION}"

    def __init__(self) -> None:
        self.plan: tuple[Plan, int] = (Plan(1), 0)

    def unavailable(self) -> str | None:
        return artemis.unavailable() or None

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        plan, at = self.plan
        return ["java", *MEMORY, "-cp", artemis.class_path(), "Artemis", str(plan.write(home, at, ports.stomp))]


Recipe = Ours | Theirs


@contextmanager
def cluster(recipe: Recipe, home: Path, plan: Plan, count: int) -> Iterator[list[Running]]:
    """Run the first ``count`` nodes of ``plan``; ready when each knows a reader at every other."""
    with ExitStack() as stack:
        made = [started(stack, recipe, home, plan, at) for at in range(count)]
        if plan.joined:
            for near in made:
                for far in made:
                    if near is not far:
                        first_message(near, far, f"/queue/ready.{near.port}.{far.port}")
        yield made


def started(stack: ExitStack, recipe: Recipe, home: Path, plan: Plan, at: int) -> Running:
    """Start the node number ``at``."""
    recipe.plan = (plan, at)
    return stack.enter_context(recipe.running(home / f"n{at}"))


# -- STOMP, by hand ----------------------------------------------------------------------------------------------------


def client(broker: Running) -> socket.socket:
    """Return a connection."""
    made = socket.create_connection((HOST, broker.port), timeout=PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n\n\0")
    until(made, b"CONNECTED")
    return made


def until(one: socket.socket, wanted: bytes) -> None:
    """Read until ``wanted`` came."""
    seen = b""
    while wanted not in seen:
        piece = one.recv(READ_OCTETS)
        if not piece:
            raise BenchError(f"the broker closed the connection: {seen[-300:]!r}")
        seen += piece


def subscribed(broker: Running, destination: str, options: str = "ack:auto") -> socket.socket:
    """Return a connection that reads ``destination``, which is empty, when the broker has the subscription."""
    made = client(broker)
    made.sendall(f"SUBSCRIBE\nid:0\n{options}\ndestination:{destination}\nreceipt:there\n\n\0".encode())
    until(made, b"there")
    return made


def first_message(near: Running, far: Running, destination: str) -> None:
    """Wait until what is sent to ``near`` is read at ``far``."""
    deadline = time.monotonic() + PATIENCE_S
    with subscribed(far, destination) as reader, client(near) as producer:
        reader.settimeout(0.2)
        while time.monotonic() < deadline:
            producer.sendall(f"SEND\ndestination:{destination}\n\nready\0".encode())
            try:
                until(reader, b"ready\0")
                return
            except TimeoutError:
                continue
    raise BenchError(f"{near.name}: nothing came to the other node\n{near.log_tail()}")


def fill(broker: Running, destination: str, count: int) -> None:
    """Store ``count`` persistent messages of `LENGTH` octets."""
    body = "x" * LENGTH
    frame = f"SEND\ndestination:{destination}\npersistent:true\n\n{body}\0".encode()
    last = f"SEND\ndestination:{destination}\npersistent:true\nreceipt:stored\n\n{body}\0".encode()
    with client(broker) as producer:
        left = count
        while left > 0:
            batch = min(left, BATCH)
            producer.sendall(frame * (batch - 1) + last)
            until(producer, b"stored")
            left -= batch


async def has(port: int, queue: str, count: int) -> None:
    """Wait until a queue has ``count`` messages."""
    deadline = time.monotonic() + PATIENCE_S
    found = -1
    async with entrepot.connect(f"core://{HOST}:{port}") as connection, connection.management() as manager:
        while time.monotonic() < deadline:
            try:
                found = int(await manager.get(f"queue.{queue}", "messageCount"))
            except entrepot.EntrepotError:  # it is not there yet
                found = -1
            if found >= count:
                return
            await asyncio.sleep(LOOK_S)
    raise BenchError(f"{queue} has {found} messages, not {count}")


def count_until(reader: socket.socket, count: int) -> tuple[float, float]:
    """Return when the first and the last of ``count`` messages came; none has a NUL."""
    seen, first = 0, 0.0
    while seen < count:
        piece = reader.recv(READ_OCTETS)
        if not piece:
            raise BenchError(f"the connection ended after {seen} of {count} messages")
        seen += piece.count(b"\0")
        if not first:
            first = time.perf_counter()
    return first, time.perf_counter()


# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """``ratio``: at least so many times Artemis' (``lower``: at most); ``least``, ``most``: of our own figure."""

    key: str
    title: str
    unit: str
    ratio: float = 0.0
    least: float = 0.0
    most: float = 0.0
    lower: bool = False


HOP: Final = Row("hop", "A to B, ON_DEMAND, 100 B, non-persistent", "msg/s", ratio=4, least=200_000)
STORED: Final = Row("hop-persistent", "A to B, 100 B, persistent at both", "msg/s", ratio=4)
P50: Final = Row("hop-p50", "latency that a hop adds at 500 msg/s, p50", "ms", most=0.2)
P99: Final = Row("hop-p99", "latency over the hop at 500 msg/s, p99", "ms", ratio=1, lower=True)
MOVED: Final = Row("redistribution", "100,000 waiting messages of 1 KiB that move", "msg/s", ratio=5)
BEGINS: Final = Row("redistribution-begins", "the first of them, after the delay's end", "ms", most=5)
DOWN: Final = Row("scale-down", "100,000 persistent messages of 1 KiB, to the end of the process", "msg/s", ratio=5)
MIRRORED: Final = Row("mirror", "persistent messages of 1 KiB, sent at A until B has them, mirror", "msg/s", ratio=1)
IN_STEP: Final = Row("mirror-sync", "the same with sync=true, an answer for each 200", "msg/s", ratio=1)
JOINS: Final = Row("join", "a node that joins three gets its first message after its reader came", "ms", most=300)
LOCAL: Final = Row("local", "A to A with a cluster connection, to the same without", "of 1", least=0.97)
ROWS: Final = (HOP, STORED, P50, P99, MOVED, BEGINS, DOWN, MIRRORED, IN_STEP, JOINS, LOCAL)


class Bench:
    """One run."""

    def __init__(self, scratch: Path, *, quick: bool) -> None:
        self.samples: dict[str, dict[str, list[float]]] = {}
        self._scratch: Final = scratch
        self._load: Final = Load(HERE / "load.c", ROOT / "build")
        self._load.build()
        self._warm, self._measure = (0.5, 1.0) if quick else (2.0, 4.0)
        self._count: Final = 5_000 if quick else 100_000
        self._homes = 0

    def run(self, recipes: list[Recipe], keys: tuple[str, ...], pairs: int) -> None:
        """Measure the rows named, all of them without a name, each kind in turn."""
        parts: list[tuple[tuple[Row, ...], Callable[[Recipe, int], None]]] = [
            ((HOP, STORED, P50, P99), self._floods),
            ((MOVED, BEGINS), self._redistribution),
            ((DOWN,), self._scale_down),
            ((MIRRORED,), partial(self._mirror, MIRRORED, "false")),
            ((IN_STEP,), partial(self._mirror, IN_STEP, "true")),
            ((JOINS,), self._join),
            ((LOCAL,), self._local),
        ]
        for rows, part in parts:
            if keys and not any(row.key in keys for row in rows):
                continue
            for number in range(pairs):
                for recipe in recipes if number % 2 == 0 else recipes[::-1]:
                    part(recipe, number)

    def _home(self) -> Path:
        self._homes += 1
        return self._scratch / f"{self._homes}"

    def _keep(self, row: Row, recipe: Recipe, figure: float) -> None:
        self.samples.setdefault(row.key, {}).setdefault(recipe.name, []).append(figure)
        click.echo(f"{row.key}: {recipe.title} {figure:,.2f} {row.unit}")

    def _flood(self, a: Running, b: Running, name: str, *options: str) -> dict[str, Any]:
        return self._load.run(
            a, "--consume-port", str(b.port), "--destination", f"/queue/{name}", "--size", "100",
            "--warm-seconds", f"{self._warm}", "--seconds", f"{self._measure}", "--lead", LEAD, *options,
            at_most_s=self._warm + self._measure + PATIENCE_S,
        )  # fmt: skip

    def _floods(self, recipe: Recipe, number: int) -> None:
        with cluster(recipe, self._home(), Plan(2), 2) as (a, b):
            self._flood(a, b, "warm", "--backlog", "20000")  # Artemis is compiled while it runs
            said = self._flood(a, b, "hop", "--backlog", "20000")
            self._keep(HOP, recipe, said["deliveries_per_second"])
            said = self._flood(a, b, "stored", "--persistent", "--backlog", "5000", "--drain", "60")
            self._keep(STORED, recipe, said["deliveries_per_second"])
            direct = self._flood(a, a, "direct", "--rate", RATE)["latency"]
            hop = self._flood(a, b, "over", "--rate", RATE)["latency"]
            self._keep(P50, recipe, (hop["p50_us"] - direct["p50_us"]) / 1000)
            self._keep(P99, recipe, hop["p99_us"] / 1000)

    def _redistribution(self, recipe: Recipe, number: int) -> None:
        with cluster(recipe, self._home(), Plan(2), 2) as (a, b):
            fill(a, "/queue/moved.q", self._count)
            last = subscribed(a, "/queue/moved.q", "ack:client\nactivemq.prefetchSize:1\nconsumer-window-size:1")
            with subscribed(b, "/queue/moved.q") as reader:
                time.sleep(1.0)
                began = time.perf_counter()
                last.sendall(b"DISCONNECT\nreceipt:gone\n\n\0")
                until(last, b"gone")
                last.close()
                first, end = count_until(reader, self._count)
            self._keep(BEGINS, recipe, (first - began) * 1000 - DELAY_MS)
            self._keep(MOVED, recipe, self._count / (end - first))

    def _scale_down(self, recipe: Recipe, number: int) -> None:
        with cluster(recipe, self._home(), Plan(2, scales=True), 2) as (a, b):
            fill(a, "/queue/q", self._count)
            began = time.perf_counter()
            a.stop(PATIENCE_S)
            took = time.perf_counter() - began
            with client(b) as reader:
                reader.sendall(b"SUBSCRIBE\nid:0\nack:auto\ndestination:/queue/q\n\n\0")
                count_until(reader, self._count)
            self._keep(DOWN, recipe, self._count / took)

    def _mirror(self, row: Row, sync: str, recipe: Recipe, number: int) -> None:
        plan = Plan(2, joined=False, mirrors=sync)
        home = self._home()
        with ExitStack() as stack:
            started(stack, recipe, home, plan, 1)
            a = started(stack, recipe, home, plan, 0)
            fill(a, "/queue/warm", self._count // 5)  # Artemis is compiled while it runs
            asyncio.run(has(plan.cores[1], "warm", self._count // 5))
            began = time.perf_counter()
            fill(a, "/queue/q", self._count)
            asyncio.run(has(plan.cores[1], "q", self._count))
            self._keep(row, recipe, self._count / (time.perf_counter() - began))

    def _join(self, recipe: Recipe, number: int) -> None:
        plan = Plan(4)
        home = self._home()
        with cluster(recipe, home, plan, 3) as (a, *_), ExitStack() as stack:
            d = started(stack, recipe, home, plan, 3)
            with subscribed(d, "/queue/joined") as reader, client(a) as producer:
                began = time.perf_counter()
                reader.settimeout(0.002)
                while time.perf_counter() - began < PATIENCE_S:
                    producer.sendall(b"SEND\ndestination:/queue/joined\n\nhere\0")
                    try:
                        until(reader, b"here\0")
                        break
                    except TimeoutError:
                        continue
                self._keep(JOINS, recipe, (time.perf_counter() - began) * 1000)

    def _local(self, recipe: Recipe, number: int) -> None:
        with (
            cluster(recipe, self._home(), Plan(2), 2) as (a, _),
            cluster(recipe, self._home(), Plan(1, joined=False), 1) as (alone,),
        ):
            figures: list[list[float]] = [[], []]
            for turn in range(6):
                for at in (0, 1) if turn % 2 == 0 else (1, 0):
                    broker = (a, alone)[at]
                    cpu = broker.cpu_s()
                    said = self._flood(broker, broker, f"local.{turn}", "--backlog", "20000")
                    if turn:  # the first is for warmth
                        figures[at].append((broker.cpu_s() - cpu) / said["total_delivered"])
            self._keep(LOCAL, recipe, median(two / one for one, two in zip(*figures, strict=True)))


def verdicts(samples: dict[str, dict[str, list[float]]]) -> Iterator[str]:
    """Yield a line for each row: medians, the median ratio within pairs, and whether that is enough."""
    for row in ROWS:
        found = samples.get(row.key, {})
        own, theirs = found.get(Ours.name, []), found.get(Theirs.name, [])
        if not own:
            continue
        figure = median(own)
        line = f"{row.title}: {figure:,.2f} {row.unit}"
        said: list[bool] = []
        if theirs:
            ratio = median(a / b for a, b in zip(own, theirs, strict=False))
            line += f"; Artemis {median(theirs):,.2f}; ratio {ratio:.2f}"
            if row.ratio:
                said.append(ratio <= row.ratio if row.lower else ratio >= row.ratio)
                line += f" ({'at most' if row.lower else 'at least'} {row.ratio:g})"
        if row.least:
            said.append(figure >= row.least)
            line += f" (at least {row.least:,g} {row.unit})"
        if row.most:
            said.append(figure <= row.most)
            line += f" (at most {row.most:g} {row.unit})"
        yield line + (": reached" if all(said) else ": MISSED")


@click.command()
@click.option("--pairs", default=3, show_default=True)
@click.option("--quick", is_flag=True, help="One short pair: shows that it runs, proves nothing.")
@click.option("--row", "keys", multiple=True, type=click.Choice([row.key for row in ROWS]))
@click.option("--entrepot-command", help="The broker, if not that of this interpreter.")
def main(pairs: int, quick: bool, keys: tuple[str, ...], entrepot_command: str | None) -> None:
    """Measure clusters beside real Artemis nodes."""
    recipes: list[Recipe] = [Ours(entrepot_command), Theirs()]
    for one in list(recipes):
        why = one.unavailable()
        if why:
            click.echo(f"left out: {one.title}: {why}")
            recipes.remove(one)
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as scratch:
        bench = Bench(Path(scratch), quick=quick)
        try:
            bench.run(recipes, keys, 1 if quick else pairs)
        finally:
            results = ROOT / "build" / "bench-clusters.json"
            results.parent.mkdir(exist_ok=True)
            results.write_text(json.dumps(bench.samples, indent=1))
            for line in verdicts(bench.samples):
                click.echo(line)


if __name__ == "__main__":
    try:
        main()
    except BenchError as problem:
        sys.exit(f"error: {problem}")
