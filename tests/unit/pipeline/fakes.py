"""Brokers as a list and a ledger each, behind the same calls as `Wire`; and a Spark that only counts batches."""

from __future__ import annotations

from collections.abc import Mapping

from entrepot.base.errors import LeaseError, LeaseOver, Refused, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.pipeline.options import STREAM, Options, read
from entrepot.protocols.stomp.frames import Frame


class FakeBroker:
    """One queue and one lease, as docs/leases.md says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.waiting: list[str] = []
        self.ledger: list[str] = []  # all that was ever claimed
        self.base = 0
        self.epoch = 0
        self.skipped: list[str] = []  # what waited when a lease was made that begins behind it
        self.neighbours: dict[str, list[Endpoint]] = {}
        self.refusal: Refused | None = None
        self.calls: list[str] = []
        self.counts = True  # one that is older does not say how many octets a claim has

    def obey(self, command: str, headers: Mapping[str, str]) -> dict[str, str]:
        self.calls.append(command)
        if command == "BROKERS":
            said = {name: " ".join(place.format() for place in at) for name, at in self.neighbours.items()}
            return {"brokers": ",".join(f"{name}={places}" for name, places in said.items())}
        if self.refusal is not None:
            raise self.refusal
        if command == "ATTACH":
            if self.epoch == 0 and headers.get("from") == "latest":
                self.skipped, self.waiting = self.waiting, []
            self.epoch += 1
        elif int(headers["epoch"]) != self.epoch:
            raise LeaseOver(f"epoch {headers['epoch']} of g on q is over: {self.epoch} is current")
        answer: dict[str, str] = {}
        if command == "CLAIM":
            start, most = int(headers["start"]), int(headers["max"])
            if not self.base <= start <= len(self.ledger):
                raise LeaseError(f"claim at {start} is outside of the ledger {self.base}..{len(self.ledger)}")
            wanted = max(0, start + most - len(self.ledger))
            left = int(headers["octets"]) if "octets" in headers else None
            if left is not None and start < len(self.ledger):
                wanted = 0
            claimed = 0
            while wanted > 0 and self.waiting and (left is None or claimed < left):
                claimed += len(self.waiting[0])
                self.ledger.append(self.waiting.pop(0))
                wanted -= 1
            if self.counts:
                answer["octets"] = str(claimed)
            answer["end"] = str(min(len(self.ledger), start + most))
        elif command == "SETTLE":
            assert int(headers["end"]) <= len(self.ledger)
            self.base = max(self.base, int(headers["end"]))
        answer |= {"epoch": str(self.epoch), "base": str(self.base), "tail": str(len(self.ledger))}
        return answer | {"more": str(len(self.waiting)), "node": self.name, "queue": "q"}

    def read(self, epoch: int, low: int, high: int) -> list[str]:
        if epoch != self.epoch or low < self.base or high > len(self.ledger):
            raise LeaseOver(f"epoch {epoch} of g on q is over: {self.epoch} is current")
        return self.ledger[low:high]


class FakeWire:
    def __init__(self, place: Endpoint, broker: FakeBroker) -> None:
        if not broker.up:
            raise Unreachable(f"no broker answers at {place.port}")
        self.place = place
        self.shown = place.format()
        self.broker = broker.name
        self._broker = broker
        self._answers: dict[str, dict[str, str] | LeaseError] = {}

    def ask(self, command: str, headers: Mapping[str, str], body: bytes = b"", wait: float = 0.0) -> dict[str, str]:
        if not self._broker.up:
            raise Unreachable("the connection was lost")
        return self._broker.obey(command, headers)

    def say(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> str:
        receipt = f"r{len(self._answers)}"
        try:
            self._answers[receipt] = self.ask(command, headers)
        except LeaseError as error:
            self._answers[receipt] = error
        return receipt

    def answered(self, receipt: str) -> bool:
        return True

    def answer(self, receipt: str) -> dict[str, str]:
        answer = self._answers[receipt]
        if isinstance(answer, LeaseError):
            raise answer
        return answer

    def close(self) -> None: ...


class World:
    """Who is at which port."""

    def __init__(self, *brokers: FakeBroker) -> None:
        self.at: dict[int, FakeBroker] = {index + 1: broker for index, broker in enumerate(brokers)}
        self.unnamed: dict[int, None] = {}  # ports that the url does not name

    @property
    def brokers(self) -> list[FakeBroker]:
        return list(dict.fromkeys(self.at.values()))

    def options(self, **more: str) -> Options:
        url = ",".join(f"stomp://h:{port}" for port in self.at if port not in self.unnamed)
        given = {"url": url, "queue": "q", "subscription": "g", "pollWait": "0", "failoverTimeout": "0", **more}
        return read(given, STREAM)

    def join(self, port: int, broker: FakeBroker, *known_to: FakeBroker) -> None:
        """A broker joins the network, and some of the others tell of it."""
        self.at[port] = broker
        self.unnamed[port] = None
        for other in known_to:
            other.neighbours[broker.name] = [Endpoint("stomp", "h", port)]

    def wire(self, place: Endpoint, options: Options) -> FakeWire:
        return FakeWire(place, self.at[place.port])


def frame(command: str, body: bytes = b"", **headers: str) -> Frame:
    return Frame(command, {name.replace("_", "-"): text for name, text in headers.items()}, body)
