"""How one process is asked by another one, without sockets: one connection that came in.

The first thing said has the ``password`` that all processes know. It is answered by a sign of life, an empty object,
and so is every sign that is asked for. A question has a number, ``id``, and so has its answer. Each is answered once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from entrepot.base.environment import MIB
from entrepot.base.errors import LimitExceeded
from entrepot.core.operators.together.line import WAITING_MAX, Said

LENGTH: Final = 4  # octets of the length before each object, big-endian
QUESTION_OCTETS_MAX: Final = 1 * MIB  # arguments have 256 KiB at most, and an octet of those may become three
ANSWER_OCTETS_MAX: Final = 64 * MIB

Hear = Callable[[Said, Callable[[Said], None]], None]
"""Takes a question, and whom to tell the answer."""


def frame(said: Said) -> bytes:
    """Return an object as it is sent."""
    octets = msgspec.json.encode(said)
    return len(octets).to_bytes(LENGTH, "big") + octets


def content(octets: bytes) -> Said:
    """Return the object of a frame, its length left out. Raises ValueError for what is none."""
    try:
        return msgspec.json.decode(octets, type=Said)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is no object: {error}") from error


class Visit:
    """``admits``: whether a password is right; ``write``: sends a frame; ``most``: octets of an answer."""

    def __init__(
        self,
        admits: Callable[[str], bool],
        hear: Hear,
        write: Callable[[bytes], None],
        most: int = ANSWER_OCTETS_MAX,
    ) -> None:
        self.admitted = False
        self.under_way = 0
        self._admits: Final = admits
        self._hear: Final = hear
        self._write: Final = write
        self._most: Final = most

    @property
    def full(self) -> bool:
        """Whether nothing more may be said until something is answered."""
        return self.under_way >= WAITING_MAX

    def heard(self, said: Said) -> bool:
        """Take what is said; return False when the connection must end."""
        if not self.admitted:
            self.admitted = self._admits(str(said.get("password", "")))
            if self.admitted:
                self._write(frame({}))
            return self.admitted
        if "id" not in said:
            self._write(frame({}))
            return True
        self.under_way += 1
        self._hear(said, _Once(self, said["id"]).answer)
        return True

    def answered(self, number: object, said: Said) -> None:
        """Send the answer to question ``number``, or why there is none that can be sent."""
        self.under_way -= 1
        octets = frame({**said, "id": number})
        if len(octets) > self._most:
            told = f"the answer is longer than {self._most // MIB} MiB"
            refusal = {"code": LimitExceeded.code, "message": told, "remedy": "ask for less at once"}
            octets = frame({**refusal, "id": number})
        self._write(octets)


class _Once:
    """Where one answer goes. A second one goes nowhere: its number may mean another question by then."""

    def __init__(self, visit: Visit, number: object) -> None:
        self._visit: Visit | None = visit
        self._number: Final = number

    def answer(self, said: Said) -> None:
        visit, self._visit = self._visit, None
        if visit is not None:
            visit.answered(self._number, said)
