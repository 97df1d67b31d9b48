"""A short story on real input: three brokers act as one, two of them are killed, and nothing that was promised is lost.

A shop made with stomp.py, the usual STOMP library of Python, and one made with entrepot's own client send orders to
the first broker. Warehouses at the other two take them, through `failover:`. The first broker is killed without
warning when it has given some hundred receipts, the second later, with a warehouse connected to it. Both are started
again on their directories, and the brokers spread their clients. At the end everything that a shop got a receipt for
was handled. Then a message is stuck, and `entrepot explain` says why. The last chapter is in `landing.py`: a queue
lands in Parquet while a broker is killed, and is audited; it is left out where there is no PySpark. Everything runs
on 127.0.0.1, in a temporary directory; nothing stays behind.

``python demo/run.py [story|landing]`` tells a part, or without argument both.
"""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import stomp
from landing import landed, since
from rich.console import Console
from rich.table import Table

import entrepot
from entrepot import Acknowledge
from entrepot.base.errors import EntrepotError
from entrepot.cli.lab.brokers import Broker, Network
from entrepot.cli.managing import managing

BY_STOMP = 2_000
BY_OPENWIRE = 1_000
ORDERS = BY_STOMP + BY_OPENWIRE
KILL_FIRST_AFTER = 600
KILL_SECOND_AFTER = 1_600
REFUSED_EVERY = 100
WINDOW = 100  # receipts that a shop lets stand out
STORY_SECONDS = 60.0
RECONNECT = "randomize=false&initialReconnectDelay=50&maxReconnectDelay=200&useExponentialBackOff=false"

console = Console(highlight=False)
for talkative in ("stomp.py", "entrepot"):  # they report every write and attempt to reach the broker that was killed
    logging.getLogger(talkative).setLevel(logging.CRITICAL)


class StompShop(stomp.ConnectionListener):
    """Sends orders with stomp.py, to one broker, and remembers which of them that broker has promised to keep."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lock = threading.Condition()
        self.lost = False
        self.promised: set[int] = set()

    def connect(self) -> stomp.Connection12:
        """Return a connection, as soon as there is a broker to connect to."""
        deadline = time.monotonic() + STORY_SECONDS
        while True:
            connection = stomp.Connection12([("127.0.0.1", self.broker.stomp)], reconnect_attempts_max=1)
            connection.set_listener("", self)
            self.lost = False
            try:
                connection.connect(wait=True)
            except (stomp.exception.ConnectFailedException, stomp.exception.NotConnectedException, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return connection

    def on_disconnected(self) -> None:
        """The broker is gone."""
        with self.lock:
            self.lost = True
            self.lock.notify_all()

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        """The order is on disk."""
        receipt = frame.headers["receipt-id"]
        with self.lock:
            if receipt.isdigit():  # the library asks for one of its own when it disconnects
                self.promised.add(int(receipt))
            self.lock.notify_all()

    def send(self, numbers: range) -> None:
        """Send each order until it is promised, however often the broker goes away meanwhile."""
        waiting = list(numbers)
        while waiting:
            connection = self.connect()
            before = len(self.promised)
            try:
                for at, number in enumerate(waiting):
                    with self.lock:  # `at` were sent in this round; more than WINDOW of them are not promised yet?
                        room = self.lock.wait_for(
                            lambda at=at, before=before: self.lost or at - (len(self.promised) - before) < WINDOW, 10
                        )
                    if self.lost or not room:
                        break
                    connection.send("/queue/orders", order(number), receipt=str(number), headers={"persistent": "true"})
                with self.lock:
                    self.lock.wait_for(lambda wanted=waiting: self.lost or self.promised.issuperset(wanted), 10)
                    gone = self.lost
                if not gone:
                    connection.disconnect()
            except (stomp.exception.NotConnectedException, OSError):
                pass
            waiting = [number for number in waiting if number not in self.promised]


class Shop:
    """Sends orders over OpenWire with entrepot's client, whose failover waits for the broker to come back."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.promised: set[int] = set()

    async def send(self, numbers: range) -> None:
        """Send each order; a send returns when the order is on disk."""
        url = f"failover:({self.broker.tcp})?{RECONNECT}"
        async with entrepot.connect(url) as connection, connection.session() as session:
            producer = await session.producer("queue://orders")

            async def one(number: int) -> None:
                await producer.send(order(number))
                self.promised.add(number)

            for at in range(0, len(numbers), WINDOW // 2):
                await asyncio.gather(*(one(number) for number in numbers[at : at + WINDOW // 2]))


class Warehouse:
    """Takes orders, one acknowledgement each; one in a hundred it cannot process, and says so."""

    def __init__(self, network: Network, home: Broker, other: Broker) -> None:
        self.home = home
        self.url = f"failover:({home.tcp},{other.tcp})?{RECONNECT}"
        self.names = {f":{one.openwire}": one.name for one in network.brokers}
        self.handled: dict[int, int] = {}
        self.places = [home.name]

    def moved(self, url: str) -> None:
        """The client found another broker."""
        name = next((name for port, name in self.names.items() if port in url), url)
        if name != self.places[-1]:
            self.places.append(name)

    async def run(self) -> None:
        """Consume until cancelled, whatever happens to the brokers."""
        while True:
            with suppress(EntrepotError):
                await self._consume()
            await asyncio.sleep(0.1)

    async def _consume(self) -> None:
        async with (
            entrepot.connect(self.url, on_resumed=self.moved) as connection,
            connection.session(Acknowledge.INDIVIDUAL) as session,
            session.consumer("queue://orders?consumer.prefetchSize=100") as consumer,
        ):
            async for received in consumer:
                number = json.loads(text_of(received.body))["order"]
                self.handled[number] = self.handled.get(number, 0) + 1
                if number % REFUSED_EVERY == REFUSED_EVERY - 1:
                    received.reject("the warehouse has no such thing")
                else:
                    received.acknowledge()


def order(number: int) -> str:
    """Return what a shop sends."""
    return json.dumps({"order": number, "amount": number * 7 % 100})


def text_of(body: object) -> str:
    """Return a body as text: STOMP does not say what its octets are."""
    return body.decode() if isinstance(body, bytes) else str(body)


async def until(holds: Callable[[], bool], seconds: float = STORY_SECONDS) -> bool:
    """Wait until ``holds``; False when it took longer than ``seconds``."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.005)
    return True


async def joined(network: Network) -> None:
    """Wait until every bridge is open."""
    for broker in network.brokers:
        wanted = sum(1 for link in network.links if network.brokers[link.near] is broker)
        async with managing(broker.url) as desk:
            end = time.monotonic() + STORY_SECONDS
            while time.monotonic() < end:
                rows = await desk.ask("broker", "describeBridges")
                if sum(1 for row in rows if row["initiator"] and row["state"] == "open") == wanted:
                    break
                await asyncio.sleep(0.02)


async def tell(network: Network) -> bool:
    """Run the story and return whether it ended well."""
    first, second, third = network.brokers
    began = time.monotonic()
    await network.start()
    await joined(network)
    console.print(f"[bold]1.[/] Three brokers, joined each with each, are one network after {since(began)}.")
    stomp_shop, shop = StompShop(first), Shop(first)
    warehouses = [Warehouse(network, second, third), Warehouse(network, third, second)]
    consuming = [asyncio.create_task(warehouse.run()) for warehouse in warehouses]
    selling = [
        asyncio.create_task(asyncio.to_thread(stomp_shop.send, range(BY_STOMP))),
        asyncio.create_task(shop.send(range(BY_STOMP, ORDERS))),
    ]
    console.print(
        f"[bold]2.[/] Two shops, one of them with stomp.py, send {ORDERS} persistent orders to {first.name}; "
        f"warehouses are at {second.name} and {third.name}, with failover:."
    )
    await until(lambda: len(stomp_shop.promised) + len(shop.promised) >= KILL_FIRST_AFTER)
    await first.kill()
    promised = len(stomp_shop.promised) + len(shop.promised)
    console.print(f"[bold]3.[/] After {promised} receipts {first.name} is killed: [red]kill -9[/], nothing is flushed.")
    seconds = await first.start()
    console.print(f"   It is started again on its directory and accepts after {seconds:.2f} s.")
    await until(lambda: len(handled(warehouses)) >= KILL_SECOND_AFTER)
    await second.kill()
    console.print(f"[bold]4.[/] After {len(handled(warehouses))} orders were handled, {second.name} is killed too.")
    await until(lambda: warehouses[0].places[-1] == third.name, 10)
    seconds = await second.start()
    console.print(
        f"   Its warehouse went to {warehouses[0].places[-1]}; {second.name} accepts again after {seconds:.2f} s."
    )
    spread = await until(lambda: warehouses[0].places[-1] != warehouses[1].places[-1], 20)
    ways = " and ".join(" → ".join(warehouse.places) for warehouse in warehouses)
    console.print(f"   The brokers spread their clients again; the ways of both warehouses: {ways}.")
    await asyncio.wait(selling, timeout=STORY_SECONDS)
    await until(lambda: len(handled(warehouses)) == ORDERS)
    await asyncio.sleep(0.3)
    for task in [*consuming, *selling]:
        task.cancel()
    await asyncio.gather(*consuming, *selling, return_exceptions=True)
    letters: dict[int, str] = {}
    for broker in network.brokers:
        letters.update(await dead_letters(broker))
    well = report(stomp_shop.promised | shop.promised, warehouses, letters)
    return await explained(network) and spread and well


def handled(warehouses: list[Warehouse]) -> set[int]:
    """Return the orders that any warehouse handled."""
    return {number for warehouse in warehouses for number in warehouse.handled}


async def dead_letters(broker: Broker) -> dict[int, str]:
    """Return the dead letters of one broker and their reasons, without taking them."""
    async with (
        entrepot.connect(broker.tcp) as connection,
        connection.session() as session,
        session.browser("queue://ActiveMQ.DLQ") as browser,
    ):
        return {
            json.loads(text_of(letter.body))["order"]: str(letter.properties.get("dlqDeliveryFailureCause", ""))
            async for letter in browser
        }


def report(promised: set[int], warehouses: list[Warehouse], letters: dict[int, str]) -> bool:
    """Print the counts; return whether they add up."""
    done = handled(warehouses)
    missing = promised - done
    refused = {number for number in done if number % REFUSED_EVERY == REFUSED_EVERY - 1}
    table = Table(title="What became of the orders")
    table.add_column("")
    table.add_column("orders", justify="right")
    table.add_row("promised to the shops (receipts)", str(len(promised)))
    for warehouse in warehouses:
        table.add_row(f"handled by the warehouse that began at {warehouse.home.name}", str(len(warehouse.handled)))
    deliveries = sum(sum(warehouse.handled.values()) for warehouse in warehouses)
    table.add_row("handled twice: a kill took what settled them", str(deliveries - len(done)))
    table.add_row("refused, now in ActiveMQ.DLQ", str(len(letters)))
    table.add_row("[bold]lost[/]", f"[bold]{len(missing)}[/]")
    console.print(table)
    console.print(
        "Handled twice is what at-least-once means: a warehouse was killed with orders that it had handled and not yet "
        "acknowledged, or a broker before it had the acknowledgement on disk; so they came again, and none was lost.",
        style="dim",
    )
    if letters:
        number, reason = min(letters.items())
        console.print(f"A dead letter keeps its reason: order {number}, {reason!r}.")
    well = not missing and len(promised) == ORDERS and set(letters) == refused
    console.print("[green]Nothing that was promised was lost.[/]" if well else "[red]The counts do not add up.[/]")
    return well


async def explained(network: Network) -> bool:
    """Let a message get stuck, and ask why; return whether the answer is the right one."""
    first, _, third = network.brokers
    async with (
        entrepot.connect(third.tcp) as connection,
        connection.session() as session,
        session.consumer("queue://audit", selector="region = 'eu'"),
        entrepot.connect(first.tcp) as sending,
        sending.session() as other,
        other.producer("queue://audit") as producer,
    ):
        await known("audit", first)
        await producer.send(entrepot.Message("stuck", properties={"region": "us"}))
        await arrived("audit", first, third)
        command = [sys.executable, "-m", "entrepot", "explain", "audit", "--url", first.url]
        asked = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    console.print("[bold]5.[/] A message for a consumer at the other end is stuck. Why?")
    console.print("[bold]$ entrepot explain audit[/]")
    told = "\n".join(f"  {line}" for line in asked.stdout.splitlines())
    console.print(told, markup=False, style="dim", soft_wrap=True)
    return asked.returncode == 0 and "[conduit]" in asked.stdout


async def known(queue: str, broker: Broker) -> None:
    """Wait until ``broker`` knows that somebody reads ``queue``, here or elsewhere."""
    async with managing(broker.url) as desk:
        while not any(row["consumers"] for row in await desk.ask("broker", "describeQueues", queue)):
            await asyncio.sleep(0.02)


async def arrived(queue: str, source: Broker, target: Broker) -> None:
    """Wait until ``queue`` is empty at ``source`` and not at ``target``."""
    async with managing(source.url) as here, managing(target.url) as there:
        while True:
            left = sum(row["messages"] for row in await here.ask("broker", "describeQueues", queue))
            came = sum(row["messages"] for row in await there.ask("broker", "describeQueues", queue))
            if came and not left:
                return
            await asyncio.sleep(0.02)


async def run(directory: Path, parts: list[str]) -> bool:
    """Tell ``parts`` in ``directory``; end every process. Return whether all ended well."""
    well = True
    if "story" in parts:
        network = Network(directory, 3, "mesh")
        try:
            well = await tell(network)
        finally:
            await network.stop()
    if "landing" in parts:
        well = await landed(directory / "landing", console, Shop) and well
    return well


def main() -> None:
    """Run the demo; exit 1 when its counts do not add up."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="entrepot-demo-") as directory:
        well = asyncio.run(run(Path(directory), sys.argv[1:] or ["story", "landing"]))
    console.print(f"[dim]{since(began)}[/]")
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
