"""What may not leave yet: messages that this broker's own disk does not have. [C]

A message is known to the other broker by the number that it has here. Where a crash takes it back, whoever brought it
brings it again, and it gets another number: the other broker would take it for another message. So a durable message
leaves when it is on disk (Artemis does the same: it routes when its journal has answered), and what comes behind it
waits with it, in order. Nothing waits where nobody was promised that the message stays.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError
from entrepot.journal.log import JournalCore
from entrepot.journal.ports import Waiter
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.outflow import Outflow

TOKEN_OCTETS: Final = 8


class Parcel:
    """One message that is ready to be written. ``number``: as what the other broker will confirm it.

    ``packets``: how many the other broker counts; ``body``: what follows ``packet``, None for nothing. ``waits``: for
    the disk, and not only for its turn.
    """

    def __init__(self, number: i64, packet: Packet, packets: i64, body: Outflow | None) -> None:
        self.number: i64 = number
        self.packet: Packet = packet
        self.packets: i64 = packets
        self.body: Outflow | None = body
        self.waits: bool = False


@mypyc_attr(allow_interpreted_subclasses=True)
class Sender:
    """Who writes what leaves the shelf."""

    def write(self, parcel: Parcel) -> None:
        """Write ``parcel``. Raises EntrepotError for one that cannot be written."""
        raise NotImplementedError

    def spoiled(self, why: str) -> None:
        """What is kept cannot leave: the connection ends, and all goes again."""
        raise NotImplementedError


class Shelf(Waiter):
    """The parcels that wait for the disk, in order."""

    def __init__(self, journal: JournalCore, sender: Sender) -> None:
        self.journal: JournalCore = journal
        self.sender: Sender = sender
        self.parcels: deque[Parcel] = deque()
        self._asking: bool = False

    def pass_on(self, parcel: Parcel, message: i64) -> None:
        """Write ``parcel``, of the message of this number, now or when the disk has it. Raises EntrepotError."""
        journal = self.journal
        if journal.reading.on_disk(message):
            if self.parcels:
                self.parcels.append(parcel)
            else:
                self.sender.write(parcel)
            return
        parcel.waits = True
        self.parcels.append(parcel)
        self._asking = True  # a disk that has failed says so at once, while a queue delivers; the broker ends then
        journal.confirm(self, int(parcel.number).to_bytes(TOKEN_OCTETS, "big"))
        self._asking = False

    def clear(self) -> None:
        """Let go of everything: there is no connection for it any more."""
        parcels = self.parcels
        self.parcels = deque()
        for parcel in parcels:
            if parcel.body is not None:
                parcel.body.finish(True)

    def stored(self, token: bytes) -> None:
        """The disk has all up to the parcel of this number: that leaves, and what waits for nothing but its turn."""
        number: i64 = int.from_bytes(token, "big")
        while self.parcels:
            parcel = self.parcels[0]
            if parcel.waits and parcel.number > number:
                return
            self.parcels.popleft()
            self._leave(parcel)

    def _leave(self, parcel: Parcel) -> None:
        try:
            self.sender.write(parcel)
        except EntrepotError as error:
            self.sender.spoiled(str(error))

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """The disk does not take it for now; the message is still here, and goes again."""
        if self.parcels and not self._asking:
            self.sender.spoiled(f"the disk does not take it: {error}")
