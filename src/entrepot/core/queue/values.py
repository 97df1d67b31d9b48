"""What a last-value queue keeps: of all messages with one key the newest (artemis.md 4.5). [C]

The key is the value of a property, `_AMQ_LVQ_NAME` unless the queue names another; a message without it is an ordinary
one. A message that comes removes what waits with its key, in memory or on disk, and takes its own place at the end. A
value that a consumer has stays with it; when it comes back, it waits again only if no newer one came meanwhile.

The replaced message is settled in the journal behind the record of the one that replaces it, so whatever of the journal
is left after a crash holds one of the two; where it holds both, `rebuild` settles the older at the start. For that all
that waits is read once. In memory the queue holds about 200 octets for each message with a key, on disk or not.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.events import trace as facts
from entrepot.core.ports import Host
from entrepot.core.queue.backlog import LEVELS, Reference
from entrepot.core.queue.bereaved import load_or_stand_in
from entrepot.core.queue.dispatch import Roster
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.stock import RELOAD_OCTETS, RELOAD_STEP, Stock, replace
from entrepot.model.message import Message


class Held:
    """One message with a key. ``reference``: the one that waits or is out; None while it is on disk alone."""

    def __init__(self, key: str, number: i64, level: i64, expires: bool) -> None:
        self.key: str = key
        self.number: i64 = number
        self.level: i64 = level
        self.expires: bool = expires
        self.reference: Reference | None = None


class LastValues(Stock):
    """The stock of a last-value queue."""

    def __init__(self, host: Host, head: QueueHead, roster: Roster) -> None:
        super().__init__(host, head, roster)
        self.numbered = False
        self.queued = True
        self.property: str = head.traits.last_value_key
        self.newest: dict[str, Held] = {}
        self.held: dict[int, Held] = {}  # by number: of each key the newest, and older ones that somebody has

    def key_of(self, message: Message) -> str:
        """Return the key of ``message``, "" for none. Numbers and flags are keys of their own, by type and value."""
        value = message.fact(self.property)
        if value is None:
            return ""
        if isinstance(value, str):
            return value
        return f"\0{type(value).__name__} {value!r}"

    # -- what comes in ------------------------------------------------------------------------------------------------

    def wait(self, message: Message) -> None:
        """Let ``message`` wait in place of what waits with its key."""
        key = self.key_of(message)
        if not key:
            super().wait(message)
            return
        self._enter(key, message)
        super().wait(message)

    def wait_large(self, message: Message) -> None:
        """The same of a message whose body is a blob."""
        key = self.key_of(message)
        if not key:
            super().wait_large(message)
            return
        self._enter(key, message)
        super().wait_large(message)

    def _enter(self, key: str, message: Message) -> None:
        """Make ``message``, whose record the journal has already, the newest of ``key``."""
        held = Held(key, message.number, self.backlog.level_of(message), message.expiration != 0)
        older = self.newest.get(key)
        self.newest[key] = held
        self.held[int(message.number)] = held
        if older is not None:
            self._replace(older)

    def _renumbered(self, message: Message) -> Message:
        own = super()._renumbered(message)
        held = self.held.pop(int(message.number), None)
        if held is not None:
            held.number = own.number
            self.held[int(own.number)] = held
        return own

    def reference(self, message: Message, deliveries: i64) -> Reference:
        """Return a reference to ``message``, and remember where it is."""
        reference = super().reference(message, deliveries)
        held = self.held.get(int(message.number))
        if held is not None:
            held.reference = reference
        return reference

    def rebuild(self) -> None:
        """Find out at the start what the keys are, and settle what was replaced when the broker ended."""
        level: i64 = 0
        while level < LEVELS:
            seen: i64 = 0
            while True:
                paged = self.backlog.behind(level)
                numbers: list[int] = [] if paged is None else paged.after(seen, RELOAD_STEP)
                if not numbers:
                    break
                for message in load_or_stand_in(self.journal, numbers, RELOAD_OCTETS):
                    seen = message.number
                    self._find(message, level)
            level += 1

    def _find(self, message: Message, level: i64) -> None:
        key = self.key_of(message)
        if not key:
            return
        held = Held(key, message.number, level, message.expiration != 0)
        self.held[int(message.number)] = held
        other = self.newest.get(key)
        if other is None or other.number < held.number:
            self.newest[key] = held
            if other is not None:
                self._replace(other)
        else:
            self._replace(held)

    # -- what others ask -----------------------------------------------------------------------------------------------

    def current(self, key: str) -> Message | None:
        """Return the newest message with ``key``, from memory or from disk; None when there is none.

        Raises StorageError for what the disk may still answer.
        """
        held = self.newest.get(key)
        if held is None:
            return None
        reference = held.reference
        if reference is not None:
            return reference.message
        return load_or_stand_in(self.journal, [int(held.number)])[0]

    def take_back(self, key: str) -> bool:
        """Be done with what waits with ``key``; False when nothing does."""
        held = self.newest.get(key)
        if held is None:
            return False
        self._replace(held)
        return True

    # -- what comes back ----------------------------------------------------------------------------------------------

    def put_back(self, reference: Reference) -> None:
        """Return ``reference`` to its place, unless a newer message with its key came; then it is done with."""
        message = reference.message
        if reference.shown:
            super().put_back(reference)
            return
        held = self.held.get(int(reference.number))
        if held is None:  # it was out when the broker started
            key = self.key_of(message)
            if key:
                held = Held(key, reference.number, self.backlog.level_of(message), message.expiration != 0)
                held.reference = reference
                self.held[int(reference.number)] = held
        if held is None:
            super().put_back(reference)
            return
        other = self.newest.get(held.key)
        if other is not None and other.number > held.number:
            self.head.note(facts.REMOVED, reference.number, 0, facts.REPLACED)
            self.finish(reference)
            return
        self.newest[held.key] = held
        if other is not None and other is not held:
            self._replace(other)
        super().put_back(reference)
        if not reference.linked:
            held.reference = None  # it waits on disk

    # -- what goes ----------------------------------------------------------------------------------------------------

    def done(self, message: Message, reference: Reference | None) -> None:
        """Be done with ``message``, and with its key if it is the newest."""
        if reference is None or not reference.shown:
            self._forget(int(message.number))
        super().done(message, reference)

    def discard(self, number: i64) -> None:
        """Be done with message ``number``, unread."""
        self._forget(int(number))
        super().discard(number)

    def _forget(self, number: int) -> None:
        held = self.held.pop(number, None)
        if held is not None and self.newest.get(held.key) is held:
            del self.newest[held.key]

    def _replace(self, older: Held) -> None:
        """Remove ``older`` if it waits; what somebody has stays his."""
        reference = older.reference
        if reference is not None:
            if reference.linked:
                replace(self, reference)
            return
        paged = self.backlog.behind(older.level)
        if paged is None or paged.discard([int(older.number)]) == 0:
            return  # it is out: a prepared branch has it since before the start
        self.backlog.lighten_unread(1)
        self.backlog.left_disk(1)
        if older.expires:
            self.expiring -= 1
        self.head.note(facts.REMOVED, older.number, 0, facts.REPLACED)
        self.discard(older.number)

    def check(self) -> None:
        """Assert that of each key one message waits at the most, and that it is the newest."""
        super().check()
        waiting: dict[str, i64] = {}
        for reference in self.backlog.references():
            key = self.key_of(reference.message)
            if key:
                assert key not in waiting, f"{self.head.name} holds two messages of {key!r}"
                waiting[key] = reference.number
                held = self.newest.get(key)
                assert held is not None, f"{self.head.name} does not know {key!r}"
                assert held.number == reference.number, f"{self.head.name} holds an older message of {key!r}"
                assert held.reference is reference, f"{self.head.name} does not know where {key!r} is"
        for key, held in self.newest.items():
            assert self.held.get(int(held.number)) is held, f"{self.head.name} counts {key!r} wrongly"
