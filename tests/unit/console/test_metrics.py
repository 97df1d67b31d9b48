"""The text of metrics: names, labels, bounds."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from entrepot.base.errors import InvalidDestination
from entrepot.cluster.dialled import link_report
from entrepot.console import metrics as encoder
from entrepot.console.metrics import details, metrics
from entrepot.console.scraping import stuck
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.views import QueueView
from entrepot.management.view import AddressCounts, BrokerView, Glance, alarms, counted_addresses, rates
from entrepot.model.address import ANYCAST
from kit import Rig
from unit.cluster.test_link import Setup
from unit.console.test_jolokia import FACTS, queue

LINE = re.compile(
    r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? -?[0-9.e+-]+'
)


def view(*queues: dict[str, Any], at: float = 1.0, **facts: Any) -> BrokerView:
    return BrokerView({**FACTS, **facts}, msgspec.convert(list(queues), list[QueueView]), [], [], at, 0.1)


def glimpse(*ailing: dict[str, Any], at: float = 1.0, accepted: int = 9, **facts: Any) -> Glance:
    sums = {"accepted": accepted, "delivered": 0, "settled": 0, "queues": 5, "temporary": 2}
    return Glance({**FACTS, **facts}, sums, msgspec.convert(list(ailing), list[QueueView]), [], [], at, 0.1)


def test_each_line_is_a_sample_and_labels_are_escaped() -> None:
    text = metrics([view(queue('a"b\\c\nd', 7), queue("plain", 0))], detailed=True).text()
    assert 'artemis_message_count{broker="b",address="a\\"b\\\\c\\nd",queue="a\\"b\\\\c\\nd"} 7\n' in text
    assert 'entrepot_queue_oldest_message_age_seconds{broker="b",address="plain"' not in text  # nothing waits there
    for line in text.splitlines():
        assert line.startswith("#") or LINE.fullmatch(line), line
    assert text.endswith("# EOF\n")


def test_the_two_forms_name_counters_as_each_wants_it() -> None:
    one = view(queue("a", 1))
    assert "# TYPE entrepot_queue_delivered_total counter\n" in metrics([one], detailed=True).text()
    assert "# TYPE entrepot_queue_delivered counter\n" in metrics([one], detailed=True, open_metrics=True).text()


def test_series_are_bounded_and_what_is_left_out_is_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(encoder, "QUEUES_MOST", 2)
    temporary = {**queue("t", 9), "temporary": True}
    text = metrics([view(queue("a", 1), queue("b", 5), queue("c", 3), temporary)]).text()
    assert 'queue="b"' in text
    assert 'queue="c"' in text
    assert 'queue="a"' not in text
    assert 'queue="t"' not in text
    assert 'entrepot_queues_left_out{broker="b"} 1\n' in text
    assert 'entrepot_temporary_queues{broker="b"} 1\n' in text


def test_addresses_have_what_was_sent_to_them() -> None:
    text = metrics([view(queue("a", 1))])
    encoder.addresses(text, {"b": [AddressCounts("a", 5, 0), AddressCounts('n"x', 0, 2)]})
    shown = text.text()
    assert 'artemis_routed_message_count{broker="b",address="a"} 5\n' in shown
    assert 'artemis_unrouted_message_count{broker="b",address="n\\"x"} 2\n' in shown
    assert "# TYPE artemis_unrouted_message_count gauge\n" in shown
    for line in shown.splitlines():
        assert line.startswith("#") or LINE.fullmatch(line), line


class Broker:
    """Answers about addresses as a broker does: in pages, by name."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.asked = 0

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked += 1
        work: Any = control(self.rig.broker, Census(), resource).call(operation, list(values))
        while not work.step():
            pass
        return work.result()


def test_counts_of_addresses_are_asked_for_in_pages_and_bounded(monkeypatch: Any) -> None:
    rig = Rig()
    for number in range(5):
        rig.send_all(f"queue://q{number}", range(number))
    rig.broker.queues.create(QueueDefinition(name="gone", address="gone", routing=ANYCAST, temporary=True))
    rig.send("topic://silent", "x")
    monkeypatch.setattr("entrepot.management.view.PAGE", 2)
    broker = Broker(rig)
    found = asyncio.run(counted_addresses(broker, 100))
    assert [(one.address, one.routed) for one in found if one.address.startswith("q")] == [
        (f"q{number}", number) for number in range(5)
    ]
    assert "gone" not in [one.address for one in found]
    assert broker.asked > 2
    assert [one.address for one in asyncio.run(counted_addresses(broker, 3))] == [one.address for one in found[:3]]


def test_no_series_comes_twice() -> None:
    text = metrics([view(queue("a", 1)), view(queue("a", 2))])
    bridge = {"connector": "x", "peer": "p", "state": "open", "sent": 3}
    details(text, "b", [], [bridge, bridge], {"no-consumer": 2})
    names = [line.rpartition(" ")[0] for line in text.text().splitlines() if not line.startswith("#")]
    assert len(names) == len(set(names))
    assert 'entrepot_stuck_messages{broker="b",reason="no-consumer"} 2' in text.text()


def test_rates_are_of_a_second_and_none_over_a_restart() -> None:
    before, after = glimpse(at=1.0), glimpse(accepted=29, at=3.0, uptimeMillis=3000)
    assert rates(before, after).accepted == 10.0
    assert rates(after, glimpse(accepted=40, at=5.0, uptimeMillis=10)).accepted == 0.0
    assert rates(after, glimpse(accepted=7, at=5.0, uptimeMillis=5000)).accepted == 0.0  # a queue was deleted
    assert rates(None, after).accepted == 0.0
    assert after.lasting == 3


def test_alarms_say_what_is_wrong_and_why() -> None:
    old = {**queue("slow", 4), "oldest_ms": 120_000}
    paused = {**queue("held", 1), "paused": True}
    found = alarms(glimpse(old, paused, queue("ActiveMQ.DLQ", 2), addressMemoryUsagePercentage=95))
    assert [(one.level, one.queue) for one in found] == [
        ("error", ""), ("warning", "slow"), ("warning", "held"), ("warning", "ActiveMQ.DLQ"),
    ]  # fmt: skip
    assert "120 s" in found[1].why


class _Explains:
    """A broker that has no queue ``gone`` any more."""

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        if values == ("gone",):
            raise InvalidDestination("there is no queue gone")
        return {"queues": [{"reasons": [{"code": "no-consumer", "messages": 3}]}]}


def test_a_queue_that_went_since_it_was_seen_hides_no_reasons_of_others() -> None:
    seen = view({**queue("gone", 1), "consumers": 0}, {**queue("there", 3), "consumers": 0})
    assert asyncio.run(stuck(_Explains(), seen)) == {"no-consumer": 3}


def test_a_link_tells_its_canary_in_seconds_and_nothing_before_one_came_back() -> None:
    setup = Setup()

    def series() -> list[str]:
        text = metrics([])
        details(text, "b", [], [{"connector": "x", **link_report(setup.link, setup.now)}], {})
        return [line for line in text.text().splitlines() if line.startswith("entrepot_link_canary")]

    assert series() == []
    setup.link.supervision.round_trip = 2_500_000  # ns
    setup.link.supervision.round_trip_at = setup.now
    (line,) = series()
    assert line.endswith("} 0.0025"), line
