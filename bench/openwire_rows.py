"""What is measured over OpenWire: the Java client, our Python client, the codec alone, and failover.

As in `rows.py`: a measurement is one figure of one broker, and one whose messages were not all checked as right raises.
Clients are processes of their own, started and ended here.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from brokers import BenchError, Broker, Ports, Running
from jvm import JavaClients
from rows import LOAD_MARGIN_S, Effort, Row, Sample

HERE: Final = Path(__file__).resolve().parent
JAVA_WARM_S: Final = 4.0  # until the just-in-time compiler of a fresh client has settled; --quick takes half
KILLS: Final = 9  # given by the target: a median of fewer says little
ANSWER_PATIENCE_S: Final = 60.0
SETTLE_S: Final = 0.5  # after a restart, before the next kill
CODEC_FRAMES: Final = 5000
MILLISECOND: Final = 1e-3

CLIENT_SEND: Final = Row("client-send", "Python client, async send, 1 KiB, non-persistent", "msg/s", floor=80_000)
CLIENT_RECEIVE: Final = Row("client-receive", "Python client, receive, 1 KiB, AUTO ack", "msg/s", floor=60_000)
CODEC_DECODE: Final = Row("codec-decode", "OpenWire codec: decode a dispatch of a 1 KiB text", "us", ceiling=4)
CODEC_ENCODE: Final = Row("codec-encode", "OpenWire codec: encode it", "us", ceiling=3)
CORE_DECODE: Final = Row("core-codec-decode", "CORE codec: decode a send of a 1 KiB text", "us", ceiling=3)
CORE_ENCODE: Final = Row("core-codec-encode", "CORE codec: encode its delivery", "us", ceiling=2)
CODEC_ROWS: Final = (CODEC_DECODE, CODEC_ENCODE, CORE_DECODE, CORE_ENCODE)
FAILOVER: Final = Row("failover", "Python client works again after kill -9", "ms", ceiling=200)
FAILOVER_JAVA: Final = Row("failover-java", "Java client works again after kill -9", "ms")


@dataclass(frozen=True)
class JavaFlow:
    """A flood of 1 KiB texts by the Java client: one producer, one consumer, one queue, AUTO ack."""

    row: Row
    mode: str
    options: str = ""

    def measure(self, clients: JavaClients, broker: Running, effort: Effort, round_number: int) -> Sample:
        """One round in a fresh JVM, which warms itself before it measures."""
        warm_s = min(JAVA_WARM_S, effort.jvm_warm_s / 2)
        command = clients.command(
            "Throughput", broker.openwire + self.options, self.mode, f"bench.{self.row.key}.{round_number}",
            f"{warm_s}", f"{effort.measure_s}",
        )  # fmt: skip
        said = counted(broker, command, at_most_s=warm_s + effort.measure_s + LOAD_MARGIN_S)
        return Sample({self.row.key: said["messages_per_second"]}, said)


JAVA_FLOWS: Final = (
    JavaFlow(Row("java", "Java client, 1 KiB text, non-persistent", "msg/s", 1.5), "non-persistent"),
    JavaFlow(
        Row("java-persistent", "Java client, 1 KiB text, persistent, useAsyncSend", "msg/s", 4),
        "persistent",
        "?jms.useAsyncSend=true",
    ),
    JavaFlow(Row("java-persistent-sync", "Java client, 1 KiB text, persistent, each confirmed", "msg/s"), "persistent"),
)

JAVA_ROWS: Final = (*(flow.row for flow in JAVA_FLOWS), FAILOVER_JAVA)
OPENWIRE_ROWS: Final = (
    *(flow.row for flow in JAVA_FLOWS), CLIENT_SEND, CLIENT_RECEIVE, *CODEC_ROWS, FAILOVER,
    FAILOVER_JAVA,
)  # fmt: skip


def python_client(broker: Running, seconds: float, label: str) -> Sample:
    """Send and receive bursts with this project's client until each took `seconds`."""
    queue = f"queue://bench.client.{label}"
    command = [*python("openwire_load.py"), "bursts", broker.openwire, queue, "--seconds", f"{seconds}"]
    said = counted(broker, command, at_most_s=2 * seconds + LOAD_MARGIN_S)
    return Sample({CLIENT_SEND.key: said["sent_per_second"], CLIENT_RECEIVE.key: said["received_per_second"]}, said)


def codec() -> Sample:
    """Time the codecs of this interpreter's build; of OpenWire the figure is that of the slowest wire format."""
    said = output_of("codec", [*python("openwire_codec.py"), "--frames", str(CODEC_FRAMES)], LOAD_MARGIN_S)
    formats = [value for name, value in said.items() if isinstance(value, dict) and name != "pass_on"]
    figures = {
        CODEC_DECODE.key: max(measured["decode_us"] for measured in formats),
        CODEC_ENCODE.key: max(measured["encode_us"] for measured in formats),
    }
    core = output_of("codec of CORE", [*python("core_codec.py"), "--frames", str(CODEC_FRAMES)], LOAD_MARGIN_S)
    figures |= {CORE_DECODE.key: core["arrive_us"], CORE_ENCODE.key: core["encode_us"]}
    return Sample(figures, {**said, "core": core})


class Twins:
    """Two brokers of a kind that do not know one another, and a client that has both in its list.

    `kill_one` ends the one that the client is connected to, and starts it again once the client works with the other.
    """

    def __init__(self, recipe: Broker, homes: tuple[Path, Path], row: Row, clients: JavaClients | None) -> None:
        """`clients`: the Java client's programs, or None for the Python client."""
        self._recipe = recipe
        self._row = row
        self._clients = clients
        self._ports = [Ports.free(openwire=True) for _ in homes]
        self._homes = homes
        self._stacks = [ExitStack() for _ in homes]
        self._brokers: list[Running] = []
        self._client: Conversation | None = None
        self._place = ""

    @contextmanager
    def up(self) -> Iterator[Twins]:
        """Both brokers and a client that has worked once; all ended afterwards."""
        with ExitStack() as stack:
            for each in self._stacks:
                stack.enter_context(each)
            self._brokers = [self._start(number) for number in range(len(self._homes))]
            url = f"failover:({','.join(broker.openwire for broker in self._brokers)})"
            program = [*python("openwire_load.py"), "failover", url, "queue://bench.failover"]
            command = self._clients.command("Failover", url) if self._clients else program
            self._client = stack.enter_context(Conversation(self._recipe.title, command, self._homes[0] / "client.log"))
            self._place = self._client.ask()
            yield self

    def kill_one(self) -> Sample:
        """Measure from just before the kill until a message sent after it was confirmed and received."""
        assert self._client is not None
        number = self._connected()
        started = time.perf_counter()
        self._brokers[number].kill()
        killed = time.perf_counter()
        before, self._place = self._place, self._client.ask()
        elapsed_ms = (time.perf_counter() - started) / MILLISECOND
        if self._connected() == number:
            raise BenchError(f"{self._recipe.title}: the client says that it is still connected to {before}")
        self._stacks[number].close()
        self._brokers[number] = self._start(number)
        time.sleep(SETTLE_S)
        return Sample({self._row.key: elapsed_ms}, {"ms": elapsed_ms, "dying_ms": (killed - started) / MILLISECOND})

    def _start(self, number: int) -> Running:
        running = self._recipe.running(self._homes[number], ports=self._ports[number])
        return self._stacks[number].enter_context(running)

    def _connected(self) -> int:
        port = self._place.rpartition(":")[2]
        for number, ports in enumerate(self._ports):
            if port == str(ports.openwire):
                return number
        raise BenchError(f"{self._recipe.title}: the client is connected to {self._place!r}, which is none of ours")


class Conversation:
    """A client process that does something for each line it gets, and answers with a line."""

    def __init__(self, name: str, command: list[str], log: Path) -> None:
        self._name = name
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self._waiting = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._waiting.register(self._process.stdout, selectors.EVENT_READ)

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._waiting.close()

    def ask(self) -> str:
        """Have it work once, and return where it is connected. Raises BenchError when it fails or says nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = b""
        try:
            self._process.stdin.write(b"again\n")
            self._process.stdin.flush()
            until = time.monotonic() + ANSWER_PATIENCE_S
            while not answer.endswith(b"\n") and self._waiting.select(until - time.monotonic()):
                octets = os.read(self._process.stdout.fileno(), 4096)
                answer += octets
                if not octets:
                    break
        except BrokenPipeError:
            pass
        if not (answer.startswith(b"works ") and answer.endswith(b"\n")):
            errors = self._log.read_text(errors="replace")[-2000:]
            raise BenchError(f"{self._name}: the failover client said {answer.decode(errors='replace')!r}\n{errors}")
        return answer.decode().split()[-1]


def counted(broker: Running, command: list[str], at_most_s: float) -> dict[str, Any]:
    """Run a load on a broker, and add what a message cost it."""
    cpu = broker.cpu_s()
    said = output_of(broker.name, command, at_most_s, broker)
    messages = max(said["total_sent"], 1)
    said["broker_cpu_us_per_message"] = round((broker.cpu_s() - cpu) * 1e6 / messages, 2)
    return said


def output_of(name: str, command: list[str], at_most_s: float, broker: Running | None = None) -> dict[str, Any]:
    """Run a program that prints JSON. Raises BenchError when it fails or takes too long."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=at_most_s, check=False)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{name}: the load did not end: {' '.join(command)}") from None
    if done.returncode:
        log = broker.log_tail() if broker else ""
        raise BenchError(f"{name} failed the load: {' '.join(command)}\n{done.stderr[-2000:]}\n{log}")
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def python(program: str) -> list[str]:
    """How a program of this directory is executed, with the build that the bench runs on."""
    return [sys.executable, str(HERE / program)]
