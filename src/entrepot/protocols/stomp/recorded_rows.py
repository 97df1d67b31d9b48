"""Rows of columns that are made of records of the journal, by somebody who has its files: no broker reads them. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.journal.record import MESSAGE, RECORD_HEAD, envelope_at, payload_fits, record_valid
from entrepot.model.message import (
    LANGUAGE_AMQP,
    LANGUAGE_CORE,
    LANGUAGE_MQTT,
    LANGUAGE_OPENWIRE,
    LANGUAGE_STOMP,
    Message,
    read_envelope,
)
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.entry import Entry
from entrepot.protocols.stomp.located import Locations
from entrepot.protocols.stomp.ranges import REDELIVERED

LANGUAGES: Final = (LANGUAGE_STOMP, LANGUAGE_OPENWIRE, LANGUAGE_CORE, LANGUAGE_AMQP, LANGUAGE_MQTT)
"""Of messages that clients sent; what the broker says itself it says."""


class RecordedRows:
    """Makes rows of records. ``prefix``, ``kind``: as of `Entry`."""

    def __init__(self, prefix: bytes, kind: bytes) -> None:
        self.entry: Entry = Entry(prefix, kind)

    def add(
        self, columns: Columns, places: Locations, row: i64, end: i64, position: i64, data: bytes, start: i64
    ) -> i64:
        """Append the rows up to ``end``, the first of which is at ``position`` in the ledger.

        ``data``: what their file has from ``start`` on. Return the first row that was not appended: ``end``, or one
        that the broker has to be asked for, because it is damaged or its body is elsewhere.
        """
        entry = self.entry
        identity = entry.identity
        while row < end:
            at: i64 = places.offset(row) - start
            stop: i64 = at + places.length(row)
            number = places.number(row)
            if not entry.of_record(data, at, stop, number) and not self._of_message(data, at, stop, number):
                break
            deliveries = places.deliveries(row)
            columns.add(
                position,
                entry.timestamp,
                entry.expiration,
                entry.priority,
                entry.flags | REDELIVERED if deliveries > 0 else entry.flags,
                deliveries,
                identity.stem,
                identity.end,
                entry.destination,
                entry.lines,
                entry.octets,
                entry.body_at,
                entry.body_end,
            )
            position += 1
            row += 1
        entry.octets = b""
        return row

    def _of_message(self, data: bytes, at: i64, stop: i64, number: i64) -> bool:
        """Make the message of a record that is not plain; False: the broker has to."""
        message = message_in(data, at, stop)
        if message is None:
            return False
        message.number = number
        try:
            self.entry.of_message(message)
        except (EntrepotError, ValueError):
            return False
        return True


def message_in(data: bytes, at: i64, stop: i64) -> Message | None:
    """Return the message whose record stands from ``data[at]`` to ``stop``; None: it is not there, or not all of it."""
    if stop > len(data) or not record_valid(data, at, stop) or not payload_fits(data, at):
        return None
    body: i64 = at + RECORD_HEAD
    if data[body] != MESSAGE:
        return None
    envelope = envelope_at(data, body)
    if data[envelope + 1] not in LANGUAGES:
        return None
    try:
        message = read_envelope(data, envelope)
    except (EntrepotError, IndexError, ValueError):
        return None
    rare = message.rare
    return None if rare is not None and rare.large_id != 0 else message
