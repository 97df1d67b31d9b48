"""Delayed, repeated and cron delivery (classic.md 4.13, artemis.md 4.7)."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import Refused
from entrepot.core.effort import Effort
from entrepot.core.scheduling.timed import Alarm, Timetable
from entrepot.core.sending.flow import SCHEDULED
from kit import START, Rig

MINUTE = 60_000


def asks(**fields: int | str) -> dict[str, str]:
    return {f"AMQ_SCHEDULED_{name.upper()}": str(value) for name, value in fields.items()}


@pytest.mark.parametrize("disk", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_a_delay_and_an_instant(disk, durable):
    rig = Rig(disk=disk)
    reader = rig.reader("Q", 10)
    assert rig.send("Q", "delay", annotations=asks(delay=1500), durable=durable) == SCHEDULED
    rig.send("Q", "time", annotations=asks(time=START + 700), durable=durable)
    rig.wait(699)
    assert reader.bodies == []
    rig.wait(1)
    assert reader.bodies == ["time"]
    rig.wait(799)
    assert reader.bodies == ["time"]
    rig.wait(1)
    assert reader.bodies == ["time", "delay"]
    assert set(reader.deliveries[0].annotations) == {"scheduledJobId"}
    reader.ack()
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_repetitions_are_new_messages_with_a_period_between():
    rig = Rig()
    reader = rig.reader("Q", 10)
    rig.send("Q", "r", annotations=asks(delay=100, period=1000, repeat=2))
    instants = []
    for _ in range(50):
        rig.wait(100)
        while len(instants) < len(reader.deliveries):
            instants.append(rig.wall - START)
    assert instants == [100, 1100, 2100]
    identities = [rig.broker.ids.identity_of(delivery.message) for delivery in reader.deliveries]
    assert len(set(identities)) == 3
    reader.ack()
    assert rig.journal.usage().messages == 0


def test_too_many_repetitions_and_nonsense_are_refused():
    rig = Rig()
    for bad in (asks(repeat=1001), asks(delay="soon"), asks(cron="* * *"), asks(cron="99 * * * *")):
        with pytest.raises(Refused):
            rig.send("Q", "x", annotations=bad)
    assert rig.bodies("Q") == []


def test_a_delay_survives_a_restart_and_what_was_due_meanwhile_goes_at_once():
    rig = Rig()
    rig.send("Q", "soon", annotations=asks(delay=500))
    rig.send("Q", "later", annotations=asks(delay=10_000), durable=False)
    rig.restart("kill")  # takes a second
    rig.wait(1)
    assert rig.bodies("Q") == ["soon"]
    rig.wait(8_998)
    assert rig.bodies("Q") == []
    rig.wait(1)
    assert rig.bodies("Q") == ["later"]


def test_repetitions_go_on_after_a_restart():
    rig = Rig()
    rig.send("Q", "r", annotations=asks(delay=100, period=2000, repeat=3))
    rig.wait(3000)
    rig.restart("kill")
    rig.wait(20_000)
    assert rig.bodies("Q") == ["r"] * 4


def test_cron_fires_at_its_minutes_and_survives_a_restart():
    rig = Rig()
    reader = rig.reader("Q", 100)
    rig.send("Q", "c", annotations=asks(cron="*/10 * * * *"))  # 22:13:20 -> 22:20, 22:30, ...
    rig.wait(6 * MINUTE)
    assert reader.bodies == []
    rig.wait(40_000)
    assert reader.bodies == ["c"]
    reader.ack()
    rig.restart("kill")
    rig.wait(10 * MINUTE)
    assert rig.bodies("Q") == ["c"]


def test_each_firing_of_cron_begins_delay_and_repetitions_anew():
    rig = Rig()
    reader = rig.reader("Q", 100)
    rig.send("Q", "c", annotations=asks(cron="20,40 * * * *", delay=1000, period=2000, repeat=2))
    instants = []
    for _ in range(2000):
        rig.wait(1000)
        while len(instants) < len(reader.deliveries):
            instants.append((rig.wall - START) // 1000)
    assert instants == [401, 403, 405, 1601, 1603, 1605]


def test_the_time_to_live_counts_from_the_delivery():
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=5000), ttl=1000)
    rig.wait(5000)
    found = rig.drain("Q")
    assert [delivery.body for delivery in found] == ["x"]
    assert found[0].message.expiration == START + 6000
    assert found[0].message.timestamp == START + 5000


def test_a_product_of_the_scheduler_is_not_scheduled_again():
    rig = Rig()
    rig.send("Q", "x", annotations={**asks(delay=5000), "scheduledJobId": "before"})
    assert rig.bodies("Q") == ["x"]


def test_topics_and_composites_too():
    rig = Rig()
    topic = rig.reader("topic://T", 10)
    rig.send("topic://T,queue://Q", "x", annotations=asks(delay=100))
    rig.wait(100)
    assert (topic.bodies, rig.bodies("Q")) == (["x"], ["x"])


def test_a_destination_that_refuses_leaves_a_dead_letter():
    rig = Rig({"closed": {"full": "FAIL", "max_octets": "400"}})
    rig.send("closed", "x", annotations=asks(delay=100))
    rig.send_all("closed", ["fill"])
    rig.wait(100)
    letters = rig.drain("ActiveMQ.DLQ")
    assert [letter.body for letter in letters] == ["x"]
    assert "is full" in letters[0].annotations["dlqDeliveryFailureCause"]


def test_a_full_disk_delays_further():
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=100))
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(500):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    rig.wait(1000)
    assert rig.bodies("Q") == []
    disk.room.make()
    rig.wait(1100)
    assert rig.bodies("Q") == ["x"]


HOUR = 3_600_000


def test_a_delay_is_over_when_the_wall_clock_is_beyond_its_end() -> None:
    """As after a machine has slept."""
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=HOUR))
    rig.send("Q", "y", annotations=asks(delay=3 * HOUR))
    rig.wall += 2 * HOUR
    rig.wait(1000)
    assert rig.bodies("Q") == ["x"]
    rig.wait(HOUR)
    assert rig.bodies("Q") == ["y"]


def test_a_delay_lasts_no_longer_when_the_wall_clock_is_put_back() -> None:
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=3000))
    rig.wall -= 2 * HOUR
    rig.wait(2900)
    assert rig.bodies("Q") == []
    rig.wait(200)
    assert rig.bodies("Q") == ["x"]


def test_a_wall_clock_that_is_a_little_behind_is_waited_for_and_not_asked_over_and_over() -> None:
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=3000))
    rig.wall -= 800
    rig.wait(3000)
    deadline = rig.broker.deadline()
    assert deadline is not None
    assert deadline >= rig.now + 700 * MILLISECOND
    rig.wait(1000)
    assert rig.bodies("Q") == ["x"]


def test_clocks_that_go_there_and_back_neither_hurry_nor_hold_up_a_delay() -> None:
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=10_000))
    for by in (HOUR, -HOUR, -HOUR, HOUR):
        rig.wall += by if by < 0 else 5000
        rig.wait(1100)
        rig.wall -= by if by < 0 else 5000
    assert rig.bodies("Q") == []
    rig.wait(10_000 - 4400 - 100)
    assert rig.bodies("Q") == []
    rig.wait(200)
    assert rig.bodies("Q") == ["x"]


def test_repetitions_go_on_when_the_wall_clock_is_put_back() -> None:
    rig = Rig()
    rig.send("Q", "x", annotations=asks(delay=1000, period=1000, repeat=3))
    rig.wait(1000)
    rig.wall -= 2 * HOUR
    rig.wait(3100)
    assert rig.bodies("Q") == ["x"] * 4


def test_a_date_follows_the_wall_clock_both_ways_and_over_a_restart() -> None:
    for restarts in (False, True):
        rig = Rig()
        rig.send("Q", "x", annotations=asks(time=rig.wall + HOUR))
        rig.wall -= HOUR
        if restarts:
            rig.restart()
        rig.wait(HOUR + 5000)
        assert rig.bodies("Q") == []
        rig.wall += HOUR
        rig.wait(1000)
        assert rig.bodies("Q") == ["x"]


def test_cron_follows_the_wall_clock() -> None:
    rig = Rig()
    rig.send("Q", "x", annotations=asks(cron="0 0 * * *"))
    rig.wall += 24 * HOUR
    rig.wait(1000)
    assert rig.bodies("Q") == ["x"]


def test_many_scheduled_messages_have_one_alarm() -> None:
    rig = Rig()
    before = len(rig.broker.timetable)
    for number in range(100):
        rig.send("Q", str(number), annotations=asks(delay=HOUR + number))
    assert len(rig.broker.timetable) <= before + 1
    rig.wait(HOUR + 100)
    assert rig.bodies("Q") == [str(number) for number in range(100)]


class Bell(Alarm):
    def __init__(self, due: int, rung: list[int], table: Timetable) -> None:
        super().__init__(due)
        self.rung = rung
        self.table = table

    def ring(self, now: int) -> None:
        self.rung.append(self.due)
        if len(self.rung) < 20:
            self.table.add(Bell(now, self.rung, self.table))


def test_what_is_made_while_alarms_ring_has_its_turn_later():
    table = Timetable()
    rung: list[int] = []
    table.add(Bell(5, rung, table))
    table.add(Bell(3, rung, table))
    table.advance(10, 100, Effort())
    assert rung == [3, 5]
    assert table.deadline() == 10
    table.advance(10, 1, Effort())
    assert rung == [3, 5, 10]
