"""The verbs of the sink, asked of real brokers: tasks stage or send rows, the driver decides and publishes.

Exactly once rests on three things that the brokers keep: a part is on disk before its task ends, one broker decides
once which parts of a batch count, and publishing a part again changes nothing. So the driver may die between any two of
these, and whoever runs the batch again completes the *first* decision, whatever was staged since.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from typing import Final

from entrepot.base.errors import InvalidOption, ProtocolViolation, Unreachable
from entrepot.pipeline import stages
from entrepot.pipeline.options import Options
from entrepot.pipeline.rows import escaped
from entrepot.pipeline.stages import Author, Committed, Staged
from entrepot.pipeline.wire import Brokers, Wire, patiently

CHUNK_OCTETS: Final = 256 * 1024  # one write: a few socket buffers
CHECK_OCTETS: Final = 4 << 20  # octets between two looks for an objection


class Outlet:
    """A task's way to one broker: frames in, one confirmation at the end."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.count = 0
        self._last = b""  # held back: the confirmation is asked for with the last message
        self._chunk: list[bytes] = []
        self._octets = 0
        self._unchecked = 0

    def send(self, frames: Iterable[bytes]) -> None:
        """Send frames. Blocks while the broker takes no more. Raises what it objects to, Unreachable."""
        for frame in frames:
            self._append(self._last)
            self._last = frame
            self.count += 1

    def flush(self) -> None:
        """Write all that is left."""
        self._append(self._last)
        self._last = b""
        self._write()

    def confirm(self) -> None:
        """Wait until all that was sent is on disk: the receipt of the last message stands for those before it."""
        self._write()
        if self._last:
            receipt = self.wire.fresh_receipt()
            self.wire.write(self._last.replace(b"SEND\n", b"SEND\nreceipt:%b\n" % receipt.encode(), 1))
            self._last = b""
            self.wire.answer(receipt)

    def _append(self, frame: bytes) -> None:
        self._chunk.append(frame)
        self._octets += len(frame)
        if self._octets >= CHUNK_OCTETS:
            self._write()

    def _write(self) -> None:
        self.wire.write(b"".join(self._chunk))
        self._unchecked += self._octets
        self._chunk.clear()
        self._octets = 0
        if self._unchecked >= CHECK_OCTETS:
            self._unchecked = 0
            self.wire.check()


def target(brokers: Brokers, options: Options, task: int) -> Wire:
    """Return a connection to the broker that a task writes to: they take turns among those that answer."""
    groups = options.places

    def connected() -> Wire:
        failure: Unreachable | None = None
        for step in range(len(groups)):
            for place in groups[(task + step) % len(groups)]:
                try:
                    wire = Wire(place, options)
                except Unreachable as error:
                    failure = failure or error
                    continue
                brokers.known[wire.broker] = place
                return wire
        raise failure or Unreachable("the url names no place")

    return patiently(connected, options.seconds("failoverTimeout"))


def stage(wire: Wire, sink: str, batch: int, author: Author) -> tuple[str, str]:
    """Open a stage; return the name of its part, and the header line that puts a message into it."""
    part = stages.part_name(wire.broker, uuid.uuid4().hex)
    wire.ask("STAGE", {"sink": sink, "batch": str(batch), "part": part, **author.headers()})
    return part, f"stage:{escaped(part)}\n"


def staged(outlet: Outlet, sink: str, batch: int, part: str, author: Author) -> Staged:
    """Close a stage when all of it is on disk."""
    outlet.flush()
    answer = outlet.wire.ask("STAGED", {"sink": sink, "batch": str(batch), "part": part})
    if int(answer.get("count", "-1")) != outlet.count:
        raise ProtocolViolation(
            f"{outlet.wire.shown} staged {answer.get('count')} of {outlet.count} messages", remedy="see its log"
        )
    octets, at_once = (int(answer.get(name, "0")) for name in ("octets", "octets-at-once"))
    return Staged(sink, batch, part, outlet.count, octets, at_once, author)


def _put_last(by_broker: dict[str, list[str]], coordinator: str) -> None:
    """Let the broker that decides publish last, also when nothing of the batch is there: it is done then everywhere.

    So it can tell a batch that is being repeated from one that is done and written a second time. A batch without any
    message is done when it is decided.
    """
    if by_broker:
        by_broker[coordinator] = by_broker.pop(coordinator, [])


class Coordination:
    """The driver's side of a staged commit."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.brokers = Brokers(options)
        self._wires: dict[str, Wire] = {}

    def commit(self, sink: str, batch: int, parts: Sequence[str], author: Author, *, forget: bool = False) -> Committed:
        """Make one decision about (``sink``, ``batch``) come true everywhere; return what that was.

        ``parts`` win only if nobody decided before. ``forget``: nobody will repeat this batch, and the sink has no
        other: the brokers need not remember it. Raises Refused, Unreachable; may be called again after either.
        """
        patience = self.options.seconds("failoverTimeout")
        try:
            coordinator = patiently(self._coordinator, patience)
            fields = {"sink": sink, "batch": str(batch), **author.headers()}
            answer = self._ask(coordinator, "DECIDE", {**fields, "parts": ",".join(parts)})
            winners = [part for part in answer.get("parts", "").split(",") if part]
            by_broker = stages.by_broker(winners)
            if author.counter:
                fields["decider"] = coordinator
                _put_last(by_broker, coordinator)
            count = 0
            for broker, won in by_broker.items():
                told = self._ask(broker, "PUBLISH", {**fields, "parts": ",".join(won)})
                count += int(told.get("count", "0"))
            losers = stages.by_broker(part for part in parts if part not in winners)
            self._abandon(sink, batch, {broker: lost for broker, lost in losers.items() if broker not in by_broker})
            if forget:
                self._forget(sink, batch, dict.fromkeys([coordinator, *by_broker]))
        finally:
            self.close()
        return Committed(count, winners == list(parts))

    def abort(self, sink: str, batch: int, parts: Sequence[str]) -> None:
        """Drop ``parts`` of a batch that failed; what cannot be reached is dropped by the brokers in time."""
        try:
            self._abandon(sink, batch, stages.by_broker(parts))
        finally:
            self.close()

    def close(self) -> None:
        """Drop all connections."""
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def _abandon(self, sink: str, batch: int, parts: dict[str, list[str]]) -> None:
        for broker, names in parts.items():
            with contextlib.suppress(Unreachable):  # the broker drops them in time
                wire = self._wire(broker, patient=False)
                wire.ask("ABANDON", {"sink": sink, "batch": str(batch), "parts": ",".join(names)})

    def _forget(self, sink: str, batch: int, brokers: Iterable[str]) -> None:
        for broker in brokers:
            with contextlib.suppress(Unreachable):  # then an operator may: entrepot stage drop --forget
                wire = self._wire(broker, patient=False)
                wire.ask("ABANDON", {"sink": sink, "batch": str(batch), "forget": "true"})

    def _coordinator(self) -> str:
        """Return the broker that decides: the one that the first member of the url names, always the same one."""
        found: dict[str, Wire] = {}
        failure: Unreachable | None = None
        for place in self.options.places[0]:
            try:
                wire = Wire(place, self.options)
            except Unreachable as error:
                failure = failure or error
                continue
            if wire.broker in found:
                wire.close()
                continue
            found[wire.broker] = wire
            self.brokers.known[wire.broker] = place
        self._wires.update(found)
        if len(found) > 1:
            raise InvalidOption(
                f"the places of the first member of the url are different brokers: {', '.join(found)}",
                remedy="failover:(...) means one broker that moves; write commas between brokers: the first "
                "decides what was published, so it must always be the same",
            )
        if not found:
            raise failure or Unreachable("the url names no place")
        return next(iter(found))

    def _ask(self, broker: str, command: str, fields: dict[str, str]) -> dict[str, str]:
        def once() -> dict[str, str]:
            try:
                return self._wire(broker, patient=True).ask(command, fields)
            except Unreachable:
                lost = self._wires.pop(broker, None)
                if lost is not None:
                    lost.close()
                raise

        return patiently(once, self.options.seconds("failoverTimeout"))

    def _wire(self, broker: str, *, patient: bool) -> Wire:
        wire = self._wires.get(broker)
        if wire is None:
            wire = self._wires[broker] = self.brokers.open(broker) if patient else self.brokers.open_once(broker)
        return wire
