"""The reports of the Spark jobs in one directory: found, and read one by one.

Each was written by somebody else, and so was what it is called. Nothing is followed that is a link, nothing is opened
that is no plain file, and no path leads out of the directory: each part of it is opened from the one before. A look
takes so many entries and no more, and of each file no more than it needs to say what it is.
"""

from __future__ import annotations

import html
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final

import msgspec

from entrepot.base.errors import LimitExceeded, Refused

DEPTH: Final = 4  # directories below the first that are looked into
ENTRIES_MOST: Final = 5_000  # of one look
SHOWN_MOST: Final = 200
HEAD_OCTETS: Final = 64 * 1024  # of a file, to say what it is
REPORT_OCTETS: Final = 16 * 1024 * 1024  # of a report that is opened
SENTENCE: Final = 300  # characters
KIND: Final = 40
PAGE: Final = "report.html"
SUMMARY: Final = "summary.json"
BESIDE: Final = (SUMMARY, "report.txt")  # of a job that leaves all three
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}
NO_PART: Final = ("", ".", "..")
TITLE: Final = re.compile(rb"<title>([^<]*)</title>", re.IGNORECASE)


class Report(msgspec.Struct, frozen=True):
    """One report. ``at``: s since 1970 when it was written; ``good``: None where it does not say."""

    place: str
    kind: str
    sentence: str
    good: bool | None
    at: float
    octets: int


class Reports:
    """Those in ``directory``."""

    def __init__(self, directory: str) -> None:
        self.directory: Final = directory

    def listed(self) -> tuple[list[Report], bool]:
        """Return the newest `SHOWN_MOST`, and whether that is all there is. Raises Refused: there is no directory."""
        try:
            top = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise Refused(
                f"{self.directory} cannot be read: {error.strerror}", remedy="name a directory in --reports"
            ) from error
        look = _Look()
        with _closing(top):
            look.into(top, "", DEPTH)
        look.found.sort(key=lambda report: (-report.at, report.place))
        return look.found[:SHOWN_MOST], not look.ended and len(look.found) <= SHOWN_MOST

    def read(self, place: str) -> tuple[bytes, str]:
        """Return a report and its type. Raises Refused for what is none, LimitExceeded for one that is too large."""
        parts = place.split("/")
        kind = TYPES.get(os.path.splitext(place)[1])
        if kind is None or any(part in NO_PART or part.startswith(".") or "\0" in part for part in parts):
            raise Refused(f"{place[:80]!r} is no report", remedy="see Reports")
        try:
            with self._opened(parts) as file:
                facts = os.fstat(file)
                if not stat.S_ISREG(facts.st_mode):
                    raise Refused(f"{place[:80]!r} is no report", remedy="see Reports")
                body = _octets(file, REPORT_OCTETS + 1)
        except (OSError, ValueError) as error:  # ValueError: it cannot be encoded for this disk
            raise Refused(f"there is no report {place[:80]!r}", remedy="see Reports") from error
        if len(body) > REPORT_OCTETS:
            raise LimitExceeded(f"{place[:80]!r} has more than {REPORT_OCTETS:,} octets", remedy="open it where it is")
        return body, kind

    @contextmanager
    def _opened(self, parts: list[str]) -> Iterator[int]:
        held = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=held)
                os.close(held)
                held = below
            file = _plain(parts[-1], held)
        finally:
            os.close(held)
        with _closing(file):
            yield file


class _Look:
    """One look through the directory. ``ended``: there is more of it than a look takes."""

    def __init__(self) -> None:
        self.found: Final[list[Report]] = []
        self.ended = False
        self._left = ENTRIES_MOST

    def into(self, directory: int, place: str, depth: int) -> None:
        """Find the reports in a directory that is open, and below it."""
        with os.scandir(directory) as every:
            entries = list(islice(every, self._left + 1))
        self.ended = self.ended or len(entries) > self._left
        self._left -= min(self._left, len(entries))
        names = {entry.name for entry in entries}
        job = {PAGE, SUMMARY} <= names
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.startswith(".") or not entry.name.isprintable():  # octets that are no text are not, either
                continue
            if entry.is_dir(follow_symlinks=False):
                self._below(directory, entry.name, place, depth)
            elif entry.is_file(follow_symlinks=False) and not (job and entry.name in BESIDE):
                self._take(directory, entry.name, place, job=job and entry.name == PAGE)

    def _below(self, directory: int, name: str, place: str, depth: int) -> None:
        if not depth or name.endswith(".parquet") or not self._left:
            return
        with suppress(OSError):  # it is gone, or may not be read
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
            with _closing(below):
                self.into(below, f"{place}{name}/", depth - 1)

    def _take(self, directory: int, name: str, place: str, *, job: bool) -> None:
        kind = os.path.splitext(name)[1]
        if kind not in TYPES:
            return
        with suppress(OSError):
            file = _plain(name, directory)
            with _closing(file):
                facts = os.fstat(file)
                head = _octets(file, HEAD_OCTETS)
            said = _summary(directory) if job else _said(kind, head)
            told = str(said.get("kind") or kind[1:]), str(said.get("sentence") or "")
            good = said.get("good") if isinstance(said.get("good"), bool) else None
            report = Report(place + name, told[0][:KIND], told[1][:SENTENCE], good, facts.st_mtime, facts.st_size)
            self.found.append(report)


def _summary(directory: int) -> dict[str, Any]:
    """Return what a job says of itself in few words (`pipeline/jobs/related.py`)."""
    file = _plain(SUMMARY, directory)
    with _closing(file):
        return _mapping(_octets(file, HEAD_OCTETS))


def _said(kind: str, head: bytes) -> dict[str, Any]:
    """Return what a file without a summary says: its title, or its first line."""
    if kind == ".json":
        told = _mapping(head)
        return {
            "sentence": told.get("title", ""),
            "kind": ", ".join(key for key in told if isinstance(told[key], list)),
        }
    if kind == ".html":
        title = TITLE.search(head)
        return {} if title is None else {"sentence": html.unescape(title[1].decode("utf-8", "replace")).strip()}
    return {"sentence": head.partition(b"\n")[0].decode("utf-8", "replace").strip()}


def _mapping(text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _plain(name: str, directory: int) -> int:
    """Open a file of a directory; a pipe waits for nobody, and a link is not followed."""
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)


def _octets(file: int, most: int) -> bytes:
    found = bytearray()
    while len(found) < most and (more := os.read(file, min(1 << 20, most - len(found)))):
        found += more
    return bytes(found)


@contextmanager
def _closing(file: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(file)
