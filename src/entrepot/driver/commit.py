"""The driver's side of a staged commit: one broker decides which parts of a batch count, then all of them publish.

Exactly once rests on three things that the brokers keep: a part is on disk before its task ends, one broker decides
once which parts of a batch count, and publishing a part again changes nothing. So the driver may die between any two of
these, and whoever runs the batch again completes the *first* decision, whatever was staged since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

from entrepot.base.errors import InvalidOption, Unreachable
from entrepot.driver import stages
from entrepot.driver.effects import Answer, Clock, Course, Line, ask, connect
from entrepot.driver.search import Reach, Search
from entrepot.driver.stages import Author, Committed


class Commit:
    """Makes one decision at a time come true, on every broker that has a part of it."""

    def __init__(self, reach: Reach, clock: Clock) -> None:
        self.search = Search(reach, clock)
        self._lines: dict[str, Line] = {}

    def commit(
        self, sink: str, batch: int, parts: Sequence[str], author: Author, *, forget: bool = False
    ) -> Course[Committed]:
        """Make one decision about (``sink``, ``batch``) come true everywhere; return what that was.

        ``parts`` win only if nobody decided before. ``forget``: nobody will repeat this batch, and the sink has no
        other: the brokers need not remember it. Raises Refused, Unreachable; may be called again after either.
        """
        try:
            coordinator = yield from self.search.patiently(self._coordinator)
            fields = {"sink": sink, "batch": str(batch), **author.headers()}
            answer = yield from self._ask(coordinator, "DECIDE", {**fields, "parts": ",".join(parts)})
            winners = [part for part in answer.get("parts", "").split(",") if part]
            by_broker = stages.by_broker(winners)
            if author.counter:
                fields["decider"] = coordinator
                _put_last(by_broker, coordinator)
            count = yield from self._publish(fields, by_broker)
            losers = stages.by_broker(part for part in parts if part not in winners)
            rest = {broker: lost for broker, lost in losers.items() if broker not in by_broker}
            yield from self._abandon(sink, batch, rest)
            if forget:
                yield from self._forget(sink, batch, dict.fromkeys([coordinator, *by_broker]))
        finally:
            self.close()
        return Committed(count, winners == list(parts))

    def abort(self, sink: str, batch: int, parts: Sequence[str]) -> Course[None]:
        """Drop ``parts`` of a batch that failed; what cannot be reached is dropped by the brokers in time."""
        try:
            yield from self._abandon(sink, batch, stages.by_broker(parts))
        finally:
            self.close()

    def close(self) -> None:
        """Drop all connections."""
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _publish(self, fields: Mapping[str, str], by_broker: Mapping[str, Sequence[str]]) -> Course[int]:
        """Return how many messages are published."""
        count = 0
        for broker, won in by_broker.items():
            told = yield from self._ask(broker, "PUBLISH", {**fields, "parts": ",".join(won)})
            count += int(told.get("count", "0"))
        return count

    def _abandon(self, sink: str, batch: int, parts: Mapping[str, Sequence[str]]) -> Course[None]:
        for broker, names in parts.items():
            with contextlib.suppress(Unreachable):  # the broker drops them in time
                line = yield from self._line(broker, patient=False)
                yield from ask(line, "ABANDON", {"sink": sink, "batch": str(batch), "parts": ",".join(names)})

    def _forget(self, sink: str, batch: int, brokers: Iterable[str]) -> Course[None]:
        for broker in brokers:
            with contextlib.suppress(Unreachable):  # then an operator may: entrepot stage drop --forget
                line = yield from self._line(broker, patient=False)
                yield from ask(line, "ABANDON", {"sink": sink, "batch": str(batch), "forget": "true"})

    def _coordinator(self) -> Course[str]:
        """Return the broker that decides: the one that the first member of the url names, always the same one."""
        found: dict[str, Line] = {}
        failure: Unreachable | None = None
        for place in self.search.reach.groups[0]:
            try:
                line = yield from connect(place)
            except Unreachable as error:
                failure = failure or error
                continue
            if line.broker in found:
                line.close()
                continue
            found[line.broker] = line
            self.search.known[line.broker] = place
        self._lines.update(found)
        if len(found) > 1:
            raise InvalidOption(
                f"the places of the first member of the url are different brokers: {', '.join(found)}",
                remedy="failover:(...) means one broker that moves; write commas between brokers: the first "
                "decides what was published, so it must always be the same",
            )
        if not found:
            raise failure or Unreachable("the url names no place")
        return next(iter(found))

    def _ask(self, broker: str, command: str, fields: Mapping[str, str]) -> Course[Answer]:
        return (yield from self.search.patiently(lambda: self._ask_once(broker, command, fields)))

    def _ask_once(self, broker: str, command: str, fields: Mapping[str, str]) -> Course[Answer]:
        try:
            line = yield from self._line(broker, patient=True)
            return (yield from ask(line, command, fields))
        except Unreachable:
            lost = self._lines.pop(broker, None)
            if lost is not None:
                lost.close()
            raise

    def _line(self, broker: str, *, patient: bool) -> Course[Line]:
        line = self._lines.get(broker)
        if line is None:
            line = yield from self.search.open(broker) if patient else self.search.open_once(broker)
            self._lines[broker] = line
        return line


def _put_last(by_broker: dict[str, list[str]], coordinator: str) -> None:
    """Let the broker that decides publish last, also when nothing of the batch is there: it is done then everywhere.

    So it can tell a batch that is being repeated from one that is done and written a second time. A batch without any
    message is done when it is decided.
    """
    if by_broker:
        by_broker[coordinator] = by_broker.pop(coordinator, [])
