"""What other brokers call the events of our log."""

from __future__ import annotations

import re

import pytest

from entrepot.base.known_codes import KNOWN, known_as
from entrepot.base.log_events import EVENTS

CODES = {event.code: event for events in EVENTS.values() for event in events}


def test_each_row_is_of_an_event_and_says_something() -> None:
    for row in KNOWN:
        assert row.code in CODES, row
        assert all(re.fullmatch(r"AMQ\d{6}", code) for code in row.artemis.split()), row
        assert bool(row.artemis) == bool(row.says), row
        assert row.artemis or row.classic, row
        assert not row.classic or re.fullmatch(r"[A-Z]\w+: \S.*", row.classic), row


def test_no_row_hides_behind_one_that_takes_all() -> None:
    taken: set[str] = set()
    for row in KNOWN:
        assert row.code not in taken, row
        if not row.when:
            taken.add(row.code)


@pytest.mark.parametrize(
    ("code", "text", "artemis"),
    [
        ("LOG-1005", "b: the journal holds 9 octets, and may hold 8: producers wait or are refused", "AMQ222210"),
        ("LOG-1005", "b: only 1 octets are free on the disk of the journal, and 2 have to be: producers", "AMQ224128"),
        ("LOG-1005", "b: messages may be stored again; before, the journal holds 9 octets, and", "AMQ222211"),
        ("LOG-1005", "b: messages may be stored again; before, only 1 octets are free on the disk", "AMQ224129"),
        ("LOG-1008", "message.dead-lettered orders code=tries-used-up to=DLQ", "AMQ222149"),
        ("LOG-1008", "message.dropped orders code=tries-used-up", "AMQ222150"),
        ("LOG-1008", "message.dropped orders code=full", "AMQ222039"),
        ("LOG-3008", "1.2.3.4:5: refused: User name [x] or password is invalid.", "AMQ222216 AMQ229031 AMQ601716"),
        ("LOG-3008", "1.2.3.4:5: refused: User ann is not authorized to read from: queue://x", "AMQ229032 AMQ601264"),
        ("LOG-1008", "message.dispatched orders consumer=7", "AMQ601501"),
        ("LOG-2010", "an operator removed the user 'ann'", "AMQ601154"),
        ("LOG-3001", "listening on stomp://x", "AMQ221020"),
        ("LOG-5001", "b is the master now, epoch 2: it was a backup; broker a handed over", "AMQ221010"),
        ("LOG-5001", "a is the master now, epoch 1: the store is new", "AMQ221007"),
        ("LOG-5003", "b waits: the store s is locked by another server; this broker is in slave mode", "AMQ221109"),
    ],
)
def test_the_line_says_which(code: str, text: str, artemis: str) -> None:
    found = known_as(code, text)
    assert found is not None
    assert found.artemis == artemis


@pytest.mark.parametrize(
    ("code", "text"),
    [("LOG-0000", "hello"), ("LOG-3008", "it broke the protocol"), ("LOG-1008", "message.dropped q code=unsendable")],
)
def test_what_nobody_else_says_has_no_name_there(code: str, text: str) -> None:
    assert known_as(code, text) is None
