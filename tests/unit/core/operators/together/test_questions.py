"""A question of one process to another, said and understood; what is none is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.core.operators.census import Question
from entrepot.core.operators.together.questions import Part, answer_of, method_of, question_of
from entrepot.core.security.directory import Subject

BOSS = Subject("boss", ["admins", "shop"])


class Asked:
    """A process that answers with ``answer``; ``said`` is what it was asked."""

    def __init__(self, **answer: Any) -> None:
        self.answer = answer
        self.said: dict[str, Any] = {}

    async def __call__(self, said: dict[str, Any]) -> dict[str, Any]:
        self.said = said
        return self.answer


def ask(asked: Asked, question: Question, resource: str, operation: str, *values: object) -> Any:
    return asyncio.run(Part(question, asked).ask(resource, operation, *values))


def test_a_question_arrives_as_it_was_asked_and_for_whom() -> None:
    process = Asked(value=7)
    question = Question("queue.Q", "", "moveMessages", ["", "R"], [BOSS])
    assert ask(process, question, "queue.Q", "moveMessages", "", "R") == 7
    heard = question_of(process.said)
    assert (heard.resource, heard.attribute, heard.operation, heard.values) == (
        "queue.Q",
        "",
        "moveMessages",
        ["", "R"],
    )
    [subject] = heard.subjects
    assert (subject.name, list(subject.groups), subject.peer) == ("boss", ["admins", "shop"], False)


def test_an_attribute_is_read_as_one_and_what_else_is_asked_for_it_takes_its_right() -> None:
    process = Asked(value=["a"])
    question = Question("broker", "queueCount", "", [], [])
    assert method_of(question) == "getQueueCount"
    ask(process, question, "broker", "getQueueCount")
    assert (process.said["attribute"], process.said["operation"], process.said["method"]) == ("queueCount", "", "")
    ask(process, question, "broker", "describeAttributes", "queueNames")
    heard = question_of(process.said)
    assert (heard.attribute, heard.operation, heard.method) == ("", "describeAttributes", "getQueueCount")


def test_a_refusal_is_raised_as_what_it_is() -> None:
    process = Asked(code=InvalidDestination.code, message="there is no queue Q", remedy="name another")
    question = Question("queue.Q", "", "pause", [], [])
    with pytest.raises(InvalidDestination) as raised:
        ask(process, question, "queue.Q", "pause")
    assert (raised.value.message, raised.value.remedy) == ("there is no queue Q", "name another")
    with pytest.raises(Refused):
        ask(Asked(code="ENT-0000", message="of a later version"), question, "queue.Q", "pause")


WHOLE = {"resource": "broker", "operation": "pause", "values": [], "subjects": []}


@pytest.mark.parametrize(
    "broken",
    [
        {"resource": 7},
        {"values": None},
        {"values": {"0": 1}},
        {"subjects": None},
        {"subjects": "boss"},
        {"subjects": ["boss"]},
        {"subjects": [{}]},
        {"subjects": [{"name": "boss", "groups": "admins", "peer": False}]},
        {"subjects": [{"name": "boss", "groups": [1], "peer": False}]},
        {"subjects": [{"name": None, "groups": [], "peer": False}]},
        {"subjects": [{"name": "boss", "groups": [], "peer": 1}]},
    ],
)
def test_what_is_no_question_is_refused(broken: dict[str, Any]) -> None:
    assert question_of(WHOLE).operation == "pause"
    with pytest.raises(Refused, match="is no question"):
        question_of({**WHOLE, **broken})
    with pytest.raises(Refused):
        question_of({})


def test_an_outcome_is_told_as_it_is() -> None:
    assert answer_of([1], None) == {"value": [1]}
    told = answer_of(None, InvalidDestination("none", remedy="make it"))
    assert told == {"code": InvalidDestination.code, "message": "none", "remedy": "make it"}
