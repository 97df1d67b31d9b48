"""The order of what waits: linked lists in memory, numbers on disk (core/queue/backlog.py)."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.compiled import is_compiled
from entrepot.core.queue.backlog import CHUNK_NUMBERS, Backlog, Paged, Reference, Waiting
from entrepot.model.message import Message
from kit import PLAIN


def reference(number: int, priority: int = 4) -> Reference:
    message = Message(PLAIN, "Q", b"{}")
    message.number = number
    message.priority = priority
    return Reference(message)


def in_order(waiting: Waiting) -> list[int]:
    found = []
    at = waiting.head
    while at is not None:
        found.append(int(at.number))
        at = at.after
    return found


@given(st.lists(st.integers(1, 1000), unique=True), st.data())
def test_insertion_anywhere_and_removal_keep_the_order(numbers, data):
    waiting = Waiting()
    references = {}
    for number in numbers:
        references[number] = reference(number)
        waiting.insert(references[number])
    for number in data.draw(st.lists(st.sampled_from(numbers), unique=True)) if numbers else []:
        waiting.remove(references.pop(number))
        assert in_order(waiting) == sorted(references)
        if data.draw(st.booleans()):
            references[number] = reference(number)
            waiting.insert(references[number])
    assert in_order(waiting) == sorted(references)
    assert waiting.count == len(references)


def test_a_long_run_of_returned_messages_costs_one_step_each():
    waiting = Waiting()
    for number in range(20_000, 40_000):
        waiting.append(reference(number))
    for number in range(20_000):  # would be 200 million steps from the head
        waiting.insert(reference(number))
    assert in_order(waiting) == list(range(40_000))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(1, 5)),
            st.tuples(st.just("take"), st.integers(1, 7)),
            st.tuples(st.just("discard"), st.sets(st.integers(0, 40), max_size=6)),
            st.tuples(st.just("merge"), st.sets(st.integers(0, 200), max_size=6)),
            st.tuples(st.just("after"), st.integers(0, 200)),
        )
    )
)
def test_numbers_on_disk_are_a_sorted_list(steps):
    paged = Paged()
    model: list[int] = []
    newest = 200
    for what, argument in steps:
        if what == "append":
            for _ in range(argument):
                newest += 3
                paged.append(newest)
                model.append(newest)
        elif what == "take":
            assert paged.take(argument) == model[:argument]
            del model[:argument]
        elif what == "discard":
            gone = sorted(model[index] for index in argument if index < len(model))
            assert paged.discard([*gone, 10_000_000]) == len(gone)
            model = [number for number in model if number not in gone]
        elif what == "merge":
            fresh = sorted(argument - set(model))
            paged.merge(fresh)
            model = sorted(model + fresh)
        else:
            assert paged.after(argument, 5) == [number for number in model if number > argument][:5]
        assert paged.count == len(model)
        assert paged.after(-1, 1 << 30) == model
        if model:
            assert paged.front() == model[0]


def test_many_chunks():
    paged = Paged()
    count = CHUNK_NUMBERS * 3 + 100
    for number in range(count):
        paged.append(number * 2)
    assert paged.take(CHUNK_NUMBERS + 7) == [number * 2 for number in range(CHUNK_NUMBERS + 7)]
    paged.merge([1, 3, CHUNK_NUMBERS * 4 + 1, count * 2 + 1])
    middle = CHUNK_NUMBERS * 4 + 1
    assert paged.take(2) == [1, 3]
    assert paged.discard([middle]) == 1
    assert paged.after(0, 1 << 30) == [*(number * 2 for number in range(CHUNK_NUMBERS + 7, count)), count * 2 + 1]
    paged.append(count * 3)
    assert paged.after(count * 2 + 1, 5) == [count * 3]


def test_a_backlog_is_starved_when_the_next_message_is_on_disk():
    backlog = Backlog(True)
    backlog.page(4, 10, 1)
    assert backlog.is_starved(0, 0)
    backlog.restore(reference(5))
    assert not backlog.is_starved(0, 0)
    assert backlog.is_starved(100, 1 << 30), "it should read on in time"
    assert not backlog.is_starved(100, 1), "unless bodies are large"
    backlog.page(9, 11, 1)
    assert backlog.is_starved(0, 0), "a higher priority waits on disk"
    backlog.restore(reference(3, 9))
    assert not backlog.is_starved(0, 0)
    young = Backlog(True)
    young.page(4, 10, 1)
    young.restore(reference(12))
    assert young.is_starved(0, 0), "something younger was put back before it"
    backlog.check()


def test_a_list_that_is_dropped_unlinks_what_is_in_it():
    """References are circles that the collector of cycles does not know; and each lets go of the next, one by one."""
    waiting = Waiting()
    for number in range(200_000):  # deep enough for any stack
        waiting.append(reference(number))
    first = waiting.head
    assert first is not None
    second = first.after
    assert second is not None
    del waiting
    assert (first.after, second.before, second.after) == (None, None, None)


@pytest.mark.skipif(not is_compiled(), reason="what the collector looks at is decided when it is compiled")
def test_the_collector_of_cycles_does_not_look_at_what_waits():
    one = reference(1)
    assert not any(gc.is_tracked(each) for each in (one, one.message, one.message.need_rare()))
