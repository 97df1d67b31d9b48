"""Compaction: many small files of one hour become few large ones, with the same rows.

The large files are written where nobody looks; their rows are counted; then one decision says which files take the
place of which, and is carried out: whoever dies in the middle leaves a decision that the next run carries out. `files`
is how the jobs see an archive, and heeds decisions: for them no row is ever there twice or not at all. A program that
reads the folders itself may see a row twice, or miss a file, for the moment in which files change places.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from entrepot.base.errors import InvalidOption, StorageError
from entrepot.pipeline.jobs import layout
from entrepot.pipeline.jobs.archive import Archive, Batch, stored_columns
from entrepot.pipeline.jobs.layout import Kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_OCTETS: Final = 32 << 20  # smaller ones are put together
STALE_MS: Final = 7 * 24 * 3_600_000  # a batch that takes longer has other troubles
TARGET_OCTETS: Final = 128 << 20  # a block of HDFS, and a row group of Parquet


class Change(msgspec.Struct, frozen=True):
    """A decision: ``sources`` (in staging) get the places ``files``, and ``replaced`` go."""

    id: str
    staging: str
    sources: list[str]
    files: list[Kept]
    replaced: list[Kept]

    @property
    def rows(self) -> int:
        """How many messages changed files."""
        return sum(file.rows for file in self.files)


class Compacted(msgspec.Struct, frozen=True):
    """What a compaction did."""

    partitions: int
    rows: int
    files_before: int
    files_after: int
    octets_before: int
    octets_after: int


def files(archive: Archive, wanted: Callable[[str], bool] = lambda path: True) -> list[tuple[str, int]]:
    """Return the files of an archive whose path is ``wanted``, as (path, octets), with each row in one of them."""
    storage = archive.storage
    found = dict(storage.files())
    for change in pending(archive):
        for file in change.replaced:
            found.pop(file.path, None)
        for source, file in zip(change.sources, change.files, strict=True):
            if file.path not in found and storage.exists(source):  # still to be moved
                apply(archive, change)
                return files(archive, wanted)
    return [(path, octets) for path, octets in sorted(found.items()) if wanted(path)]


def rows(archive: Archive, wanted: Callable[[str], bool] = lambda path: True) -> DataFrame:
    """Return the messages in the `files` that are ``wanted``. Raises InvalidOption for one that is no archive's."""
    found = [path for path, _ in files(archive, wanted)]
    for path in found:
        archive.storage.look(path, 0)
    return archive.read(found)


def pending(archive: Archive) -> list[Change]:
    """Return what is decided and not yet carried out."""
    return [msgspec.json.decode(text, type=Change) for text in _decisions(archive, layout.COMPACTIONS)]


def _decisions(archive: Archive, folder: str) -> Iterator[str]:
    """Yield the decisions that are written down in ``folder``; one may go meanwhile."""
    for name in archive.storage.names(folder):
        text = archive.storage.read(f"{folder}/{name}") if name.endswith(".json") else None
        if text:
            yield text


def apply(archive: Archive, change: Change) -> None:
    """Carry out a decision; it does not matter how often, or by how many at once."""
    storage = archive.storage
    for source, file in zip(change.sources, change.files, strict=True):
        storage.move(source, file.path)
    storage.sync(file.path for file in change.files)  # before what they replace is gone
    for file in change.replaced:
        storage.remove(file.path)
    storage.remove(change.staging)
    storage.remove(f"{layout.COMPACTIONS}/{change.id}.json")


def tidy(archive: Archive, now_ms: int) -> int:
    """Remove staging that no decision names and that is older than any run that could still decide; return how much."""
    storage = archive.storage
    named = dict.fromkeys(change.staging for change in pending(archive))
    for query in storage.names(layout.BATCHES):
        for text in _decisions(archive, f"{layout.BATCHES}/{query}"):
            named[msgspec.json.decode(text, type=Batch).staging] = None
    old = [name for name, age in storage.ages(layout.STAGING, now_ms).items() if age > STALE_MS]
    gone = [name for name in old if f"{layout.STAGING}/{name}" not in named]
    for name in gone:
        storage.remove(f"{layout.STAGING}/{name}")
    return len(gone)


def compact(
    archive: Archive,
    *,
    small: int = SMALL_OCTETS,
    target: int = TARGET_OCTETS,
    told: Callable[[str, int], None] = lambda partition, rows: None,
) -> Compacted:
    """Put files below ``small`` octets together, in each hour that has two or more. One run at a time.

    Queries may go on writing into the archive meanwhile. Raises InvalidOption for a file that is not of the archive.
    """
    if not 0 < small <= target:
        raise InvalidOption(f"files below {small} octets cannot become files of {target}", remedy="0 < small <= target")
    for change in pending(archive):
        apply(archive, change)
    partitions: dict[str, list[tuple[str, int]]] = {}
    for path, octets in archive.storage.files():
        if octets < small:
            partitions.setdefault(layout.partition_of(path), []).append((path, octets))
    changes: list[Change] = []
    for partition, found in partitions.items():
        if len(found) < 2:
            continue
        change = _prepare(archive, partition, found, target)
        archive.storage.write(f"{layout.COMPACTIONS}/{change.id}.json", msgspec.json.encode(change).decode())
        apply(archive, change)
        changes.append(change)
        told(partition, change.rows)
    return Compacted(
        partitions=len(changes),
        rows=sum(change.rows for change in changes),
        files_before=sum(len(change.replaced) for change in changes),
        files_after=sum(len(change.files) for change in changes),
        octets_before=sum(file.octets for change in changes for file in change.replaced),
        octets_after=sum(file.octets for change in changes for file in change.files),
    )


def _prepare(archive: Archive, partition: str, found: Sequence[tuple[str, int]], target: int) -> Change:
    storage = archive.storage
    replaced = [storage.look(path, octets) for path, octets in found]
    number = uuid.uuid4().hex
    staging = f"{layout.STAGING}/compaction-{number}"
    count = -(-sum(file.octets for file in replaced) // target)
    together = archive.read([file.path for file in replaced]).select(*stored_columns())
    together = together.coalesce(1) if count == 1 else together.repartitionByRange(count, "time")
    together = together.sortWithinPartitions("time", "broker", "position")
    together.write.mode("overwrite").parquet(storage.path(staging))
    written = [storage.look(path, octets) for path, octets in storage.files(staging)]
    before, after = sum(file.rows for file in replaced), sum(file.rows for file in written)
    if before != after:
        storage.remove(staging)
        raise StorageError(
            f"{partition} has {before} messages, and {after} when they are put together; nothing was changed",
            remedy="see whether other programs write into the archive",
        )
    places = [f"{partition}/compact-{number[:12]}-{at:04}.parquet" for at in range(len(written))]
    made = [Kept(place, file.rows, file.octets) for place, file in zip(places, written, strict=True)]
    return Change(number, staging, [file.path for file in written], made, replaced)
