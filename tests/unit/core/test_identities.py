"""Numbers of messages are never given twice, and a twin keeps the id that clients know."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.core.identities import NUMBERS_RESERVED, Identities
from entrepot.journal.memory import MemoryJournal
from entrepot.model.message import Language, Message

pytestmark = pytest.mark.skipif(is_compiled(), reason="native classes take no journal that is written for a test")


class Counted(MemoryJournal):
    """Counts reservations, and syncs that nobody waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved: list[int] = []

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        self.reserved.append(int.from_bytes(value, "big"))


def test_a_block_is_reserved_long_before_the_last_number_is_given() -> None:
    journal = Counted()
    ids = Identities(journal)
    first = ids.next_number()
    assert journal.reserved == [NUMBERS_RESERVED]
    ids.number = NUMBERS_RESERVED // 2 - 1
    assert ids.next_number() == NUMBERS_RESERVED // 2
    assert len(journal.reserved) == 1
    ids.next_number()
    assert journal.reserved == [NUMBERS_RESERVED, 2 * NUMBERS_RESERVED]
    assert first == 1


def test_a_twin_has_a_number_of_its_own_and_the_id_of_the_first() -> None:
    ids = Identities(Counted())
    message = Message(Language(250, "x"), "A", b"body")
    message.number = ids.next_number()
    message.need_rare().duplicate_id = b"once"
    known = ids.identity_of(message)
    twin = ids.renumbered(message)
    again = ids.renumbered(twin)
    assert len({int(one.number) for one in (message, twin, again)}) == 3
    assert ids.identity_of(twin) == ids.identity_of(again) == known
    assert twin.need_rare().duplicate_id == b"", "the second is no duplicate of the first"


def test_temporary_names_are_of_one_connection_of_one_run() -> None:
    ids = Identities(Counted())
    names = {ids.temporary_name(connection, "t") for connection in (1, 1, 2)}
    ids.run = 5
    assert len(names | {ids.temporary_name(1, "t")}) == 4
