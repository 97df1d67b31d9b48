"""The broker's side of the form ``batch``: one frame of a READ, filled entry by entry (docs/formats/ranges.md). [C]

What is plain goes from the octets of its record in the journal straight to where the connection writes, and no message
is made of it; anything else is written as the message that it is. Both ways write the same octets.

The head of a frame says how many entries and octets follow. It is written first, with zeros in the place of both
numbers; when they turn out to have as many digits as there are zeros they are written there, otherwise the frame is
written anew.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.core.identities import Identities
from entrepot.core.queue.queue import Queue
from entrepot.journal.reading import Records
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.stomp.entry import Entry
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.ranges import FORM, REDELIVERED, write_entry

LENGTH_DIGITS: Final = 6  # of a frame that nothing is known of yet


def kind_of(queue: Queue) -> str:
    """Return what stands before the address of a message of ``queue`` in its destination."""
    return "/topic/" if queue.routing == MULTICAST else "/queue/"


class Entries:
    """Frames of one page. ``digits``: how many the length of a frame has, for whoever begins the next page."""

    def __init__(
        self, outlet: Outlet, ids: Identities, queue: Queue, subscription: str, version: i64, most: i64, digits: i64
    ) -> None:
        """``most``: entries that a frame will have, if nothing comes between."""
        self.outlet: Outlet = outlet
        self.writer: BytesWriter = outlet.out
        self.ids: Identities = ids
        self.queue: Queue = queue
        self.subscription: str = subscription
        self.version: i64 = version
        self.most: i64 = most
        self.digits: i64 = digits
        self.count: i64 = 0  # entries of the frame that is open
        self.start: i64 = 0  # of it
        self.numbers_at: i64 = 0
        self.count_at: i64 = 0
        self.count_digits: i64 = 0
        self.length_at: i64 = 0
        self.body_at: i64 = 0
        self.entry: Entry = Entry(ids.prefix.encode(), kind_of(queue).encode())

    @property
    def length(self) -> i64:
        """Octets of the entries in the frame that is open."""
        return len(self.writer) - self.body_at if self.count > 0 else 0

    def add_record(self, records: Records, position: i64, deliveries: i64) -> bool:
        """Append the message whose record was gone to, if that is plain, of STOMP and whole; else return False."""
        if not self.entry.of_record(records.data, records.at, records.end, records.number):
            return False
        self._write(position, deliveries)
        return True

    def add(self, message: Message, position: i64, deliveries: i64) -> None:
        """Append a message whose body is in memory."""
        self.entry.of_message(message)
        self._write(position, deliveries)

    def _write(self, position: i64, deliveries: i64) -> None:
        if self.count == 0:
            self._begin(position)
        entry = self.entry
        write_entry(
            self.writer,
            position,
            entry.timestamp,
            entry.expiration,
            entry.priority,
            entry.flags | REDELIVERED if deliveries > 0 else entry.flags,
            deliveries,
            entry.identity.whole(),
            entry.destination,
            entry.lines,
            entry.body(),
        )
        self.count += 1

    def end(self) -> i64:
        """End the frame that is open, if there is one; return how many entries it has."""
        count = self.count
        if count == 0:
            return 0
        writer = self.writer
        length = b"%d" % int(len(writer) - self.body_at)
        counted = b"%d" % int(count)
        if len(length) == self.digits and len(counted) == self.count_digits:
            _overwrite(writer, self.count_at, counted)
            _overwrite(writer, self.length_at, length)
        else:
            self.digits = len(length)
            body = writer.getvalue()[self.body_at :]
            writer.truncate(self.numbers_at)
            self._write_numbers(counted, length)
            writer.write(body)
        writer.write(b"\0\n")
        self.count = 0
        return count

    def drop(self) -> None:
        """Take back the frame that is open, if there is one."""
        if self.count > 0:
            self.writer.truncate(self.start)
            self.count = 0

    def _begin(self, position: i64) -> None:
        """Write the head of a frame whose first entry is the message at ``position``."""
        writer = self.outlet.out  # another one where a large body came before
        self.writer = writer
        self.start = len(writer)
        queue = self.queue
        writer.write(b"MESSAGE\n")
        headers = {
            "subscription": self.subscription,
            "destination": kind_of(queue) + queue.address,
            "message-id": f"{self.ids.node_id}:{queue.name}:{int(position)}",
            "form": FORM,
            "position": str(int(position)),
        }
        write_headers(writer, headers, self.version)
        self.numbers_at = len(writer)
        counted = b"%d" % int(self.most)
        self.count_digits = len(counted)
        self._write_numbers(counted, b"0" * int(self.digits))

    def _write_numbers(self, count: bytes, length: bytes) -> None:
        writer = self.writer
        writer.write(b"count:")
        self.count_at = len(writer)
        writer.write(count)
        writer.write(b"\ncontent-type:application/x-entrepot-range\ncontent-length:")
        writer.write(length)
        writer.write(b"\n\n")
        self.body_at = len(writer)
        self.length_at = self.body_at - 2 - len(length)


def _overwrite(writer: BytesWriter, at: i64, octets: bytes) -> None:
    for octet in octets:
        writer[at] = octet
        at += 1
