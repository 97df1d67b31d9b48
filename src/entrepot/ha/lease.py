"""The lock as a matter of time: what a holder may still believe, and what a challenger may conclude.

Two rules carry everything, and no wall clock is in them:

- *The holder* counts from the moment at which it **asked** for a renewal; a renewal counts only when its answer came
  **before the old lease ended**. So every renewal that it believes in was visible to others in time.
- *The challenger* counts from the moment at which it **saw** the record change for the last time, and waits longer than
  the lease by what two clocks may drift apart (`DRIFT_PERCENT` on either side).

With both, nobody can find a lease expired that its holder still believes in, however long either was paused between any
two steps. Locks of the operating system only make it faster: a freed one proves that the holder's process is gone.

Must never: read a clock, or take the time of another machine for anything but a text.
"""

from __future__ import annotations

import json
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant, WallTime
from entrepot.base.errors import InvalidOption

DRIFT_PERCENT: Final = 5
"""Taken off the holder's lease and put on the challenger's wait: clocks of one rack differ by under 0.1 %."""

DURATION: Final = 5 * SECOND
"""How long a paused or cut-off master blocks its successor. A dead process does not: its lock is freed at once."""

RENEWALS: Final = 5
"""Renewals in one lease: four in a row may fail before the broker has to stop."""

DURATION_MIN: Final = 200 * MILLISECOND

PRECEDENCE: Final = SECOND
"""For so long who waits lets him go first whom clients were sent to: ten looks at a lock that does not wake him."""

EITHER: Final = "either"  # equals: whoever is first serves (Classic)
PRIMARY: Final = "primary"  # the store is this broker's (Artemis)
BACKUP: Final = "backup"  # serves while the primary cannot
PARTS: Final = (EITHER, PRIMARY, BACKUP)


class LeaseOptions:
    """How long a lease lasts and how often it is renewed, in ns."""

    def __init__(self, duration: Duration = DURATION, renew_every: Duration = 0) -> None:
        """``renew_every`` 0 takes a `RENEWALS`th of ``duration``. Raises InvalidOption."""
        self.duration: Final = duration
        self.renew_every: Final = renew_every or duration // RENEWALS
        if duration < DURATION_MIN:
            raise InvalidOption(
                f"a lease of {duration // MILLISECOND} ms is shorter than a busy machine pauses",
                remedy=f"give it at least {DURATION_MIN // MILLISECOND} ms",
            )
        if not 0 < self.renew_every <= duration // 2:
            raise InvalidOption(
                f"a lease of {duration // MILLISECOND} ms cannot be renewed every {self.renew_every // MILLISECOND} ms",
                remedy="renew it at least twice in its time (lockKeepAlivePeriod)",
            )

    @property
    def trusted(self) -> Duration:
        """Return how long the holder believes in a lease."""
        return self.duration - self.duration * DRIFT_PERCENT // 100


def patience(duration: Duration) -> Duration:
    """Return how long a challenger must see no change before a lease of ``duration`` has ended everywhere."""
    return duration + duration * DRIFT_PERCENT // 100


class Record:
    """What the holder writes where others look. ``instance`` is fresh for each process; ``beat`` rises with renewals.

    ``released``: handed back on purpose; ``reserved``: and not to everybody, see `Rules`. ``place``: identity of the
    file it was written to (0 where there is none). ``eligible``: which copies of a replicated store may be served next,
    and the epoch in which each joined (`ha/standing.py`); empty for a store that is shared. ``heir``: whom clients are
    told to go to when the holder is gone: an instance, or a copy of a replicated store; "" for nobody.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str = "",
        pid: int = 0,
        instance: str = "",
        store: str = "",
        epoch: int = 0,
        beat: int = 0,
        since: WallTime = 0,
        lease: Duration = DURATION,
        place: int = 0,
        released: bool = False,
        reserved: str = "",
        eligible: dict[str, int] | None = None,
        heir: str = "",
    ) -> None:
        self.name = " ".join(name.split())  # the record has lines
        self.host = host
        self.pid = pid
        self.instance = instance
        self.store = store
        self.epoch = epoch
        self.beat = beat
        self.since = since
        self.lease = lease
        self.place = place
        self.released = released
        self.reserved = reserved
        self.eligible: dict[str, int] = {} if eligible is None else eligible
        self.heir = heir

    def describe(self) -> str:
        """Return who it is, for people."""
        where = f" on {self.host}" if self.host else ""
        return f"broker {self.name}, process {self.pid}{where}"

    def facts(self) -> dict[str, object]:
        """Return it for JSON; times in ms."""
        return {
            "name": self.name,
            "host": self.host,
            "pid": self.pid,
            "instance": self.instance,
            "store": self.store,
            "epoch": self.epoch,
            "beat": self.beat,
            "since": self.since,
            "lease": self.lease // MILLISECOND,
            "place": self.place,
            "released": self.released,
            "reserved": self.reserved,
            **({"eligible": self.eligible} if self.eligible else {}),
            **({"heir": self.heir} if self.heir else {}),
        }

    def encode(self) -> bytes:
        """Return a line for people and a line for brokers."""
        return f"{self.describe()}\n{json.dumps(self.facts())}\n".encode()


def decode(octets: bytes) -> Record | None:
    """Return the record in ``octets``; None for what no broker of a pair wrote, or wrote only in part."""
    lines = octets.rstrip(b"\0").split(b"\n")
    if len(lines) < 3:  # the line end behind it says that the line is whole
        return None
    try:
        facts = json.loads(lines[1])
        return Record(
            name=str(facts["name"]),
            host=str(facts["host"]),
            pid=int(facts["pid"]),
            instance=str(facts["instance"]),
            store=str(facts["store"]),
            epoch=int(facts["epoch"]),
            beat=int(facts["beat"]),
            since=int(facts["since"]),
            lease=int(facts["lease"]) * MILLISECOND,
            place=int(facts["place"]),
            released=bool(facts["released"]),
            reserved=str(facts.get("reserved", "")),
            eligible={str(copy): int(epoch) for copy, epoch in facts.get("eligible", {}).items()},
            heir=str(facts.get("heir", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Grant:
    """A lease that was won: its ``epoch``, when it was ``asked`` for, and ``why`` it could be had."""

    def __init__(self, epoch: int, asked: Instant, why: str) -> None:
        self.epoch = epoch
        self.asked = asked
        self.why = why


def refuse_twin(record: Record, mine: Record) -> None:
    """Raise InvalidOption when a master that lives has our name: nobody could tell the two apart."""
    if record.name == mine.name and record.instance != mine.instance and not record.released:
        raise InvalidOption(
            f"the master of this store is called {record.name}, too: {record.describe()}",
            remedy="give each broker of a pair a name of its own with --name",
        )


NOTHING: Final = ("", 0, 0, False)


class Watch:
    """The challenger's side: since when the record has not changed."""

    def __init__(self) -> None:
        self.alive = False  # the record changed while we looked on
        self._seen: tuple[str, int, int, bool] | None = None
        self._since: Instant = 0

    def observe(self, record: Record, now: Instant) -> None:
        """Take what was read; ``now`` is an instant **after** it was read."""
        mark = (record.instance, record.epoch, record.beat, record.released)
        if mark != self._seen:
            self.alive = self._seen is not None
            self._seen = mark
            self._since = now

    def missed(self, now: Instant) -> None:
        """Nothing stands where a record stood once: its holder may not know yet. ``now`` as in `observe`."""
        if self._seen != NOTHING:
            self.alive = False
            self._seen = NOTHING
            self._since = now

    def forget(self) -> None:
        """Whatever was seen says nothing any more."""
        self._seen = None
        self.alive = False

    def expired(self, record: Record, now: Instant) -> bool:
        """Say whether ``record``, just observed, is that of a lease which has ended everywhere."""
        return self._seen is not None and now - self._since >= patience(record.lease)

    def unchanged(self, now: Instant) -> Duration:
        """Return for how long nothing has changed."""
        return 0 if self._seen is None else now - self._since


class Rules:
    """Who may claim what was handed back (artemis.md 2.2). ``part``: see `ha/options.py`; ``twins``: so too.

    A primary that stops without handing over leaves its store ``paused``: a backup waits until a primary was master
    again. A backup that gives the store back leaves it for a ``failback``: all others let the primary go first, as
    long as a lease may last; if it died meanwhile, they may. A process that steps down leaves it to ``others``, for as
    long.
    """

    PAUSED: Final = "paused"
    FAILBACK: Final = "failback"
    OTHERS: Final = "others"

    def __init__(self, part: str = EITHER, *, twins: bool = False, mine: Record | None = None) -> None:
        self.part: Final = part
        self.twins: Final = twins
        self.mine: Final = Record(name="") if mine is None else mine

    def leaves_alone(self, record: Record, watch: Watch, now: Instant) -> bool:
        """Say whether ``record``, that of a lease handed back, is not for us; ``now`` is after it was read."""
        if not record.released or not self._is_for_another(record):
            return False
        if record.reserved == self.PAUSED:
            return True
        watch.observe(record, now)
        return watch.unchanged(now) < patience(record.lease)

    def _is_for_another(self, record: Record) -> bool:
        mine = self.mine
        if record.reserved == self.OTHERS:  # a process that begins anew keeps its number
            return (record.name, record.host, record.pid) == (mine.name, mine.host, mine.pid)
        if record.reserved == self.FAILBACK:
            return self.part != PRIMARY
        return self.part == BACKUP and record.reserved == self.PAUSED


class Precedence:
    """The challenger's side: clients were sent to one who waits, and dial no other. So he is let go first.

    He may be dead, too, so nobody waits for him longer than for `PRECEDENCE`; nor at all where the record does not call
    his copy of a replicated store eligible. ``me``: as an heir is named.
    """

    def __init__(self, me: str) -> None:
        self._me: Final = me
        self._whose: tuple[str, int, str] | None = None  # of the record that was free, as seen last
        self._since: Instant = 0

    def another(self, record: Record | None, now: Instant) -> bool:
        """Say whether the free ``record`` is for another first; ``now`` is after it was read."""
        if record is None or record.heir in ("", self._me) or record.reserved not in ("", Rules.OTHERS):
            return False  # clients know nobody, or this one; or it is the primary's anyhow
        if record.eligible and record.heir not in record.eligible:
            return False  # he was not in sync any more
        whose = (record.instance, record.epoch, record.heir)
        if whose != self._whose:
            self._whose, self._since = whose, now
        return now - self._since < PRECEDENCE

    def forget(self) -> None:
        """It is not free."""
        self._whose = None


class Tenure:
    """The holder's side: until when it may confirm. Changed by `won`, `renewed` and `lose` alone; never regained."""

    def __init__(self, options: LeaseOptions) -> None:
        self.options: Final = options
        self.epoch = 0
        self.until: Instant = 0
        self.lost = ""
        self.failing = False  # the last renewal was not answered
        self._next: Instant = 0

    def won(self, grant: Grant) -> None:
        """Take office."""
        self.epoch = grant.epoch
        self.until = grant.asked + self.options.trusted
        self._next = grant.asked + self.options.renew_every

    def renewed(self, asked: Instant, now: Instant) -> bool:
        """A renewal that was asked for at ``asked`` is answered; False when it came too late to count."""
        if not self.holds(now):
            self.lose("its renewal was answered after the lease had ended: the broker or its disk stood still")
            return False
        self.until = asked + self.options.trusted
        self.failing = False
        self._next = asked + self.options.renew_every
        return True

    def failed(self, now: Instant) -> None:
        """A renewal failed in a way that may pass: try again soon, as long as there is time."""
        self.failing = True
        self._next = now + self.options.renew_every // 4

    def lose(self, why: str) -> None:
        """Leave office for good. The first reason counts."""
        if not self.lost:
            self.lost = why

    def holds(self, now: Instant) -> bool:
        """Say whether it may confirm at ``now``."""
        return not self.lost and now < self.until

    def deadline(self) -> Instant:
        """Return when to renew."""
        return self._next

    def check(self) -> None:
        """Assert what must be true at any moment. Raises AssertionError."""
        assert (self.epoch > 0) == (self.until > 0), "in office without an epoch, or the reverse"
