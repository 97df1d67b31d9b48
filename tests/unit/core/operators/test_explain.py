"""Each reason for which a queue does not move, provoked; and whom dispatch would choose, against whom it chooses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import StorageFull
from entrepot.base.reasons import OBJECTIONS
from entrepot.core.broker import selector_or_none
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.explain import UNEXPLAINED, Explanation, explain
from entrepot.core.operators.explaining import explained
from entrepot.core.operators.where import Search
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import parse
from kit import Reader, Rig

CENSUS = Census()
Q = "queue://Q"


def told(rig: Rig, name: str = "Q") -> Explanation:
    return explain(rig.broker, rig.queue(name), CENSUS)


def codes(rig: Rig, name: str = "Q") -> dict[str, int]:
    """Return code -> messages; the remedy must not be empty."""
    found: dict[str, int] = {}
    for reason in told(rig, name).reasons:
        assert reason.text
        assert reason.remedy or reason.code in ("no-local", "disk")
        found[reason.code] = found.get(reason.code, 0) + reason.messages
    return found


def test_nobody_reads() -> None:
    rig = Rig()
    rig.send_all(Q, ["a", "b"])
    assert codes(rig) == {"no-consumer": 2}
    assert told(rig).next.who == ""
    assert told(rig).head == rig.broker.ids.identity_of(rig.queue("Q").backlog.first().message)  # type: ignore[union-attr]


def test_dead_letters_are_told_at_the_queue_that_they_were_in_by_cause() -> None:
    rig = Rig()
    reader = rig.reader(Q)
    rig.send_all(Q, ["a", "b", "c"])
    for line in (17, 18, 18):
        reader.reject(f"cannot parse line {line}")
    rig.send_all("queue://Other", ["d"])
    other = rig.reader("queue://Other")
    other.take()
    other.reject("no such customer")
    (reason,) = told(rig).reasons
    assert reason.code == "dead-lettered"
    assert reason.messages == 0  # it holds nothing of this queue back
    assert "3 in ActiveMQ.DLQ" in reason.text
    assert "cannot parse line 18" in reason.text
    assert "entrepot queue retry ActiveMQ.DLQ" in reason.remedy
    reader.close()
    rig.send(Q)
    assert codes(rig) == {"no-consumer": 1, "dead-lettered": 0}


def test_a_dead_letter_queue_wants_a_decision_not_a_consumer() -> None:
    rig = Rig()
    for name, cause in (("Q", "bad"), ("Q", "bad"), ("R", "worse")):
        reader = rig.reader(f"queue://{name}")
        rig.send(f"queue://{name}")
        reader.take()
        reader.reject(cause)
        reader.close()
    reasons = told(rig, "ActiveMQ.DLQ").reasons
    assert [one.code for one in reasons] == ["dead-letters", "dead-lettered", "dead-lettered"]
    assert reasons[0].messages == 3
    assert "queue retry ActiveMQ.DLQ" in reasons[0].remedy
    assert "2 in ActiveMQ.DLQ from Q, because: bad" in reasons[1].text
    assert "1 in ActiveMQ.DLQ from R, because: worse" in reasons[2].text


def test_what_expired_is_counted_and_where_it_went_is_said() -> None:
    rig = Rig()
    rig.send(Q, ttl=10)
    rig.wait(60_000)
    reasons = {one.code: one.text for one in told(rig).reasons}
    assert "1 expired here since the broker started; they went to ActiveMQ.DLQ" in reasons["has-expired"]
    assert "expired" in reasons["dead-lettered"]


def test_letters_are_known_again_after_a_restart_and_many_are_not_all_read() -> None:
    rig = Rig()
    reader = rig.reader(Q)
    for number in range(400):
        rig.send(Q, durable=True)
        reader.reject(f"try {number}")
    rig.restart()
    rig.send(Q)
    (reason,) = [one for one in told(rig).reasons if one.code == "dead-lettered"]
    assert "300 in ActiveMQ.DLQ, of the first 300 that wait there" in reason.text


def test_a_selector_is_shown_as_the_client_wrote_it() -> None:
    rig = Rig()
    rig.reader(Q, selector="convert_string_expressions:colour = 'red'")
    rig.send(Q)
    (reason,) = told(rig).reasons
    assert "convert_string" not in reason.text
    assert told(rig).consumers[0].selector == "colour = 'red'"


def test_a_durable_subscriber_is_offline() -> None:
    rig = Rig()
    reader = rig.reader("topic://T", durable_name="d", client_id="c")
    reader.close()
    rig.send("topic://T", "x")
    assert codes(rig, "c.d") == {"offline": 1}


def test_paused() -> None:
    rig = Rig()
    rig.reader(Q)
    rig.queue("Q").gate.pause()
    rig.send(Q)
    assert codes(rig) == {"paused": 1}
    assert "entrepot queue resume Q" in told(rig).reasons[0].remedy


def test_held_until_enough_consumers_are_there() -> None:
    rig = Rig(consumers_before_dispatch="2")
    rig.send(Q)
    rig.reader(Q)
    assert codes(rig) == {"held": 1}
    rig.reader(Q)
    assert codes(rig) == {}


def test_a_full_prefetch() -> None:
    rig = Rig()
    rig.reader(Q, 2)
    rig.send_all(Q, range(5))
    rig.wait(3000)
    assert codes(rig) == {"prefetch": 3}
    (reason,) = told(rig).reasons
    assert "holds 2 of 2 unsettled" in reason.text
    assert "3.0 s" in reason.text


def test_a_prefetch_that_hoards_while_another_consumer_is_idle() -> None:
    rig = Rig()
    rig.reader(Q, 100)
    rig.send_all(Q, range(5))
    rig.reader(Q, 100)
    rig.wait(2000)
    assert codes(rig) == {"hoarded": 5}


def test_what_is_held_and_nobody_else_could_take() -> None:
    rig = Rig()
    rig.reader(Q, 100)
    rig.send_all(Q, range(5))
    rig.wait(2000)
    assert codes(rig) == {"unsettled": 5}


def test_the_time_of_a_consumer_that_was_idle_begins_with_its_first_message() -> None:
    rig = Rig()
    rig.reader(Q, 100)
    rig.wait(60_000)
    rig.send(Q)
    assert codes(rig) == {}
    rig.wait(2000)
    (reason,) = told(rig).reasons
    assert "settled none for 2.0 s" in reason.text


def test_no_credit() -> None:
    rig = Rig()
    rig.reader(Q, 0)
    rig.send(Q)
    assert codes(rig) == {"no-credit": 1}


def test_a_consumer_that_does_not_read_its_socket() -> None:
    rig = Rig()
    rig.reader(Q).window.pauses = 1
    rig.send(Q)
    assert codes(rig) == {"not-reading": 1}


def test_a_selector_that_matches_nothing() -> None:
    rig = Rig()
    rig.reader(Q, selector="colour = 'red'")
    rig.send_all(Q, range(3), properties={"colour": "blue"})
    assert codes(rig) == {"selector": 3}
    assert "colour = 'red'" in told(rig).reasons[0].text


def test_no_local() -> None:
    rig = Rig()
    rig.reader(Q, no_local=True, origin=7)
    rig.send(Q, origin=7)
    assert codes(rig) == {"no-local": 1}


def test_an_exclusive_consumer_elsewhere() -> None:
    rig = Rig()
    rig.reader(Q, 1, exclusive=True)
    rig.reader(Q, 10)
    rig.send_all(Q, range(3))
    assert codes(rig) == {"exclusive": 2}  # another one is idle, and may not
    assert "holds 1 of 1 unsettled" in told(rig).reasons[0].text
    rig = Rig()
    rig.reader(Q, 1, exclusive=True, selector="colour = 'red'")
    rig.reader(Q, 10)
    rig.send_all(Q, range(3))
    assert codes(rig)["exclusive"] >= 3


def test_the_owner_of_a_group_is_busy_and_its_groups_can_be_reset() -> None:
    rig = Rig()
    first = rig.reader(Q, 1)
    rig.send(Q, "1", group="g")
    rig.reader(Q, 10)
    rig.send(Q, "2", group="g")
    assert codes(rig) == {"group": 1}  # another one is idle, and may not
    (reason,) = told(rig).reasons
    assert "holds 1 of 1 unsettled" in reason.text
    assert "regroup Q --group 'g'" in reason.remedy
    assert told(rig).next.who == ""
    rig.queue("Q").dispatcher.close_group("g")
    assert codes(rig) == {}
    first.ack()


def test_the_owner_of_a_group_does_not_want_it() -> None:
    rig = Rig()
    rig.reader(Q, 10, selector="colour = 'red'")
    rig.send(Q, "1", group="g", properties={"colour": "red"})
    rig.reader(Q, 10)
    rig.send(Q, "2", group="g", properties={"colour": "blue"})
    assert codes(rig)["group"] == 1
    assert "regroup Q --group 'g'" in next(one for one in told(rig).reasons if one.code == "group").remedy


def test_delayed_for_redelivery() -> None:
    rig = Rig(redelivery_delay="5000")
    reader = rig.reader(Q)
    rig.send(Q)
    reader.give_back()
    assert codes(rig) == {"delayed": 1}
    assert told(rig).delayed == 1


def test_scheduled_for_later() -> None:
    rig = Rig()
    rig.reader(Q)
    rig.send(Q, annotations={"AMQ_SCHEDULED_DELAY": 60_000})
    assert codes(rig) == {"scheduled": 1}
    assert "60000 ms more" in told(rig).reasons[0].text


def test_expired_and_not_yet_swept() -> None:
    rig = Rig()
    rig.send(Q, ttl=10)
    rig.wall += 20
    rig.broker.tick(rig.now, rig.wall)
    assert codes(rig)["expired"] == 1


def test_leased() -> None:
    rig = Rig()
    rig.send_all(Q, range(3))
    lease = rig.broker.leases.need(parse(Q)[0], "spark", create=True)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 10)
    assert codes(rig) == {"leased": 3}
    assert "entrepot lease release Q spark" in told(rig).reasons[0].remedy


def test_in_an_open_and_in_a_prepared_transaction() -> None:
    rig = Rig()
    reader = rig.reader(Q)
    rig.send(Q)
    transaction = Transaction("tx1")
    delivery = reader.open[0]
    transaction.settle(delivery.consumer, delivery.number)
    assert codes(rig)["transaction"] == 1
    assert "tx1" in next(one for one in told(rig).reasons if one.code == "transaction").text
    rig.broker.branches.prepare(transaction, b"xid")
    assert codes(rig) == {"transaction": 1}
    reader.close()
    assert codes(rig) == {"transaction": 1}


def test_a_transaction_whose_consumer_has_left() -> None:
    rig = Rig()
    reader = rig.reader(Q)
    rig.send(Q)
    delivery = reader.open[0]
    Transaction("tx1").settle(delivery.consumer, delivery.number)
    reader.close()
    assert codes(rig) == {"transaction": 1}


@pytest.mark.parametrize(
    ("full", "said"), [("BLOCK", "producers wait"), ("FAIL", "producers are refused"), ("DROP", "dropped")]
)
def test_full(full: str, said: str) -> None:
    rig = Rig(max_octets="1", full=full)
    rig.send(Q)
    reasons = {one.code: one for one in told(rig).reasons}
    assert said in reasons["full"].text
    assert "no-consumer" in reasons


def test_a_disk_that_takes_no_records() -> None:
    rig = Rig()
    rig.send_all(Q, ["a", "b"])
    assert rig.disk is not None
    rig.disk.room.capacity = rig.disk.used() + 100
    rig.send(Q, "x" * 100_000)  # its record finds no room
    with pytest.raises(StorageFull):
        rig.send(Q)
    found = [reason for reason in told(rig).reasons if reason.code == "disk"]
    assert [(reason.messages, reason.remedy) for reason in found] == [(0, "make room on that disk")]
    assert "no space is left for the journal" in found[0].text


def test_what_should_leave_for_another_queue_waits_for_the_disk() -> None:
    rig = Rig(redelivery_delay="60000")
    rig.send_all(Q, ["rejected", "rejected too", "tried once"])
    rig.send(Q, "old", ttl=1_000)
    reader = rig.reader(Q, 3)
    rig.queue("Q").gate.pause()
    rig.journal.tight(StorageFull("no room", remedy="make some"))
    reader.reject("nonsense")
    reader.reject("worse")
    reader.give_back()
    reader.close()
    rig.queue("Q").dispatcher.resume()
    rig.wait(2_000)
    reasons = {(reason.code, reason.messages): reason.text for reason in told(rig).reasons}
    assert sorted(reasons) == [("delayed", 1), ("disk", 0), ("disk", 1)]
    texts = [reason.text for reason in told(rig).reasons if reason.code == "disk" and reason.messages]
    assert sorted(text.partition(":")[0] for text in texts) == ["nonsense", "their time to live is over", "worse"]
    rig.journal.relieved()
    rig.wait(2_000)
    assert codes(rig) == {"delayed": 1, "has-expired": 0, "dead-lettered": 0}


def test_a_search_on_disk_that_is_not_over() -> None:
    rig = Rig(max_octets="1000")
    rig.send_all(Q, range(5000), properties={"colour": "blue"})
    rig.send(Q, "deep", properties={"colour": "red"})
    reader = Reader(rig, Q, 0)
    reader.octets = 1 << 40
    reader.selector = selector_or_none("colour = 'red'")
    rig.broker.subscribe(reader)
    reader.window.reopen()
    found = {reason.code: reason for reason in told(rig).reasons}
    assert sorted(found) == ["full", "searching", "selector"]
    assert "on disk are still being searched for what consumer" in found["searching"].text
    rig.wait(0)
    assert reader.bodies == ["deep"]
    assert "searching" not in codes(rig)


def test_the_next_message_goes_where_dispatch_sends_it_and_asking_changes_nothing() -> None:
    rig = Rig()
    readers = [rig.reader(Q, 3) for _ in range(3)]
    for turn in range(9):
        foreseen = told(rig).next.who
        assert foreseen == told(rig).next.who
        before = [len(reader.open) for reader in readers]
        rig.send(Q, str(turn))
        (got,) = [one for one, had in zip(readers, before, strict=True) if len(one.open) > had]
        assert got.open[-1].consumer.called() == foreseen
    assert told(rig).next.who == ""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "colour = 'red'", "colour = 'blue'"]),
            st.booleans(),
            st.integers(0, 3),
            st.sampled_from([0, 0, 5]),
        ),
        max_size=4,
    ),
    st.lists(st.tuples(st.sampled_from(["red", "blue"]), st.sampled_from(["", "g", "h"])), min_size=1, max_size=12),
)
def test_every_message_that_waits_has_a_reason_and_what_is_foreseen_happens(
    consumers: list[tuple[str, bool, int, int]], messages: list[tuple[str, str]]
) -> None:
    rig = Rig(disk=False)
    readers: list[Reader] = [
        rig.reader(Q, prefetch, selector=selector, exclusive=exclusive, priority=priority)
        for selector, exclusive, prefetch, priority in consumers
    ]
    rig.broker.queues.need(parse(Q)[0])
    queue = rig.queue("Q")
    for colour, group in messages:
        fields: dict[str, Any] = {"properties": {"colour": colour}}
        if group:
            fields["group"] = group
        made = rig.message("x", "Q", **fields)
        if group:
            queue.roster.saw_group()
        chosen = queue.roster.foreseen(made) if queue.backlog.count == 0 else None
        alone = queue.backlog.count == 0
        before = {id(reader): len(reader.open) for reader in readers}
        rig.send(Q, **fields)
        got = [reader for reader in readers if len(reader.open) > before[id(reader)]]
        if alone:
            assert [one.open[-1].consumer for one in got] == ([] if chosen is None else [chosen])
        explanation = told(rig)
        by_code = {one.code for one in explanation.reasons}
        assert UNEXPLAINED not in by_code
        if explanation.waiting:
            assert by_code & {"no-consumer", "prefetch", "no-credit", "selector", "exclusive", "group"}
        for consumer in queue.roster.consumers:
            assert (consumer.objection(made) is None) == consumer.wants(made)


def test_a_destination_that_is_not_here_is_told_without_queues() -> None:
    rig = Rig()
    found = explained(rig.broker, CENSUS, "queue://nobody")
    assert (found["queues"], found["destination"], found["topic"]) == ([], "nobody", False)


def test_a_topic_is_explained_subscription_by_subscription() -> None:
    rig = Rig()
    rig.reader("topic://T", 1)
    rig.reader("topic://T", 10)
    for number in range(3):
        rig.send("topic://T", str(number))
    found = explained(rig.broker, CENSUS, "topic://T")
    assert [queue["waiting"] for queue in found["queues"]] == [2, 0]
    assert found["queues"][0]["reasons"][0]["code"] == "prefetch"


# -- where ------------------------------------------------------------------------------------------------------------


def places(rig: Rig, identity: str | int) -> list[dict[str, Any]]:
    search = Search(rig.broker, CENSUS, identity)
    while not search.step():
        pass
    result: Any = search.result()
    found: list[dict[str, Any]] = result["places"]
    return found


def test_a_message_is_found_wherever_it_is() -> None:
    rig = Rig(redelivery_delay="5000")
    rig.send_all(Q, ["a", "b", "c"])
    first = rig.queue("Q").backlog.first()
    assert first is not None
    identity, number = rig.broker.ids.identity_of(first.message), int(first.number)
    for name in (identity, number):
        (place,) = places(rig, name)
        assert (place["state"], place["queue"], place["position"]) == ("waiting", "Q", 0)
    reader = rig.reader(Q, 1)
    (place,) = places(rig, identity)
    assert place["state"] == "in flight"
    assert place["holder"] == reader.open[0].consumer.called()
    reader.give_back()
    (place,) = places(rig, identity)
    assert place["state"] == "delayed"
    assert 0 < place["due_ms"] <= 5000
    rig.wait(5000)
    reader.ack(1)
    delivery = next(one for one in reader.open if one.number == number)
    Transaction("tx1").settle(delivery.consumer, number)
    (place,) = places(rig, identity)
    assert (place["state"], place["holder"]) == ("in a transaction", "tx1")
    reader.close()
    (place,) = places(rig, identity)
    assert place["state"] == "in a transaction"


def test_a_dead_letter_says_where_it_was_and_why() -> None:
    rig = Rig()
    reader = rig.reader(Q)
    rig.send(Q)
    identity = rig.broker.ids.identity_of(
        (reader.deliveries[0].deliveries and reader.deliveries[0]) or _message(reader)
    )
    reader.reject("it is unreadable")
    (place,) = places(rig, identity)
    assert place["state"] == "dead letter, waiting"
    assert place["queue"] == "ActiveMQ.DLQ"
    assert place["original"] == "Q"
    assert place["cause"] == "it is unreadable"


def _message(reader: Reader) -> Any:
    (delivery,) = reader.open
    return delivery.consumer.in_flight[delivery.number].message


def test_leased_scheduled_prepared_and_gone() -> None:
    rig = Rig()
    rig.send_all(Q, ["a"])
    first = rig.queue("Q").backlog.first()
    assert first is not None
    identity = rig.broker.ids.identity_of(first.message)
    lease = rig.broker.leases.need(parse(Q)[0], "spark", create=True)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 10)
    (place,) = places(rig, identity)
    assert (place["state"], place["holder"], place["position"]) == ("leased", "spark", 0)
    lease.settle(rig.journal, epoch, 1)
    search = Search(rig.broker, CENSUS, identity)
    while not search.step():
        pass
    gone: Any = search.result()
    assert gone["places"] == []
    assert gone["had"]
    rig.send(Q, annotations={"AMQ_SCHEDULED_DELAY": 60_000})
    (place,) = places(rig, int(rig.broker.ids.number))
    assert (place["state"], place["holder"], place["due_ms"]) == ("scheduled", "queue://Q", 60_000)
    reader = rig.reader(Q)
    rig.send(Q, "p")
    identity = rig.broker.ids.identity_of(_message(reader))
    transaction = Transaction("tx2")
    transaction.settle(reader.open[0].consumer, reader.open[0].number)
    rig.broker.branches.prepare(transaction, b"xid")
    (place,) = places(rig, identity)
    assert (place["state"], place["holder"]) == ("in a prepared transaction", "tx2")


def test_messages_on_disk_are_found_in_steps() -> None:
    rig = Rig(max_octets="1000")
    rig.send_all(Q, range(2000))
    (place,) = places(rig, int(rig.broker.ids.number))
    assert (place["state"], place["position"]) == ("waiting", 1999)


def test_every_reason_is_in_the_documentation_and_no_other() -> None:
    root = Path(__file__).parents[4]
    said: set[str] = set()
    for name in (
        "core/operators/explain.py",
        "core/queue/consumer.py",
        "cluster/networks/admission.py",
        "cluster/source.py",
        "cluster/networks/outlook.py",
    ):
        text = (root / "src/entrepot" / name).read_text()
        said |= set(re.findall(r'(?:tally\.add\(|Objection\(|_reason\(here, )\s*"([a-z-]+)"', text))
        said |= set(re.findall(r'"(bridge-busy|prefetch)"', text))
    documented: set[str] = set()
    for line in (root / "docs/stuck.md").read_text().splitlines():
        if line.startswith("| `"):
            documented |= set(re.findall(r"`([a-z-]+)`", line.split("|")[1]))
    said |= set(OBJECTIONS)  # some are said by a name
    drawn = (root / "src/entrepot/cluster/carrying/draw_outlook.py").read_text()
    drawn += (root / "src/entrepot/cluster/broker_connections/outlook.py").read_text()
    said |= set(re.findall(r'_told\(connector, [^,]+, "([a-z-]+)"', drawn)) | set(
        re.findall(r'code(?:, \w+)? = "([a-z-]+)"', drawn)
    )
    assert said - {"bridge-rule"} == documented


def test_an_operator_blocks_its_address() -> None:
    rig = Rig()
    rig.send_all(Q, ["a"])
    control(rig.broker, CENSUS, "address.Q").call("block", [])
    assert codes(rig) == {"blocked": 0, "no-consumer": 1}
    control(rig.broker, CENSUS, "address.Q").call("unblock", [])
    assert codes(rig) == {"no-consumer": 1}
