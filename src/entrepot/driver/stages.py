"""Bookkeeping of staged commits: what tasks staged where, and what is to be said to which broker. No sockets.

A *part* is what one attempt of one task staged on one broker. Its name holds the broker's identity, so that whoever
reads the decision knows where each part is, also when it was taken by a driver that is dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from entrepot.base.errors import ProtocolViolation, StageError


class Author(msgspec.Struct, frozen=True):
    """Who counts the batches of a sink, as the brokers are told: so that no batch is taken for another's.

    ``counter``: the query, the same over restarts. ``start``: one run of it. ``write``: one write of that run.
    ``query``: it is one of Spark's, which repeats its last batch by itself; this is not said.
    """

    counter: str = ""
    start: str = ""
    write: str = ""
    query: bool = False

    def headers(self) -> dict[str, str]:
        """Return the headers that say it; none for a sink that is used once."""
        said = {"counter": self.counter, "start": self.start, "write": self.write}
        return {name: value for name, value in said.items() if value}


class Staged(msgspec.Struct, frozen=True):
    """What one attempt of one task leaves behind for the driver.

    ``octets`` of messages are in the part; its broker shows up to ``at_once`` of one batch at one moment, 0: unknown.
    """

    sink: str
    batch: int
    part: str
    count: int
    octets: int = 0
    at_once: int = 0
    author: Author = Author()


class Committed(msgspec.Struct, frozen=True):
    """What became of a batch: ``count`` messages are published; ``ours``: they are the parts that were offered."""

    count: int
    ours: bool


def part_name(broker: str, token: str) -> str:
    """Return the name of a part on ``broker``; ``token`` is new for each attempt."""
    return f"{broker}~{token}"


def broker_of(part: str) -> str:
    """Return on which broker a part is. Raises ProtocolViolation for a name that we did not give."""
    broker, mark, _ = part.rpartition("~")
    if not mark:
        raise ProtocolViolation(f"the part {part[:60]!r} names no broker", remedy="another program uses this sink")
    return broker


def by_broker(parts: Iterable[str]) -> dict[str, list[str]]:
    """Return the parts of each broker, in order."""
    found: dict[str, list[str]] = {}
    for part in parts:
        found.setdefault(broker_of(part), []).append(part)
    return found


def candidates(messages: Sequence[Staged | None]) -> list[str]:
    """Return the parts that may win: of every task its successful attempt; a task without rows has none."""
    return [message.part for message in messages if message is not None and message.part]


def sinks(messages: Sequence[Staged | None]) -> str:
    """Return the sink that all ``messages`` agree on, "" when there are none."""
    found = dict.fromkeys(message.sink for message in messages if message is not None)
    if len(found) > 1:
        raise ProtocolViolation(f"one batch was staged under several sinks: {', '.join(found)}")
    return next(iter(found), "")


def batch_of(messages: Sequence[Staged | None]) -> int:
    """Return the batch number that all ``messages`` agree on."""
    found = dict.fromkeys(message.batch for message in messages if message is not None)
    if len(found) != 1:
        raise ProtocolViolation(f"tasks of one batch staged under the numbers {list(found)}")
    number: int = next(iter(found))
    return number


def author_of(messages: Sequence[Staged | None]) -> Author:
    """Return who all ``messages`` say that they are from."""
    found = list(dict.fromkeys(message.author for message in messages if message is not None))
    if len(found) > 1:
        raise ProtocolViolation(f"tasks of one batch were staged for {len(found)} queries or runs")
    return found[0] if found else Author()


def difference(sink: str, batch: int, committed: Committed, offered: int) -> str:
    """Return what is to be said when a batch was decided before with another number of messages, "" for nothing."""
    if committed.ours or committed.count == offered:
        return ""
    return (
        f"batch {batch} of the sink {sink!r} was decided before with {committed.count} messages, and those are "
        f"published; this time it would have been {offered}, and nothing of that was"
    )


def check_at_once(messages: Sequence[Staged | None]) -> None:
    """Raise StageError when a broker would show this batch in several steps. Say it before the batch is decided."""
    octets: dict[str, int] = {}
    for message in messages:
        if message is None or not message.part:
            continue
        broker = broker_of(message.part)
        octets[broker] = octets.get(broker, 0) + message.octets
        if octets[broker] > message.at_once:
            raise StageError(
                f"batch {message.batch} of {message.sink!r} is too large to be seen at one moment: it has more than "
                f"{message.at_once} octets on the broker {broker}; nothing of it was published",
                remedy="make batches smaller (maxMessagesPerTrigger), name more brokers in url, or let it become "
                "visible in steps: commit.atomic=false",
            )
