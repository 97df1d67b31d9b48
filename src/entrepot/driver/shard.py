"""The driver's end of the lease on one broker: its verbs, each of which may be repeated.

What a broker refuses is raised as it is, but a reader that was replaced is told so in words that help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from entrepot.base.errors import LeaseError, LeaseOver, ProtocolViolation, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Answer, Ask, Course, Heard, Line, Say
from entrepot.driver.ledger import Ledger, number
from entrepot.driver.scope import key_of
from entrepot.driver.search import Search

WAIT_MS_MAX: Final = 60_000  # of one CLAIM (docs/leases.md)


class Subject(msgspec.Struct, frozen=True):
    """Whose lease on what. ``demand``: bridges are to bring here what other brokers have of it.

    ``until``: nothing that was sent later is claimed, ms since 1970; 0: anything is.
    ``several``: it is one of those that the query reads, see `scope.py`.
    """

    destination: str
    subscription: str
    selector: str = ""
    demand: bool = False
    until: int = 0
    several: bool = False

    def is_picky(self) -> bool:
        """Return whether a broker has to look at messages that it does not lend."""
        return bool(self.selector) or self.until > 0

    def headers(self) -> dict[str, str]:
        """Return the headers that every verb carries."""
        if self.destination.startswith("/topic/") and self.several:  # one name cannot be of several subscriptions
            return {"topic": self.destination, "group": self.subscription}
        if self.destination.startswith("/topic/"):
            return {"topic": self.destination, "subscription": self.subscription, "group": self.subscription}
        return {"queue": self.destination, "group": self.subscription}


class Piece(msgspec.Struct, frozen=True):
    """What one task reads: positions ``low`` to ``high`` - 1 on one broker.

    ``destination``: of which queue, where a query reads several; "" where it reads one.
    """

    broker: str
    place: str  # where that broker was when this was planned; it is looked for elsewhere too
    epoch: int
    low: int
    high: int
    destination: str = ""


class QueueGone(Exception):
    """The queue of a shard was deleted, and with it all that was held there. Only where a query reads several."""


class Contact:
    """The connection to one broker, for all shards there. ``live``: whether it stands, as far as we know."""

    def __init__(self, line: Line) -> None:
        self.broker = line.broker
        self.line = line
        self.live = True

    def found(self, line: Line) -> None:
        """The broker is back, or another took its place: go on there. Leases and their epochs came along."""
        self.line.close()
        self.line = line
        self.live = True

    def learn(self, search: Search) -> Course[None]:
        """Ask for the other brokers of the network. Raises Unreachable."""
        try:
            yield from search.learn(self.line)
        except Unreachable:
            self.live = False
            raise

    def ask(self, command: str, headers: Mapping[str, str]) -> Course[Answer]:
        """Say a verb and return its answer. Raises Unreachable, and what the broker refuses."""
        try:
            answer: Answer = yield Ask(self.line, command, headers)
        except Unreachable:
            self.live = False
            raise
        return answer

    def close(self) -> None:
        """Drop the connection; the leases stay."""
        self.live = False
        self.line.close()


class Shard:
    """The lease on one queue of one broker. ``key``: as offsets name it.

    ``is_gone``: asks whether the queue was deleted, where a query reads several.
    """

    def __init__(
        self, contact: Contact, subject: Subject, is_gone: Callable[[Shard], Course[bool]] | None = None
    ) -> None:
        self.contact = contact
        self.broker = contact.broker
        self.key = self.broker  # of several queues: known when it is attached
        self.subject = subject
        self.ledger = Ledger(self.broker, f"{subject.destination} at {contact.line.shown}")
        self._is_gone = is_gone
        self._claiming = ""  # the token of a claim that waits
        self._claimed_on = contact.line  # where it waits

    @property
    def live(self) -> bool:
        """Whether the connection stands, as far as we know."""
        return self.contact.live

    @property
    def line(self) -> Line:
        """The connection."""
        return self.contact.line

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
        answer = yield from self.contact.ask("ATTACH", headers)
        if answer.get("node") != self.broker or answer.get("until", "0") != str(self.subject.until):
            raise ProtocolViolation(
                f"the broker {self.broker} does not say what it lends", remedy="it is too old; upgrade it first"
            )
        if self.subject.several:
            self.key = key_of(self.broker, _token(answer), self.subject.destination)
        self.ledger.attached(answer)

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
        if self._waits():
            return
        fields = {**self._claim(start, most, octets), "wait": str(min(wait_ms, WAIT_MS_MAX))}
        try:
            self._claiming = yield Say(self.line, "CLAIM", self._fields(fields))
        except Unreachable:
            self.contact.live = False
            raise
        self._claimed_on = self.line

    def claimed(self) -> Course[bool]:
        """Return whether the broker has answered the claim that waits. What it claimed, the next `claim` gives."""
        if not self._waits():
            return False
        try:
            answer: Answer | None = yield Heard(self.line, self._claiming)
        except Unreachable:
            self.contact.live = False
            raise
        except LeaseOver as error:
            self._claiming = ""
            yield from self._need_queue()
            raise self._in_use(error) from None
        except LeaseError:
            self._claiming = ""
            return True  # it waited at a position that is settled by now: asked too early, nothing is wrong
        if answer is None:
            return False
        self._claiming = ""
        self.ledger.answered(answer)
        return True

    def _waits(self) -> bool:
        """Return whether a claim waits; one that was begun on another connection ended with that."""
        return bool(self._claiming) and self._claimed_on is self.line

    def _need_queue(self) -> Course[None]:
        """A lease is refused: raise QueueGone when that is because its queue was deleted."""
        if self._is_gone is not None and (yield from self._is_gone(self)):
            raise QueueGone(f"{self.ledger.name} was deleted")

    def _claim(self, start: int, most: int, octets: int | None) -> dict[str, str]:
        fields = {"start": str(start), "max": str(most)}
        if octets is not None:
            fields["octets"] = str(octets)
        if self.subject.demand:
            fields["demand"] = "true"  # each time: it ends with a connection
        return fields

    def _verb(self, command: str, fields: dict[str, str]) -> Course[Answer]:
        try:
            answer = yield from self.contact.ask(command, self._fields(fields))
        except LeaseError as error:
            yield from self._need_queue()
            if isinstance(error, LeaseOver):
                raise self._in_use(error) from None
            raise
        self.ledger.answered(answer)
        return answer

    def _fields(self, fields: dict[str, str]) -> dict[str, str]:
        return {**self.subject.headers(), "epoch": str(self.ledger.epoch), **fields}

    def _in_use(self, error: LeaseOver) -> LeaseError:
        return in_use(self.subject, self.ledger.name, error)


def _token(answer: Answer) -> str:
    token = answer.get("token", "")
    if not token or " " in token:
        raise ProtocolViolation(
            "a broker does not say which of several queues it lends", remedy="it is too old for lists and wildcards"
        )
    return token


def in_use(subject: Subject, name: str, error: LeaseError) -> LeaseError:
    """Return what to tell a reader that was replaced."""
    return LeaseError(
        f"the subscription {subject.subscription!r} on {name} is in use by a newer query; this one has been replaced "
        f"({error.message})",
        remedy="run one query for each subscription; the newer one goes on where this one stood",
    )
