"""What a topic remembers for consumers that ask for what was said before (classic.md 4.7)."""

from __future__ import annotations

import pytest

from entrepot.base.environment import KIB
from entrepot.model.message import BODY_TEXT, Common
from kit import Plain, Reader, Rig, body_of


def rig_with(recall: str, size: int = 100, **more: str) -> Rig:
    return Rig({"t.#": {"recall": recall, "recall_size": str(size), **more}})


def late(rig: Rig, text: str = "/topic/t.a", **options) -> list[str]:
    reader = rig.reader(text, 100, retroactive=True, **options)
    found = reader.take()
    reader.ack()
    reader.close()
    return found


def test_who_does_not_ask_gets_what_comes_and_no_more():
    rig = rig_with("COUNT")
    rig.send_all("/topic/t.a", ["a", "b"])
    reader = rig.reader("/topic/t.a", 100)
    rig.send("/topic/t.a", "c")
    assert reader.bodies == ["c"]


@pytest.mark.parametrize(
    ("recall", "size", "kept"),
    [("NONE", 100, []), ("LAST", 100, ["3"]), ("COUNT", 2, ["2", "3"]), ("TIME", 2500, ["2", "3"])],
)
def test_a_policy_says_how_much_is_kept(recall, size, kept):
    rig = rig_with(recall, size)
    for body in "0123":
        rig.send("/topic/t.a", body)
        rig.wait(1000)
    assert late(rig) == kept


@pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
def test_what_is_kept_for_a_time_is_kept_so_long_whatever_the_wall_clock_shows(by_ms: int) -> None:
    rig = rig_with("TIME", 2500)
    for body in "0123":
        rig.send("/topic/t.a", body)
        rig.wait(1000)
    rig.wall += by_ms
    assert late(rig) == ["2", "3"]


def test_octets_are_counted():
    rig = rig_with("OCTETS", 4 * KIB)
    rig.send_all("/topic/t.a", [f"{number}" * 1000 for number in range(9)])
    assert [body[0] for body in late(rig)] == ["7", "8"]


def test_what_was_comes_before_what_comes():
    rig = rig_with("COUNT")
    rig.send_all("/topic/t.a", ["a", "b"])
    reader = rig.reader("/topic/t.a", 100, retroactive=True)
    rig.send("/topic/t.a", "c")
    assert reader.bodies == ["a", "b", "c"]


def test_a_selector_and_the_time_to_live_hold():
    rig = rig_with("COUNT")
    rig.send("/topic/t.a", "red", properties={"colour": "red"})
    rig.send("/topic/t.a", "brief", ttl=500)
    rig.send("/topic/t.a", "blue", properties={"colour": "blue"})
    rig.wait(600)
    assert late(rig, selector="colour = 'blue'") == ["blue"]
    assert late(rig) == ["red", "blue"]


def test_a_wildcard_recalls_every_topic_in_the_order_of_arrival():
    rig = rig_with("LAST")
    for name in ("t.b", "t.a", "t.c", "t.a"):
        rig.send(f"/topic/{name}", f"to {name}")
    assert late(rig, "/topic/t.*") == ["to t.b", "to t.c", "to t.a"]


def test_a_new_durable_subscription_keeps_what_it_recalls():
    rig = rig_with("COUNT")
    rig.send_all("/topic/t.a", ["a", "b"])
    names = {"durable_name": "d", "client_id": "c"}
    reader = rig.reader("/topic/t.a", 1, retroactive=True, **names)
    assert reader.ack(1) == ["a"]
    rig.restart("kill")
    again = rig.reader("/topic/t.a", 10, retroactive=True, **names)
    assert again.bodies == ["b"]


def test_every_subscriber_may_be_retroactive_by_policy():
    rig = rig_with("COUNT", always_retroactive="true")
    rig.send("/topic/t.a", "a")
    assert rig.reader("/topic/t.a", 10).bodies == ["a"]


def test_a_retained_message_stays_until_it_is_taken_back(monkeypatch):
    monkeypatch.setattr(Plain, "common", lambda _, message: Common(BODY_TEXT, body_of(message)))
    rig = rig_with("RETAINED")
    rig.send("/topic/t.a", "keep", properties={"ActiveMQ.Retain": True})
    rig.send("/topic/t.a", "pass")
    reader = rig.reader("/topic/t.a", 10, retroactive=True)
    assert [(each.body, each.annotations) for each in reader.deliveries] == [("keep", {"ActiveMQ.Retained": "true"})]
    reader.ack()
    rig.send("/topic/t.a", "", properties={"ActiveMQ.Retain": True})
    assert late(rig) == []


def test_parts_of_a_composite_and_targets_of_a_topic_remember_their_own():
    rig = rig_with("COUNT")
    rig.send("/topic/t.a,/topic/t.b", "x")
    reader = rig.reader("/topic/t.b", 10, retroactive=True)
    assert [(each.body, each.message.address) for each in reader.deliveries] == [("x", "t.b")]
    assert late(rig) == ["x"]


def test_a_full_broker_remembers_less_and_blocks_nobody():
    rig = Rig({"t.#": {"recall": "COUNT", "recall_size": "1000"}}, memory_limit=20 * KIB)
    for number in range(100):
        assert rig.send("/topic/t.a", f"{number:03}" * 100) == 0
    found = [body[:3] for body in late(rig)]
    assert found
    assert found[-1] == "099"
    assert len(found) < 30


def test_a_policy_that_changes_lets_go():
    rig = rig_with("COUNT")
    rig.send("/topic/t.a", "a")
    rig.policies.add("t.#", {"recall": "NONE"})
    assert late(rig) == []
    assert rig.broker.memory.used == 0


def durable(rig: Rig, name: str, text: str = "/topic/t", **options: object) -> Reader:
    return rig.reader(text, 10, client_id="c", durable_name=name, **options)


def test_a_retroactive_durable_subscription_gets_what_another_one_has_still():
    rig = Rig()
    first = durable(rig, "one")
    rig.send_all("/topic/t", ["settled", "in flight"])
    first.ack(1)
    first.close()
    rig.send("/topic/t", "waiting")
    rig.send("/topic/t", "lost", durable=False)
    assert durable(rig, "plain").bodies == []
    second = durable(rig, "two", retroactive=True)
    assert second.bodies == ["in flight", "waiting"]
    rig.restart("kill")
    assert durable(rig, "two", retroactive=True).bodies == ["in flight", "waiting"]
    assert durable(rig, "three", "/topic/>", retroactive=True).bodies == ["in flight", "waiting"]
    assert durable(rig, "four", "/topic/u", retroactive=True).bodies == []


def test_a_retroactive_durable_subscription_gets_once_what_is_remembered_and_stored():
    rig = rig_with("COUNT")
    durable(rig, "one", "/topic/t.a").close()
    rig.send_all("/topic/t.a", ["a", "b"])
    assert durable(rig, "two", "/topic/t.a", retroactive=True).bodies == ["a", "b"]


def test_a_retroactive_durable_subscription_keeps_its_selector():
    rig = Rig()
    durable(rig, "one").close()
    rig.send("/topic/t", "red", properties={"colour": "red"})
    rig.send("/topic/t", "blue", properties={"colour": "blue"})
    reader = durable(rig, "two", retroactive=True, selector="colour = 'red'")
    assert reader.bodies == ["red"]
