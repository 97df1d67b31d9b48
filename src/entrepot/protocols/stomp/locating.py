"""The broker's side of the form ``located``: a reader on this machine is told where messages are, and reads its files.

Nothing of a message is read here, copied or sent, so a message of any length costs as much as any other. [C]

Who may: whoever the operating system lets read the data directory, which is its owner. What is told is a name and two
numbers, and only to a peer of this machine. What stands where it is told stays as it is, or is gone with its file, so
a reader that comes too late finds nothing, and asks for the messages themselves.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.leases.lease import Lease, located
from entrepot.journal.index import Segment
from entrepot.journal.log import JournalCore
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp.entries import kind_of
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.located import FILES_MAX, FORM, File, Located
from entrepot.protocols.stomp.writing import Writing

PLACES_MAX: Final = 8_192  # in one answer: 160 KiB
ROWS_SHIFT: Final = 3  # so many places are a unit of work, whether there is something to tell of them or not


def write_places(session: ServerSession, writing: Writing, lease: Lease, epoch: int, low: int, high: int) -> int:
    """Write one frame of where the messages from ``low`` on are; return the position behind the last of them.

    That is ``low`` where the reader has to ask for the messages. Raises LeaseError.
    """
    journal = session.broker.journal
    if not journal.pages or not session.shell.beside:
        return low
    high = min(high, low + PLACES_MAX)
    session.broker.effort.spent += (high - low) >> ROWS_SHIFT
    found = _found(journal, lease, epoch, low, high)
    count = int(found.count)
    if count == 0:
        return low
    body = found.body()
    ids = session.broker.ids
    writer = session.outlet.out
    writer.write(b"MESSAGE\n")
    headers = {
        "subscription": lease.group,
        "destination": kind_of(lease.queue) + lease.queue.address,
        "message-id": f"{ids.node_id}:{lease.queue.name}:{low}",
        "form": FORM,
        "position": str(low),
        "count": str(count),
        "prefix": ids.prefix,
        "kind": kind_of(lease.queue),
        "content-type": "application/x-entrepot-places",
        "content-length": str(len(body)),
    }
    write_headers(writer, headers, writing.reader.version)
    writer.write(b"\n")
    writer.write(body)
    writer.write(b"\0\n")
    writing.note_batch(count)
    lease.located += count
    return low + count


def _found(journal: JournalCore, lease: Lease, epoch: int, low: int, high: int) -> Located:
    """Return where the messages from ``low`` on are, up to the first that is not known to be on disk."""
    places = located(lease, journal, epoch, low, high)
    is_counted = len(lease.queue.stock.attempts) > 0
    found = Located()
    files: dict[str, int] = {}
    file: i64 = 0
    segment: Segment | None = None
    position: i64 = low
    while position < high and places.go_to(position - low):
        if places.segment is not segment:
            segment = places.segment
            assert segment is not None
            if segment.name not in files:
                where = None if found.named >= FILES_MAX else journal.port.locator.location(segment.name)
                if where is None:
                    break
                files[segment.name] = int(found.name(File(where.path, where.device, where.inode)))
            file = files[segment.name]
        deliveries: i64 = lease.deliveries(int(position)) if is_counted else 0
        found.add(file, places.number, places.offset, places.length, deliveries)
        position += 1
    return found
