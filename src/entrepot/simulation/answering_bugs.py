"""Bugs of processes that answer as one broker, planted to see that the simulation finds them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from entrepot.base.environment import Instant
from entrepot.base.errors import AccessDenied, EntrepotError, Unreachable
from entrepot.core.operators.census import Question
from entrepot.core.operators.together import whole
from entrepot.core.operators.together.everyone import Everyone, Joint
from entrepot.core.operators.together.line import LineCore, Said
from entrepot.core.operators.together.visit import Visit, frame
from entrepot.core.security.directory import Subject

PLANTED: Final = (
    "an older life is heard",  # what comes of a line that was lost counts, and numbers begin anew with each line
    "silence is patience",  # who says nothing is never given up
    "who waits is not told",  # of a line that was lost
    "questions are never forgotten",
    "a second answer counts",
    "a large answer is dropped",
    "asks as itself",  # and not for the user who asks
    "who is away is not named",
    "a refusal is an absence",  # a process that refuses is left out, and the others are told
    "changes what is there",  # though not all processes are
    "each does all of it",  # so many messages at each process, and not in all
    "sends once more",  # where a process is gone that may have done it
    "a queue is made beside another",  # of that name, which one process has
    "an address is made beside another",  # so it was before each process was asked first
    "a change stops nowhere",  # one process refuses, and the others are changed nevertheless
)


class _HearsOlder(LineCore):
    def heard(self, life: int, said: Said, now: Instant) -> None:
        super().heard(self._life, said, now)

    def _lose(self, why: str) -> None:
        self._number = 0
        super()._lose(why)


class _Patient(LineCore):
    def advance(self, now: Instant) -> None:
        if not self._lookers:
            super().advance(now)
        else:
            self._due = now + (self._due - now) + 3_600_000_000_000


class _TellsNobody(LineCore):
    def _lose(self, why: str) -> None:
        self._waiting = {}
        super()._lose(why)


class _ForgetsNone(LineCore):
    def heard(self, life: int, said: Said, now: Instant) -> None:
        told = self._waiting.get(said.get("id", 0))
        super().heard(life, said, now)
        if told is not None:
            self._waiting[said["id"]] = told

    def forget(self, number: int) -> None:
        pass


class _AnswersTwice(Visit):
    def heard(self, said: Said) -> bool:
        if not self.admitted or "id" not in said:
            return super().heard(said)
        self.under_way += 1
        self._hear(said, lambda answer: self.answered(said["id"], answer))
        return True


class _DropsLarge(Visit):
    def answered(self, number: object, said: Said) -> None:
        if len(frame(said)) > self._most:
            self.under_way -= 1
        else:
            super().answered(number, said)


class _AsksAsItself(Everyone):
    def ask(self, question: Question) -> Joint:
        own = [Subject("cluster", peer=True)]
        values = (question.resource, question.attribute, question.operation, question.values, own, question.method)
        return super().ask(Question(*values))


class _NamesNobody(Everyone):
    async def _ask(self, question: Question, joint: Joint) -> Any:
        try:
            return await super()._ask(question, joint)
        finally:
            joint.missing = ""


class _LeavesOut(whole.Whole):
    async def _asked(self, resource: str, operation: str, values: tuple[object, ...]) -> dict[int, Any]:
        before = self.side_by_side

        async def lenient(asking: list[Coroutine[Any, Any, Any]]) -> list[Any]:
            told = await before(asking)
            return [Unreachable(one.message) if isinstance(one, AccessDenied) else one for one in told]

        self.side_by_side = lenient
        return await super()._asked(resource, operation, values)


class _ChangesAnyway(whole.Whole):
    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        away = dict(self.failures)
        if not whole.LOOKS.match(operation):
            self.failures.clear()
        try:
            return await super().ask(resource, operation, *values)
        finally:
            self.failures.update(away)


class _EachAll(whole.Whole):
    async def _counted(self, resource: str, operation: str, values: tuple[object, ...]) -> int:
        return sum([int(await one.ask(resource, operation, *values)) for one in self.parts.values()])


class _SendsAgain(whole.Whole):
    async def _at_first(self, resource: str, operation: str, values: tuple[object, ...]) -> tuple[int, Any]:
        for number, part in self.parts.items():
            try:
                return number, await part.ask(resource, operation, *values)
            except Unreachable as error:
                self.failures[number] = str(error)
        raise Unreachable("no process answers")


class _StopsNowhere(whole.Whole):
    async def _each(self, numbers: list[int], act: Callable[[Any], Any], *, minds: bool = False) -> None:
        refusal: EntrepotError | None = None
        for number in numbers:
            try:
                await act(self.parts[number])
            except EntrepotError as error:
                refusal = error
        if refusal is not None:
            raise refusal


class _MakesBeside(whole.Whole):
    async def _rehearsed(self, operation: str, values: tuple[object, ...]) -> list[int]:
        return list(self.parts)

    async def _each(self, numbers: list[int], act: Callable[[Any], Any], *, minds: bool = False) -> None:
        await super()._each(numbers, act)


class _MakesAddressBeside(_MakesBeside):
    async def _rehearsed(self, operation: str, values: tuple[object, ...]) -> list[int]:
        if operation == "createAddress":
            return await super()._rehearsed(operation, values)
        return await whole.Whole._rehearsed(self, operation, values)


LINES: Final[Mapping[str, type[LineCore]]] = {
    "an older life is heard": _HearsOlder,
    "silence is patience": _Patient,
    "who waits is not told": _TellsNobody,
    "questions are never forgotten": _ForgetsNone,
}
VISITS: Final[Mapping[str, type[Visit]]] = {
    "a second answer counts": _AnswersTwice,
    "a large answer is dropped": _DropsLarge,
}
ALL: Final[Mapping[str, type[Everyone]]] = {
    "asks as itself": _AsksAsItself,
    "who is away is not named": _NamesNobody,
}
WHOLES: Final[Mapping[str, type[whole.Whole]]] = {
    "a refusal is an absence": _LeavesOut,
    "changes what is there": _ChangesAnyway,
    "each does all of it": _EachAll,
    "sends once more": _SendsAgain,
    "a queue is made beside another": _MakesBeside,
    "an address is made beside another": _MakesAddressBeside,
    "a change stops nowhere": _StopsNowhere,
}
