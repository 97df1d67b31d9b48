"""The chain of a trace: each segment that is closed is sealed, with what it holds and the segment before it.

A seal is 72 octets at the end of the head's page (docs/formats/trace.md). Its *link* is the SHA-256 of the link before
it and of all that the file holds but the seal, so whoever changes an octet of a closed segment, or takes a segment out
of the row, would have to write every later seal anew. The last link stands for the whole row: who keeps it elsewhere
finds that too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final
from zlib import crc32

PAGE_OCTETS: Final = 4096  # the head of a segment: `traces.HEAD_OCTETS`
MARK: Final = b"SEAL"
LINK_OCTETS: Final = 32
FORM: Final = struct.Struct(f"<4sI{LINK_OCTETS}s{LINK_OCTETS}s")  # mark, checksum of what follows, link before, link
AT: Final = PAGE_OCTETS - FORM.size
NONE: Final = bytes(LINK_OCTETS)  # before the first
ADOPTED_MAX: Final = 4  # segments that a broker seals for the run before it, which was killed: one, and spares


class Sealed:
    """One segment of a row. ``before`` and ``link`` are of its seal, "" without one; ``found``: what its link would be.

    All in hexadecimal digits.
    """

    def __init__(self, path: str, before: str, link: str, found: str) -> None:
        self.path: Final = path
        self.before: Final = before
        self.link: Final = link
        self.found: Final = found

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return Path(self.path).name


def link_of(before: bytes, data: bytes | memoryview) -> bytes:
    """Return the link of a segment that holds ``data``, behind the link ``before``."""
    from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL, and few brokers write traces

    made = sha256(before)
    made.update(data[:AT])
    made.update(data[PAGE_OCTETS:])
    return made.digest()


def seal(before: bytes, link: bytes) -> bytes:
    """Return the octets that are written at `AT`."""
    return FORM.pack(MARK, crc32(before + link), before, link)


def read(data: bytes | memoryview) -> tuple[bytes, bytes] | None:
    """Return the link before, and its own, of the segment that begins with ``data``; None where it has no seal.

    One that a kill tore is none.
    """
    if len(data) < PAGE_OCTETS:
        return None
    mark, check, before, link = FORM.unpack_from(data, AT)
    return (before, link) if mark == MARK and check == crc32(before + link) else None


def look(path: Path, data: bytes | None = None) -> Sealed:
    """Return what ``path`` says, and what it should say. Raises OSError."""
    held = path.read_bytes() if data is None else data
    found = read(held)
    if found is None:
        return Sealed(str(path), "", "", "")
    before, link = found
    return Sealed(str(path), before.hex(), link.hex(), link_of(before, held).hex())


def adopt(paths: Sequence[Path]) -> bytes:
    """Seal what a run that was killed left without; return the last link, `NONE` for an empty row. Raises OSError.

    ``paths``: the segments of one broker, the oldest first. What is older than `ADOPTED_MAX`, and has no seal, was
    written by a version that sealed none: the chain begins behind it.
    """
    older = paths[-ADOPTED_MAX - 1 : -ADOPTED_MAX]
    last = (read(older[0].read_bytes()) or (NONE, NONE))[1] if older else NONE
    for path in paths[-ADOPTED_MAX:]:
        data = path.read_bytes()
        found = read(data)
        if found is None and data[:8].strip(b"\0") and len(data) >= PAGE_OCTETS:  # else a spare, without a head
            found = last, link_of(last, data)
            with path.open("r+b") as file:
                file.seek(AT)
                file.write(seal(*found))
        if found is not None:
            last = found[1]
    return last


def wrong(row: Sequence[Sealed]) -> list[str]:
    """Return a sentence for each place where the chain of one broker does not hold; ``row``: the oldest first.

    What has no seal at the end is in use, or its broker was killed and has not been started again. What has none at the
    beginning was written by a version that sealed none. In between every segment has one.
    """
    said = [
        f"{one.name} was changed after it was closed: its seal is of something else"
        for one in row
        if one.link and one.link != one.found
    ]
    places = [at for at, one in enumerate(row) if one.link]
    if not places:
        return said
    first, end = places[0], places[-1] + 1
    said += [f"{one.name} has no seal, and later ones have" for one in row[first:end] if not one.link]
    if first and row[first].before != NONE.hex():
        said.append(f"the seal of {row[first - 1].name} was taken away, or it is another segment")
    said += [
        f"{behind.name} does not follow {ahead.name}: a segment between them is missing, or one is another"
        for ahead, behind in pairwise(row[first:end])
        if ahead.link and behind.link and behind.before != ahead.link
    ]
    return said
