"""A disk that behaves as badly as a real one may, drawn from a seed.

Everything asked for is seen by reads at once and is durable only after a sync. What a sync covered always survives;
that is the fault model, and no more: a broker cannot be asked to survive a disk that forgets what it confirmed. What a
crash leaves of the rest, and damage of durable octets, is `Medium`'s; space that runs out is `Room`'s.

Must never: complete anything inside the call that asks for it, except in `drain`.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import MICROSECOND, MILLISECOND, Duration, Entropy
from entrepot.base.errors import BodyLost, EntrepotError, StorageError, StorageFull
from entrepot.journal.ports import SCRATCH, JournalEvents, JournalPort, Location, Locator
from entrepot.simulation.medium import Covers, Effect, Medium, everything, place

UNLIMITED = 1 << 60

Later = Callable[[Duration, Callable[[], None]], None]


class Answers:
    """Who is told what became of what was asked for: the ``events`` of the process that asked, as long as it lives.

    ``dead``: the disk has failed, and nothing is carried out for this process any more.
    """

    def __init__(self, later: Later) -> None:
        self.later = later
        self.events = JournalEvents()
        self.dead = False
        self._epoch = 0

    def soon(self, action: Callable[[], None], delay: Duration = 0) -> None:
        """Do ``action`` after ``delay``, unless the process has gone by then."""
        epoch = self._epoch

        def run() -> None:
            if self._epoch == epoch:
                action()

        self.later(delay, run)

    def fail(self, what: str) -> None:
        """The disk fails, for good: tell the process so, and do nothing more for it."""
        self.dead = True
        self.soon(lambda: self.events.failed(StorageError(what, remedy="replace the disk")))

    def hang_up(self) -> None:
        """The process is gone: nobody is told what was still to come."""
        self._epoch += 1

    def renew(self) -> None:
        """A process will begin, on a disk that works."""
        self.events = JournalEvents()
        self.dead = False


class Room:
    """Space, and what waits for it: as on a real disk, what was asked for first is carried out first.

    ``capacity`` in octets; ``reserve`` of them are used last, and the journal is told when that begins.
    """

    def __init__(self, medium: Medium, answers: Answers, reserve: int) -> None:
        self.capacity = UNLIMITED
        self.reserve = reserve
        self.held: list[tuple[int, Callable[[], None]]] = []
        self._medium = medium
        self._answers = answers
        self._tight = False
        self._reserve_used = False

    def ask(self, action: Callable[[], None], growth: int = 0) -> None:
        """Carry out ``action``, which makes files ``growth`` octets longer, now or when there is space."""
        if self._answers.dead:
            return
        if self.held or not self._fits(growth):
            if not self.held:
                self._answers.soon(lambda: self._answers.events.failed(disk_full()))
            self.held.append((growth, action))
            return
        action()

    def _fits(self, growth: int) -> bool:
        used = self._medium.used() + growth if growth else 0
        if growth == 0 or used <= self.capacity - (0 if self._reserve_used else self.reserve):
            return True
        if not self._reserve_used and used <= self.capacity:
            self._reserve_used = True
            self._tight = True
            self._answers.soon(lambda: self._answers.events.tight(disk_full()))
            return True
        return False

    def retry(self) -> None:
        """Carry out what was held, as far as it fits now."""
        if self._answers.dead:
            return
        carried_out = False
        while self.held and self._medium.used() + self.held[0][0] <= self.capacity:
            _, action = self.held.pop(0)
            action()
            carried_out = True
        roomy = self._medium.used() + self.reserve <= self.capacity
        if not self.held and roomy and (carried_out or self._tight):
            self._tight = False
            self._reserve_used = False
            self._answers.soon(self._answers.events.relieved)

    def make(self, capacity: int = UNLIMITED) -> None:
        """Change the capacity, and carry out what was held if it fits now."""
        self.capacity = capacity
        self.retry()

    def forget(self) -> None:
        """Who asked is gone, and what was held with him."""
        self.held = []
        self._tight = False
        self._reserve_used = False


class Pending:
    """A sync or a publication under way: when it is done, the changes up to ``upto`` that it ``covers`` are durable."""

    def __init__(self, upto: int, covers: Covers, finish: Callable[[], None]) -> None:
        self.upto = upto
        self.covers = covers
        self.finish = finish
        self.done = False


class Shown(Locator):
    """Files are where their names are: who reads one looks into ``medium.view``."""

    def __init__(self, medium: Medium) -> None:
        self._medium = medium

    def location(self, name: str) -> Location | None:
        """Return its name, while it is there."""
        return Location(name, 0, 0) if name in self._medium.view else None


class SimulatedDisk(JournalPort):
    """The disk of one simulated machine; it outlives the brokers that crash above it.

    ``later`` runs an action after a delay. Faults: ``room.capacity``, ``fail_writes`` / ``fail_syncs`` (EIO from now
    on), ``sync_delay_max``; ``tear`` off means that unsynced changes survive or are lost as wholes.
    """

    def __init__(self, entropy: Entropy, later: Later, *, reserve: int = 0) -> None:
        self.medium = Medium()
        self.locator = Shown(self.medium)
        self.answers = Answers(later)
        self.room = Room(self.medium, self.answers, reserve)
        self.fail_writes = False
        self.fail_syncs = False
        self.tear = True
        self.sync_delay_min: Duration = 100 * MICROSECOND
        self.sync_delay_max: Duration = 2 * MILLISECOND
        self.syncs = 0
        self._entropy = entropy
        self._pending: list[Pending] = []
        self._spoiled: dict[str, bool] = {}

    # -- what the world does to it -------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The machine stops: decide what of the unsynced changes survives, and forget who was asking."""
        self.answers.hang_up()
        self.medium.crash(self._entropy, tear=self.tear)
        self._forget()

    def stop(self, *, durable: bool = True) -> None:
        """The process dies and the machine lives: everything that was carried out survives.

        ``durable`` off: the next process sees it, and a crash of the machine may still take what was not synced.
        """
        self.answers.hang_up()
        if durable:
            self.medium.stop()
        else:
            self.medium.show()
        self._forget()

    def _forget(self) -> None:
        self._pending = []
        self._spoiled = {}
        self.answers.renew()
        self.room.forget()

    def used(self) -> int:
        """Return the octets of all files."""
        return self.medium.used()

    # -- carrying out --------------------------------------------------------------------------------------------------

    def _begin(self, covers: Covers, finish: Callable[[], None]) -> None:
        pending = Pending(self.medium.serial, covers, finish)
        self._pending.append(pending)
        spread = int((self.sync_delay_max - self.sync_delay_min) * self._entropy.fraction())
        self.answers.soon(lambda: self._complete(pending), self.sync_delay_min + spread)

    def _complete(self, pending: Pending) -> None:
        """Finish ``pending`` and all that were begun before it."""
        while not pending.done and self._pending:
            first = self._pending.pop(0)
            if self.fail_syncs:
                self._pending = []
                self.answers.fail("the disk failed: a sync failed (Input/output error)")
                return
            self.medium.harden(first.upto, first.covers)
            first.done = True
            self.syncs += 1
            first.finish()

    # -- JournalPort ---------------------------------------------------------------------------------------------------

    def attach(self, events: JournalEvents) -> None:
        """Send completions to ``events``."""
        self.answers.events = events

    def names(self) -> list[str]:
        """Return the names of all segments and scratch files, sorted."""
        return sorted(name for name in self.medium.view if not name.endswith((".blob", ".damaged")))

    def size(self, name: str) -> int:
        """Return the length of a file."""
        return len(self.medium.found(name))

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return what the file holds, durable or not."""
        return bytes(self.medium.found(name)[offset : offset + length])

    def create(self, name: str, expected: int) -> None:
        """Make an empty file."""
        self.medium.view[name] = bytearray()
        self.room.ask(lambda: self.medium.note(Effect("create", name)))

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Write, not durably."""
        if name in self._spoiled or self.answers.dead:
            return
        octets = head + body
        growth = max(0, offset + len(octets) - len(self.medium.view.get(name, b"")))
        if self.fail_writes:
            self._pending = []
            self.answers.fail("the disk failed: a write failed (Input/output error)")
            return
        if name.endswith(SCRATCH) and self.used() + growth > self.room.capacity:
            self._spoiled[name] = True
            self.drop(name)
            self.answers.soon(lambda: self.answers.events.spoiled(name))
            return
        effect = Effect("write", name, offset=offset, octets=octets)
        self.room.ask(lambda: self.medium.note(effect), growth)
        place(self.medium.view.setdefault(name, bytearray()), offset, octets)

    def sync(self, token: int) -> None:
        """Make all that was asked for durable, after a while."""
        self.room.ask(lambda: self._begin(everything, lambda: self.answers.events.synced(token)))

    def trim(self, name: str, length: int) -> None:
        """Cut, not durably."""
        self.room.ask(lambda: self.medium.note(Effect("cut", name, offset=length)))

    def cut(self, name: str, length: int) -> None:
        """Cut and make the file durable. Raises StorageFull while writes are held: they would not be in it."""
        if self.room.held:
            raise StorageFull(f"cannot cut {name} while writes to it wait for space", remedy="make room")
        del self.medium.found(name)[length:]
        self.medium.note(Effect("cut", name, offset=length))
        self.medium.carry_through(name)

    def publish(self, scratch: str, name: str) -> None:
        """Make ``scratch`` durable, then its name, then tell."""
        self.room.ask(lambda: self._begin(lambda effect: effect.name == scratch, lambda: self._rename(scratch, name)))

    def _rename(self, scratch: str, name: str) -> None:
        if self._spoiled.pop(scratch, False):
            return
        effect = Effect("rename", scratch, target=name)
        effect.apply(self.medium.view)
        self.medium.note(effect)
        self._begin(Effect.changes_names, lambda: self.answers.events.published(name))

    def drop(self, name: str) -> None:
        """Remove, not durably."""
        self.medium.view.pop(name, None)
        self.room.ask(lambda: self.medium.note(Effect("drop", name)))
        self.room.retry()

    def space(self) -> int:
        """Return what is left."""
        return max(0, self.room.capacity - self.used())

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        return sorted(int(name[:-5]) for name in self.medium.view if name.endswith(".blob"))

    def blob_create(self, blob_id: int) -> None:
        """Make an empty blob."""
        self.create(f"{int(blob_id)}.blob", 0)

    def blob_write(self, blob_id: int, chunk: bytes) -> None:
        """Append to a blob."""
        name = f"{int(blob_id)}.blob"
        self.write(name, len(self.medium.view.get(name, b"")), chunk, b"")

    def blob_seal(self, blob_id: int) -> None:
        """Make the blob durable: what is asked for later waits for that on a real disk, and costs no time here."""
        name = f"{int(blob_id)}.blob"
        self.room.ask(lambda: self.medium.carry_through(name))

    def blob_read(self, blob_id: int, offset: int, length: int) -> bytes:
        """Return what the blob holds."""
        name = f"{int(blob_id)}.blob"
        if name not in self.medium.view:
            raise BodyLost("its file is missing")
        return self.read(name, offset, length)

    def blob_size(self, blob_id: int) -> int:
        """Return the length of a blob; -1 when there is none."""
        content = self.medium.view.get(f"{int(blob_id)}.blob")
        return -1 if content is None else len(content)

    def blob_set_aside(self, blob_id: int) -> None:
        """Give it another name, not durably."""
        effect = Effect("rename", f"{int(blob_id)}.blob", target=f"{int(blob_id)}.damaged")
        effect.apply(self.medium.view)
        self.room.ask(lambda: self.medium.note(effect))

    def blob_drop(self, blob_id: int) -> None:
        """Remove a blob."""
        self.drop(f"{int(blob_id)}.blob")

    def drain(self) -> None:
        """Complete what is under way, now."""
        while self._pending and not self.answers.dead:
            self._complete(self._pending[-1])

    def close(self) -> None:
        """Complete what is under way; the files stay."""
        self.drain()
        self.answers.hang_up()


def disk_full() -> EntrepotError:
    """Return the error for a full disk."""
    return StorageFull("no space is left for the journal", remedy="make room on that disk")
