"""What management does beyond lists: sums in steps, messages of operators, delayed ones now, rights shown."""

from __future__ import annotations

import json

import pytest

from entrepot.base.errors import LimitExceeded, Refused, StorageFull
from entrepot.core.broker import selector_or_none
from entrepot.core.operators import queue_verbs, tally
from entrepot.core.operators.control import Work
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.posting import post
from entrepot.core.operators.queue_verbs import CopyOne, Delivery, FirstDelayed, reset_added
from entrepot.core.operators.roles import role_rows, roles
from entrepot.core.operators.said import ANSWER_LANGUAGE
from entrepot.core.operators.upkeep import is_named
from entrepot.core.security.access import EVERYTHING, SEND, Rule
from entrepot.core.security.directory import Directory
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import ANYCAST, UNTYPED, Destination
from kit import Rig


def result(work: Work) -> object:
    for _ in range(1000):
        if work.step():
            return work.result()
    raise AssertionError("it never ends")


def test_each_message_is_counted_once_wherever_it_is() -> None:
    rig = Rig(redelivery_delay="60000")
    rig.send_all("Q", range(5))
    delayed = rig.reader("Q", 1)
    delayed.give_back()
    delayed.close()
    reader = rig.reader("Q", 2)
    queue = rig.queue("Q")
    parts = (tally.in_flight, tally.set_aside, tally.waiting, tally.everything)
    assert [result(tally.Tally(part(queue))) for part in parts] == [2, 2, 1, 5]  # it had another one when it left
    whole = result(tally.Tally(tally.everything(queue), tally.size))
    assert whole == sum(int(str(result(tally.Tally(part(queue), tally.size)))) for part in parts[:3])
    reader.close()


def test_values_of_a_property_are_counted_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    for color in ("red", "red", "blue"):
        rig.send("Q", properties={"color": color})
    queue = rig.queue("Q")
    counted = result(tally.Grouped(tally.waiting(queue), selector_or_none("color = 'red'"), "color"))
    assert json.loads(str(counted)) == {"red": 2}
    assert result(tally.Grouped(tally.waiting(queue), None, "")) == 3
    monkeypatch.setattr(tally, "GROUPS_MOST", 1)
    with pytest.raises(LimitExceeded):
        result(tally.Grouped(tally.waiting(queue), None, "color"))
    monkeypatch.setattr(tally, "GROUPS_MOST", 2)
    assert result(tally.Grouped(tally.waiting(queue), None, "color"))
    monkeypatch.setattr(tally, "GROUPS_CHARACTERS_MOST", len("redblue") - 1)
    with pytest.raises(LimitExceeded):
        result(tally.Grouped(tally.waiting(queue), None, "color"))


def test_a_step_looks_at_a_few_whoever_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(redelivery_delay="60000")
    rig.send_all("Q", range(5))
    reader = rig.reader("Q", 5)
    monkeypatch.setattr(tally, "STEP_LOOKS", 2)
    assert [len(some) for some in tally.in_flight(rig.queue("Q"))] == [2, 2, 1]
    reader.give_back()
    reader.close()
    assert [len(some) for some in tally.set_aside(rig.queue("Q"))] == [2, 2, 1]
    monkeypatch.setattr(queue_verbs, "STEP_LOOKS", 2)
    first = min(rig.queue("Q").returns.delayed.values(), key=lambda one: int(one.due))
    told = json.loads(str(result(FirstDelayed(rig.broker, rig.queue("Q")))))
    assert told["messageID"] == int(first.number)
    empty = rig.broker.queues.need(Destination("Empty", ANYCAST))
    assert result(FirstDelayed(rig.broker, empty)) == "null"


def test_what_prepared_branches_hold_is_counted_and_told_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.send_all("Q", range(3))
    rig.send("R")
    for name, queue, count in (("tx1", "Q", 3), ("tx2", "R", 1)):
        reader = rig.reader(queue, count)
        transaction = Transaction(name)
        for delivery in reader.open:
            transaction.settle(delivery.consumer, delivery.number)
        rig.broker.branches.prepare(transaction, name.encode())
    monkeypatch.setattr(tally, "STEP_LOOKS", 2)
    assert result(tally.Held(rig.broker, rig.queue("Q"))) == 3
    assert result(tally.Held(rig.broker, rig.queue("R"))) == 1
    monkeypatch.setattr(tally, "TOLD_MOST", 2)
    assert [len(row["tx_related_messages"]) for row in json.loads(tally.prepared_json(rig.broker, 10))] == [2, 0]
    assert len(json.loads(tally.prepared_json(rig.broker, 1))) == 1


def test_what_an_operator_sends_is_in_the_language_of_answers() -> None:
    rig = Rig()
    rig.send("Q")
    given = Arguments("sendMessage", [{"a": "b", "JMSCorrelationID": "c"}, 3, "text", False, None, None])
    number = post(rig.broker, Destination("Q", ANYCAST), given)
    message = rig.drain("Q")[-1].message
    assert is_named(rig.broker, message, int(number))
    assert message.language is ANSWER_LANGUAGE
    said = message.common()
    assert (said.body, said.properties, said.correlation_id, message.durable) == ("text", {"a": "b"}, "c", False)
    with pytest.raises(Refused):
        post(rig.broker, Destination("Q", ANYCAST), Arguments("sendMessage", [{}, 3, "x", "durable"]))


def test_a_copy_leaves_its_original_and_only_that_one_goes() -> None:
    rig = Rig()
    numbers = [rig.send("Q", body) for body in ("a", "b", "c")]
    rig.send("R", "z")
    target = rig.queue("R")
    named = [found.message for found in rig.queue("Q").stock.walk().step(3)]
    work = CopyOne(rig.broker, "Q", "R", int(named[1].number))
    while not work.step().done:
        rig.turn()
    assert work.progress.messages == 1
    assert int(target.count) == 2
    assert rig.bodies("R") == ["z", "b"]
    assert int(rig.queue("Q").count) == len(numbers)


def test_a_delivery_takes_what_its_filter_wants() -> None:
    rig = Rig(redelivery_delay="60000")
    for color in ("red", "blue"):
        rig.send("Q", color, properties={"color": color})
    reader = rig.reader("Q", 2)
    reader.give_back()
    reader.close()
    queue = rig.queue("Q")
    assert result(Delivery(rig.broker, queue, selector_or_none("color = 'blue'"))) is None
    assert [len(queue.returns.delayed), rig.bodies("Q")] == [1, ["blue"]]


def test_a_delivery_by_number_or_id_takes_that_one_and_looks_no_further() -> None:
    rig = Rig()
    for body in ("a", "b", "c"):
        rig.send("Q", body, annotations={"AMQ_SCHEDULED_DELAY": 60_000})
    queue, scheduled = rig.broker.queues.need(Destination("Q", ANYCAST)), rig.broker.scheduled
    first, second, third = sorted(scheduled.schedules)
    work = Delivery(rig.broker, queue, None, second)
    assert list(work.schedules) == [second]
    assert result(Delivery(rig.broker, queue, None, second)) is None
    assert sorted(scheduled.schedules) == [first, third]
    identity = rig.broker.ids.identity_of(scheduled.load(first))
    work = Delivery(rig.broker, queue, None, identity)
    assert work.step()
    assert sorted(scheduled.schedules) == [third]
    assert result(Delivery(rig.broker, queue, None, second)) is None  # it is gone
    rig.turn()
    assert sorted(rig.bodies("Q")) == ["a", "b"]


def test_what_waits_for_its_time_stays_where_the_disk_is_full() -> None:
    rig = Rig()
    rig.send("Q", "x", annotations={"AMQ_SCHEDULED_DELAY": 60_000})
    queue = rig.broker.queues.need(Destination("Q", ANYCAST))
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(500):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    with pytest.raises(StorageFull):
        result(Delivery(rig.broker, queue, None))
    assert len(rig.broker.scheduled.schedules) == 1
    disk.room.make()
    rig.turn()
    assert result(Delivery(rig.broker, queue, None)) is None
    rig.turn()
    assert rig.bodies("Q") == ["x"]


def test_a_queue_whose_count_begins_anew_is_still_one_that_was_used() -> None:
    rig = Rig()
    rig.send("Q")
    queue = rig.queue("Q")
    assert not queue.used
    reset_added(queue)
    assert queue.used
    fresh = rig.broker.queues.need(Destination("fresh", ANYCAST))
    reset_added(fresh)
    assert not fresh.used


def test_the_narrowest_rule_says_who_may_what() -> None:
    rig = Rig()
    rules = [Rule("#", UNTYPED, {"all": EVERYTHING}), Rule("Q", UNTYPED, {"senders": SEND})]
    rig.broker.access.protect(Directory([]), rules, narrowest=True)
    (one,) = roles(rig.broker, "Q")
    assert [name for name, has in one.items() if has is True] == ["send"]
    assert role_rows(rig.broker, "Q")[0][:3] == ["senders", True, False]
    rig.broker.access.protect(Directory([]), rules)
    assert [row["name"] for row in roles(rig.broker, "Q")] == ["all", "senders"]
