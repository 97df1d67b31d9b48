"""A question of one process to another as an object of JSON, and the answer to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from entrepot.base.errors import EntrepotError, Refused, kinds
from entrepot.core.operators.census import Question
from entrepot.core.operators.together.line import Said
from entrepot.core.security.directory import Subject

WORDS: Final = ("resource", "attribute", "operation", "method")


class Part:
    """One process, as `Whole` asks it about one ``question``. ``ask``: says it to the process; its answer."""

    def __init__(self, question: Question, ask: Callable[[Said], Any]) -> None:
        self._question: Final = question
        self._ask: Final = ask

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation. Raises what the process refused; Unreachable."""
        asked, method = self._question, method_of(self._question)
        plain = not asked.operation and operation == method
        said = await self._ask(
            {
                "resource": resource,
                "attribute": asked.attribute if plain else "",
                "operation": "" if plain else operation,
                "values": list(values),
                "subjects": [
                    {"name": one.name, "groups": list(one.groups), "peer": one.peer} for one in asked.subjects
                ],
                "method": "" if plain else method,
            }
        )
        if "code" not in said:
            return said.get("value")
        kind = kinds(EntrepotError).get(str(said["code"]), Refused)
        raise kind(str(said.get("message")), remedy=str(said.get("remedy", "")))


def method_of(question: Question) -> str:
    """Return the operation that a question is, for an attribute the one that reads it."""
    name = question.attribute
    return question.operation or (f"get{name[:1].upper()}{name[1:]}" if name else "")


def question_of(said: Said) -> Question:
    """Return what another process asks. Raises Refused for what is no question.

    One that does not say for whom it is asked, as it should be said, is never taken for one of somebody else.
    """
    words = [said.get(name, "") for name in WORDS]
    values, subjects = said.get("values"), said.get("subjects")
    if not all(isinstance(one, str) for one in words):
        raise _unreadable("a word of it is no text")
    if not isinstance(values, list) or not isinstance(subjects, list):
        raise _unreadable("its values or subjects are no list")
    return Question(words[0], words[1], words[2], values, [_subject(one) for one in subjects], words[3])


def _subject(said: object) -> Subject:
    if not isinstance(said, dict):
        raise _unreadable("a subject of it is no object")
    name, groups, peer = said.get("name"), said.get("groups"), said.get("peer")
    if not isinstance(name, str) or not isinstance(peer, bool):
        raise _unreadable("a subject of it has no name")
    if not isinstance(groups, list) or not all(isinstance(one, str) for one in groups):
        raise _unreadable("a subject of it has no list of groups")
    return Subject(name, groups, peer=peer)


def _unreadable(why: str) -> Refused:
    return Refused(f"what another process asks is no question: {why}", remedy="run all processes from one version")


def answer_of(value: object, failure: EntrepotError | None) -> Said:
    """Return an outcome as it is told to another process."""
    if failure is None:
        return {"value": value}
    return {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
