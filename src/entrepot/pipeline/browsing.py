"""A look at what waits in a queue, for batch reads without a subscription. Nothing is taken and nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from entrepot.base.errors import Refused
from entrepot.base.uri import Endpoint
from entrepot.driver.ledger import number
from entrepot.driver.scope import Scope, read_list
from entrepot.driver.shard import Subject
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.leases import append_single
from entrepot.pipeline.wire import Wire
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.frames import encode_frame


def _condition(subject: Subject) -> str:
    """Return the selector of a look; "" for none."""
    if not subject.until:
        return subject.selector
    bound = f"JMSTimestamp <= {subject.until}"
    return f"({subject.selector}) AND {bound}" if subject.selector else bound


def looked_at(brokers: Brokers, scope: Scope | None) -> list[tuple[Wire, str]]:
    """Return every broker, closed, with each queue that is looked through there; "" for the one that is read.

    Raises Unreachable, and InvalidOption for too many queues.
    """
    found: list[tuple[Wire, str]] = []
    wires = brokers.everyone()
    try:
        for wire in wires:
            names = [""] if scope is None else _queues(wire, scope)
            found.extend((wire, name) for name in names)
    finally:
        for wire in wires:
            wire.close()
    if scope is not None:
        scope.check(name for _, name in found)
    return found


def _queues(wire: Wire, scope: Scope) -> list[str]:
    answer = wire.ask("QUEUES", scope.question(()))
    listed = read_list(answer)
    scope.check(listed, max(0, number(answer, "count") - len(listed)))
    return list(dict.fromkeys((*scope.names, *listed)))


def browse(
    brokers: Brokers, broker: str, subject: Subject, octets: int, names: Sequence[str], hint: Endpoint | None = None
) -> Iterator[Columns]:
    """Yield the columns ``names`` of what waits on one broker, in portions of about ``octets``, as `read_range` does.

    ``hint``: where that broker was when this was planned.

    A connection that is lost in the middle fails the task, which Spark repeats: half a look cannot be continued.
    Raises Refused, Unreachable.
    """
    wire = brokers.open(broker, hint)
    try:
        headers = {"id": "browse", "destination": subject.destination, "browser": "true", "ack": "auto"}
        condition = _condition(subject)
        if condition:
            headers["selector"] = condition
        wire.write(encode_frame("SUBSCRIBE", headers))  # without a receipt: a refusal is raised where we wait
        portion = Columns(names)
        held = 0
        while True:
            frame = wire.next_message("")
            if frame is None:
                raise Refused(f"{wire.shown} ended the browse of {subject.destination}")
            if frame.headers.get("browser") == "end":
                break
            append_single(portion, frame, -1)
            held += len(frame.body)
            if held >= octets:
                yield portion
                held = 0
        if portion.count:
            yield portion
    finally:
        wire.close()
