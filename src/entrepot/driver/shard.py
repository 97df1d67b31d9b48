"""The driver's end of the lease on one broker: its verbs, each of which may be repeated.

What a broker refuses is raised as it is, but a reader that was replaced is told so in words that help.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from entrepot.base.errors import LeaseError, LeaseOver, ProtocolViolation, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Answer, Ask, Course, Heard, Line, Say
from entrepot.driver.ledger import Ledger, number
from entrepot.driver.search import Search

WAIT_MS_MAX: Final = 60_000  # of one CLAIM (docs/leases.md)


class Subject(msgspec.Struct, frozen=True):
    """Whose lease on what. ``demand``: bridges are to bring here what other brokers have of it.

    ``until``: nothing that was sent later is claimed, ms since 1970; 0: anything is.
    """

    destination: str
    subscription: str
    selector: str = ""
    demand: bool = False
    until: int = 0

    def is_picky(self) -> bool:
        """Return whether a broker has to look at messages that it does not lend."""
        return bool(self.selector) or self.until > 0

    def headers(self) -> dict[str, str]:
        """Return the headers that every verb carries."""
        if self.destination.startswith("/topic/"):
            return {"topic": self.destination, "subscription": self.subscription, "group": self.subscription}
        return {"queue": self.destination, "group": self.subscription}


class Piece(msgspec.Struct, frozen=True):
    """What one task reads: positions ``low`` to ``high`` - 1 on one broker."""

    broker: str
    place: str  # where that broker was when this was planned; it is looked for elsewhere too
    epoch: int
    low: int
    high: int


class Shard:
    """The lease on one broker. ``live``: whether its connection stands, as far as we know."""

    def __init__(self, line: Line, subject: Subject) -> None:
        self.broker = line.broker
        self.subject = subject
        self.ledger = Ledger(self.broker, f"{subject.destination} at {line.shown}")
        self.live = True
        self.line = line
        self._claiming = ""  # the token of a claim that waits

    @property
    def place(self) -> Endpoint:
        """Where the broker is."""
        return self.line.place

    def attach(self, starting: Mapping[str, str] | None = None) -> Course[None]:
        """Become the reader; whoever was it before is fenced. Raises Refused, Unreachable.

        ``starting``: headers that say where a lease begins that is made by this.
        """
        headers = {**self.subject.headers(), **(starting or {})}
        if self.subject.selector:
            headers["selector"] = self.subject.selector
        if self.subject.until:
            headers["until"] = str(self.subject.until)
        answer = yield from self._ask("ATTACH", headers)
        if answer.get("node") != self.broker or answer.get("until", "0") != str(self.subject.until):
            raise ProtocolViolation(
                f"the broker {self.broker} does not say what it lends", remedy="it is too old; upgrade it first"
            )
        self.ledger.attached(answer)

    def found(self, line: Line) -> None:
        """The broker is back, or another took its place: go on there. The lease and its epoch came along."""
        self.line.close()
        self.line = line
        self._claiming = ""
        self.live = True

    def learn(self, search: Search) -> Course[None]:
        """Ask for the other brokers of the network. Raises Unreachable."""
        try:
            yield from search.learn(self.line)
        except Unreachable:
            self.live = False
            raise

    def settle(self, up_to: int) -> Course[None]:
        """Settle every position below ``up_to``, once."""
        if up_to > self.ledger.settled:
            yield from self._verb("SETTLE", {"end": str(up_to)})
            self.ledger.settled = up_to

    def claim(self, start: int, most: int, octets: int | None = None) -> Course[int]:
        """Extend the range to at most ``start`` + ``most``; return its end as far as it came in one step.

        ``octets``: what is new has no more, but for its last message; `Ledger.take_octets` tells.
        """
        answer = yield from self._verb("CLAIM", self._claim(start, most, octets))
        if octets is not None:
            number(answer, "octets")  # a broker that knows nothing of them must not be taken for one that obeys
        return number(answer, "end")

    def begin_claim(self, start: int, most: int, wait_ms: int, octets: int | None = None) -> Course[None]:
        """Ask for a claim that waits until something is there; `claimed` tells. A second one is not begun."""
        if self._claiming:
            return
        fields = {**self._claim(start, most, octets), "wait": str(min(wait_ms, WAIT_MS_MAX))}
        try:
            self._claiming = yield Say(self.line, "CLAIM", self._fields(fields))
        except Unreachable:
            self.live = False
            raise

    def claimed(self) -> Course[bool]:
        """Return whether the broker has answered the claim that waits. What it claimed, the next `claim` gives."""
        if not self._claiming:
            return False
        try:
            answer: Answer | None = yield Heard(self.line, self._claiming)
        except Unreachable:
            self.live = False
            raise
        except LeaseOver as error:
            self._claiming = ""
            raise self._in_use(error) from None
        except LeaseError:
            self._claiming = ""
            return True  # it waited at a position that is settled by now: asked too early, nothing is wrong
        if answer is None:
            return False
        self._claiming = ""
        self.ledger.answered(answer)
        return True

    def close(self) -> None:
        """Drop the connection; the lease stays."""
        self.live = False
        self.line.close()

    def _claim(self, start: int, most: int, octets: int | None) -> dict[str, str]:
        fields = {"start": str(start), "max": str(most)}
        if octets is not None:
            fields["octets"] = str(octets)
        if self.subject.demand:
            fields["demand"] = "true"  # each time: it ends with a connection
        return fields

    def _verb(self, command: str, fields: dict[str, str]) -> Course[Answer]:
        try:
            answer = yield from self._ask(command, self._fields(fields))
        except LeaseOver as error:
            raise self._in_use(error) from None
        self.ledger.answered(answer)
        return answer

    def _fields(self, fields: dict[str, str]) -> dict[str, str]:
        return {**self.subject.headers(), "epoch": str(self.ledger.epoch), **fields}

    def _ask(self, command: str, headers: dict[str, str]) -> Course[Answer]:
        try:
            answer: Answer = yield Ask(self.line, command, headers)
        except Unreachable:
            self.live = False
            raise
        return answer

    def _in_use(self, error: LeaseOver) -> LeaseError:
        return in_use(self.subject, self.ledger.name, error)


def in_use(subject: Subject, name: str, error: LeaseError) -> LeaseError:
    """Return what to tell a reader that was replaced."""
    return LeaseError(
        f"the subscription {subject.subscription!r} on {name} is in use by a newer query; this one has been replaced "
        f"({error.message})",
        remedy="run one query for each subscription; the newer one goes on where this one stood",
    )
