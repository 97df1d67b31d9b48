"""Messages whose large body, or whose whole record, is lost: what is shown of them, and of what they leave. [C]

A dead letter cannot carry a body that nobody can read. It has the headers and properties that were sent, an empty body,
the cause, and a note of how long the body was, by which a reader tells it from a message that was sent empty. Of a
record that rotted on the disk nothing is believed: what stands for it has its number, and why it is lost.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import CorruptJournal
from entrepot.journal.log import JournalCore
from entrepot.model.message import BODY_EMPTY, LANGUAGE_LOST, Common, Language, Message, register

DEAD_CAUSE: Final = "dlqDeliveryFailureCause"  # Classic's name for the reason on a dead letter
BODY_LOST: Final = "entrepotBodyLost"
"""Annotation: the octets of the body that is not here any more."""


def take_body_off(message: Message) -> None:
    """Make ``message``, whose large body is lost, one that says so."""
    rare = message.need_rare()
    length = rare.large_length
    rare.large_id = 0
    rare.large_length = 0
    rare.large_checked = False
    message.language.bereave(message)
    message.annotate(BODY_LOST, str(length))


def without_body(message: Message, flaw: str) -> Message:
    """Return what can be shown of ``message``, whose large body is lost for the reason ``flaw``."""
    shown = message.twin(message.address)
    shown.number = message.number
    take_body_off(shown)
    shown.annotate(DEAD_CAUSE, flaw)
    return shown


def is_bereaved(message: Message) -> bool:
    """Say whether ``message`` has lost its body."""
    rare = message.rare
    return rare is not None and BODY_LOST in rare.annotations


class LostLanguage(Language):
    """The language of what stands for a message whose record is lost: it says nothing."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_LOST, "lost")
        self.identifies = False

    def common(self, message: Message) -> Common:
        """Return an empty message."""
        return Common(BODY_EMPTY, None)


LOST_LANGUAGE: Final = LostLanguage()
register(LOST_LANGUAGE)


def load_or_stand_in(journal: JournalCore, numbers: list[int], octets: i64 = 0) -> list[Message]:
    """Return messages as `Reading.load_range`; for each whose record is damaged, one that stands for it.

    Raises StorageError for what the disk may still answer.
    """
    try:
        return journal.reading.load_range(numbers, octets)
    except CorruptJournal:  # one of them: the others are whole
        return _one_by_one(journal, numbers, octets)


def _one_by_one(journal: JournalCore, numbers: list[int], octets: i64) -> list[Message]:
    found: list[Message] = []
    total: i64 = 0
    for number in numbers:
        message = _one(journal, number)
        found.append(message)
        total += message.size
        if octets > 0 and total >= octets:
            break
    return found


def _one(journal: JournalCore, number: int) -> Message:
    try:
        return journal.reading.load(number)
    except CorruptJournal as damage:
        message = Message(LOST_LANGUAGE, "", b"")
        message.number = number
        message.durable = True
        message.stored = True
        message.annotate(DEAD_CAUSE, damage.message)
        return message


def record_flaw(message: Message) -> str:
    """Return why the record of ``message`` is lost, if this stands for one; "" for all others, its letter included."""
    rare = message.rare
    if rare is None or message.language is not LOST_LANGUAGE or rare.identity:
        return ""
    return rare.annotations.get(DEAD_CAUSE, "")
