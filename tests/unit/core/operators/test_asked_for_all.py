"""Management where a broker is several processes: who asks all of them, who asks one, and by whose rights."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Refused
from entrepot.core.operators.census import Question
from entrepot.core.operators.management import REQUESTS_MAX
from entrepot.core.operators.rbac import VIEWS, Guard
from entrepot.core.security.access import EVERYTHING, VIEW, Rule
from entrepot.core.security.directory import Directory, Subject
from entrepot.model.address import UNTYPED
from kit import Rig

from .test_management import Operator


class Answer:
    """What all answer, after two looks."""

    def __init__(self, outcome: object, failure: EntrepotError | None = None, missing: str = "") -> None:
        self.outcome, self.failure, self.missing = outcome, failure, missing
        self.looks = 0
        self.pause = 1_000_000

    def step(self) -> bool:
        self.looks += 1
        return self.looks > 2

    def result(self) -> object:
        if self.failure is not None:
            raise self.failure
        return self.outcome


class Processes:
    """``answer``: what all answer, None for who asks one alone; ``asked``: by whom and what."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.asked: list[tuple[str, Question]] = []

    def uuids(self) -> list[bytes]:
        return []

    def ask(self, asker: str, question: Question) -> Answer | None:
        self.asked.append((asker, question))
        return self.answer


@pytest.fixture
def rig() -> Rig:
    return Rig()


def together(rig: Rig) -> tuple[Operator, Processes]:
    operator = Operator(rig)
    processes = operator.office.together = Processes()
    return operator, processes


def direct(operator: Operator, question: Question) -> Any:
    """Ask as another process does; return the outcome, or raise why there is none."""
    found: list[tuple[object, EntrepotError | None]] = []
    operator.management.ask(question, lambda outcome, failure: found.append((outcome, failure)))
    operator.rig.wait(0)
    [(outcome, failure)] = found
    if failure is not None:
        raise failure
    return outcome


def waited(operator: Operator, resource: str, name: str, **how: Any) -> Any:
    """Ask, and let time pass until the answer is there; return its frame."""
    kind = "_AMQ_Attribute" if how.pop("attribute", False) else "_AMQ_OperationName"
    fields = {"reply-to": "/temp-queue/answers", "_AMQ_ResourceName": resource, kind: name, **how}
    operator.client.got.clear()
    operator.client.say("SEND", {"destination": "activemq.management", **fields})
    for _ in range(20):
        operator.rig.wait(1)
        operator.client.hear()
    [frame] = operator.client.got
    return frame


def test_a_program_is_answered_for_all_and_told_who_is_missing(rig: Rig) -> None:
    operator, processes = together(rig)
    processes.answer = Answer(7, missing="process 1: it does not answer")
    frame = waited(operator, "queue.Q", "messageCount", attribute=True)
    assert (frame.body, frame.headers["entrepot_missing"]) == (b"[7]", "process 1: it does not answer")
    [(_, question)] = processes.asked
    assert (question.resource, question.attribute, question.operation) == ("queue.Q", "messageCount", "")
    processes.answer = Answer(None, InvalidDestination("there is no queue Q"))
    frame = waited(operator, "queue.Q", "messageCount", attribute=True)
    assert frame.body == b'["Problem while retrieving attribute messageCount"]'
    assert "entrepot_missing" not in frame.headers


def test_who_asks_one_process_is_answered_by_that_one(rig: Rig) -> None:
    operator, processes = together(rig)
    rig.send("Q")
    assert operator.get("queue.Q", "messageCount") == 1  # at a socket of its own
    assert len(processes.asked) == 1
    processes.answer = Answer(7)
    frame = operator.ask("queue.Q", "messageCount", attribute=True, entrepot_alone="true")
    assert frame.body == b"[1]"
    assert len(processes.asked) == 1


def test_another_process_asks_this_one_by_the_rights_of_who_asked_it(rig: Rig) -> None:
    operator, processes = together(rig)
    processes.answer = Answer(7)
    rig.send("Q")
    boss, poor = Subject("boss", ["admins"]), Subject("poor", ["mice"])
    assert direct(operator, Question("queue.Q", "messageCount", "", [], [])) == 1
    assert processes.asked == []
    rig.broker.access.protect(Directory([]), [Rule("#", UNTYPED, {"admins": EVERYTHING})])
    assert direct(operator, Question("queue.Q", "messageCount", "", [], [boss])) == 1
    for nobody in ([poor], [boss, poor], []):
        with pytest.raises(AccessDenied):
            direct(operator, Question("queue.Q", "", "pause", [], nobody))
    assert not rig.queue("Q").gate.paused
    asked = ["x", {}, 3, "text", False, None, None]
    assert direct(operator, Question("queue.Q", "", "sendMessage", asked[1:], [boss]))
    with pytest.raises(InvalidDestination):  # as it is: who asked all makes one answer of theirs
        direct(operator, Question("queue.none", "messageCount", "", [], [boss]))


def test_what_is_asked_for_an_operation_takes_the_right_of_that_one(rig: Rig) -> None:
    operator, _ = together(rig)
    viewer = Subject("viewer", ["viewers"])
    rules = [Rule("#", UNTYPED, {"*": EVERYTHING}), Rule("mops.broker.getQueueCount", UNTYPED, {"viewers": VIEW})]
    rig.broker.access.protect(None, rules)
    operator.management.guard = Guard(rig.broker, "mops", VIEWS)
    found = direct(operator, Question("broker", "", "describeAttributes", ["queueNames"], [viewer], "getQueueCount"))
    assert "queueNames" in found
    with pytest.raises(AccessDenied):
        direct(operator, Question("broker", "", "describeAttributes", ["queueNames"], [viewer]))


def test_what_other_processes_ask_has_the_bound_of_all_requests(rig: Rig) -> None:
    operator, processes = together(rig)
    processes.answer = Answer(7)
    found: list[EntrepotError | None] = []
    for _ in range(REQUESTS_MAX + 1):
        operator.management.ask(Question("broker", "name", "", [], []), lambda outcome, failure: found.append(failure))
    while len(found) <= REQUESTS_MAX:
        rig.wait(0)
    assert [type(one) for one in found if one is not None] == [Refused]
