"""The brokers of a lab, their files, and the links between them: processes on loopback in a temporary directory."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape, quoteattr

import entrepot
from entrepot.base.errors import AddressInUse, Unreachable
from entrepot.cli.lab.relay import Relay

START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 8.0
LETTERS: Final = "abcdefghijkmnoprstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"  # q ends the lab, l looks like 1

Edge = tuple[int, int]


def edges(shape: str, count: int) -> list[Edge]:
    """Return who is joined to whom, brokers from 0; the first of a pair dials."""
    if shape == "chain":
        return [(at, at + 1) for at in range(count - 1)]
    if shape == "hub":
        return [(at, 0) for at in range(1, count)]
    if shape == "ring" and count > 2:
        return [(at, (at + 1) % count) for at in range(count)]
    return [(near, far) for near in range(count) for far in range(near + 1, count)]


class Link:
    """A duplex bridge from broker ``near`` to broker ``far``, through a relay."""

    def __init__(self, letter: str, near: int, far: int, relay: Relay) -> None:
        self.letter: Final = letter
        self.near: Final = near
        self.far: Final = far
        self.relay: Final = relay


class Broker:
    """One broker: its ports stay the same over a restart, its journal too."""

    def __init__(self, number: int, directory: Path, openwire: int, stomp: int, arguments: Sequence[str] = ()) -> None:
        """``arguments``: further ones of `entrepot run`."""
        self.arguments: Final = arguments
        self.number: Final = number
        self.name: Final = f"b{number}"
        self.directory: Final = directory
        self.openwire: Final = openwire
        self.stomp: Final = stomp
        self.process: asyncio.subprocess.Process | None = None
        self.starting = False

    @property
    def up(self) -> bool:
        """Whether its process lives and accepts connections."""
        return self.process is not None and self.process.returncode is None and not self.starting

    @property
    def process_id(self) -> int:
        """The number of its process, 0 before it was started."""
        return 0 if self.process is None else self.process.pid

    @property
    def tcp(self) -> str:
        """Where clients of OpenWire reach it."""
        return f"tcp://127.0.0.1:{self.openwire}"

    @property
    def url(self) -> str:
        """Where commands reach it."""
        return f"stomp://127.0.0.1:{self.stomp}"

    async def start(self) -> float:
        """Start the process; return the seconds until it accepts. Raises Unreachable with the end of its log."""
        self.directory.mkdir(exist_ok=True)
        ports = self.directory / "ports.json"
        ports.unlink(missing_ok=True)
        clock = asyncio.get_running_loop().time
        began = clock()
        self.starting = True
        try:
            with (self.directory / "broker.log").open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "entrepot", "run", "activemq.xml", "--ports-file", "ports.json"),
                    "--until-eof",
                    *self.arguments,
                    cwd=self.directory,
                    stdin=asyncio.subprocess.PIPE,  # its other end closes with us, however we end
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C at the terminal is the lab's to handle
                    env=_environment(),
                )
            while not ports.exists() or not ports.read_text():
                if self.process.returncode is not None or clock() - began > START_SECONDS:
                    raise Unreachable(f"{self.name} did not start: {self.last_words()}", remedy="is a port taken?")
                await asyncio.sleep(0.01)
        finally:
            self.starting = False
        return clock() - began

    def last_words(self) -> str:
        """Return the end of its log."""
        with suppress(OSError):
            return (self.directory / "broker.log").read_text(errors="replace")[-800:]
        return "it left no log"

    async def kill(self) -> None:
        """End it as a power cut would: no handler runs, nothing is flushed."""
        process = self.process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()

    async def stop(self) -> None:
        """Ask it to stop; kill it when it does not."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            await self.kill()


class Network:
    """All of a lab. ``directory`` belongs to the caller."""

    def __init__(
        self,
        directory: Path,
        count: int,
        shape: str,
        *,
        port_base: int | None = None,
        options: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        """``options``: further attributes of every networkConnector, as they stand in XML. Raises AddressInUse.

        ``arguments``: further ones of `entrepot run`, for every broker.
        """
        joined = edges(shape, count)
        ports = _ports(2 * count + len(joined), port_base)
        self.shape: Final = shape
        self.brokers: Final = [
            Broker(number + 1, directory / f"b{number + 1}", ports[2 * number], ports[2 * number + 1], arguments)
            for number in range(count)
        ]
        self.links: Final = [
            Link(LETTERS[at], near, far, Relay(ports[2 * count + at], self.brokers[far].openwire))
            for at, (near, far) in enumerate(joined)
        ]
        for broker in self.brokers:
            broker.directory.mkdir(parents=True, exist_ok=True)
            (broker.directory / "activemq.xml").write_text(self._xml(broker, options))

    async def start(self) -> None:
        """Start relays and brokers. Raises Unreachable, OSError; call `stop` in any case."""
        for link in self.links:
            await link.relay.heal()
        results = await asyncio.gather(*(broker.start() for broker in self.brokers), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def stop(self) -> None:
        """End everything."""
        await asyncio.gather(*(broker.stop() for broker in self.brokers), return_exceptions=True)
        for link in self.links:
            await link.relay.cut()

    def failover(self, first: int, options: str) -> str:
        """Return the URI that tries all brokers, beginning with number ``first`` (from 0)."""
        turned = self.brokers[first:] + self.brokers[:first]
        return f"failover:({','.join(broker.tcp for broker in turned)})?{options}"

    def _xml(self, broker: Broker, options: str) -> str:
        connectors = [
            f"<networkConnector name={quoteattr(f'{broker.name}-{self.brokers[link.far].name}')} duplex='true' "
            f"uri='static:(tcp://127.0.0.1:{link.relay.port})?initialReconnectDelay=100&amp;maxReconnectDelay=1000' "
            f"networkTTL='{len(self.brokers)}' suppressDuplicateQueueSubscriptions='true' "
            f"decreaseNetworkConsumerPriority='true' "
            f"supervisionInterval='1000' {options}/>"
            for link in self.links
            if self.brokers[link.near] is broker
        ]
        networks = f"<networkConnectors>{''.join(connectors)}</networkConnectors>" if connectors else ""
        spread = "updateClusterClients='true' rebalanceClusterClients='true' updateClusterClientsOnRemove='true'"
        data = quoteattr(str(broker.directory / "data"))
        return (
            '<beans xmlns="http://www.springframework.org/schema/beans">\n'
            f'<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{escape(broker.name)}">\n'
            f"<persistenceAdapter><kahaDB directory={data}/></persistenceAdapter>\n"
            '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
            '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" selectorAware="true"/>'
            "</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>\n"
            f"{networks}\n<transportConnectors>\n"
            f'<transportConnector name="openwire" uri="{broker.tcp}" {spread}/>\n'
            f'<transportConnector name="stomp" uri="{broker.url}"/>\n'
            "</transportConnectors>\n</broker>\n</beans>\n"
        )


def _ports(count: int, base: int | None) -> list[int]:
    """Return ``count`` ports that are free now. Raises AddressInUse when one from ``base`` on is not."""
    if base is not None:
        wanted: Sequence[int] = range(base, base + count)
    else:
        wanted = [0] * count
    sockets: list[socket.socket] = []
    try:
        for port in wanted:
            one = socket.socket()
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                raise AddressInUse(f"the port {port} is taken", remedy="choose another --port-base") from None
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _environment() -> dict[str, str]:
    """Return the environment in which a child finds the same build of entrepot."""
    home = str(Path(entrepot.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])}
