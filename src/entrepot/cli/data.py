"""`entrepot data`: what is in a data directory, and whether a broker could start from it. Changes nothing there.

`check` runs the very recovery that a broker runs, over a port that only pretends to repair; so it cannot say yes where
the broker would say no.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from entrepot.base.errors import BodyLost, CorruptJournal, StorageError, StoreLocked, StoreUnusable
from entrepot.cli.lazy import LazyGroup
from entrepot.cli.output import output_option, show, to_json
from entrepot.io.copying import ASIDE
from entrepot.io.lock import HELD, holder_of, unusable
from entrepot.journal.index import segment_range
from entrepot.journal.names import BATCH_MARK, segment_files
from entrepot.journal.ports import SCRATCH, JournalPort
from entrepot.journal.record import (
    BATCH_HEAD,
    RECORD_HEAD,
    batch_count,
    batch_length,
    batch_sequence,
    batch_synced,
    batch_valid,
    describe,
)
from entrepot.journal.recovery import Recovery

directory_argument = click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)

COLUMNS: Final = (
    "node",
    "segments",
    "octets",
    "messages",
    "documents",
    "torn",
    "bodies",
    "lost",
    "orphans",
    "leftovers",
)


class Spectacles(JournalPort):
    """The files of a data directory, to be looked at. What recovery changes is changed in memory, for itself to see.

    The operations that recovery never asks for stay those of `JournalPort`, which raise Fault.
    """

    def __init__(self, directory: Path) -> None:
        """Raises StoreUnusable where there is no journal."""
        self.directory = directory
        self.dropped: dict[str, None] = {}
        self.changed: dict[str, bytes] = {}
        self.orphans: list[int] = []
        self.folder = directory / "journal"
        if not self.folder.is_dir() and ASIDE.fullmatch(directory.name):
            self.folder = directory  # what a copy had that its primary had not: files, side by side
        if not self.folder.is_dir():
            raise StoreUnusable(
                f"{directory} holds no journal", remedy="name the directory that `entrepot run --data` was given"
            )

    def names(self) -> list[str]:
        """Return the names of segments and scratch files, but for those that recovery dropped."""
        found = sorted(path.name for path in self.folder.iterdir())
        return [name for name in found if name.endswith((".seg", SCRATCH)) and name not in self.dropped]

    def size(self, name: str) -> int:
        """Return the length of a file."""
        return len(self.changed[name]) if name in self.changed else self._path(name).stat().st_size

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return octets of a file."""
        if name in self.changed:
            return self.changed[name][offset : offset + length]
        try:
            with self._path(name).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise StorageError(f"cannot read {name}: {error.strerror}", remedy="check the disk") from error

    def cut(self, name: str, length: int) -> None:
        """Pretend to cut a file."""
        if self.size(name) > length:
            self.changed[name] = self.read(name, 0, length)

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Pretend to write behind what a cut left."""
        self.changed[name] = self.read(name, 0, offset) + head + body

    def drop(self, name: str) -> None:
        """Pretend to remove a file."""
        self.dropped[name] = None

    def blobs(self) -> list[int]:
        """Return the numbers of the large bodies."""
        folder = self.directory / "blobs"
        stems = [path.stem for path in folder.glob("*.blob")] if folder.is_dir() else []
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())

    def blob_size(self, blob_id: int) -> int:
        """Return the length of the file of a large body; -1 when there is none."""
        try:
            return self._body(blob_id).stat().st_size
        except FileNotFoundError:
            return -1

    def blob_read(self, blob_id: int, offset: int, length: int) -> bytes:
        """Return octets of the file of a large body."""
        try:
            with self._body(blob_id).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise BodyLost(f"it cannot be read: {error.strerror}") from error

    def _body(self, blob_id: int) -> Path:
        return self.directory / "blobs" / f"{int(blob_id)}.blob"

    def blob_drop(self, blob_id: int) -> None:
        """Pretend to remove a large body."""
        self.orphans.append(int(blob_id))

    def _path(self, name: str) -> Path:
        return self.folder / name


class Data(LazyGroup):
    """The commands of `entrepot data`."""

    modules: Mapping[str, str] = {"check": "data", "print": "data", "salvage": "salvage"}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; ``print`` is a name of Python's."""
        return print_ if cmd_name == "print" else super().get_command(ctx, cmd_name)


@click.group(
    cls=Data,
    epilog="""Examples:

    \b
    entrepot data check ./entrepot-data
    entrepot data print ./entrepot-data | less
    entrepot data salvage ./entrepot-data ./rescued
    entrepot data print ./entrepot-data --output json | grep '"batch":17'
    """,
)
def data() -> None:
    """Look into the data directory of a broker, or copy what can be read of it. Nothing there is changed."""


@click.command()
@directory_argument
@output_option
def check(*, directory: Path, output: str) -> None:
    """Say whether a broker could start from DIR, and what it would find.

    Reads every record and every large body, and compares every checksum. Exit code 1 when the journal is damaged in its
    middle: a broker would refuse it; `entrepot data salvage` makes a directory of what can be read. Exit code 1 also
    when large bodies are missing or damaged: a broker starts, and makes dead letters of their messages. A torn tail is
    no damage: nothing in it was ever confirmed, and the next start cuts it. Files in blobs/ to which no message refers
    are orphans; the next start removes them. The broker must not be running.
    """
    port = Spectacles(directory)
    with unused(directory):
        recovery = Recovery(port)
        try:
            recovery.run()
        except CorruptJournal as damage:
            remedy = (
                f"`entrepot data print {directory}` shows what can be read; restore the file, or let `entrepot data "
                f"salvage {directory} NEW` make a directory of all the rest"
            )
            raise CorruptJournal(damage.message, remedy=remedy) from damage
        bodies = dict.fromkeys(recovery.index.blob_of.values())
        lost = [flaw for body in bodies if (flaw := recovery.overflow.flaw_inside(body, *recovery.bodies[body]))]
    report = recovery.report
    torn = f"{report.torn_bytes} octets at {report.torn_segment}:{report.torn_offset}" if report.torn_segment else ""
    leftovers = [name for name in port.dropped if name != report.torn_segment]
    row: dict[str, Any] = {
        "node": report.node,
        "segments": int(report.segments),
        "octets": int(report.bytes),
        "messages": int(report.messages),
        "documents": int(report.documents),
        "torn": torn,
        "bodies": len(bodies),
        "lost": len(lost),
        "orphans": len(port.orphans),
        "leftovers": len(leftovers),
    }
    show([row], COLUMNS, output)
    if torn:
        click.echo(f"a torn tail: {torn} were never confirmed to anybody; the next start cuts them", err=True)
    for number in port.orphans:
        click.echo(f"an orphan: no message refers to blobs/{number}.blob; the next start removes it", err=True)
    for flaw in lost:
        click.echo(flaw, err=True)
    if lost:
        raise BodyLost(
            f"{len(lost)} large bodies are lost", remedy="restore their files, or start: their messages die alone"
        )


@click.command(name="print")
@directory_argument
@click.option("--segment", metavar="NAME", help="Only this file.")
@output_option
def print_(*, directory: Path, segment: str | None, output: str) -> None:
    """Print every batch and every record in the journal of DIR, in the order in which they were written.

    Where a segment is damaged it says so and goes on at the next batch that can be read.
    """
    port = Spectacles(directory)
    names, _ = segment_files(port.names())
    if segment is not None and segment not in names:
        raise StoreUnusable(f"there is no segment {segment} in {directory}", remedy="there are: " + " ".join(names))
    for name in names if segment is None else [segment]:
        for row in _rows(name, port.read(name, 0, port.size(name))):
            if output == "json":
                click.echo(to_json({"segment": name, **row}))
            elif "record" in row:
                click.echo(f"{name}:{row['offset']}    {row['record']}")
            elif "batch" in row:
                click.echo(
                    f"{name}:{row['offset']}  batch {row['batch']}, {row['records']} records, {row['octets']} octets, "
                    f"on disk when it was written: up to batch {row['synced']}"
                )
            else:
                click.echo(f"{name}:{row['offset']}  DAMAGED or unfinished: {row['damaged']} octets")


def _rows(name: str, octets: bytes) -> Iterator[dict[str, Any]]:
    """Yield batches, their records, and stretches that are neither readable nor zeros."""
    first = segment_range(name)[0]
    written = len(octets.rstrip(b"\0"))
    at = 0
    while at < len(octets):
        if not batch_valid(octets, at, first, at):
            following = octets.find(BATCH_MARK, at + 1)
            while following >= 0 and not batch_valid(octets, following, first, following):
                following = octets.find(BATCH_MARK, following + 1)
            end = following if following >= 0 else written
            if end > at:
                yield {"offset": at, "damaged": end - at}
            if following < 0:
                return
            at = following
        place = at + BATCH_HEAD
        end = place + int(batch_length(octets, at))
        batch = int(batch_sequence(octets, at))
        yield {
            "offset": at,
            "batch": batch,
            "records": int(batch_count(octets, at)),
            "octets": end - at,
            "synced": int(batch_synced(octets, at)),
        }
        while place < end:
            yield {"offset": place, "in_batch": batch, "record": describe(octets, place)}
            place += RECORD_HEAD + int.from_bytes(octets[place : place + 4], "big")
        at = end


@contextmanager
def unused(directory: Path) -> Iterator[None]:
    """Hold the locks of a data directory as a reader. Raises StoreLocked while a broker runs on it."""
    descriptors: list[int] = []
    try:
        for path in (directory / "LOCK", directory):
            try:
                descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                fcntl.flock(descriptors[-1], fcntl.LOCK_SH | fcntl.LOCK_NB)
            except FileNotFoundError:  # a copy of a directory, without its lock
                continue
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EPERM) and not os.access(path, os.R_OK):
                    raise unusable(directory, error) from error
                if error.errno not in HELD:
                    continue  # a file system without locks, of directories at least
                holder = "another process" if path == directory else holder_of(descriptors[-1])
                raise StoreLocked(
                    f"the data directory {directory} is in use by {holder}", remedy="stop that broker first, or copy it"
                ) from error
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
