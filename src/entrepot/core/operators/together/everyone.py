"""A question to one of several processes, answered for all of them.

The process that is asked asks every one, itself too, for the same user: each decides about his rights by its own rules,
and what it may tell or do is made one answer by `Whole`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import EntrepotError, Fault, Unreachable
from entrepot.core.operators.census import Question
from entrepot.core.operators.management import Told
from entrepot.core.operators.together.line import Line, Said
from entrepot.core.operators.together.loop import Loop, Promise, Task, every
from entrepot.core.operators.together.questions import Part, answer_of, method_of, question_of

if TYPE_CHECKING:
    from entrepot.core.operators.together.asker import Asker
    from entrepot.core.operators.together.whole import Whole

log: Final = logging.getLogger("entrepot.node")


class Everyone:
    """All processes, as number ``own`` asks them. ``name``: of them together; ``lines``: to the others.

    ``ask_one``: asks this process alone, `Management.ask` within a turn; ``place``: a way to one process, for people.
    ``run``: does something within a turn of this process' broker.
    """

    def __init__(
        self,
        own: int,
        name: str,
        lines: Mapping[int, Line],
        loop: Loop,
        ask_one: Callable[[Question, Told], None],
        run: Callable[[Callable[[], object]], None],
        place: Callable[[int], str] = str,
    ) -> None:
        self.own: Final = own
        self.name: Final = name
        self.lines: Final = lines
        self._loop: Final = loop
        self._ask_one: Final = ask_one
        self._run: Final = run
        self._place: Final = place
        self._works: Final[dict[Task[Any], None]] = {}

    @property
    def under_way(self) -> int:
        """How many questions to all are not answered yet."""
        return len(self._works)

    def stop(self) -> None:
        """Ask nobody any more."""
        for line in self.lines.values():
            line.core.close()
        for work in list(self._works):
            work.cancel()

    def ask(self, question: Question) -> Joint:
        """Return the work that asks all of them."""
        joint = Joint()
        task = self._loop.start(self._ask(question, joint))
        self._works[task] = None
        task.add_done_callback(self._works.pop)
        task.add_done_callback(lambda _: self._run(joint.end))
        joint.task = task
        return joint

    async def _ask(self, question: Question, joint: Joint) -> Any:
        failures: dict[int, str] = {}
        await every(self._loop, [self._look(number, line, failures) for number, line in self.lines.items()])
        asks: dict[int, Callable[[Said], Any]] = {one: line.ask for one, line in self.lines.items()}
        asks[self.own] = self._alone
        parts = {number: Part(question, asks[number]) for number in sorted(asks) if number not in failures}
        whole = self.made(parts, failures)
        whole.side_by_side = self._side_by_side
        try:
            return await whole.ask(question.resource, method_of(question), *question.values)
        finally:
            joint.missing = "; ".join(f"process {number}: {why}" for number, why in sorted(whole.failures.items()))

    def made(self, parts: Mapping[int, Asker], failures: Mapping[int, str]) -> Whole:
        """Return what makes one answer; it is loaded with the first question."""
        from entrepot.core.operators.together.whole import Whole  # noqa: PLC0415

        return Whole(self.name, parts, failures, self._place)

    async def _side_by_side(self, asking: list[Coroutine[Any, Any, Any]]) -> list[Any]:
        return await every(self._loop, asking)

    async def _look(self, number: int, line: Line, failures: dict[int, str]) -> None:
        try:
            await line.ready()
        except Unreachable as error:
            failures[number] = error.message

    async def _alone(self, said: Said) -> Said:
        """Answer what this process asks itself."""
        promise: Promise[Said] = self._loop.promise()

        def answer(answered: Said) -> None:
            if not promise.done():
                promise.set_result(answered)

        self.hear(said, answer)
        return await promise

    def hear(self, said: Said, answer: Callable[[Said], None]) -> None:
        """Take a question of a process, this one or another, and tell ``answer`` what this one alone has to say."""
        try:
            question = question_of(said)
        except EntrepotError as error:
            answer(answer_of(None, error))
            return
        self._ask_one(question, lambda value, failure: answer(answer_of(value, failure)))


class Joint:
    """A question to all processes, as a `Work` of management. ``missing``: who is left out of the answer, and why."""

    def __init__(self) -> None:
        self.task: Task[Any] | None = None
        self.missing = ""
        self._told: Callable[[], None] | None = None

    def when_done(self, told: Callable[[], None]) -> None:
        """Call ``told`` at the end, within a turn; it has not come yet (`step`)."""
        self._told = told

    def end(self) -> None:
        """The end has come."""
        told, self._told = self._told, None
        if told is not None:
            told()

    def step(self) -> bool:
        """Return whether all have answered."""
        return self.task is not None and self.task.done()

    def result(self) -> object:
        """Return what they answer together. Raises EntrepotError."""
        assert self.task is not None
        if self.task.cancelled():
            raise Unreachable("the broker stops", remedy="ask again when it runs")
        error = self.task.exception()
        if error is None or isinstance(error, EntrepotError):
            return self.task.result()
        log.error("what the processes answer cannot be made one answer", exc_info=error)
        raise Fault("what the processes answer cannot be made one answer", remedy="see the log") from error
