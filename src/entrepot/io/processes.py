"""The processes of one broker, started, looked after and ended by the process that an operator sees.

Each is `entrepot run` with the arguments of this one and the two that say which it is. It ends when its standard input
does: with this process, however that ends. It is in a session of its own, so that Ctrl-C reaches this process alone,
which ends all in order. One that dies is started again, after pauses that grow; its store is served by nobody
meanwhile, and the others go on. One that was never ready makes the start fail: that is for an operator to mend.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from entrepot.base.errors import OperatorError
from entrepot.config.processes import ProcessPlan
from entrepot.io.children import Pauses, end

NUMBER: Final = "--process"
PLAN: Final = "--process-plan"
PAUSE: Final = 0.1  # s before the second start of one that died; each further one doubles it
PAUSE_MOST: Final = 10.0
SETTLED: Final = 60.0  # s after which one that dies was well
LOOK: Final = 0.02  # s between two looks whether one is ready
AGAIN: Final = "process %d %s; it is started again in %.1f s"
ENDING: Final = 60.0  # s that each has to end by itself: what is on its way arrives, peers take leave

log: Final = logging.getLogger("entrepot.node")


class Supervised:
    """One process. ``facts``: what it said when it was ready; ``code``: how its last run ended."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.pid = 0
        self.facts: dict[str, object] = {}
        self.starts = 0
        self.code: int | None = None


class Supervisor:
    """All of them. ``command``: what started this process; ``file``: where ``plan`` is kept for them.

    ``leaving``: numbers of processes of an earlier start, which give their messages to these, and end.
    """

    def __init__(self, command: Sequence[str], plan: ProcessPlan, file: Path, leaving: Sequence[int] = ()) -> None:
        self.plan: Final = plan
        self.processes: Final = [Supervised(number) for number in range(plan.count)]
        self.leaving: Final = [Supervised(number) for number in leaving]
        self._command: Final = list(command)
        self._file: Final = file
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: dict[int, asyncio.Future[None]] = {}

    async def start(self) -> None:
        """Start all, and wait until all are ready. Raises OperatorError when one ends before; call `stop` then, too."""
        loop = asyncio.get_running_loop()
        for one in self.processes:
            self._ready[one.number] = loop.create_future()
            self._tasks.append(loop.create_task(self._keep(one)))
        await asyncio.gather(*self._ready.values())
        self._tell_apart()
        for one in self.leaving:
            self._tasks.append(loop.create_task(self._give_away(one)))

    async def stop(self) -> list[str]:
        """End all, at once. Return what was not in order, one sentence each."""
        running = [one for one in (*self.processes, *self.leaving) if one.pid]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for ready in self._ready.values():
            ready.cancel()
        return [f"process {one.number} ended with {one.code}" for one in running if one.code]

    def _tell_apart(self) -> None:
        """Raise OperatorError where two processes have the id of one node."""
        seen: dict[object, int] = {}
        for one in self.processes:
            first = seen.setdefault(one.facts.get("uuid"), one.number)
            if first != one.number:
                raise OperatorError(
                    f"processes {first} and {one.number} are the same node: the store of one is a copy of the other's",
                    remedy="start one of them with an empty directory",
                )

    async def _keep(self, one: Supervised) -> None:
        """Run it for as long as this task lives."""
        pauses = Pauses(PAUSE, PAUSE_MOST, SETTLED)
        ready = self._ready[one.number]
        while True:
            began = time.monotonic()
            how = await self._live(one)
            if not ready.done():
                ready.set_exception(
                    OperatorError(f"process {one.number} {how} before it was ready", remedy="see above")
                )
                return
            pause = pauses.died(time.monotonic() - began)
            log.error(AGAIN, one.number, how, pause)
            await asyncio.sleep(pause)

    async def _give_away(self, one: Supervised) -> None:
        """Run it until its messages are elsewhere."""
        pauses = Pauses(PAUSE, PAUSE_MOST, SETTLED)
        while True:
            began = time.monotonic()
            how = await self._live(one)
            if one.code == 0:
                log.info("process %d has given its messages to the others", one.number)
                return
            pause = pauses.died(time.monotonic() - began)
            log.error(AGAIN, one.number, how, pause)
            await asyncio.sleep(pause)

    async def _live(self, one: Supervised) -> str:
        """Run it once; return how it ended."""
        Path(self.plan.ports_file(one.number)).unlink(missing_ok=True)
        arguments = [*self._command, NUMBER, str(one.number), PLAN, str(self._file), "--until-eof"]
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
        except OSError as error:  # no memory, no process left
            return f"could not be started: {error}"
        one.pid = process.pid
        one.starts += 1
        looks = asyncio.get_running_loop().create_task(self._look(one))
        try:
            return f"ended with {await process.wait()}"
        finally:
            looks.cancel()
            await end(process, ENDING)
            one.pid, one.code = 0, process.returncode

    async def _look(self, one: Supervised) -> None:
        """Wait until it says that it is ready."""
        file = Path(self.plan.ports_file(one.number))
        while True:
            try:
                facts = json.loads(file.read_text())
            except (OSError, ValueError):
                await asyncio.sleep(LOOK)
                continue
            one.facts = facts
            log.info("process %d is ready: pid %d, node %s", one.number, one.pid, facts["node"])
            ready = self._ready.get(one.number)
            if ready is not None and not ready.done():
                ready.set_result(None)
            return
