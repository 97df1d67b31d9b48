"""What voters remember and what they are asked: ballots, the value of a register, who votes; and all of it as JSON.

The words are those of Paxos (Lamport 2001) for a register that changes by rewriting (CASPaxos, Rystsov 2018). A *seat*
is an address together with the identity of the store that is expected there: a voter that lost its store has another.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from enum import Enum
from typing import Any, Final, NamedTuple

OCTETS_MAX: Final = 16 * 1024
"""Of a value: a record of a pair has 400 octets."""
SEATS_MAX: Final = 9
"""Voters of one register: more would only make each change slower."""
TEXT_MAX: Final = 256
"""Of an address, an identity or the name of a proposer."""
ROUND_MAX: Final = 2**53
"""Of a ballot: beyond it JSON of other languages is not exact, and nobody gets there in good order."""


class Ballot(NamedTuple):
    """A number that nobody else has: ``who`` is new for each process, so none is used twice."""

    round: int
    who: str


NEVER: Final = Ballot(0, "")


class Seat(NamedTuple):
    """One voter: where it is reached, and which store it had when it was admitted."""

    address: str
    store: str


class Roster(NamedTuple):
    """Who votes. ``number`` rises by one with each change."""

    number: int
    seats: tuple[Seat, ...]

    @property
    def majority(self) -> int:
        """Return how many are enough: two majorities share a voter."""
        return len(self.seats) // 2 + 1

    def addresses(self) -> tuple[str, ...]:
        """Return where they are, in order."""
        return tuple(seat.address for seat in self.seats)

    def has(self, store: str) -> bool:
        """Say whether the voter with ``store`` is one of them."""
        return any(seat.store == store for seat in self.seats)


class Value(NamedTuple):
    """What the register holds: ``version`` rises with each swap; ``origin``: the ballot of who swapped it in.

    ``following``: the next roster, once a majority has decided it.
    """

    version: int
    origin: Ballot
    octets: bytes
    following: Roster | None = None


EMPTY: Final = Value(0, NEVER, b"")


class State(NamedTuple):
    """What a voter must not forget. ``roster`` None: it is new, and has never voted."""

    store: str
    roster: Roster | None = None
    promised: Ballot = NEVER
    accepted: Ballot = NEVER
    value: Value = EMPTY


class Kind(Enum):
    """What a voter is asked."""

    HELLO = "hello"  # who are you, and what do you have
    READ = "read"  # what did you accept last
    PREPARE = "prepare"  # accept nothing of a lower ballot any more, and say what you accepted
    ACCEPT = "accept"  # take this value
    FOUND = "found"  # to a new voter: you are one of these from the beginning
    INSTALL = "install"  # these vote from now on
    ADMIT = "admit"  # to a new voter: you are one of these, and this is what you would have


class Request(NamedTuple):
    """One question. ``number``: of the roster that the asker believes in; ``about``: an instance, see `Answer.gone`."""

    kind: Kind
    number: int = 0
    ballot: Ballot = NEVER
    accepted: Ballot = NEVER
    value: Value = EMPTY
    roster: Roster | None = None
    about: str = ""


class Verdict(Enum):
    """What a voter says."""

    YES = "yes"
    OUTBID = "outbid"  # it promised a higher ballot, or not this one
    MOVED = "moved"  # it knows a later roster
    BEHIND = "behind"  # it does not know this roster yet
    NEW = "new"  # it has never voted, or lost what it knew
    NO = "no"  # it may not do that


class Answer(NamedTuple):
    """What a voter answers: its verdict and where it stands. ``gone``: the process asked about has ended, for sure."""

    verdict: Verdict
    store: str
    promised: Ballot = NEVER
    accepted: Ballot = NEVER
    value: Value = EMPTY
    roster: Roster | None = None
    gone: bool = False


# -- as JSON ----------------------------------------------------------------------------------------------------------


def dump_state(state: State) -> bytes:
    """Return ``state`` as JSON."""
    return _dump(
        {
            "store": state.store,
            "roster": _roster_facts(state.roster),
            "promised": state.promised,
            "accepted": state.accepted,
            "value": _value_facts(state.value),
        }
    )


def load_state(octets: bytes) -> State:
    """Return what `dump_state` wrote. Raises ValueError."""
    facts = _load(octets)
    return State(
        _text(facts, "store"),
        _roster(facts.get("roster")),
        _ballot(facts.get("promised")),
        _ballot(facts.get("accepted")),
        _value(facts.get("value")),
    )


def dump_request(request: Request) -> bytes:
    """Return ``request`` as JSON."""
    return _dump(
        {
            "kind": request.kind.value,
            "number": request.number,
            "ballot": request.ballot,
            "accepted": request.accepted,
            "value": _value_facts(request.value),
            "roster": _roster_facts(request.roster),
            "about": request.about,
        }
    )


def load_request(octets: bytes) -> Request:
    """Return what `dump_request` wrote. Raises ValueError."""
    facts = _load(octets)
    return Request(
        Kind(facts.get("kind")),
        _whole(facts, "number"),
        _ballot(facts.get("ballot")),
        _ballot(facts.get("accepted")),
        _value(facts.get("value")),
        _roster(facts.get("roster")),
        _text(facts, "about"),
    )


def dump_answer(answer: Answer) -> bytes:
    """Return ``answer`` as JSON."""
    return _dump(
        {
            "verdict": answer.verdict.value,
            "store": answer.store,
            "promised": answer.promised,
            "accepted": answer.accepted,
            "value": _value_facts(answer.value),
            "roster": _roster_facts(answer.roster),
            "gone": answer.gone,
        }
    )


def load_answer(octets: bytes) -> Answer:
    """Return what `dump_answer` wrote. Raises ValueError."""
    facts = _load(octets)
    return Answer(
        Verdict(facts.get("verdict")),
        _text(facts, "store"),
        _ballot(facts.get("promised")),
        _ballot(facts.get("accepted")),
        _value(facts.get("value")),
        _roster(facts.get("roster")),
        facts.get("gone") is True,
    )


def _dump(facts: dict[str, object]) -> bytes:
    return json.dumps(facts, separators=(",", ":")).encode()


def _load(octets: bytes) -> dict[str, Any]:
    try:
        facts = json.loads(octets)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    return facts


def _text(facts: dict[str, Any], name: str) -> str:
    text = facts.get(name, "")
    if not isinstance(text, str) or len(text) > TEXT_MAX:
        raise ValueError(f"{name} is no text, or too long")
    return text


def _whole(facts: dict[str, Any], name: str) -> int:
    return _bounded(facts.get(name, 0), name)


def _bounded(number: object, name: str) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < ROUND_MAX:
        raise ValueError(f"{name} is no number, or out of bounds")
    return number


def _ballot(found: object) -> Ballot:
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError("not a ballot")
    number, who = found
    if not isinstance(who, str) or len(who) > TEXT_MAX:
        raise ValueError("not a ballot")
    return Ballot(_bounded(number, "round"), who)


def _roster_facts(roster: Roster | None) -> object:
    return None if roster is None else [roster.number, [list(seat) for seat in roster.seats]]


def _roster(found: object) -> Roster | None:
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[1], list):
        raise ValueError("not a roster")
    seats = found[1]
    if not 0 < len(seats) <= SEATS_MAX:
        raise ValueError("a roster without voters, or with too many")
    return Roster(_bounded(found[0], "number"), tuple(_seat(each) for each in seats))


def _seat(found: object) -> Seat:
    if not isinstance(found, list) or len(found) != 2 or not all(_is_name(each) for each in found):
        raise ValueError("not a seat")
    return Seat(found[0], found[1])


def _is_name(found: object) -> bool:
    return isinstance(found, str) and 0 < len(found) <= TEXT_MAX


def _value_facts(value: Value) -> object:
    octets = b2a_base64(value.octets, newline=False).decode()
    return [value.version, value.origin, octets, _roster_facts(value.following)]


def _value(found: object) -> Value:
    if not isinstance(found, list) or len(found) != 4 or not isinstance(found[2], str):
        raise ValueError("not a value")
    octets = a2b_base64(found[2])  # binascii.Error is a ValueError
    if len(octets) > OCTETS_MAX:
        raise ValueError("a value that is too large")
    return Value(_bounded(found[0], "version"), _ballot(found[1]), octets, _roster(found[3]))
