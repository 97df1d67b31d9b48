"""Passwords that have to be looked at, one after the other, and in what order: who guesses waits, and nobody else does.

To look at a hashed password takes some 20 ms of a processor and cannot be bounded by being refused: then guessing would
keep out who knows his. So a connection whose password is not recognised at once *knocks* and waits, and a `Hasher`, in
the real world a thread, looks at one after the other. Wrong ones are counted as *debts*, of the address that they came
from and of the name that was tried from there; one is forgotten every `FORGETTING`. Whose name has the smallest debt
from his address is looked at next, then whose address has, then who has waited longest. Names with a debt from their
address are looked at `GUESSES_A_SECOND` times a second at most, all together.

So a user is not kept waiting by guesses at his name from elsewhere, nor by guesses at other names from where he is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import AccessDenied, Refused
from entrepot.base.machines import machine_of
from entrepot.core.effort import Effort, Rest
from entrepot.core.ports import Host
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.security.directory import Directory, Subject
from entrepot.core.security.passwords import Kept

GUESSES_A_SECOND: Final = 10  # at 20 ms each a fifth of a processor
DEBTS_MAX: Final = 10_000  # addresses, and names tried from them, that are remembered: some 3 MB
FORGETTING: Final = 10 * SECOND  # one wrong password is forgotten
DEBT_MAX: Final = 30.0  # five minutes without a guess, and all of them are
WAITING_MAX: Final = 10  # from one address with as many debts; others may all wait: a broker has been started


class Knock:
    """Somebody who wants to come in, until it is known whether he may: then ``rest`` goes on, if he had to wait.

    ``certificate`` as in `Directory.recognise`; ``peer``: where he comes from, ``host:port``.
    """

    def __init__(
        self, name: str | None, password: str | None, certificate: str | None, peer: str, effort: Effort, rest: Rest
    ) -> None:
        self.name: Final = name
        self.password: Final = password
        self.certificate: Final = certificate
        self.address: Final = machine_of(peer)
        self.answered = False
        self.waits = False  # his connection has been left alone until there is an answer
        self.gone = False  # he waits no more
        self._effort: Final = effort
        self._rest: Final = rest
        self._subject: Subject | None = None
        self._refusal: Refused | None = None

    def subject(self) -> Subject:
        """Return who has come in. Raises AccessDenied, UserUnknown."""
        assert self.answered
        if self._refusal is not None:
            raise self._refusal
        assert self._subject is not None
        return self._subject

    def answer(self, verdict: Callable[[], Subject | None]) -> None:
        """Take ``verdict`` for the answer: the subject that it returns, or what it raises; None is no answer yet."""
        try:
            self._subject = verdict()
            self.answered = self._subject is not None
        except Refused as refusal:
            self._refusal = refusal
            self.answered = True

    def wake(self) -> None:
        """Let him go on, if he has waited."""
        if self.waits and not self.gone:
            self._effort.later(self._rest)


class Hasher:
    """Looks at hashes: this one here and now, which the simulated world cannot tell from a moment later."""

    def look(self, kept: Kept, password: str, done: Callable[[bool], None]) -> None:
        """Call ``done`` once, at once or later, with whether ``password`` is what is kept. Within a turn."""
        done(kept.matches(password))


class _Debt:
    def __init__(self) -> None:
        self.count = 0.0
        self.at: Instant = 0

    def now(self, now: Instant) -> float:
        return max(0.0, self.count - (now - self.at) / FORGETTING)


class _Turn(Alarm):
    def __init__(self, due: int, logins: Logins) -> None:
        super().__init__(due)
        self.logins = logins

    def ring(self, now: int) -> None:
        self.logins.ringing = False
        self.logins.go_on()


class Logins:
    """Who waits to be let into one broker."""

    def __init__(self, host: Host) -> None:
        self.host: Final = host
        self.hasher = Hasher()
        self.waiting: list[Knock] = []
        self.ringing = False
        self._directory: Directory | None = None
        self._debts: dict[tuple[str, str | None], _Debt] = {}  # (address, "" or a name); the newest last
        self._busy = False
        self._second: Instant = 0
        self._guesses = 0

    def take(self, knock: Knock, directory: Directory) -> None:
        """Answer ``knock`` at once, if it can be told at once; otherwise it waits."""
        self._directory = directory
        knock.answer(lambda: directory.recognise(knock.name, knock.password, knock.certificate))
        if knock.answered:
            return
        if self._debt(knock, "") >= WAITING_MAX and self._waiting_from(knock.address) >= WAITING_MAX:
            knock.answer(_too_many)
            return
        self.waiting.append(knock)
        self.go_on()
        knock.waits = not knock.answered

    def go_on(self) -> None:
        """Look at what waits, as far as that may be now."""
        while self.waiting and not self._busy:
            knock = min(self.waiting, key=self._rank)
            if not knock.gone and self._debt(knock, knock.name) > 0 and not self._may_guess():
                self._ring()
                return
            self.waiting.remove(knock)
            if not knock.gone:
                self._look(knock)

    def _rank(self, knock: Knock) -> tuple[bool, float, float]:
        """Return what decides who is next, the smallest first; of equal ones who came first."""
        return not knock.gone, self._debt(knock, knock.name), self._debt(knock, "")

    def _may_guess(self) -> bool:
        now = self.host.now
        if now - self._second >= SECOND:
            self._second = now
            self._guesses = 0
        self._guesses += 1
        return self._guesses <= GUESSES_A_SECOND

    def _ring(self) -> None:
        if not self.ringing:
            self.ringing = True
            self.host.timetable.add(_Turn(int(self._second) + SECOND, self))

    def _look(self, knock: Knock) -> None:
        directory = self._directory
        assert directory is not None
        knock.answer(lambda: directory.recognise(knock.name, knock.password, knock.certificate))
        if knock.answered:  # another connection of his was looked at meanwhile
            knock.wake()
            return
        self._busy = True
        self.hasher.look(directory.kept(knock.name), knock.password or "", lambda right: self._looked(knock, right))

    def _looked(self, knock: Knock, right: bool) -> None:
        self._busy = False
        directory = self._directory
        assert directory is not None
        right = directory.learn(knock.name, knock.password, right)
        if right:
            self._debts.pop((knock.address, knock.name), None)
        else:
            self._owe((knock.address, knock.name))
            self._owe((knock.address, ""))
        knock.answer(lambda: directory.concluded(knock.name, right))
        knock.wake()
        if self.waiting:
            self.go_on()

    # -- debts --------------------------------------------------------------------------------------------------------

    def _debt(self, knock: Knock, name: str | None) -> float:
        debt = self._debts.get((knock.address, name))
        return 0.0 if debt is None else debt.now(self.host.now)

    def _owe(self, key: tuple[str, str | None]) -> None:
        now = self.host.now
        debt = self._debts.pop(key, None)
        if debt is None:
            debt = _Debt()
            if len(self._debts) >= DEBTS_MAX:
                del self._debts[next(iter(self._debts))]  # nobody guessed there for longest
        debt.count = min(debt.now(now) + 1.0, DEBT_MAX)
        debt.at = now
        self._debts[key] = debt

    def _waiting_from(self, address: str) -> int:
        return sum(1 for knock in self.waiting if knock.address == address)


def _too_many() -> Subject:
    raise AccessDenied("too many wrong passwords came from this address", remedy="try again in a while")


__all__ = ["GUESSES_A_SECOND", "Hasher", "Knock", "Logins"]
