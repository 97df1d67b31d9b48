"""Large messages: headers first, then the body in pieces, straight to disk and straight from it. [C]

A body of CORE lies on disk as it travels. That of a text in another language is converted on its way out: a text of
CORE is its length and UTF-16 units, little-endian, so it is read twice, to count and to write.
"""

from __future__ import annotations

import codecs
from typing import Final

from mypy_extensions import i64

from entrepot.base.primitive import LONG, Primitive
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Measurement
from entrepot.core.queue.queue import Queue
from entrepot.model.message import BODY_TEXT, LANGUAGE_CORE, Message
from entrepot.protocols.artemis.arriving import large_message_of
from entrepot.protocols.artemis.convert import LARGE_SIZE
from entrepot.protocols.artemis.headers import NO_BODY, assembled, read_headers
from entrepot.protocols.artemis.properties import read_properties
from entrepot.protocols.held_body import HeldBody
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.large_body import UNITS, form_for, length_of, to_count

CHUNK_OCTETS_MIN: Final = 256  # smaller pieces would be all heads
CHUNK_OCTETS_MAX: Final = 1024 * 1024
UNITS_MAX: Final = (1 << 31) - 1  # of a text: its length is a signed integer
CHUNK_OCTETS: Final = 100 * 1024  # minLargeMessageSize of a client that says nothing


class LargeArrival(Inflow):
    """A large message on its way in."""

    def __init__(self, broker: BrokerCore, headers: bytes, default_address: str) -> None:
        super().__init__(broker, large_message_of(headers, default_address))

    def complete(self, body_size: i64) -> Message:
        """Return the message; ``body_size``: of its body before it was compressed, -1 for not said.

        Raises StorageError when the disk did not take it.
        """
        if self.refusal is not None:
            raise self.refusal
        message = self.message_now()
        if body_size >= 0:
            headers = read_headers(message.raw, message.body_at)
            properties = read_properties(message.raw, headers.properties_at, typed=True)
            properties[LARGE_SIZE] = Primitive(LONG, int(body_size))
            message.raw = assembled(b"", headers, properties)
            message.body_at = len(NO_BODY)
        return message


def measure(broker: BrokerCore, message: Message) -> Measurement | None:
    """Return what must be counted before a large ``message`` can be said; None: nothing."""
    if message.language.code == LANGUAGE_CORE:
        return None
    return to_count(broker, message, form_for(message, UNITS), UNITS_MAX)


class LargeDelivery(HeldBody):
    """A large message on its way out."""

    def __init__(self, broker: BrokerCore, message: Message, owner: Queue | None) -> None:
        super().__init__(broker, message, owner)
        self.check()
        self.left = message.need_rare().large_length
        self.length: i64 = self.left  # of what is written
        self.decoder: codecs.IncrementalDecoder | None = None
        if message.language.code != LANGUAGE_CORE and message.common().body_kind == BODY_TEXT:
            units = length_of(broker, message, UNITS, UNITS_MAX)
            self.length = units + 5
            self.ahead = b"\1" + int(units).to_bytes(4, "big")
            self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        elif self.left > 0:
            self._read()  # it may be damaged: better found here
        self.hold()

    def _read(self) -> None:
        """Read the next stretch. Raises BodyLost, StorageError."""
        octets = self.broker.journal.overflow.read(self.message, self.at)
        self.at += len(octets)
        self.left -= len(octets)
        decoder = self.decoder
        if decoder is not None:
            octets = decoder.decode(octets, self.left <= 0).encode("utf-16-le", "surrogatepass")
        self.ahead = octets
        self.ahead_at = 0

    def piece(self, most: i64) -> bytes:
        """Return the next octets, at most as many as one packet of the client has. Raises BodyLost, StorageError."""
        size = most if most >= CHUNK_OCTETS_MIN else i64(CHUNK_OCTETS)
        size = min(size, CHUNK_OCTETS_MAX)
        octets = self.ahead[self.ahead_at : self.ahead_at + size]
        self.ahead_at += len(octets)
        while len(octets) < size and self.left > 0:
            self._read()
            more = self.ahead[: size - len(octets)]
            self.ahead_at = len(more)
            octets += more
        return octets

    def is_done(self) -> bool:
        """Return whether all of the body was written."""
        return self.left <= 0 and self.ahead_at >= len(self.ahead)
