"""The files of a broker on this machine, which a task reads itself: the form ``located`` (docs/formats/ranges.md).

Whoever may not read them, or finds another file in their place, is no worse off: the broker is asked for the messages.
A broker that lies gets nothing out of it: only what is a whole record of a journal becomes a row.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

from entrepot.protocols.languages import offer_languages
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.frames import Frame
from entrepot.protocols.stomp.located import File, Locations
from entrepot.protocols.stomp.recorded_rows import RecordedRows

offer_languages()

GAP_OCTETS: Final = 16 * 1024  # two records that are no further apart are read at once: cheaper than a second call
FILES_OPEN_MAX: Final = 4  # what the broker removes stays on the disk as long as one of them is it


class Files:
    """Those that are open, of which the oldest is closed where there are many."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}

    def read(self, file: File, offset: int, length: int) -> bytes:
        """Return octets of ``file``, fewer where it ends. Raises OSError, also where another one has its name."""
        descriptor = self._open.get(file.path)
        if descriptor is None:
            descriptor = _opened(file)
            if len(self._open) >= FILES_OPEN_MAX:
                os.close(self._open.pop(next(iter(self._open))))
            self._open[file.path] = descriptor
        return os.pread(descriptor, length, offset)

    def close(self) -> None:
        """Close them."""
        for descriptor in self._open.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._open.clear()


def _opened(file: File) -> int:
    descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (found.st_dev, found.st_ino) != (file.device, file.inode):
        os.close(descriptor)
        raise FileNotFoundError(f"another file has the name {file.path}")
    return descriptor


class PlacedRows:
    """The messages that one frame tells the places of, as rows of ``columns``. ``row``: the next one."""

    def __init__(self, frame: Frame, files: Files, columns: Columns, octets: int) -> None:
        """``octets``: that are read at once, at most, unless a record alone is longer. Raises MalformedFrame."""
        self.row = 0
        self._most = octets
        self._data = b""  # of the records up to row ``_end``, from ``_start`` in their file on
        self._start = 0
        self._end = 0
        self._files = files
        self._columns = columns
        self._places = Locations(frame.body)
        self._rows = RecordedRows(frame.headers.get("prefix", "").encode(), frame.headers.get("kind", "").encode())

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self._places.count)

    def filling(self, asked: int) -> int:
        """Return how many messages to ask for, so that one read has all that it told of; ``asked``: the last time."""
        places = self._places
        end = int(places.stretch(0, GAP_OCTETS, self._most))
        octets = int(places.offset(end - 1) + places.length(end - 1) - places.offset(0))
        if end < self.count and octets < self._most // 2:
            return asked  # another file, or a gap, was the end of it
        return max(end * self._most * 15 // 16 // octets, 1)

    def add(self, position: int) -> int:
        """Append some rows, the first of which is at ``position`` in the ledger; return how many.

        0: the broker has to be asked for the message at ``row``; the caller goes past it.
        """
        if self.row >= self._end and not self._read():
            return 0
        begun = self.row
        rows, places = self._rows, self._places
        self.row = int(rows.add(self._columns, places, begun, self._end, position, self._data, self._start))
        return self.row - begun

    def _read(self) -> bool:
        """Read the records from ``row`` on that are close to one another; False: they are not to be had."""
        places = self._places
        end = int(places.stretch(self.row, GAP_OCTETS, self._most))
        start = int(places.offset(self.row))
        length = int(places.offset(end - 1) + places.length(end - 1)) - start
        self._data = b""  # its memory is that of the next stretch
        try:
            self._data = self._files.read(places.files[int(places.file(self.row))], start, length)
        except OSError:
            return False
        self._start, self._end = start, end
        return True
