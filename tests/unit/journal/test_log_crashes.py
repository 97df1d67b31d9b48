"""The journal against a dictionary: a restart finds a state that once was, and none older than what was confirmed."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from journals import World, message, octets_of


class State(NamedTuple):
    """What must be there after a restart."""

    live: tuple[tuple[int, int, int], ...]  # number, queue, redeliveries
    documents: tuple[tuple[int, bytes, bytes], ...]


class Model:
    def __init__(self) -> None:
        self.queues: dict[int, list[int]] = {}
        self.sizes: dict[int, int] = {}
        self.transient: dict[int, bool] = {}
        self.born: dict[int, int] = {}  # number of what was moved -> the one that it had before
        self.counts: dict[tuple[int, int], int] = {}
        self.documents: dict[tuple[int, bytes], bytes] = {}

    def state(self) -> State:
        live = [
            (number, queue, self.counts.get((number, queue), 0))
            for number, queues in self.queues.items()
            if number not in self.transient
            for queue in queues
        ]
        documents = tuple((kind, key, value) for (kind, key), value in self.documents.items())
        return State(tuple(sorted(live)), documents)

    def settle(self, number: int, queue: int) -> None:
        if queue in self.queues.get(number, []):
            self.queues[number].remove(queue)
            self.counts.pop((number, queue), None)
            if not self.queues[number]:
                del self.queues[number]
                self.transient.pop(number, None)


QUEUES = st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)
SIZES = st.sampled_from([0, 30, 200, 1500, 9000])
INDEX = st.integers(0, 1 << 30)


class JournalAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(7, garbage_percent=20, segments_min=2, batch_bytes=3000, unsynced_bytes_max=20_000)
        self.model = Model()
        self.states: list[State] = [self.model.state()]
        self.number = 0

    # every change ends in `changed`: a boundary at which a crash may leave the journal

    def changed(self) -> None:
        self.states.append(self.model.state())

    @rule(queues=QUEUES, size=SIZES)
    def store(self, queues: list[int], size: int) -> None:
        self._store(queues, size)
        self.changed()

    def _store(self, queues: list[int], size: int) -> None:
        self.number += 1
        self.world.journal.store(message(self.number, size), queues)
        self.model.queues[self.number] = list(queues)
        self.model.sizes[self.number] = size

    @rule(queues=QUEUES, size=SIZES, back=st.integers(0, 2))
    def page(self, queues: list[int], size: int, back: int) -> None:
        self.number += 3
        number = self.number - back  # paged after later ones were stored
        if number in self.model.sizes:
            return
        self.world.journal.page(message(number, size, durable=False), queues)
        self.model.queues[number] = list(queues)
        self.model.sizes[number] = size
        self.model.transient[number] = True
        self.changed()

    @rule(count=st.integers(1, 40), size=st.sampled_from([50, 400]))
    def store_many(self, count: int, size: int) -> None:
        for _ in range(count):
            self._store([1], size)
            self.changed()

    @rule(which=INDEX, queue=st.integers(0, 3))
    def settle(self, which: int, queue: int) -> None:
        number = which % (self.number + 2)
        self.world.journal.settle(number, queue)
        self.model.settle(number, queue)
        self.changed()

    @rule(count=st.integers(1, 60))
    def settle_oldest(self, count: int) -> None:
        for number in sorted(self.model.queues)[:count]:
            for queue in list(self.model.queues[number]):
                self.world.journal.settle(number, queue)
                self.model.settle(number, queue)
                self.changed()

    @rule(skip=st.integers(1, 3), count=st.integers(1, 60))
    def settle_all_but_oldest(self, skip: int, count: int) -> None:
        for number in sorted(self.model.queues)[skip : skip + count]:
            for queue in list(self.model.queues[number]):
                self.world.journal.settle(number, queue)
                self.model.settle(number, queue)
                self.changed()

    @precondition(lambda self: self.model.queues)
    @rule(which=INDEX, count=st.integers(1, 9))
    def redelivered(self, which: int, count: int) -> None:
        number = sorted(self.model.queues)[which % len(self.model.queues)]
        queue = self.model.queues[number][0]
        self.world.journal.redelivered(number, queue, count)
        self.model.counts[number, queue] = count
        self.changed()

    @precondition(lambda self: self.model.queues)
    @rule(which=INDEX, queue=st.integers(0, 3))
    def add(self, which: int, queue: int) -> None:
        number = sorted(self.model.queues)[which % len(self.model.queues)]
        self.world.journal.add(number, queue)
        if queue not in self.model.queues[number]:
            self.model.queues[number].append(queue)
        self.changed()

    @precondition(lambda self: self.model.queues)
    @rule(which=INDEX, count=st.integers(1, 30), queue=st.integers(0, 3), gap=st.integers(0, 5))
    def move(self, which: int, count: int, queue: int, gap: int) -> None:
        """Give neighbours other numbers and another queue, with something else in the same bracket."""
        model = self.model
        first = sorted(model.queues)[which % len(model.queues)]
        run: list[int] = []
        while len(run) < count and first + len(run) in model.queues:
            number = first + len(run)
            if model.queues[number] != model.queues[first] or number in model.born or number in model.transient:
                break
            run.append(number)
        if (
            not run
            or len(model.queues[first]) != 1
            or any((number, model.queues[first][0]) in model.counts for number in run)
        ):
            return
        fresh = self.number + 1 + gap
        self.number += gap + len(run)
        self.world.journal.begin()
        several = self.world.journal.tail.index.several
        if not self.world.journal.move(first, len(run), model.queues[first][0], queue, fresh):
            assert any(number in several for number in run), "only what had several queues once cannot be moved"
            run = []
        for at, number in enumerate(run):
            del model.queues[number]
            model.queues[fresh + at] = [queue]
            model.born[fresh + at] = number
            model.sizes[fresh + at] = model.sizes[number]
        self.world.journal.put(1, b"b", b"moved")
        model.documents.pop((1, b"b"), None)
        model.documents[1, b"b"] = b"moved"
        self.world.journal.end()
        self.changed()

    @rule(count=st.integers(20, 60), size=st.sampled_from([50, 400]), turns=st.integers(1, 20), which=INDEX)
    def move_during_compaction(self, count: int, size: int, turns: int, which: int) -> None:
        """Fill segments, move what is in them while they are rewritten, settle some of that."""
        self.store_many(count, size)
        self.world.journal.flush()
        self.settle_all_but_oldest(1, count // 3)
        self.turns(which % 5, 700)
        self.move(which, count, 3, 0)
        self.turns(turns, 900)
        self.settle_all_but_oldest(1 + which % 3, which % 20)
        self.turns(turns, 5000)

    @rule(kind=st.integers(1, 2), key=st.sampled_from([b"a", b"b", b"c"]), value=st.binary(max_size=40))
    def put(self, kind: int, key: bytes, value: bytes) -> None:
        self.world.journal.put(kind, key, value)
        self.model.documents.pop((kind, key), None)
        self.model.documents[kind, key] = value
        self.changed()

    @rule(kind=st.integers(1, 2), key=st.sampled_from([b"a", b"b", b"c"]))
    def delete(self, kind: int, key: bytes) -> None:
        self.world.journal.delete(kind, key)
        self.model.documents.pop((kind, key), None)
        self.changed()

    @rule(size=SIZES, count=st.integers(1, 4))
    def transaction(self, size: int, count: int) -> None:
        self.world.journal.begin()
        for number in sorted(self.model.queues)[:count]:
            for queue in list(self.model.queues[number]):
                self.world.journal.settle(number, queue)
                self.model.settle(number, queue)
            self._store([2], size)
        self.world.journal.put(1, b"a", b"tx")
        self.model.documents.pop((1, b"a"), None)
        self.model.documents[1, b"a"] = b"tx"
        self.world.journal.end()
        self.changed()

    @rule()
    def confirm(self) -> None:
        self.world.journal.confirm(self.world.waiter, str(len(self.states) - 1).encode())

    @rule()
    def flush(self) -> None:
        self.world.journal.flush()

    @rule(steps=st.integers(1, 5))
    def time_passes(self, steps: int) -> None:
        for _ in range(steps):
            self.world.timeline.step()

    @rule(budget=st.sampled_from([1, 1000, 100_000]), steps=st.integers(1, 4))
    def compact(self, budget: int, steps: int) -> None:
        for _ in range(steps):
            self.world.journal.compact(budget)

    @rule(turns=st.integers(1, 12), budget=st.sampled_from([500, 5000]))
    def turns(self, turns: int, budget: int) -> None:
        for _ in range(turns):
            self.world.journal.flush()
            self.world.journal.compact(budget)
            self.world.timeline.step()
            self.world.journal.check()

    @rule(count=st.integers(20, 60), turns=st.integers(1, 20))
    def one_is_stuck(self, count: int, turns: int) -> None:
        """Fill segments, settle all but one message: what compaction is for."""
        self.store_many(count, 400)
        self.world.journal.flush()
        self.settle_all_but_oldest(1, count)
        self.turns(turns, 3000)

    @rule(size=SIZES)
    def confirm_between_hand_over_and_sync(self, size: int) -> None:
        self.store([1], size)
        self.world.journal.flush()
        self.confirm()
        self.crash()

    @rule(count=st.integers(20, 60), turns=st.integers(1, 20), size=SIZES)
    def transaction_during_compaction(self, count: int, turns: int, size: int) -> None:
        self.one_is_stuck(count, 3)
        self.transaction(size, 4)
        self.turns(turns, 50_000)
        self.crash()

    @rule(which=INDEX)
    def load(self, which: int) -> None:
        if self.model.queues:
            numbers = sorted(self.model.queues)
            number = numbers[which % len(numbers)]
            self.compare(number)
            some = numbers[which % len(numbers) :][:10]
            loaded = self.world.journal.reading.load_range(some)
            assert [each.number for each in loaded] == some
            assert [each.raw for each in loaded] == [self.octets(each) for each in some]

    def compare(self, number: int) -> None:
        loaded = self.world.journal.reading.load(number)
        assert loaded.number == number
        assert loaded.raw == self.octets(number)
        assert loaded.priority == self.model.born.get(number, number) % 10

    def octets(self, number: int) -> bytes:
        return octets_of(self.model.born.get(number, number), self.model.sizes[number])

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.verify(self.floor())

    @rule()
    def kill(self) -> None:
        self.world.journal.flush()
        self.world.kill()
        self.verify(self.floor())

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.verify(len(self.states) - 1)
        assert self.world.report.torn_bytes == 0

    def floor(self) -> int:
        """Return the newest state that was confirmed."""
        return max([0, *(int(token) for token in self.world.waiter.tokens)])

    def verify(self, floor: int) -> None:
        told = self.world.told
        found = State(
            tuple(sorted((number, queue, count) for queue, number, count in told.messages)), tuple(told.documents)
        )
        allowed = self.states[floor:]
        assert found in allowed, "a restart found a state that never was, or one older than what was confirmed"
        for queue in range(4):
            numbers = [number for each, number, _ in told.messages if each == queue]
            assert numbers == sorted(numbers)
        self.adopt(found)
        for number in self.model.queues:
            self.compare(number)

    def adopt(self, found: State) -> None:
        """Go on from what the restart found."""
        sizes, born = self.model.sizes, self.model.born
        self.model = Model()
        self.model.sizes, self.model.born = sizes, born
        for number, queue, count in found.live:
            self.model.queues.setdefault(number, []).append(queue)
            if count:
                self.model.counts[number, queue] = count
        for kind, key, value in found.documents:
            self.model.documents[kind, key] = value
        self.world.waiter.tokens.clear()
        self.states = [self.model.state()]

    @invariant()
    def consistent(self) -> None:
        self.world.journal.check()
        assert not self.world.waiter.failures


JournalAgainstDict.TestCase.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestJournalAgainstDict = pytest.mark.timeout(300)(JournalAgainstDict.TestCase)


def test_a_document_that_was_removed_is_not_back_when_its_removal_is_compacted_away() -> None:
    """Three records in three segments: put, put again, removed. The second goes first, and the first stays."""
    machine = JournalAgainstDict()
    machine.transaction(count=1, size=0)
    machine.page(back=0, queues=[0], size=0)
    machine.store(queues=[0], size=9000)
    machine.transaction(count=1, size=9000)
    machine.delete(key=b"a", kind=1)
    machine.one_is_stuck(count=20, turns=5)
    machine.crash()
    assert not machine.model.documents


def test_a_queue_that_was_added_and_struck_off_is_not_back_when_that_is_compacted_away() -> None:
    """The addition stays in its segment beside what lives; the message is copied, the settlement's segment goes."""
    machine = JournalAgainstDict()
    machine.store(queues=[0], size=30)
    machine.store_many(12, 400)  # the rest of its segment
    for _ in range(4):
        machine.store(queues=[0], size=400)
    machine.add(which=0, queue=1)
    for _ in range(20):
        machine.store(queues=[0], size=400)
    machine.store_many(12, 400)
    machine.settle(which=1, queue=1)
    machine.store_many(12, 400)
    machine.world.journal.flush()
    for number in [number for number, queues in machine.model.queues.items() if queues == [1]]:
        machine.settle(which=number, queue=1)
    machine.turns(20, 5000)  # the message is written anew, with the queues that it has
    for number in sorted(machine.model.queues)[-8:]:  # all that lives beside the settlement
        machine.settle(which=number, queue=0)
    machine.store_many(20, 400)
    machine.turns(20, 5000)
    machine.crash()
    assert machine.model.queues[1] == [0]
