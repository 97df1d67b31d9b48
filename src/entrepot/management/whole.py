"""The processes of one broker (`run --processes`), asked as one: what each answers is made one answer.

Who asks is asked for at each process, by its own name, and each decides about his rights. What only looks is asked of
all at once; one that does not answer takes nothing away from the others, and is named in ``failures``. What changes
something is done at one after the other, and not begun while one is away: a queue that is paused at some of the
processes is a trap. What can only be meant for one process is refused, with the way to that process.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from entrepot.base.errors import EntrepotError, InvalidDestination, Refused, Unreachable
from entrepot.management.view import Asker

LOOKS: Final = re.compile("(get|is|count|list|browse|query|peek|describe|cursor|doesCursor|health)")
"""Operations that change nothing, whose names begin so."""
PAGE: Final = 500  # rows of one page: the most that a process answers with
SAME: Final = ("describeConfiguration", "describeUsers", "describeRules", "describeRights", "listUser")
"""What each process answers alike, and one is asked for: all have one configuration."""
ONCE: Final = ("addUser", "removeUser", "resetUser")
"""What changes a file that all have: done at one of them, which the others read again then."""
RELOAD: Final = "reloadConfigurationFile"
COUNTED: Final = ("purge", "removeMessages", "moveMessages", "copyMessages", "retryMessages")
"""What is done to so many messages as its last argument says, if it has one: the next process has the rest."""
EVERYWHERE: Final = (
    *("pause", "resume", "resetGroup", "resetAllGroups", "removeMessage", "destroyQueue", "createQueue", "updateQueue"),
    *("createAddress", "updateAddress", "deleteAddress", "removeAllMessages", "dropStages", "replay"),
    RELOAD,
)
"""What is done at each process."""
SUMS: Final = (
    *("connectionCount", "sessionCount", "totalConnectionCount", "totalSessionCount", "addressMemoryUsage"),
    *("globalMaxSize", "totalMessageCount", "totalConsumerCount", "totalMessagesAdded", "totalMessagesAcknowledged"),
    *("authenticationSuccessCount", "authenticationFailureCount"),
    *("authorizationSuccessCount", "authorizationFailureCount"),
)
"""Numbers of a broker that are those of its processes together; of other numbers the largest is told."""
OLDEST: Final = "oldest_ms"

Row = dict[str, Any]


class Whole:
    """One broker of several processes. ``parts``: process -> where it is asked; ``failures``: why others are not.

    ``name``: what they are called together; ``place``: a way to one process, for people.
    """

    def __init__(
        self,
        name: str,
        parts: Mapping[int, Asker],
        failures: Mapping[int, str] | None = None,
        place: Callable[[int], str] = str,
    ) -> None:
        self.name: Final = name
        self.parts: Final = dict(parts)
        self.failures: Final = dict(failures or {})
        self._place: Final = place

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation. Raises what a process refused; Unreachable, where one is away."""
        if operation in SAME:
            return await self._first().ask(resource, operation, *values)
        if LOOKS.match(operation):
            return await self._look(resource, operation, values)
        if self.failures:
            told = "; ".join(f"process {number}: {why}" for number, why in self.failures.items())
            raise Unreachable(
                f"nothing was changed, since not all processes answer: {told}",
                remedy="try again soon, or change what is at one process: " + self._place(next(iter(self.parts))),
            )
        if operation in ONCE:
            return await self._once(resource, operation, values)
        if operation in COUNTED:
            return await self._counted(resource, operation, values)
        if operation in EVERYWHERE:
            return await self._everywhere(resource, operation, values)
        if operation == "closeConnectionWithID":
            number, rest = self._named(str(values[0]), operation)
            return await self.parts[number].ask(resource, operation, rest)
        raise self._of_one(operation)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def _look(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        if operation == "describeConnections":
            return await self._connections(*values)
        answers = await self._asked(resource, operation, values)
        first = next(iter(answers.values()))
        if operation == "describeQueues":
            return _queues(answers)[: int(str(values[2]))]
        if operation == "describe" and resource.startswith("queue."):
            return _queues({number: [row] for number, row in answers.items()})[0]
        if operation == "describeAttributes" and resource == "broker":
            return self._facts(answers)
        if isinstance(first, list):
            return [_of(number, row) for number, rows in answers.items() for row in rows]
        if isinstance(first, bool):
            return any(answers.values())
        if isinstance(first, int):
            return sum(answers.values())
        if len(answers) == 1 or all(answer == first for answer in answers.values()) or operation == _PART:
            return first
        raise self._of_one(operation)

    async def _asked(self, resource: str, operation: str, values: tuple[object, ...]) -> dict[int, Any]:
        """Return what each process answers that has what is asked for. Raises InvalidDestination where none has."""
        asking = [one.ask(resource, operation, *values) for one in self.parts.values()]
        told = await asyncio.gather(*asking, return_exceptions=True)
        found: dict[int, Any] = {}
        missing: InvalidDestination | None = None
        for number, answer in zip(self.parts, told, strict=True):
            if isinstance(answer, InvalidDestination):
                missing = answer
            elif isinstance(answer, Unreachable | TimeoutError):
                self.failures[number] = str(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[number] = answer
        if not found:
            raise missing or Unreachable("no process answers", remedy="see the log")
        return found

    async def _connections(self, skip: object = 0, most: object = PAGE) -> list[Row]:
        """Return a page of the connections of all, process by process."""
        begin, end = int(str(skip)), int(str(skip)) + int(str(most))
        rows: list[Row] = []
        for number, part in self.parts.items():
            at = 0
            while len(rows) < end:
                page = await part.ask("broker", "describeConnections", at, PAGE)
                rows += [{**_of(number, row), "id": f"{number}:{row['id']}"} for row in page]
                at += len(page)
                if len(page) < PAGE:
                    break
        return rows[begin:end]

    def _facts(self, answers: Mapping[int, Row]) -> Row:
        """Return the attributes of all as those of one."""
        return {
            name: self._fact(name, [one[name] for one in answers.values()]) for name in next(iter(answers.values()))
        }

    def _fact(self, name: str, told: list[Any]) -> Any:
        if name == "name":
            return self.name
        if name == "active":
            return all(told) and not self.failures
        if all(isinstance(value, bool) for value in told):
            return any(told)
        if all(isinstance(value, int | float) for value in told):
            return sum(told) if name in SUMS else max(told)
        return told[0]

    # -- changing ------------------------------------------------------------------------------------------------------

    async def _once(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        answer = await self._first().ask(resource, operation, *values)
        for part in list(self.parts.values())[1:]:
            await part.ask("broker", RELOAD)
        return answer

    async def _counted(self, resource: str, operation: str, values: tuple[object, ...]) -> int:
        limited = bool(values) and isinstance(values[-1], int) and values[-1] >= 0
        left, done = int(str(values[-1])) if limited else 0, 0

        async def some(part: Asker) -> None:
            nonlocal left, done
            given = (*values[:-1], left) if limited else values
            if limited and not left:
                return
            moved = int(await part.ask(resource, operation, *given))
            done, left = done + moved, left - moved

        await self._each(list(self.parts), some)
        return done

    async def _everywhere(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        answers: list[Any] = []

        async def do(part: Asker) -> None:
            answers.append(await part.ask(resource, operation, *values))

        numbers = list(self.parts)
        if operation == "destroyQueue":
            numbers = await self._refusing(*values)
        await self._each(numbers, do)
        if all(isinstance(one, bool) for one in answers):
            return any(answers)
        if all(isinstance(one, int) for one in answers):
            return sum(answers)
        return answers[0]

    async def _each(self, numbers: list[int], act: Callable[[Asker], Awaitable[None]]) -> None:
        """Do it at each process; one that does not have the queue has nothing to do. Raises InvalidDestination."""
        missing: list[InvalidDestination] = []
        for at, number in enumerate(numbers):
            try:
                await act(self.parts[number])
            except InvalidDestination as error:
                missing.append(error)
            except EntrepotError as error:
                before = ", ".join(str(one) for one in numbers[:at])
                if before:
                    error.message = f"process {number}: {error.message}; it is done at process {before}"
                raise
        if len(missing) == len(numbers):
            raise missing[0]

    async def _refusing(
        self, name: object, removes_readers: object = False, _: object = False, if_empty: object = False
    ) -> list[int]:
        """Return the processes, those first that would refuse to delete a queue: nothing is deleted then."""
        answers = await self._asked(f"queue.{name}", "describe", ())

        def refuses(number: int) -> bool:
            row = answers.get(number, {"consumers": 0, "leased": 0, "messages": 0})
            used = not removes_readers and row["consumers"] + row["leased"] > 0
            return bool(used or (if_empty and row["messages"]))

        return sorted(self.parts, key=lambda number: not refuses(number))

    # -- one of them ---------------------------------------------------------------------------------------------------

    def _first(self) -> Asker:
        return next(iter(self.parts.values()))

    def _named(self, text: str, operation: str) -> tuple[int, str]:
        """Return process and number of what lists name as PROCESS:NUMBER. Raises Refused."""
        number, colon, rest = text.partition(":")
        if not colon or not number.isdigit() or int(number) not in self.parts:
            raise Refused(
                f"{text!r} does not say which process: {operation} is about one of them",
                remedy="write PROCESS:ID, as the list shows it",
            )
        return int(number), rest

    def _of_one(self, operation: str) -> Refused:
        return Refused(
            f"{operation} is about one process, and {self.name} has several",
            remedy=f"ask that process: --url {self._place(next(iter(self.parts)))}, or with another number",
        )


_PART: Final = "describeAvailability"  # the part in a pair: processes are in none, and all have the same


def _of(number: int, row: object) -> Any:
    return {**row, "process": number} if isinstance(row, dict) else row


def _queues(answers: Mapping[int, list[Row]]) -> list[Row]:
    """Return the queues of all by name, each once: its counts are those of its parts together."""
    found: dict[str, Row] = {}
    for number, rows in answers.items():
        for row in rows:
            known = found.get(row["name"])
            if known is None:
                found[row["name"]] = {**row, "process": str(number)}
                continue
            for name, value in row.items():
                if isinstance(value, bool):
                    known[name] = known[name] and value if name == "temporary" else known[name] or value
                elif isinstance(value, int):
                    known[name] = max(known[name], value) if name == OLDEST else known[name] + value
            known["process"] += f" {number}"
    return [found[name] for name in sorted(found)]
