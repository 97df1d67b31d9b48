"""Who comes in, by which rules, and what one user may do at one address, with the rule that decides.

What is told here is what `core/security/access.py` decides by: the same rules, weighed by the same code. No password is
told, nor what is kept of one. Rights are called as in a users file, whichever family the rules came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from entrepot.base.errors import Refused
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.provenance import NOWHERE, Spot
from entrepot.core.addressing.routing import default_routing
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.pace import Pace
from entrepot.core.operators.sifting import Sifted
from entrepot.core.security.access import (
    BROWSE,
    CONSUME,
    CREATE,
    DELETE,
    EDIT,
    EVERYBODY,
    MANAGE,
    MANAGEMENT,
    SEND,
    SINGLE,
    SUBSCRIBE,
    VIEW,
    Listed,
    Place,
    Rule,
)
from entrepot.core.security.directory import Subject
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination, parse_one

WORDS: Final[dict[str, int]] = {**SINGLE, "view": VIEW, "edit": EDIT}
"""Rights by the names that a users file has for them, in the order in which they are shown."""
KINDS: Final = {ANYCAST: "queue", MULTICAST: "topic", UNTYPED: "any"}
ASKED: Final[dict[int, dict[str, int]]] = {
    ANYCAST: {"send": SEND, "consume": CONSUME, "browse": BROWSE, "create": CREATE, "delete": DELETE},
    MULTICAST: {"send": SEND, "consume": CONSUME, "subscribe": CONSUME | SUBSCRIBE, "create": CREATE, "delete": DELETE},
}
"""What can be done to a queue, and to a topic."""
MAKING: Final = SEND | CONSUME | BROWSE  # what does not exist is made by doing so
TEMPORARY: Final = "temporary destinations"
OPEN: Final = "there are no rules: who is in may do everything"


class Person(Struct, frozen=True):
    """Somebody who comes in, and how. ``at``: where he is written."""

    name: str
    groups: tuple[str, ...]
    comes: str
    at: Spot = NOWHERE

    def row(self) -> dict[str, Any]:
        """Return what is told of him."""
        return {"user": self.name, "groups": list(self.groups), "comes": self.comes, **self.at.fields()}

    def text(self) -> str:
        """Return what is searched."""
        return " ".join((self.name, *self.groups, self.comes, self.at.file))


def users(broker: BrokerCore, given: Arguments) -> Sifted[Person]:
    """Return the page of who comes in. Raises Refused."""
    listed = Listed(broker.access)
    facts = {"asks": listed.asks, "guarded": broker.access.guarded, "narrowest": listed.narrowest}
    return Sifted(given, "users", _people(listed), Pace(broker), Person.text, Person.row, facts=facts)


def _people(listed: Listed) -> Iterator[Person]:
    for user in listed.users:
        yield Person(user.subject.name, tuple(user.subject.groups), "by his password", user.at)
    for one in listed.certified:
        yield Person(one.name, one.groups, f"by the certificate {one.written}", one.at)
    if listed.anonymous is not None:
        yield Person(listed.anonymous.name, tuple(listed.anonymous.groups), "without a name and a password")
    if listed.stranger is not None:
        yield Person(listed.stranger.name, tuple(listed.stranger.groups), "with any name and password")
    if listed.peer is not None:
        yield Person(listed.peer.name, (), "as another node of the cluster, which may do everything")


class Grant(Struct, frozen=True):
    """What one rule gives one group. ``place``: instead of a pattern, for what has none."""

    rule: Rule
    group: str
    rights: int
    place: str = ""

    def row(self) -> dict[str, Any]:
        """Return what is told of it."""
        rule = self.rule
        return {
            "pattern": self.place or rule.pattern,
            "kind": KINDS.get(rule.routing, ""),
            "group": self.group,
            "rights": [word for word, bit in WORDS.items() if self.rights & bit],
            **rule.at.fields(),
        }

    def text(self) -> str:
        """Return what is searched."""
        return f"{self.place or self.rule.pattern} {self.group} {self.rule.at.file}"


def rules(broker: BrokerCore, given: Arguments) -> Sifted[Grant]:
    """Return the page of what the rules give to whom, in the order of the rules. Raises Refused."""
    listed = Listed(broker.access)
    temporary = listed.temporary
    found = (Grant(rule, group, rights) for rule in listed.rules for group, rights in rule.grants.items())
    others = () if temporary is None else [Grant(temporary, *one, TEMPORARY) for one in temporary.grants.items()]
    facts = {"asks": listed.asks, "guarded": broker.access.guarded, "narrowest": listed.narrowest}
    return Sifted(given, "rules", chain(found, others), Pace(broker), Grant.text, Grant.row, facts=facts)


# -- one user at one address -------------------------------------------------------------------------------------------


def verdicts(broker: BrokerCore, given: Arguments) -> dict[str, Any]:
    """Take (user, destination): return what he may do there, right by right. Raises Refused, InvalidDestination."""
    user, destination = given.text(0), parse_one(given.text(1))
    if destination.temporary:
        raise Refused("temporary destinations have rules of their own", remedy=f"see those for {TEMPORARY}")
    subject, listed = broker.access.named(user), Listed(broker.access)
    told = Inquest(broker, subject)
    return {
        "user": user,
        "groups": list(subject.groups),
        "known": any(one.name == user for one in _people(listed)),
        "asks": listed.asks,
        "guarded": broker.access.guarded,
        "destination": destination.name,
        "queue": destination.queue,
        "verdicts": [
            *(row for routing in _routings(broker, destination) for row in told.about(destination, routing)),
            told.row("broker", "manage", told.managing()),
        ],
    }


def _routings(broker: BrokerCore, destination: Destination) -> list[int]:
    """Return as what a destination is meant: as it says, as it exists, else as either."""
    if destination.routing != UNTYPED:
        return [destination.routing]
    if destination.name in broker.table.addresses:
        known = default_routing(broker.table, destination.name)
        if known != UNTYPED:
            return [known]
    return [ANYCAST, MULTICAST]


class Verdict(Struct, frozen=True):
    """Whether somebody may, why, and the rule that decides; None where none does."""

    allowed: bool
    why: str
    rule: Rule | None = None


class Inquest:
    """Looks at what one subject may do, as `Access` asks: each right at each address that is meant."""

    def __init__(self, broker: BrokerCore, subject: Subject) -> None:
        self.broker: Final = broker
        self.subject: Final = subject

    def about(self, destination: Destination, routing: int) -> Iterator[dict[str, Any]]:
        """Yield a row for each thing that can be done there."""
        place = Destination(destination.name, routing, queue=destination.queue)
        if place.name in self.broker.addresses.services and not place.queue:
            at = (self.broker.access.management, ANYCAST) if place.name == MANAGEMENT else (place.name, routing)
            yield self.row(KINDS[routing], "send", self._together(MANAGE, [at]))
            return
        found = Place(self.broker.access, place)
        for word, bits in ASKED[routing].items():
            yield self.row(KINDS[routing], word, self._done(bits, found, word))

    def managing(self) -> Verdict:
        """Say whether he may manage the broker."""
        return self._together(MANAGE, [(self.broker.access.management, ANYCAST)])

    @staticmethod
    def row(kind: str, word: str, verdict: Verdict) -> dict[str, Any]:
        """Return what is told of one."""
        rule = verdict.rule
        at = NOWHERE if rule is None else rule.at
        pattern = "" if rule is None else rule.pattern
        return {"kind": kind, "right": word, **_said(verdict), "pattern": pattern, **at.fields()}

    def _done(self, bits: int, place: Place, word: str) -> Verdict:
        asked = place.made if word == "create" else place.meant
        found = self._together(bits, asked)
        if found.allowed and place.private:
            found = self._together(MANAGE, place.meant[:1])
        covers = is_pattern(place.meant[0][0], MIXED) and word != "send"
        if found.allowed and bits & MAKING and place.missing and not covers:
            making = self._together(CREATE, place.made)
            if not making.allowed:
                return Verdict(False, f"it does not exist, and he may not make it: {making.why}", making.rule)
        return found

    def _together(self, bits: int, places: list[tuple[str, int]]) -> Verdict:
        """Judge each right at each address: the first that is missing decides, else the first that is given."""
        found = [self._judge(bit, *place) for place in places for bit in WORDS.values() if bits & bit]
        return next((one for one in found if not one.allowed), found[0])

    def _judge(self, bit: int, name: str, routing: int) -> Verdict:
        access, subject = self.broker.access, self.subject
        if not access.guarded:
            return Verdict(True, OPEN)
        if subject.peer:
            return Verdict(True, "he is another node of the cluster")
        weighed = access.weighed(name, routing)
        giving = [rule for rule in weighed.giving if rule.given(subject) & bit]
        for rule in weighed.limits:
            if giving and not rule.given(subject) & bit:
                return Verdict(False, f"the rule for {rule.pattern} is about some of it and does not give it", rule)
        if giving:
            return Verdict(True, _through(giving[0], bit, subject), giving[0])
        if not weighed.giving:
            return Verdict(False, "no rule is about it")
        return Verdict(False, _refused(weighed.giving, bit), weighed.giving[-1])


def _said(verdict: Verdict) -> dict[str, Any]:
    return {"allowed": verdict.allowed, "why": verdict.why}


def _through(rule: Rule, bit: int, subject: Subject) -> str:
    """Say by which groups a rule gives a right to somebody."""
    found = [group for group, rights in rule.grants.items() if rights & bit and group in subject.groups]
    if rule.grants.get(EVERYBODY, 0) & bit:
        return f"the rule for {rule.pattern} gives it to everybody"
    return f"the rule for {rule.pattern} gives it to {', '.join(found)}"


def _refused(giving: list[Rule], bit: int) -> str:
    """Say to whom the rules that count give a right instead."""
    groups = dict.fromkeys(group for rule in giving for group, rights in rule.grants.items() if rights & bit)
    patterns = ", ".join(dict.fromkeys(rule.pattern for rule in giving))
    if not groups:
        return f"of what counts ({patterns}) nothing gives it to anybody"
    return f"of what counts ({patterns}) it is given to {', '.join(groups)}, and he is none of them"
