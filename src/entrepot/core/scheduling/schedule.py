"""Scheduled messages: kept until their time, sent then, and planned again where they repeat. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import (
    Fault,
    Refused,
    StorageError,
)
from entrepot.core.events import announcing
from entrepot.core.ports import Host
from entrepot.core.queue.bereaved import load_or_stand_in, record_flaw
from entrepot.core.queue.dead_letters import DeadLetters
from entrepot.core.queue.returns import MOVE_RETRY
from entrepot.core.records import SCHEDULED_QUEUE
from entrepot.core.scheduling.timed import (
    NEVER,
    SCHEDULED_JOB,
    SCHEDULED_LEFT,
    SCHEDULED_NAMES,
    SCHEDULED_TARGET,
    Alarm,
    Dates,
    Schedule,
    rebase_expiration,
    until,
)
from entrepot.model.message import Message

COMMIT_LOOK: Final = MILLISECOND  # until it is looked whether a commit has ended
FIRE_UNITS: Final = 4  # of `core/effort.py`: to read a scheduled message from disk, send it, store it anew


class ScheduleOutlet:
    """Where a scheduled message goes when its time has come."""

    def send_scheduled(self, message: Message, text: str) -> None:
        """Send ``message`` to the destinations that ``text`` names. Raises Refused."""
        raise Fault("scheduled messages lead nowhere")


class _Chime(Alarm):
    """The time of the next scheduled messages has come."""

    def __init__(self, due: int, scheduled: ScheduledMessages) -> None:
        super().__init__(due)
        self.scheduled = scheduled

    def ring(self, now: int) -> None:
        self.scheduled.keep_dates()


class ScheduledMessages:
    """All messages of one broker that wait for their time."""

    def __init__(self, host: Host, letters: DeadLetters) -> None:
        self.host: Host = host
        self.letters: DeadLetters = letters
        self.outlet: ScheduleOutlet = ScheduleOutlet()  # set by whoever sends
        self.dates: Dates = Dates()
        self.chime: _Chime | None = None  # the alarm for the next of them
        self.schedules: dict[int, Message | None] = {}  # number -> message, None when it is on disk

    def take(self, message: Message, text: str) -> None:
        """Keep ``message``, which asks for a schedule, for the destinations that ``text`` names. Raises Refused."""
        rare = message.need_rare()
        schedule = Schedule(rare.annotations)
        rare.annotations[SCHEDULED_TARGET] = text
        rare.deliver_at = schedule.first(self.host.wall)
        self._keep(message, schedule.elapses)

    def _keep(self, message: Message, elapses: bool) -> None:
        """Store ``message`` until its time, on disk even if it is not persistent (classic.md 4.13: its own store)."""
        number = message.number
        deliver_at = message.need_rare().deliver_at
        end = until(deliver_at, self.host.wall, self.host.now) if elapses else NEVER
        if self.host.journal.pages:
            self.host.journal.store(message, [SCHEDULED_QUEUE])
            self._await(int(number), int(deliver_at), end)
        else:
            self._await(int(number), int(deliver_at), end)
            self.schedules[int(number)] = message
            self.host.memory.hold(message)

    def recovered(self, number: i64, deliver_at: i64) -> None:
        """Wait for the time of the scheduled message ``number``."""
        self._await(int(number), int(deliver_at), NEVER)

    def _await(self, number: int, deliver_at: int, end: int) -> None:
        self.schedules[number] = None
        self.dates.add(number, deliver_at, end, self.host.wall, self.host.now)
        self._await_dates()

    def _await_dates(self, after: int = 0) -> None:
        """Have an alarm for the earliest date, ``after`` ns from now at the earliest.

        A wall clock that was put back by so little that nothing is planned anew for it (`Dates.adjust`) has to show
        that date first: an alarm that came before would ring over and over until it does.
        """
        date = self.dates.earliest()
        if date is None:
            return
        now = int(self.host.now)
        due = max(self.dates.instant(date), until(date, self.host.wall, now), now + after)
        chime = self.chime
        if chime is not None:
            if chime.due <= due:  # it rings, and looks again
                return
            chime.cancelled = True
        self.chime = _Chime(due, self)
        self.host.timetable.add(self.chime)

    def adjust(self) -> None:
        """Find out whether the wall clock was set; if so, plan anew."""
        if self.dates.adjust(self.host.wall, self.host.now):
            self._await_dates()

    def keep_dates(self) -> None:
        """Send the scheduled messages whose time has come, as many as one turn may.

        Those of a commit that goes on over many turns wait for its end: nobody sees a part of it, and what they become
        would be on disk whatever becomes of the commit.
        """
        self.chime = None
        self.dates.adjust(self.host.wall, self.host.now)
        early: list[tuple[int, int]] = []
        after: i64 = 0
        while not self.host.effort.is_over():
            if self.host.journal.refusal() is not None:  # the disk is full: nothing could be stored, so try again
                after = MOVE_RETRY
                break
            found = self.dates.take(self.host.wall)
            if found is None:
                break
            self.host.effort.spent += FIRE_UNITS
            if self.host.journal.parts.has(found[0]):
                early.append(found)
                after = COMMIT_LOOK
            else:
                try:
                    self.fire(found[0], found[1])
                except StorageError:  # the disk does not give it now: the others go on
                    early.append(found)
                    after = MOVE_RETRY
        for number, deliver_at in early:
            self.dates.add(number, deliver_at, int(self.host.now), self.host.wall, self.host.now)
        self._await_dates(int(after))

    def fire(self, number: int, deliver_at: int) -> None:
        """Send the scheduled message ``number``, whose time has come, and plan its next repetition.

        One whose record rotted is a dead letter. Raises StorageError where the disk does not give it: nothing is done.
        """
        if number not in self.schedules:
            return
        message = self.load(number)
        kept = self.schedules.pop(number)
        if kept is not None:
            self.host.memory.release(kept)
        flaw = record_flaw(message)
        if flaw:
            self._bury(message, Refused(f"{flaw}; it was scheduled, and nobody knows for where"))
            return
        schedule = Schedule(message.need_rare().annotations)
        following = schedule.following(min(deliver_at, int(self.host.wall)))  # earlier when the wall clock was put back
        self.host.journal.parts.touch(number)  # before anything is written: what it becomes is the commit's, too
        self.host.journal.begin()
        try:
            self._send(message, schedule.repeats)
            if following is not None:
                self._plan_again(message, schedule, following)
            self.host.journal.settle(number, SCHEDULED_QUEUE)
        finally:
            self.host.journal.end()

    def _bury(self, message: Message, refusal: Refused) -> None:
        self.host.journal.parts.touch(int(message.number))
        self.host.journal.begin()
        try:
            announcing.refused_job(self.host.hub, "", refusal)
            self.letters.bury_product(self.host.ids.renumbered(message), refusal)
            self.host.journal.settle(message.number, SCHEDULED_QUEUE)
        finally:
            self.host.journal.end()

    def _send(self, message: Message, repeats: bool) -> None:
        product = self.host.ids.renumbered(message)
        rare = product.need_rare()
        if repeats:
            rare.identity = ""  # a new message each time
        rare.deliver_at = 0
        text = rare.annotations.pop(SCHEDULED_TARGET, message.address)
        rare.annotations.pop(SCHEDULED_LEFT, None)
        for name in SCHEDULED_NAMES:
            rare.annotations.pop(name, None)
        rare.annotations[SCHEDULED_JOB] = self.host.ids.identity_of(message)
        rebase_expiration(product, self.host.wall)
        try:
            self.outlet.send_scheduled(product, text)
        except Refused as refusal:
            announcing.refused_job(self.host.hub, text, refusal)
            self.letters.bury_product(product, refusal)

    def _plan_again(self, message: Message, schedule: Schedule, following: int) -> None:
        again = message.twin(message.address)
        again.number = self.host.ids.next_number()
        rare = again.need_rare()
        rare.deliver_at = following
        if not message.language.identity(message):
            rare.identity = self.host.ids.identity_of(message)  # the same job, though it has another number now
        rare.annotations[SCHEDULED_LEFT] = str(schedule.left)
        self._keep(again, schedule.elapses)

    def load(self, number: int) -> Message:
        """Return the scheduled message ``number``; what stands for it where its record rotted. Raises StorageError."""
        kept = self.schedules[number]
        return load_or_stand_in(self.host.journal, [number])[0] if kept is None else kept

    def cancel(self, number: int) -> None:
        """Forget the scheduled message ``number``."""
        kept = self.schedules.pop(number)
        if kept is not None:
            self.host.memory.release(kept)
        self.host.journal.settle(number, SCHEDULED_QUEUE)
