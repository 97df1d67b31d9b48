"""What processes that are one broker ask one another for a user, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError, Fault, InvalidDestination, Refused, Unreachable
from entrepot.core.operators.census import Question
from entrepot.core.security.directory import Subject
from entrepot.management.processes import Joint, Part, method_of, question_of

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


def test_what_is_no_question_is_one_about_nothing() -> None:
    assert question_of({}).resource == ""


@pytest.mark.parametrize(
    ("raised", "kind"), [(Refused("no"), Refused), (KeyError("a bug of ours"), Fault), (None, Unreachable)]
)
def test_what_went_wrong_is_an_error_that_can_be_told(raised: Exception | None, kind: type[EntrepotError]) -> None:
    async def fail() -> None:
        if raised is None:
            await asyncio.sleep(60)
        else:
            raise raised

    async def run() -> None:
        joint = Joint()
        assert not joint.step()
        joint.task = asyncio.get_running_loop().create_task(fail())
        await asyncio.sleep(0)
        if raised is None:
            joint.task.cancel()  # as the broker does that stops
        await asyncio.wait([joint.task])
        assert joint.step()
        with pytest.raises(kind):
            joint.result()

    asyncio.run(run())
