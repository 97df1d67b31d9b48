"""A candidate and a real lock, driven step by step: at each call the clock of leases shows what the test says."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import StoreLost
from entrepot.ha.candidate import Candidate, Effect, Look, Lost, Memory, Recall, Sleep, State, Swap, Won
from entrepot.ha.lease import Grant, Record
from entrepot.ha.options import SharedStoreOptions
from entrepot.io.leases import Lock
from entrepot.io.ledger import Ledger, highest_epoch


class Contender:
    """One that competes for ``lock``, as the thread of `io/standby.py` does, and never sleeps."""

    def __init__(self, directory: Path, lock: Lock, mine: Record, options: SharedStoreOptions) -> None:
        self.directory = directory
        self.lock = lock
        self.mine = mine
        self.candidate = Candidate(mine, options)
        self.ledger = Ledger(directory)
        self.grant: Grant | None = None

    def attempt(self, at: Instant) -> Grant | None:
        """Look once at ``at``, and claim what is free. Raises as the lock does."""
        self.grant = None
        if self.candidate.state in (State.LOST, State.ENDED):  # it begins anew
            self.candidate = Candidate(self.mine, self.candidate.options)
        try:
            self._perform(self.candidate.wake(at), at)
        except OSError:
            self._perform(self.candidate.unanswered(at), at)
            raise
        return self.grant

    def renew(self, at: Instant) -> None:
        """Renew now, whenever it is due. Raises StoreLost, OSError."""
        self.candidate.tenure.failed(-(1 << 60))
        try:
            self._perform(self.candidate.wake(at), at)
        except OSError:
            self._perform(self.candidate.unanswered(at), at)
            raise
        if self.candidate.tenure.lost:
            raise StoreLost(self.candidate.tenure.lost)

    def release(self, at: Instant) -> None:
        """Hand it back."""
        self._perform(self.candidate.release(at), at)

    def close(self) -> None:
        """Let go without a word."""
        self.lock.close()

    def _perform(self, effects: list[Effect], at: Instant) -> None:
        while effects:
            effects = [further for effect in effects for further in self._do(effect, at)]

    def _do(self, effect: Effect, at: Instant) -> list[Effect]:
        candidate = self.candidate
        match effect:
            case Look():
                return candidate.seen(self.lock.look(), at)
            case Recall():
                memory = Memory(
                    highest_epoch(self.directory), self.ledger.lease(), empty=self.ledger.empty(self.mine.instance)
                )
                return candidate.recalled(memory, at, time.time_ns() // MILLISECOND)
            case Swap(version=version):
                if candidate.state is State.CLAIMING and not self.ledger.claim(self.mine):
                    return candidate.swapped(-1, at)
                return candidate.swapped(self.lock.swap(version, self.mine), at)
            case Won(grant=grant):
                self.ledger.append("master", self.mine, grant.why)
                self.grant = grant
            case Sleep(watching=True):
                self.lock.pause(threading.Event(), 0)
            case Sleep() | Lost():
                pass
        return []
