"""The scheduler managed by messages: shown, removed, by whom, in steps, and on disk before the answer."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AccessDenied
from entrepot.core.operators.jobs import ACTION, ADDRESS, BEGIN, END, STEP, Jobs
from entrepot.core.scheduling.timed import SCHEDULED_DELAY, SCHEDULED_JOB, SCHEDULED_PERIOD, SCHEDULED_REPEAT
from entrepot.core.security.access import ADMIN, CREATE, READ, WRITE, Rule
from entrepot.core.security.directory import Subject
from entrepot.model.address import UNTYPED, parse
from kit import START, Rig, body_of


def rig_with_jobs(**options: bool) -> Rig:
    rig = Rig(**options)  # type: ignore[arg-type]
    serve(rig)
    return rig


def serve(rig: Rig) -> None:
    rig.broker.options.scheduler = True
    rig.broker.addresses.offer(ADDRESS, Jobs(rig.broker))


def schedule(rig: Rig, body: str, delay: int, **annotations: str) -> None:
    rig.send("target", body, annotations={SCHEDULED_DELAY: str(delay), **annotations})


def ask(rig: Rig, action: str, **properties: str) -> None:
    rig.send(ADDRESS, "request", properties={ACTION: action, **properties})


def shown(rig: Rig, **properties: str) -> list[tuple[str, str]]:
    """Return text and job of what a browse shows."""
    reader = rig.reader("answers", 1000)
    ask(rig, "BROWSE", JMSReplyTo="queue://answers", **properties)
    rig.wait(0)
    found = [(each.body, each.annotations[SCHEDULED_JOB]) for each in reader.deliveries]
    reader.ack()
    reader.close()
    return found


def test_jobs_are_shown_with_what_asked_for_them_and_go_out_all_the_same() -> None:
    rig = rig_with_jobs()
    schedule(rig, "a", 1000)
    schedule(rig, "b", 5000)
    assert [body for body, _ in shown(rig)] == ["a", "b"]
    reader = rig.reader("answers", 10)
    ask(rig, "BROWSE", JMSReplyTo="queue://answers")
    assert [each.annotations[SCHEDULED_DELAY] for each in reader.deliveries] == ["1000", "5000"]
    assert not any(each.message.durable for each in reader.deliveries)
    target = rig.reader("target", 10)
    rig.wait(6000)
    assert target.bodies == ["a", "b"]
    assert shown(rig) == []


def test_a_copy_is_not_taken_for_the_message() -> None:
    rig = rig_with_jobs()
    schedule(rig, "a", 1000)
    reader = rig.reader("answers", 10)
    ask(rig, "BROWSE", JMSReplyTo="queue://answers")
    (copy,) = reader.deliveries
    assert rig.broker.ids.identity_of(copy.message) != copy.annotations[SCHEDULED_JOB]


def test_one_is_removed_by_its_id_and_does_not_go_out() -> None:
    rig = rig_with_jobs()
    for body in "abc":
        schedule(rig, body, 1000)
    jobs = dict(shown(rig))
    ask(rig, "REMOVE", **{SCHEDULED_JOB: jobs["b"]})
    assert [body for body, _ in shown(rig)] == ["a", "c"]
    target = rig.reader("target", 10)
    rig.wait(2000)
    assert target.bodies == ["a", "c"]


def test_times_limit_what_is_shown_and_removed() -> None:
    rig = rig_with_jobs()
    for at in range(1, 5):
        schedule(rig, str(at), at * 10_000)
    between = {BEGIN: str(START + 15_000), END: str(START + 35_000)}
    assert [body for body, _ in shown(rig, **between)] == ["2", "3"]
    ask(rig, "REMOVEALL", **between)
    assert [body for body, _ in shown(rig)] == ["1", "4"]
    ask(rig, "REMOVEALL", **{BEGIN: "0"})  # one of the two limits nothing, as in Classic
    assert shown(rig) == []


def test_what_is_removed_is_gone_after_a_kill() -> None:
    rig = rig_with_jobs()
    for body in "ab":
        schedule(rig, body, 60_000)
    ask(rig, "REMOVE", **{SCHEDULED_JOB: dict(shown(rig))["a"]})
    rig.restart("kill")
    serve(rig)
    assert [body for body, _ in shown(rig)] == ["b"]


def test_it_works_without_a_disk() -> None:
    rig = rig_with_jobs(disk=False)
    schedule(rig, "a", 1000)
    used = rig.broker.memory.used
    assert used > 0
    ask(rig, "REMOVEALL")
    assert rig.broker.memory.used == 0
    rig.wait(2000)


def test_a_job_that_repeats_is_removed_for_good_though_it_goes_out_meanwhile() -> None:
    rig = rig_with_jobs()
    for at in range(2 * STEP):
        schedule(rig, f"other {at}", 60_000)
    schedule(rig, "again", 1000, **{SCHEDULED_PERIOD: "1000", SCHEDULED_REPEAT: "100"})
    job = dict(shown(rig))["again"]
    target = rig.reader("target", 1000)
    ask(rig, "REMOVE", **{SCHEDULED_JOB: job})
    for number in list(rig.broker.scheduled.schedules)[2 * STEP :]:
        rig.broker.scheduled.fire(
            number, int(rig.broker.wall)
        )  # before the steps reach it: it waits under another number
    rig.wait(30_000)
    assert target.bodies.count("again") <= 1
    assert "again" not in dict(shown(rig))


def test_many_jobs_are_done_in_steps_and_in_the_order_of_the_requests() -> None:
    rig = rig_with_jobs()
    for at in range(3 * STEP):
        schedule(rig, str(at), 60_000)
    reader = rig.reader("answers", 10_000)
    broker = rig.broker
    before = len(broker.scheduled.schedules)
    message = rig.message("r", ADDRESS, properties={ACTION: "REMOVEALL"})
    broker.addresses.service_at(ADDRESS).take(message, 0)  # type: ignore[union-attr]
    assert before - len(broker.scheduled.schedules) == STEP, "others have their turn"
    ask(rig, "BROWSE", JMSReplyTo="queue://answers")
    rig.wait(0)
    assert len(broker.scheduled.schedules) == 0
    assert len(reader.deliveries) <= before - STEP


def test_what_asks_for_nothing_does_nothing_and_is_told() -> None:
    rig = rig_with_jobs()
    schedule(rig, "a", 1000)
    for action, properties in (("BROWSE", {}), ("REMOVE", {}), ("DROP", {}), ("", {})):
        ask(rig, action, **properties)
    ask(rig, "REMOVE", **{SCHEDULED_JOB: "nobody's"})
    ask(rig, "BROWSE", JMSReplyTo=f"queue://{ADDRESS}")
    assert [body for body, _ in shown(rig)] == ["a"]
    assert len([one for one in rig.notices.facts if one.subject() == ADDRESS]) == 4


def test_bodies_are_whole() -> None:
    rig = rig_with_jobs()
    schedule(rig, "body", 1000)
    reader = rig.reader("answers", 10)
    ask(rig, "BROWSE", JMSReplyTo="queue://answers")
    assert body_of(reader.deliveries[0].message) == "body"


def test_who_may_only_send_manages_no_jobs_of_others() -> None:
    rig = rig_with_jobs()
    rules = [Rule(">", UNTYPED, {"users": READ | WRITE | CREATE, "admins": ADMIN})]
    rig.broker.access.protect(None, rules)
    for text in (f"queue://{ADDRESS}", f"topic://{ADDRESS}", f"queue://orders,queue://{ADDRESS}"):
        with pytest.raises(AccessDenied, match="manage"):
            rig.broker.access.send(Subject("app", ["users"]), parse(text))
        rig.broker.access.send(Subject("boss", ["admins"]), parse(f"queue://{ADDRESS}"))
