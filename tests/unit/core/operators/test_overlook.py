"""Pages of queues that are searched and sorted by the broker, and sums over all of them."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import InvalidOption, Refused
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators import overlook, upkeep
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.pace import PART
from kit import Rig
from unit.core.operators.test_describing import done

COUNT = 1_203


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.thorough = False
    for number in range(COUNT):
        name = f"{'Eu' if number % 2 else 'us'}.{number:04d}"
        made.broker.queues.create(QueueDefinition(name=name, address=name))
    for number in range(5):
        for _ in range(number + 1):
            made.send(f"/queue/{'Eu' if number % 2 else 'us'}.{number:04d}", "x")
    return made


def ask(rig: Rig, operation: str, *values: Any) -> Any:
    return control(rig.broker, Census(), "broker").call(operation, list(values))


def page(rig: Rig, **wanted: Any) -> tuple[int, list[str]]:
    (told, _) = done(ask(rig, "describeQueuePage", wanted))
    return told["count"], [row["name"] for row in told["rows"]]


def test_a_page_is_searched_sorted_and_cut_as_one_sort_of_all_would(rig: Rig) -> None:
    every = [(queue.name, int(queue.count)) for queue in rig.broker.table.queues.values()]
    by_messages = [name for name, _ in sorted(every, key=lambda one: (-one[1], one[0]))]
    assert page(rig, most=7) == (COUNT, by_messages[:7])
    assert by_messages[:2] == ["us.0004", "Eu.0003"]
    assert page(rig, skip=1_100, most=200) == (COUNT, by_messages[1_100:])
    assert page(rig, skip=5_000) == (COUNT, [])
    up = [name for name, _ in sorted(every, key=lambda one: (one[1], one[0]))]
    assert page(rig, down=False, skip=1_196) == (COUNT, up[1_196:])
    names = sorted((name for name, _ in every), reverse=True)
    assert page(rig, sort="name", down=True, skip=499, most=3) == (COUNT, names[499:502])
    found = sorted(name for name in names if "eu.00" in name.lower())
    assert page(rig, search="EU.00", sort="name") == (len(found), found)
    assert page(rig, search=["u.0001", "s.0002", ""], sort="name") == (2, ["Eu.0001", "us.0002"])
    assert page(rig, show="unread", sort="oldest_ms")[0] == 5
    assert page(rig, routing="MULTICAST") == (0, [])
    assert page(rig, names=["us.0002", "nowhere", "us.0004", "us.0002"]) == (2, ["us.0004", "us.0002"])
    assert page(rig, names=[]) == (0, [])
    for wrong in ("us.0002", [1], ["x"] * 501):
        with pytest.raises(Refused, match="no list of up to 500"):
            page(rig, names=wrong)


def test_no_step_looks_at_more_than_a_part(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    kept = overlook.Overlook.look

    def noted(self: Any, most: int = overlook.LOOKED_A_STEP) -> Any:
        found = kept(self, most)
        looks.append(len(found))
        return found

    monkeypatch.setattr(overlook.Overlook, "look", noted)
    done(ask(rig, "describeQueuePage", {"skip": 1_000, "most": 120}))
    assert max(looks) == overlook.LOOKED_A_STEP // PART  # one turn follows another: each is short
    looks.clear()
    effort = rig.broker.effort
    effort.begin()
    effort.begin()
    effort.go_on()  # somebody else had a turn in between
    _, steps = done(ask(rig, "describeQueuePage", {"skip": 1_000, "most": 120}))
    assert max(looks) == overlook.LOOKED_A_STEP
    assert len(looks) > COUNT // overlook.LOOKED_A_STEP
    assert steps >= len(looks) + 1 + 3  # queues passed over, rows described
    looks.clear()
    done(ask(rig, "describeQueuePage", {"sort": "oldest_ms", "most": 1}))
    assert max(looks) <= 50  # an age may be read from disk


def test_a_queue_that_goes_between_two_steps_is_left_out(rig: Rig) -> None:
    for operation in ("describeQueuePage", "describeSums"):
        work = ask(rig, operation, {})
        assert not work.step()
        victim = "us.0004" if operation == "describeQueuePage" else "us.1202"
        upkeep.delete(rig.broker, victim)
        told, _ = done(work)
        rows = told["rows"] if operation == "describeQueuePage" else told["ailing"]
        assert victim not in [row["name"] for row in rows]
    assert told["queues"] == COUNT - 2


def test_sums_are_of_all_and_name_what_ails(rig: Rig) -> None:
    rig.broker.queues.create(QueueDefinition(name="ActiveMQ.DLQ", address="ActiveMQ.DLQ"))
    rig.send("/queue/ActiveMQ.DLQ", "dead")
    upkeep.pause(rig.broker, "us.0000")
    told, _ = done(ask(rig, "describeSums"))
    assert (told["queues"], told["messages"], told["accepted"], told["temporary"]) == (COUNT + 1, 16, 16, 0)
    assert {row["name"] for row in told["ailing"]} == {"ActiveMQ.DLQ", "us.0000"}  # the others wait not long yet
    rig.wait(overlook.OLD_MS + 1)
    told, _ = done(ask(rig, "describeSums"))
    assert {row["name"] for row in told["ailing"]} >= {"Eu.0001", "us.0002", "Eu.0003", "us.0004"}


def test_what_there_is_not_is_refused(rig: Rig) -> None:
    for wanted in ({"sort": "octets"}, {"show": "some"}):
        with pytest.raises(InvalidOption):
            ask(rig, "describeQueuePage", wanted)
    for odd in ({"search": 7}, {"search": [7]}, {"search": ["x"] * 11}, {"skip": -1}, {"most": True}, {"show": 1}):
        with pytest.raises(Refused):
            ask(rig, "describeQueuePage", odd)
