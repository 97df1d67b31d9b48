"""Where dead and expired messages go, and what they say of themselves (artemis.md 4.2, 4.7)."""

from __future__ import annotations

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.letters import letters_of
from entrepot.core.operators.upkeep import Retry
from entrepot.model.address import MULTICAST
from entrepot.model.origins import original_number
from kit import Rig

ARTEMIS = {"dead_letter_routed": "true", "dead_letter_expired": "false", "dead_letter_prefix": "DLQ."}


def test_each_source_gets_a_queue_of_the_dead_letter_address():
    rig = Rig(dead_letter_address="dead", dead_letter_resources="true", dead_letter_suffix=".x", **ARTEMIS)
    for name in ("A", "it's"):
        rig.send(f"queue://{name}", f"of {name}")
        rig.reader(f"queue://{name}", 1).reject()
    rig.restart("kill")
    for name in ("A", "it's"):
        queue = rig.broker.table.queues[f"DLQ.{name}.x"]
        assert (queue.address, queue.routing, queue.definition.auto_created) == ("dead", MULTICAST, True)
        (letter,) = rig.drain(f"dead::DLQ.{name}.x")
        assert letter.body == f"of {name}"
        assert letter.annotations["_AMQ_ORIG_QUEUE"] == name
        assert "_AMQ_ACTUAL_EXPIRY" not in letter.annotations
        assert original_number(letter.message) > 0
    assert "dead" not in rig.broker.table.queues


def test_each_source_gets_a_queue_of_the_expiry_address():
    rig = Rig(expiry_address="late", expiry_resources="true", expiry_suffix=".y", **ARTEMIS)
    rig.send("queue://A", "old", ttl=10)
    rig.wait(2_000)
    (letter,) = rig.drain("late::EXP.A.y")
    assert int(letter.annotations["_AMQ_ACTUAL_EXPIRY"]) > letter.message.timestamp
    assert letter.message.expiration == 0


def test_operators_find_letters_in_queues_of_their_own():
    rig = Rig(dead_letter_address="dead", dead_letter_resources="true", **ARTEMIS)
    rig.send("queue://A", "x")
    reader = rig.reader("queue://A", 1)
    reader.reject()
    reader.close()
    assert [each.count for each in letters_of(rig.broker, rig.broker.table.queues["A"]).found] == [1]
    retry = Retry(rig.broker, "DLQ.A")
    for _ in range(3):
        retry.step()
        rig.turn()
    assert rig.bodies("A") == ["x"]


def test_letters_reach_every_queue_of_their_address_whose_filter_lets_them_in():
    rig = Rig(dead_letter_address="dead", **ARTEMIS)
    rig.broker.queues.create(QueueDefinition(name="all", address="dead"))
    rig.broker.queues.create(QueueDefinition(name="of.B", address="dead", routing=1, selector="_AMQ_ORIG_QUEUE = 'B'"))
    for name in ("A", "B"):
        rig.send(f"queue://{name}", name)
        rig.reader(f"queue://{name}", 1).reject()
    assert rig.bodies("dead::all") == ["A", "B"]
    assert rig.bodies("dead::of.B") == ["B"]


def test_what_no_queue_takes_is_a_dead_letter_where_that_is_wanted():
    rig = Rig(dead_letter_address="dead", unrouted_dead="true", **ARTEMIS)
    assert rig.send("topic://T", "to nobody", ttl=5) == 0
    (letter,) = rig.drain("dead")
    assert (letter.annotations["_AMQ_ORIG_ADDRESS"], letter.annotations["_AMQ_ORIG_QUEUE"]) == ("T", "")
    assert letter.annotations["_AMQ_ORIG_ROUTING_TYPE"] == "0"
    assert letter.message.expiration == 0
    rig.broker.queues.create(QueueDefinition(name="red", address="U", routing=1, selector="c = 'red'"))
    rig.send("topic://U", "blue")
    assert rig.bodies("dead") == ["blue"]
    rig.send("topic://dead", "never in a circle")
    assert rig.bodies("dead") == []


def test_the_time_of_arrival_is_written_where_that_is_wanted():
    rig = Rig({"stamped": {"ingress_timestamp": "true"}})
    rig.send("queue://stamped", "x")
    rig.send("queue://other", "y")
    assert rig.drain("stamped")[0].annotations == {"_AMQ_INGRESS_TIMESTAMP": str(rig.wall)}
    assert rig.drain("other")[0].annotations == {}
