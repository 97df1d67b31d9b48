"""Management messages to one of several processes, answered for all of them (`run --processes`).

The process that is asked asks every one, itself too, for the same user: each decides about his rights by its own rules,
and what it may tell or do is made one answer by `Whole`. How the processes talk is `io/reception.py`; whoever is there
is one of them, or could read their password.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import EntrepotError, Fault, Refused, Unreachable, kinds
from entrepot.core.operators.census import Question
from entrepot.core.security.directory import Subject
from entrepot.io.reception import Line, Reception, Said
from entrepot.io.several import told
from entrepot.management.census import number_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from entrepot.config.processes import Process
    from entrepot.core.operators.management import Management
    from entrepot.io.tcp import Listener
    from entrepot.io.turns import Turn

log: Final = logging.getLogger("entrepot.node")


async def opened(process: Process, turn: Turn, management: Management | None, inner: Listener) -> Processes | None:
    """Let the others dial ``process``, and ask it; what it is asked from now on is asked of all. Raises OSError.

    ``inner``: where connections come in that ask it alone; it is opened. One that only gives its messages to the others
    answers for itself, and None is returned.
    """
    await inner.open()
    if management is None or process.leaves:
        return None
    made = Processes(process, turn, management, inner)
    await made.reception.open()
    management.census.together = made
    return made


class Processes:
    """All of them, as ``process`` asks them."""

    def __init__(self, process: Process, turn: Turn, management: Management, inner: Listener) -> None:
        plan = process.plan
        self._process: Final = process
        self._name: Final = process.whole(management.broker.options.name)
        self._turn: Final = turn
        self._ask_one: Final = management.ask
        self._inner: Final = inner
        self.reception: Final = Reception(plan.reception(process.number), plan.password, self._hear)
        self._lines: Final = {
            number: Line(plan.reception(number), plan.password)
            for number in range(plan.count)
            if number != process.number
        }
        self._works: Final[dict[asyncio.Task[Any], None]] = {}

    def stop(self) -> None:
        """Ask nobody, and answer nobody any more."""
        self.reception.close()
        for line in self._lines.values():
            line.close()
        for work in list(self._works):
            work.cancel()

    # -- what management asks (`core/operators/census.py:Together`) ----------------------------------------------------

    def uuids(self) -> list[bytes]:
        """Return the UUIDs of those that are ready, as each said it then."""
        return [bytes.fromhex(str(one["uuid"]).replace("-", "")) for one in told(self._process.plan) if one is not None]

    def ask(self, asker: str, question: Question) -> Joint | None:
        """Return the work that asks all of them; None for a connection to the socket of this one."""
        if any(number_of(one) == asker for one in self._inner.connections):
            return None
        joint = Joint()
        task = asyncio.get_running_loop().create_task(self._ask(question, joint))
        self._works[task] = None
        task.add_done_callback(self._works.pop)
        joint.task = task
        return joint

    async def _ask(self, question: Question, joint: Joint) -> Any:
        from entrepot.management.whole import Whole  # noqa: PLC0415 - comes with a question, as what answers it

        failures: dict[int, str] = {}
        looks = [self._look(number, line, failures) for number, line in self._lines.items()]
        await asyncio.gather(*looks)
        every = {self._process.number: self._own, **{one: line.ask for one, line in self._lines.items()}}
        parts = {number: Part(question, every[number]) for number in sorted(every) if number not in failures}
        plan = self._process.plan
        whole = Whole(self._name, parts, failures, lambda number: f"stomp+unix://{plan.socket(number)}")
        try:
            return await whole.ask(question.resource, method_of(question), *question.values)
        finally:
            joint.missing = "; ".join(f"process {number}: {why}" for number, why in whole.failures.items())

    async def _look(self, number: int, line: Line, failures: dict[int, str]) -> None:
        try:
            await line.ready()
        except Unreachable as error:
            failures[number] = error.message

    async def _own(self, said: Said) -> Said:
        """Answer what this process asks itself."""
        future: asyncio.Future[Said] = asyncio.get_running_loop().create_future()

        def answer(answered: Said) -> None:
            if not future.done():
                future.set_result(answered)

        self._hear(said, answer)
        return await future

    # -- what another process asks -------------------------------------------------------------------------------------

    def _hear(self, said: Said, answer: Callable[[Said], None]) -> None:
        question = question_of(said)
        self._turn.run(lambda: self._ask_one(question, lambda value, failure: answer(_said(value, failure))))


class Joint:
    """A question to all processes, as a `Work` of management. ``missing``: who is left out of the answer, and why."""

    pause: Final = MILLISECOND

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.missing = ""

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


class Part:
    """One process, as `Whole` asks it about one ``question``."""

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
                "values": values,
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
    """Return what another process asks; what is no question is one about nothing, which is refused."""
    return Question(
        str(said.get("resource", "")),
        str(said.get("attribute", "")),
        str(said.get("operation", "")),
        list(said.get("values") or ()),
        [Subject(str(one["name"]), one["groups"], peer=bool(one["peer"])) for one in said.get("subjects") or ()],
        str(said.get("method", "")),
    )


def _said(value: object, failure: EntrepotError | None) -> Said:
    if failure is None:
        return {"value": value}
    return {"code": failure.code, "message": failure.message, "remedy": failure.remedy}
