"""Offsets of a stream: how far it has come on each broker. What Spark keeps in its checkpoint, as JSON.

    {"version": 1, "source": "/queue/orders#loader",
     "shards": {"<broker>": 120, "<broker>": 80}, "first": {"<broker>": 0, "<broker>": 60}}

A *shard* is the part of a queue, or of a durable subscription, that one broker holds; it is named by the broker's
stable identity, which moves to whoever takes that broker's place; where a query
reads several queues, by `scope.key_of`. A position is the number of the next message not
yet read. The offset of a new query has no shards and is always the same, however often Spark asks for it. So ``first``
says where the query found each shard: a batch that is run again after its messages were settled is an error then, and
not a batch with fewer rows.

Decides whether an offset belongs to this source; never asks a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from entrepot.base.errors import InvalidOption

VERSION: Final = 1
EARLIEST: Final = "earliest"
LATEST: Final = "latest"


class Offsets(msgspec.Struct, frozen=True):
    """Positions by shard. ``source`` names queue and subscription, so that a foreign checkpoint is recognised."""

    source: str
    shards: dict[str, int]
    first: dict[str, int] = {}

    def as_json(self) -> dict[str, Any]:
        """Return what Spark keeps."""
        return {
            "version": VERSION,
            "source": self.source,
            **{name: dict(sorted(table.items())) for name, table in (("shards", self.shards), ("first", self.first))},
        }

    def moved(self, positions: Mapping[str, int], first: Mapping[str, int]) -> Offsets:
        """Return these offsets with the shards in ``positions`` moved on. A position never goes back.

        ``first``: where shards were found; it counts for those that were not known before.
        """
        shards = dict(self.shards)
        found = dict(self.first)
        for shard, position in positions.items():
            if shard not in shards and shard in first:
                found[shard] = first[shard]
            shards[shard] = max(position, shards.get(shard, position))
        return Offsets(self.source, shards, found)

    def without(self, shards: Iterable[str]) -> Offsets:
        """Return these offsets without ``shards``, whose queues were deleted: no key comes twice."""
        gone = [shard for shard in shards if shard in self.shards]
        if not gone:
            return self
        left = {shard: position for shard, position in self.shards.items() if shard not in gone}
        first = {shard: position for shard, position in self.first.items() if shard not in gone}
        return Offsets(self.source, left, first)


def source_name(destination: str, subscription: str) -> str:
    """Return how offsets name their source."""
    return f"{destination}#{subscription}"


def parse(given: object, source: str) -> Offsets:
    """Return what Spark gave back. Raises InvalidOption when it is of another source or of another format."""
    if not isinstance(given, Mapping):
        raise _foreign(f"it is {str(given)[:60]!r}")
    version = given.get("version")
    if version != VERSION:
        raise InvalidOption(
            f"the checkpoint holds offsets of version {version!r}; this entrepot reads version {VERSION}",
            remedy="use the entrepot that wrote it, or a new checkpoint",
        )
    if given.get("source") != source:
        raise InvalidOption(
            f"the checkpoint is of {given.get('source')!r}, and this query reads {source!r}",
            remedy="give every query a checkpoint of its own; a checkpoint keeps its queue and subscription for ever",
        )
    return Offsets(source, _positions(given.get("shards")), _positions(given.get("first", {})))


def parse_start(text: str, source: str) -> tuple[Offsets, dict[str, str]]:
    """Return the offsets of a new query, and how leases begin that are made for it: headers of ATTACH.

    ``text`` is the option ``startingPosition``. The offsets are the same however often Spark asks; where "latest" and
    a time lead to, each broker decides once, when it makes the lease, and keeps it. Raises InvalidOption.
    """
    if text == EARLIEST:
        return Offsets(source, {}), {}
    if text == LATEST:
        return Offsets(source, {}), {"from": LATEST}
    if text.startswith("{"):
        return _parse_positions(text, source), {}
    since = _moment(text)
    if since is None:
        raise _no_start(text, "it is no time either")
    if since <= 0:
        raise _no_start(text, "no message is that old")
    return Offsets(source, {}), {"from": str(since)}


def parse_end(text: str, source: str) -> dict[str, int] | None:
    """Return the positions that the option ``until`` says, by broker; None where it says a time.

    A position is where the query ends: the message there is not in. Written like those of ``startingPosition``, or as
    the offsets that Spark shows. Raises InvalidOption.
    """
    if not text.startswith("{"):
        return None
    try:
        given = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _no_end(text, str(error)) from None
    if "shards" in given and given.get("source") != source:
        raise _no_end(text, f"it is of {given.get('source')!r}, and this query reads {source!r}")
    ends = _positions(given.get("shards", given))
    if not ends:
        raise _no_end(text, "it names no broker")
    return ends


def _no_end(text: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"until is {text[:60]!r}: {why}",
        remedy='it is a time such as 2026-11-21T13:00:00Z, or positions: {"<broker>": 120}',
    )


def milliseconds(text: str, option: str) -> int:
    """Return the time that the ``option`` says, in ms since 1970. Raises InvalidOption."""
    found = _moment(text)
    if found is None or found <= 0:
        raise InvalidOption(
            f"{option} is {text[:60]!r}, which is no time after 1970", remedy="write one as 2026-11-21T13:00:00Z"
        )
    return found


def _moment(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _no_start(text: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"startingPosition is {text[:60]!r}: {why}",
        remedy='it is "earliest", "latest", a time such as 2026-11-21T13:00:00Z, or positions: {"<broker>": 120}',
    )


def _parse_positions(text: str, source: str) -> Offsets:
    try:
        given = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _no_start(text, str(error)) from None
    if isinstance(given, dict) and "shards" in given:
        return parse(given, source)
    return Offsets(source, _positions(given))


def _positions(given: object) -> dict[str, int]:
    if not isinstance(given, dict):
        raise _foreign(f"its positions are {str(given)[:60]!r}")
    for shard, position in given.items():
        if not isinstance(shard, str) or not isinstance(position, int) or isinstance(position, bool) or position < 0:
            raise _foreign(f"it says {shard!r}: {position!r}")
    return dict(given)


def _foreign(what: str) -> InvalidOption:
    return InvalidOption(f"these are no offsets of entrepot: {what}", remedy="give this query a checkpoint of its own")
