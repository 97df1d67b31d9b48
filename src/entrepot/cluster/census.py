"""Who is in the network, where clients reach each broker, in which zone it is and how many clients it has.

A broker learns of others from the BrokerInfo that opens a bridge, whichever side dialled; that is all that ActiveMQ
tells. Brokers of this kind tell each other more over the same bridges: a list of all that they know, itself first, so
that brokers learn of those behind their neighbours too. Each entry has a version that only its own broker raises, at
least every `HEARTBEAT`: an entry whose version stands still is a broker that is gone, whoever still repeats it.

A broker that comes and goes is believed later each time (`Member.settle`): who sends clients to it at once, moves them
for nothing. No clock, no socket: time and wall time are arguments.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import msgspec
from msgspec import Struct

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant, WallTime

TOKEN: Final = b"entrepot-census\n"
"""How the ``token`` of a ConnectionControl between two brokers begins that carries a list; ActiveMQ leaves it empty."""

HEARTBEAT: Final = 2 * SECOND
TELL_AGAIN: Final = 200 * MILLISECOND  # a burst of arrivals is told once
EXPIRY: Final = 3 * HEARTBEAT + SECOND  # three lost in a row, and the way over several brokers
SETTLE: Final = 2 * SECOND  # a broker that listens may still fail to come up
SETTLE_MAX: Final = 60 * SECOND
FLAPS_FORGOTTEN: Final = 120 * SECOND  # of a calm broker; twice the longest settling
MEMBERS_MAX: Final = 1000
UNKNOWN: Final = -1  # clients of a broker that does not tell: ActiveMQ


class Facts(Struct, frozen=True, array_like=True):
    """What one broker says about itself. ``clients``: failover clients, `UNKNOWN` if it does not share them out.

    ``stomp``: where it speaks STOMP, with blanks between several places, "" if it does not say. ``leaving``: it stops,
    these are its last words.
    """

    id: str
    name: str
    url: str
    zone: str = ""
    clients: int = UNKNOWN
    version: int = 0
    stomp: str = ""
    leaving: bool = False


class Member:
    """One other broker. ``since``: it is there without a break; ``settle``: how long before it is believed."""

    def __init__(self, facts: Facts, now: Instant) -> None:
        self.facts = facts
        self.since = now
        self.heard = now
        self.links: dict[Hashable, None] = {}
        self.settle: Duration = SETTLE

    def settled(self, now: Instant) -> bool:
        """Return whether clients may be sent there."""
        return now - self.since >= self.settle


class _Gone(Struct):
    version: int
    settle: Duration
    at: Instant


class Census:
    """The brokers that one broker knows. `changed` is true once after the *set* of brokers, or what they are, changed.

    Only `joined`, `left`, `heard` and `advance` change who is there.
    """

    def __init__(self, here: Facts, wall: WallTime) -> None:
        """``wall``: versions of a restarted broker must be higher than before, and nothing else is kept."""
        self.here = msgspec.structs.replace(here, version=wall)
        self.members: dict[str, Member] = {}
        self.changed = False
        self._gone: dict[str, _Gone] = {}
        self._parting: dict[str, Facts] = {}  # last words, passed on to those who have no bridge to who said them
        self._told_at: Instant = -HEARTBEAT
        self._news = True

    # -- what happens --------------------------------------------------------------------------------------------------

    def joined(self, link: Hashable, facts: Facts, now: Instant) -> None:
        """A bridge to the broker ``facts`` is open. ``link`` names the bridge, for `left`."""
        if facts.id == self.here.id or not facts.id:
            return
        member = self.members.get(facts.id)
        if member is None:
            member = self._enter(facts, now)
            if member is None:
                return
        elif (facts.name, facts.url) != (member.facts.name, member.facts.url) and not member.facts.version:
            member.facts = facts
            self.changed = True
        if not member.links:
            self.changed = True  # a neighbour from now on
        member.links[link] = None

    def left(self, link: Hashable, now: Instant) -> None:
        """A bridge is gone. Whom no other bridge leads to is gone too, until it is heard of with a new version."""
        for key, member in list(self.members.items()):
            if link in member.links:
                del member.links[link]
                if not member.links:
                    self._drop(key, now)

    def heard(self, token: bytes, now: Instant) -> None:
        """Another broker told what it knows; what cannot be read is ignored."""
        try:
            rows = msgspec.json.decode(token.removeprefix(TOKEN), type=list[Facts])
        except msgspec.DecodeError:
            return
        for facts in rows[:MEMBERS_MAX]:
            self._take(facts, now)

    def advance(self, now: Instant) -> None:
        """Forget brokers of which nothing is heard."""
        for key, member in list(self.members.items()):
            if member.facts.version and now - member.heard > EXPIRY:
                self._drop(key, now)
        for key, gone in list(self._gone.items()):
            if now - gone.at > EXPIRY:
                self._parting.pop(key, None)
            if now - gone.at > FLAPS_FORGOTTEN:
                del self._gone[key]

    def count(self, clients: int) -> None:
        """Note how many failover clients are here."""
        if clients != self.here.clients:
            self.here = msgspec.structs.replace(self.here, clients=clients)
            self._news = True

    def leave(self, now: Instant, wall: WallTime) -> bytes:
        """This broker stops: return the last that the neighbours should be told."""
        self.here = msgspec.structs.replace(self.here, leaving=True)
        self._told_at = now - HEARTBEAT
        return self.tell(now, wall)

    def tell(self, now: Instant, wall: WallTime) -> bytes:
        """Return what the neighbours should be told now, b"" for nothing: news soon, a sign of life now and then."""
        age = now - self._told_at
        if age < (TELL_AGAIN if self._news else HEARTBEAT):
            return b""
        self._told_at = now
        self._news = False
        self.here = msgspec.structs.replace(self.here, version=max(self.here.version + 1, wall))
        return self.token()

    def token(self) -> bytes:
        """Return all that is known and told by its own broker, this broker first."""
        known = [member.facts for member in self.members.values() if member.facts.version]
        return TOKEN + msgspec.json.encode([self.here, *known, *self._parting.values()])

    # -- what is known -------------------------------------------------------------------------------------------------

    def brokers(self) -> list[Facts]:
        """Return all others, in the order of their identities: the same on every broker."""
        return [self.members[key].facts for key in sorted(self.members)]

    def check(self) -> None:
        """Assert that nobody is his own neighbour, nor both here and gone."""
        assert self.here.id not in self.members
        assert len(self.members) <= MEMBERS_MAX
        assert all(key in self._gone and key not in self.members for key in self._parting)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _take(self, facts: Facts, now: Instant) -> None:
        if facts.id == self.here.id or not facts.id or not facts.version:
            return
        member = self.members.get(facts.id)
        if member is None:
            gone = self._gone.get(facts.id)
            if not facts.leaving and (gone is None or facts.version > gone.version):
                self._enter(facts, now)
            return
        if facts.version <= member.facts.version:
            return
        before = member.facts
        member.facts = facts
        member.heard = now
        if facts.leaving:
            self._drop(facts.id, now)
            self._parting[facts.id] = facts
            return
        if _told(before) != _told(facts):
            self.changed = True

    def _enter(self, facts: Facts, now: Instant) -> Member | None:
        if len(self.members) >= MEMBERS_MAX:
            return None
        member = Member(facts, now)
        gone = self._gone.pop(facts.id, None)
        self._parting.pop(facts.id, None)
        if gone is not None:
            member.settle = min(2 * gone.settle, SETTLE_MAX)
        self.members[facts.id] = member
        self.changed = self._news = True
        return member

    def _drop(self, key: str, now: Instant) -> None:
        member = self.members.pop(key)
        calm = now - member.since > FLAPS_FORGOTTEN
        self._gone[key] = _Gone(member.facts.version, SETTLE if calm else member.settle, now)
        self.changed = self._news = True


def _told(facts: Facts) -> tuple[str, str, str, bool]:
    """Return that of ``facts`` which clients are told of."""
    return facts.url, facts.zone, facts.name, facts.clients == UNKNOWN
