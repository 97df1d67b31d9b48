"""A message as it arrives on the other side of a bridge, written from its first encoding without opening it. [C]

Forwarding changes little of a message (classic.md 1.11): producer, destination, path, the redelivery counter and the
times. Everything else stays as it came, so the octets are copied around those fields. Two first encodings can cross
like that: what a client sent over OpenWire, and what in its own language is nothing but a body (`Language.bare`). All
others are encoded anew (`cluster/networks/forwarding.py`); `Crossing.write` says which by returning False, and never
guesses.

A message from OpenWire (loose, `convert.LAYOUT`), and what is put in place of its parts::

    type:1 command:4 answered:1 | producer | destination | transaction:1=0 ... sequence:8 ... | counter:4 path ... times
           ours      ours         ours       must be ours   must be none       our number       ours      ours     ours
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i16, i32, i64

from entrepot.model.message import BARE_OCTETS, BARE_TEXT, Message
from entrepot.protocols.openwire.commands import BrokerId, Destination, ProducerId
from entrepot.protocols.openwire.convert import OPENWIRE_LANGUAGE, has_no_path, is_untouched
from entrepot.protocols.openwire.frames import FrameWriter, Structure
from entrepot.protocols.openwire.ids import foreign_producer
from entrepot.protocols.openwire.schema import VERSION_MAX

HEADER_OCTETS: Final = 6  # type, command, whether an answer is wanted
NUMBERS_OCTETS: Final = 16  # of a producer's id, behind its text
COUNTER_AT: Final = 34  # octets from the end of a message without path, user and cluster; see `has_no_path`
PATH_AT: Final = 30
TIMES_AT: Final = 17
TEXT_TYPE: Final = 28
BYTES_TYPE: Final = 24
# header; transaction to text of id; its length; numbers; to correlation id; persistent, expiration, priority, reply-to,
# timestamp; type, content; properties to compressed; counter; arrival; user to cluster; times and group
BARE_FIXED: Final = HEADER_OCTETS + 5 + 2 + 16 + 7 + (1 + 8 + 1 + 1 + 8) + 2 + 4 + 4 + 8 + 4 + 17
IDENTITY_OCTETS_MAX: Final = 1000  # far above what we make; a length of 16 bits follows


def nested(value: Structure) -> bytes:
    """Return the octets of ``value`` inside a loose frame."""
    out = BytesWriter()
    writer = FrameWriter(VERSION_MAX, tight=False, cache_size=0, stack_traces=False)
    writer.out = out
    writer.nested(value)
    return out.getvalue()


class Crossing:
    """How messages cross one connection. ``producer``: the bridge's own there; ``here``: the id of our broker."""

    def __init__(self, producer: ProducerId, here: str, id_prefix: str) -> None:
        """``id_prefix``: of the ids that this broker gives to messages that came without one."""
        self._producer: bytes = nested(producer)
        self._path: bytes = b"\x01\x00\x01" + nested(BrokerId(here))
        self._foreign: bytes = nested(foreign_producer(here))
        self._prefix: bytes = id_prefix.encode()
        self._where: bytes = b""
        self._named: Destination | None = None
        self.passed: i64 = 0

    def write(
        self,
        out: BytesWriter,
        message: Message,
        where: Destination,
        command: i32,
        answered: bool,
        counter: i64,
        wall: i64,
        frame_max: i64,
    ) -> bool:
        """Append the frame that carries ``message`` to ``where``; False, and nothing is written, if it must be made.

        ``counter``: redeliveries. ``wall``: now, ms since 1970. ``frame_max``: octets that the peer takes.
        """
        rare = message.rare
        if message.escaped or (rare is not None and not is_untouched(rare)):
            return False
        if where is not self._named:
            self._where = nested(where)
            self._named = where
        if message.language is OPENWIRE_LANGUAGE:
            done = self._passed_on(out, message, command, answered, counter, wall, frame_max)
        elif rare is None and not message.language.identifies:  # the id is made of our number
            done = self._bare(out, message, command, answered, counter, wall, frame_max)
        else:
            return False
        if done:
            self.passed += 1
        return done

    def _passed_on(
        self, out: BytesWriter, message: Message, command: i32, answered: bool, counter: i64, wall: i64, frame_max: i64
    ) -> bool:
        raw = message.raw
        size: i64 = len(raw)
        if not has_no_path(raw):
            return False
        at: i64 = HEADER_OCTETS
        if raw[at] == 1:
            if raw[at + 2] != 1:
                return False
            at += 5 + (i64(read_i16_be(raw, at + 3)) & 0xFFFF) + NUMBERS_OCTETS
        else:
            at += 1
        where = self._where
        behind: i64 = at + len(where)
        sequence: i64 = message.body_at
        if behind >= sequence or raw[at:behind] != where or raw[behind] != 0:
            return False  # renamed on its way to this queue, or sent in a transaction
        path = self._path
        length: i64 = HEADER_OCTETS + len(self._producer) + (size - at) + len(path) - 1
        if length > frame_max:
            return False
        write_i32_be(out, i32(length))
        out.append(raw[0])
        write_i32_be(out, command)
        out.append(1 if answered else 0)
        out.write(self._producer)
        out.write(raw[at : sequence - 8])
        write_i64_be(out, message.number)
        out.write(raw[sequence : size - COUNTER_AT])
        write_i32_be(out, i32(counter))
        out.write(path)
        out.write(raw[size - PATH_AT + 1 : size - TIMES_AT])
        write_i64_be(out, message.timestamp)
        write_i64_be(out, wall)
        out.append(0)
        return True

    def _bare(
        self, out: BytesWriter, message: Message, command: i32, answered: bool, counter: i64, wall: i64, frame_max: i64
    ) -> bool:
        kind, body = message.language.bare(message)
        if kind != BARE_TEXT and kind != BARE_OCTETS:
            return False
        text = kind == BARE_TEXT
        octets: i64 = len(body)
        if text and not body.isascii():
            return False  # Java's own UTF-8 differs beyond
        identity = self._prefix + str(message.number).encode()
        where = self._where
        length: i64 = BARE_FIXED + len(self._producer) + len(where) + len(self._foreign) + len(self._path)
        length += len(identity) + (8 if text else 4) + octets
        if length > frame_max or len(identity) > IDENTITY_OCTETS_MAX:
            return False
        write_i32_be(out, i32(length))
        out.append(TEXT_TYPE if text else BYTES_TYPE)
        write_i32_be(out, command)
        out.append(1 if answered else 0)
        out.write(self._producer)
        out.write(where)
        out.write(b"\0\0\x01\x6e\x01")  # transaction, original destination; a MessageId with a text
        write_i16_be(out, i16(len(identity)))
        out.write(identity)
        out.write(self._foreign)
        write_i64_be(out, message.number)
        write_i64_be(out, message.number)
        out.write(b"\0\0\0\0\0\0\0")  # original transaction, group, its sequence (4), correlation id
        out.append(1 if message.durable else 0)
        write_i64_be(out, message.expiration)
        out.append(i64_octet(message.priority))
        out.append(0)
        write_i64_be(out, message.timestamp)
        out.write(b"\0\x01")  # type; content is there
        if text:
            write_i32_be(out, i32(octets + 4))
        write_i32_be(out, i32(octets))
        out.write(body)
        out.write(b"\0\0\0\0")  # properties, data structure, target consumer, compressed
        write_i32_be(out, i32(counter))
        out.write(self._path)
        write_i64_be(out, 0)
        out.write(b"\0\0\0\0")  # user, bridged, droppable, cluster
        write_i64_be(out, message.timestamp)
        write_i64_be(out, wall)
        out.append(0)
        return True


def i64_octet(value: i64) -> int:
    """Return the low octet of ``value``."""
    return int(value & 0xFF)
