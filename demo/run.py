"""A short story on real input: a broker with its journal on disk, clients that nobody here wrote, and a kill -9.

Programs made with stomp.py, the usual STOMP library of Python, produce to the broker and consume from it. In the middle
of it the broker is killed without warning and started again on the same directory. At the end everything that a
producer got a receipt for was consumed. Everything runs on 127.0.0.1, in a temporary directory; nothing stays behind.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import stomp
from rich.console import Console
from rich.table import Table

ORDERS = 3_000
KILL_AFTER = 1_000
WINDOW = 100  # receipts that a producer lets stand out
START_SECONDS = 20.0
STORY_SECONDS = 60.0

console = Console(highlight=False)
logging.getLogger("stomp.py").setLevel(logging.CRITICAL)  # it reports every write to the broker that was killed


class BrokerProcess:
    """One `entrepot run` on a directory that outlives it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports = directory / "ports.json"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it and return the seconds until it accepts connections."""
        self.ports.unlink(missing_ok=True)
        began = time.monotonic()
        listen = f"stomp://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "entrepot", "run", "--name", "demo", "--listen", listen]
        command += ["--data", str(self.directory / "data"), "--ports-file", str(self.ports)]
        with (self.directory / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        while not self.ports.exists() or not self.ports.read_text():
            if self.process.poll() is not None or time.monotonic() - began > START_SECONDS:
                raise SystemExit("the broker did not start:\n" + (self.directory / "broker.log").read_text()[-2000:])
            time.sleep(0.005)
        self.port = int(json.loads(self.ports.read_text())["uris"][0].rpartition(":")[2])
        return time.monotonic() - began

    def kill(self) -> None:
        """End it as a power cut would: no signal handler runs."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """Ask it to stop, and wait."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=10)


class Program(stomp.ConnectionListener):
    """A client program: connects, and connects again when the broker is gone."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.lock = threading.Condition()
        self.connection: stomp.Connection12 | None = None
        self.lost = False

    def connect(self) -> stomp.Connection12:
        """Return a connection, as soon as there is a broker to connect to."""
        deadline = time.monotonic() + STORY_SECONDS
        while True:
            connection = stomp.Connection12([("127.0.0.1", self.broker.port)], reconnect_attempts_max=1)
            connection.set_listener("", self)
            self.lost = False
            try:
                connection.connect(wait=True)
            except (stomp.exception.ConnectFailedException, stomp.exception.NotConnectedException, OSError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                self.connection = connection
                return connection

    def on_disconnected(self) -> None:
        """The broker is gone."""
        with self.lock:
            self.lost = True
            self.lock.notify_all()


class Shop(Program):
    """Sends orders and remembers which of them the broker has promised to keep."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker)
        self.promised: set[int] = set()

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
            try:
                for number in waiting:
                    with self.lock:
                        sent_up_to = self.lock.wait_for(lambda n=number: self.lost or self._open(n) < WINDOW, 10)
                        if self.lost or not sent_up_to:
                            break
                    body = json.dumps({"order": number, "amount": number * 7 % 100})
                    connection.send("/queue/orders", body, receipt=str(number), headers={"persistent": "true"})
                with self.lock:
                    self.lock.wait_for(lambda wanted=waiting: self.lost or self.promised.issuperset(wanted), 10)
                    gone = self.lost
                if not gone:
                    connection.disconnect()
            except (stomp.exception.NotConnectedException, OSError):
                pass
            waiting = [number for number in waiting if number not in self.promised]

    def _open(self, number: int) -> int:
        return number - len(self.promised)


class Warehouse(Program):
    """Takes orders, one acknowledgement each; one in a hundred it cannot process, and says so."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker)
        self.handled: dict[int, int] = {}

    def on_message(self, frame: stomp.utils.Frame) -> None:
        """Do the work, then acknowledge it."""
        number = json.loads(frame.body)["order"]
        with self.lock:
            self.handled[number] = self.handled.get(number, 0) + 1
            self.lock.notify_all()
        connection = self.connection
        if connection is None:
            return
        try:
            if number % 100 == 99:
                connection.nack(frame.headers["ack"])
            else:
                connection.ack(frame.headers["ack"])
        except (stomp.exception.NotConnectedException, OSError):
            pass  # the broker is gone; the order will come again, marked redelivered

    def run(self, done: threading.Event) -> None:
        """Consume until ``done``, whatever happens to the broker."""
        while not done.is_set():
            connection = self.connect()
            try:
                connection.subscribe("/queue/orders", id="1", ack="client-individual")
                while not done.is_set() and not self.lost:
                    time.sleep(0.02)
                connection.disconnect()
            except (stomp.exception.NotConnectedException, OSError):
                continue


class Clerk(Program):
    """Looks at dead letters without taking them."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker)
        self.letters: list[tuple[int, str]] = []
        self.ended = False

    def on_message(self, frame: stomp.utils.Frame) -> None:
        """Read one letter, or the end mark."""
        with self.lock:
            if frame.headers.get("browser") == "end":
                self.ended = True
            else:
                reason = frame.headers.get("dlqDeliveryFailureCause", "")
                self.letters.append((json.loads(frame.body)["order"], reason))
            self.lock.notify_all()

    def look(self) -> None:
        """Browse the dead letters to the end."""
        connection = self.connect()
        connection.subscribe("/queue/ActiveMQ.DLQ", id="dlq", headers={"browser": "true"})
        with self.lock:
            self.lock.wait_for(lambda: self.ended, 10)
        connection.disconnect()


def tell(broker: BrokerProcess) -> bool:
    """Run the story and return whether it ended well."""
    seconds = broker.start()
    console.print(f"[bold]1.[/] The broker accepts connections {seconds:.2f} s after exec; its journal is on disk.")
    shop = Shop(broker)
    warehouses = [Warehouse(broker), Warehouse(broker)]
    done = threading.Event()
    threads = [threading.Thread(target=warehouse.run, args=(done,), daemon=True) for warehouse in warehouses]
    seller = threading.Thread(target=shop.send, args=(range(ORDERS),), daemon=True)
    for thread in [*threads, seller]:
        thread.start()
    console.print(f"[bold]2.[/] A shop sends {ORDERS} persistent orders, two warehouses share them (stomp.py).")
    until = time.monotonic() + STORY_SECONDS
    while len(shop.promised) < KILL_AFTER and time.monotonic() < until:
        time.sleep(0.002)
    broker.kill()
    promised = len(shop.promised)
    console.print(f"[bold]3.[/] After {promised} receipts the broker is killed: [red]kill -9[/], nothing is flushed.")
    seconds = broker.start()
    console.print(f"[bold]4.[/] It is started again on its directory and accepts after {seconds:.2f} s.")
    seller.join(STORY_SECONDS)
    while time.monotonic() < until and len(_handled(warehouses)) < ORDERS:
        time.sleep(0.02)
    time.sleep(0.3)
    done.set()
    for thread in threads:
        thread.join(5)
    clerk = Clerk(broker)
    clerk.look()
    broker.stop()
    return report(shop, warehouses, clerk)


def _handled(warehouses: list[Warehouse]) -> set[int]:
    return {number for warehouse in warehouses for number in list(warehouse.handled)}


def report(shop: Shop, warehouses: list[Warehouse], clerk: Clerk) -> bool:
    """Print the counts; return whether they add up."""
    handled = _handled(warehouses)
    missing = shop.promised - handled
    letters = {number for number, _ in clerk.letters}
    rejected = {number for number in handled if number % 100 == 99}
    table = Table(title="What became of the orders")
    table.add_column("")
    table.add_column("orders", justify="right")
    table.add_row("promised to the shop (receipts)", str(len(shop.promised)))
    for index, warehouse in enumerate(warehouses, 1):
        table.add_row(f"handled by warehouse {index}", str(len(warehouse.handled)))
    deliveries = sum(sum(warehouse.handled.values()) for warehouse in warehouses)
    table.add_row("handled twice: the kill took their acknowledgement", str(deliveries - len(handled)))
    table.add_row("refused (NACK), now in ActiveMQ.DLQ", str(len(letters)))
    table.add_row("[bold]promised and lost[/]", f"[bold]{len(missing)}[/]")
    console.print(table)
    if clerk.letters:
        console.print(f"A dead letter keeps its reason: order {clerk.letters[0][0]}, {clerk.letters[0][1]!r}.")
    well = not missing and len(shop.promised) == ORDERS and letters == rejected
    console.print("[green]Nothing that was promised was lost.[/]" if well else "[red]The counts do not add up.[/]")
    return well


def main() -> None:
    """Run the demo; exit 1 when its counts do not add up."""
    with tempfile.TemporaryDirectory(prefix="entrepot-demo-") as directory:
        broker = BrokerProcess(Path(directory))
        try:
            well = tell(broker)
        finally:
            broker.kill()
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
