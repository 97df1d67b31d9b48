"""Management messages to one of several processes, answered for all of them (`run --processes`).

What is asked and answered is decided by `core/operators/together/`; how the processes talk is `io/reception.py`.
Whoever is there is one of them, or could read their password.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from entrepot.core.operators.together.everyone import Everyone, Joint
from entrepot.core.operators.together.line import Line
from entrepot.io.reception import Reception, Wire
from entrepot.io.several import told
from entrepot.management.census import number_of

if TYPE_CHECKING:
    from entrepot.config.processes import Process
    from entrepot.core.operators.census import Question
    from entrepot.core.operators.management import Management, Told
    from entrepot.io.tcp import Listener
    from entrepot.io.turns import Turn

T = TypeVar("T")


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


class Running:
    """Runs courses on the loop of asyncio (`core/operators/together/loop.py:Loop`)."""

    def promise(self) -> asyncio.Future[Any]:
        """Return a new one."""
        return asyncio.get_running_loop().create_future()

    def start(self, course: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin a course."""
        return asyncio.get_running_loop().create_task(course)


class Processes:
    """All of them, as ``process`` asks them."""

    def __init__(self, process: Process, turn: Turn, management: Management, inner: Listener) -> None:
        plan, loop = process.plan, Running()
        self._process: Final = process
        self._turn: Final = turn
        self._management: Final = management
        self._inner: Final = inner
        others = [number for number in range(plan.count) if number != process.number]
        wires = {number: Wire(plan.reception(number), plan.password, turn.clock) for number in others}
        self._everyone: Final = Everyone(
            process.number,
            process.whole(management.broker.options.name),
            {number: Line(wire.core, loop, turn.clock.now) for number, wire in wires.items()},
            loop,
            self._ask_one,
            turn.run,
            lambda number: f"stomp+unix://{plan.socket(number)}",
        )
        self.reception: Final = Reception(plan.reception(process.number), plan.password, self._everyone.hear)

    def stop(self) -> None:
        """Ask nobody, and answer nobody any more."""
        self.reception.close()
        self._everyone.stop()

    # -- what management asks (`core/operators/census.py:Together`) ----------------------------------------------------

    def uuids(self) -> list[bytes]:
        """Return the UUIDs of those that are ready, as each said it then."""
        return [bytes.fromhex(str(one["uuid"]).replace("-", "")) for one in told(self._process.plan) if one is not None]

    def ask(self, asker: str, question: Question) -> Joint | None:
        """Return the work that asks all of them; None for a connection to the socket of this one."""
        if any(number_of(one) == asker for one in self._inner.connections):
            return None
        return self._everyone.ask(question)

    def _ask_one(self, question: Question, answered: Told) -> None:
        self._turn.run(lambda: self._management.ask(question, answered))
