"""A disk that behaves as badly as a real one may, drawn from a seed.

Everything asked for is seen by reads at once and is durable only after a sync. At a crash each write, cut, new name and
removal since then survives, is lost, or (a write) is torn at 512-octet sectors, each decided by itself: so later ones
may survive where earlier ones did not. What a sync covered always survives; that is the fault model, and no more: a
broker cannot be asked to survive a disk that forgets what it confirmed. Damage of durable octets is `damage`.

Must never: complete anything inside the call that asks for it, except in `drain`.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import MICROSECOND, MILLISECOND, Duration, Entropy
from entrepot.base.errors import BodyLost, EntrepotError, StorageError, StorageFull
from entrepot.journal.ports import SCRATCH, JournalEvents, JournalPort

SECTOR = 512
UNLIMITED = 1 << 60

Later = Callable[[Duration, Callable[[], None]], None]


class Effect:
    """One change of the disk that is not durable yet: a write, a cut, a new name, a rename or a removal."""

    def __init__(self, kind: str, name: str, *, offset: int = 0, octets: bytes = b"", target: str = "") -> None:
        self.kind = kind
        self.name = name
        self.offset = offset
        self.octets = octets
        self.target = target
        self.serial = 0

    def changes_names(self) -> bool:
        """Say whether it is a matter of the directory rather than of a file's content."""
        return self.kind in ("create", "rename", "drop")

    def apply(self, files: dict[str, bytearray]) -> None:
        """Carry it out. A change of a file that does not exist (its creation was lost) changes nothing."""
        if self.kind == "create":
            files.setdefault(self.name, bytearray())
        elif self.kind == "drop":
            files.pop(self.name, None)
        elif self.name in files:
            if self.kind == "rename":
                files[self.target] = files.pop(self.name)
            elif self.kind == "cut":
                del files[self.name][self.offset :]
            else:
                place(files[self.name], self.offset, self.octets)


Covers = Callable[[Effect], bool]


class Pending:
    """A sync or a publication under way: when it is done, the changes up to ``upto`` that it ``covers`` are durable."""

    def __init__(self, upto: int, covers: Covers, finish: Callable[[], None]) -> None:
        self.upto = upto
        self.covers = covers
        self.finish = finish
        self.done = False


class SimulatedDisk(JournalPort):
    """The disk of one simulated machine; it outlives the brokers that crash above it.

    ``later`` runs an action after a delay. Faults: ``capacity`` in octets, ``fail_writes`` / ``fail_syncs`` (EIO from
    now on), ``sync_delay_max``; ``tear`` off means that unsynced changes survive or are lost as wholes.
    """

    def __init__(self, entropy: Entropy, later: Later, *, reserve: int = 0) -> None:
        self.capacity = UNLIMITED
        self.reserve = reserve
        self.fail_writes = False
        self.fail_syncs = False
        self.tear = True
        self.sync_delay_min: Duration = 100 * MICROSECOND
        self.sync_delay_max: Duration = 2 * MILLISECOND
        self.syncs = 0
        self._entropy = entropy
        self._later = later
        self._events = JournalEvents()
        self._epoch = 0
        self._dead = False
        self._tight = False
        self._reserve_used = False
        self._view: dict[str, bytearray] = {}
        self._durable: dict[str, bytearray] = {}
        self._serial = 0
        self._effects: list[Effect] = []
        self._pending: list[Pending] = []
        self._held: list[tuple[int, Callable[[], None]]] = []
        self._spoiled: dict[str, bool] = {}

    # -- what the world does to it -------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The machine stops: decide what of the unsynced changes survives, and forget who was asking."""
        self._epoch += 1
        for effect in self._effects:
            self._survive(effect)
        self._settle_down()

    def stop(self) -> None:
        """The process dies and the machine lives: everything that was carried out survives."""
        self._epoch += 1
        for effect in self._effects:
            effect.apply(self._durable)
        self._settle_down()

    def _settle_down(self) -> None:
        self._effects = []
        self._pending = []
        self._held = []
        self._spoiled = {}
        self._events = JournalEvents()
        self._dead = False
        self._tight = False
        self._reserve_used = False
        self._view = {name: bytearray(content) for name, content in self._durable.items()}

    def _survive(self, effect: Effect) -> None:
        lot = self._entropy.fraction()
        if lot < 0.4:
            return
        if effect.kind != "write" or lot < 0.7 or not self.tear:
            effect.apply(self._durable)
            return
        octets = effect.octets
        at = 0
        while at < len(octets):
            size = SECTOR - (effect.offset + at) % SECTOR
            if self._entropy.fraction() < 0.6:
                Effect("write", effect.name, offset=effect.offset + at, octets=octets[at : at + size]).apply(
                    self._durable
                )
            at += size

    def damage(self, name: str, offset: int, mask: int = 0xFF) -> bool:
        """Flip bits of one durable octet; False when the file is not durable yet."""
        if name not in self._durable:
            return False
        self._durable[name][offset] ^= mask
        self._view[name][offset] ^= mask
        return True

    def shorten(self, name: str, length: int) -> bool:
        """Lose what a durable file has behind ``length``; False when the file is not durable yet."""
        if name not in self._durable:
            return False
        del self._durable[name][length:]
        del self._view[name][length:]
        return True

    def lose(self, name: str) -> None:
        """Lose a durable file."""
        self._durable.pop(name, None)
        self._view.pop(name, None)

    def make_room(self, capacity: int = UNLIMITED) -> None:
        """Change the capacity, and carry out what was held if it fits now."""
        self.capacity = capacity
        self._retry()

    def used(self) -> int:
        """Return the octets of all files."""
        return sum(len(content) for content in self._view.values())

    # -- carrying out --------------------------------------------------------------------------------------------------

    def _soon(self, action: Callable[[], None], delay: Duration = 0) -> None:
        epoch = self._epoch

        def run() -> None:
            if self._epoch == epoch:
                action()

        self._later(delay, run)

    def _ask(self, action: Callable[[], None], growth: int = 0) -> None:
        """Carry out ``action``, which makes files ``growth`` octets longer, now or when there is space."""
        if self._dead:
            return
        if self._held or not self._fits(growth):
            if not self._held:
                self._soon(lambda: self._events.failed(disk_full()))
            self._held.append((growth, action))
            return
        action()

    def _fits(self, growth: int) -> bool:
        if growth == 0 or self.used() + growth <= self.capacity - (0 if self._reserve_used else self.reserve):
            return True
        if not self._reserve_used and self.used() + growth <= self.capacity:
            self._reserve_used = True
            self._tight = True
            self._soon(lambda: self._events.tight(disk_full()))
            return True
        return False

    def _retry(self) -> None:
        if self._dead:
            return
        carried_out = False
        while self._held and self.used() + self._held[0][0] <= self.capacity:
            _, action = self._held.pop(0)
            action()
            carried_out = True
        roomy = self.used() + self.reserve <= self.capacity
        if not self._held and roomy and (carried_out or self._tight):
            self._tight = False
            self._reserve_used = False
            self._soon(self._events.relieved)

    def _fail(self, what: str) -> None:
        self._dead = True
        self._pending = []
        self._soon(lambda: self._events.failed(StorageError(what, remedy="replace the disk")))

    def _begin(self, covers: Covers, finish: Callable[[], None]) -> None:
        pending = Pending(self._serial, covers, finish)
        self._pending.append(pending)
        spread = int((self.sync_delay_max - self.sync_delay_min) * self._entropy.fraction())
        self._soon(lambda: self._complete(pending), self.sync_delay_min + spread)

    def _complete(self, pending: Pending) -> None:
        """Finish ``pending`` and all that were begun before it."""
        while not pending.done and self._pending:
            first = self._pending.pop(0)
            if self.fail_syncs:
                self._fail("the disk failed: a sync failed (Input/output error)")
                return
            self._make_durable(first)
            first.done = True
            self.syncs += 1
            first.finish()

    def _make_durable(self, pending: Pending) -> None:
        kept: list[Effect] = []
        for effect in self._effects:
            if effect.serial <= pending.upto and pending.covers(effect):
                effect.apply(self._durable)
            else:
                kept.append(effect)
        self._effects = kept

    def _note(self, effect: Effect) -> None:
        self._serial += 1
        effect.serial = self._serial
        self._effects.append(effect)

    # -- JournalPort ---------------------------------------------------------------------------------------------------

    def attach(self, events: JournalEvents) -> None:
        """Send completions to ``events``."""
        self._events = events

    def names(self) -> list[str]:
        """Return the names of all segments and scratch files, sorted."""
        return sorted(name for name in self._view if not name.endswith((".blob", ".damaged")))

    def size(self, name: str) -> int:
        """Return the length of a file."""
        return len(self._found(name))

    def _found(self, name: str) -> bytearray:
        content = self._view.get(name)
        if content is None:
            raise StorageError(f"cannot read {name}: no such file")
        return content

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return what the file holds, durable or not."""
        return bytes(self._found(name)[offset : offset + length])

    def create(self, name: str, expected: int) -> None:
        """Make an empty file."""
        self._view[name] = bytearray()
        self._ask(lambda: self._note(Effect("create", name)))

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Write, not durably."""
        if name in self._spoiled or self._dead:
            return
        octets = head + body
        growth = max(0, offset + len(octets) - len(self._view.get(name, b"")))
        if self.fail_writes:
            self._fail("the disk failed: a write failed (Input/output error)")
            return
        if name.endswith(SCRATCH) and self.used() + growth > self.capacity:
            self._spoiled[name] = True
            self.drop(name)
            self._soon(lambda: self._events.spoiled(name))
            return
        effect = Effect("write", name, offset=offset, octets=octets)
        self._ask(lambda: self._note(effect), growth)
        place(self._view.setdefault(name, bytearray()), offset, octets)

    def sync(self, token: int) -> None:
        """Make all that was asked for durable, after a while."""
        self._ask(lambda: self._begin(everything, lambda: self._events.synced(token)))

    def trim(self, name: str, length: int) -> None:
        """Cut, not durably."""
        self._ask(lambda: self._note(Effect("cut", name, offset=length)))

    def cut(self, name: str, length: int) -> None:
        """Cut and make the file durable. Raises StorageFull while writes are held: they would not be in it."""
        if self._held:
            raise StorageFull(f"cannot cut {name} while writes to it wait for space", remedy="make room")
        del self._found(name)[length:]
        self._note(Effect("cut", name, offset=length))
        self._carry_through(name)

    def _carry_through(self, name: str) -> None:
        """Make all changes of one file durable now."""
        mine = [effect for effect in self._effects if effect.name == name]
        self._effects = [effect for effect in self._effects if effect.name != name]
        for effect in mine:
            effect.apply(self._durable)

    def publish(self, scratch: str, name: str) -> None:
        """Make ``scratch`` durable, then its name, then tell."""
        self._ask(lambda: self._begin(lambda effect: effect.name == scratch, lambda: self._rename(scratch, name)))

    def _rename(self, scratch: str, name: str) -> None:
        if self._spoiled.pop(scratch, False):
            return
        effect = Effect("rename", scratch, target=name)
        effect.apply(self._view)
        self._note(effect)
        self._begin(Effect.changes_names, lambda: self._events.published(name))

    def drop(self, name: str) -> None:
        """Remove, not durably."""
        self._view.pop(name, None)
        self._ask(lambda: self._note(Effect("drop", name)))
        self._retry()

    def space(self) -> int:
        """Return what is left."""
        return max(0, self.capacity - self.used())

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        return sorted(int(name[:-5]) for name in self._view if name.endswith(".blob"))

    def blob_create(self, blob_id: int) -> None:
        """Make an empty blob."""
        self.create(f"{int(blob_id)}.blob", 0)

    def blob_write(self, blob_id: int, chunk: bytes) -> None:
        """Append to a blob."""
        name = f"{int(blob_id)}.blob"
        self.write(name, len(self._view.get(name, b"")), chunk, b"")

    def blob_seal(self, blob_id: int) -> None:
        """Make the blob durable: what is asked for later waits for that on a real disk, and costs no time here."""
        name = f"{int(blob_id)}.blob"
        self._ask(lambda: self._carry_through(name))

    def blob_read(self, blob_id: int, offset: int, length: int) -> bytes:
        """Return what the blob holds."""
        name = f"{int(blob_id)}.blob"
        if name not in self._view:
            raise BodyLost("its file is missing")
        return self.read(name, offset, length)

    def blob_size(self, blob_id: int) -> int:
        """Return the length of a blob; -1 when there is none."""
        content = self._view.get(f"{int(blob_id)}.blob")
        return -1 if content is None else len(content)

    def blob_set_aside(self, blob_id: int) -> None:
        """Give it another name, not durably."""
        effect = Effect("rename", f"{int(blob_id)}.blob", target=f"{int(blob_id)}.damaged")
        effect.apply(self._view)
        self._ask(lambda: self._note(effect))

    def blob_drop(self, blob_id: int) -> None:
        """Remove a blob."""
        self.drop(f"{int(blob_id)}.blob")

    def drain(self) -> None:
        """Complete what is under way, now."""
        while self._pending and not self._dead:
            self._complete(self._pending[-1])

    def close(self) -> None:
        """Complete what is under way; the files stay."""
        self.drain()
        self._epoch += 1


def everything(effect: Effect) -> bool:
    """A sync covers all."""
    return True


def place(content: bytearray, offset: int, octets: bytes) -> None:
    """Write into ``content``, filling a gap before ``offset`` with zeros."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(octets)] = octets


def disk_full() -> EntrepotError:
    """Return the error for a full disk."""
    return StorageFull("no space is left for the journal", remedy="make room on that disk")
