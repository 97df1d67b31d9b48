"""The processes of one broker (`run --processes`), asked as one: what each answers is made one answer.

Who asks is asked for at each process, by its own name, and each decides about his rights. What only looks is asked of
all at once; one that does not answer takes nothing away from the others, and is named in ``failures``. What changes
something is done at one after the other, and not begun while one is away: a queue that is paused at some of the
processes is a trap. What can only be meant for one process is refused, with the way to that process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from entrepot.base.errors import EntrepotError, InvalidDestination, Refused, Unreachable
from entrepot.core.operators.making import OTHER, THERE
from entrepot.core.operators.together import joining
from entrepot.core.operators.together.amounts import PLACES, Amount
from entrepot.core.operators.together.asker import Asker, listed
from entrepot.core.operators.together.joining import Row
from entrepot.core.operators.together.paging import Pages

ATTRIBUTE: Final = re.compile("(?:get|is)([A-Z].*)")
LOOKED_AT: Final = ("explain", "where")
"""What each process says of its own part, in rows."""
LOOKS: Final = re.compile("(get|is|count|list|browse|query|peek|describe|cursor|doesCursor|health|explain$|where$)")
"""Operations that change nothing, whose names begin so."""
PAGE: Final = 500  # rows of one page: the most that a process answers with
SAME: Final = (
    *("describeConfiguration", "describeUsers", "describeRules", "describeRights", "listUser", "getRoles"),
    "getRolesAsJSON",
)
"""What each process answers alike, and one is asked for: all have one configuration."""
ONCE: Final = ("addUser", "removeUser", "resetUser")
"""What changes a file that all have: done at one of them, which the others read again then."""
RELOAD: Final = "reloadConfigurationFile"
EVERYWHERE: Final = (
    *("pause", "resume", "resetGroup", "resetAllGroups", "destroyQueue", "createQueue", "updateQueue", "deployQueue"),
    *(
        "createAddress",
        "updateAddress",
        "deleteAddress",
        "removeAllMessages",
        "dropStages",
        "publishStages",
        "replay",
        RELOAD,
    ),
    *("block", "unblock", "enable", "disable", "purge", "flushExecutor"),
    *("clearDuplicateIdCache", "clearAuthenticationCache", "clearAuthorizationCache", "createDivert", "updateDivert"),
    *("destroyDivert", "addAddressSettings", "removeAddressSettings", "addSecuritySettings", "removeSecuritySettings"),
    *("enableMessageCounters", "disableMessageCounters", "resetAllMessageCounters", "resetMessageCounter"),
    *("setMessageCounterSamplePeriod", "setMessageCounterMaxDayCount"),
    *("resetAllMessageCounterHistories", "resetMessagesAdded", "resetMessagesAcknowledged", "resetMessagesExpired"),
    *("resetMessagesKilled", "closeConnectionsForUser", "closeConnectionsForAddress"),
    *("closeConsumerConnectionsForAddress", "deliverScheduledMessages"),
    *("commitPreparedTransaction", "rollbackPreparedTransaction"),
)
"""What is done at each process; a prepared transaction is ended wherever it was prepared."""
REHEARSED: Final = (
    *("createQueue", "deployQueue", "updateQueue", "destroyQueue", "createAddress", "updateAddress", "deleteAddress"),
    *("createDivert", "updateDivert"),
)
"""What is begun only when each process has said that it would do it (`core/operators/rehearsing.py`)."""
ANYWHERE: Final = ("sendMessage",)
"""What one process does for all: what is sent there is read at any of them."""
SUMS: Final = (
    *("connectionCount", "sessionCount", "totalConnectionCount", "totalSessionCount", "addressMemoryUsage"),
    *("globalMaxSize", "totalMessageCount", "totalConsumerCount", "totalMessagesAdded", "totalMessagesAcknowledged"),
    *("authenticationSuccessCount", "authenticationFailureCount"),
    *("authorizationSuccessCount", "authorizationFailureCount"),
)
"""Numbers of a broker that are those of its processes together; of other numbers the largest is told."""
ATTRIBUTES: Final = {
    name.lower(): name for name in ("name", "active", *SUMS, *joining.COUNTS, *joining.COUNTED_LISTS, *joining.TIMES)
}
"""Attributes that are not told as each process says them, by their letters."""
PAGES: Final = ("listConnections", "listSessions", "listConsumers", "listProducers", "listQueues", "listAddresses")
"""Lists in pages, as Artemis has them: (options, page from 1, rows of a page)."""
NUMBERED: Final = re.compile(r"\d+:\d+")
PAGE_MOST: Final = 1_000
ROWS_MOST: Final = 100_000
"""Rows that are read of all processes, to tell one page of them."""
ONE_MESSAGE: Final = (
    *("removeMessage", "moveMessage", "copyMessage", "retryMessage", "expireMessage", "deliverScheduledMessage"),
    "sendMessageToDeadLetterAddress",
)
"""What is done to one message, which is named first: a number says which one only with its process."""
JOINED: Final[dict[str, Callable[[list[str]], str]]] = {
    "countMessages": joining.sums,
    "countDeliveringMessages": joining.sums,
    "peekFirstMessageAsJSON": joining.earliest,
    "peekFirstScheduledMessageAsJSON": joining.earliest,
    "getAddressInfo": joining.address_info,
    "listBindingsForAddress": joining.bindings,
}
"""Texts that are no lists, and how those of all are one."""
SHORT: Final = ("listSessions", "listSessionsAsJSON", "listConsumersAsJSON", "listAddresses")
"""Lists that mean something else with one argument: what one connection has, which it names, and names alone."""
OF_CONNECTION: Final = ("closeConnectionWithID", "closeSessionWithID", "closeConsumerWithID")
"""What is done to one connection, which is named first, as lists of all show it: PROCESS:ID."""


Asking: TypeAlias = Coroutine[Any, Any, Any]
SideBySide = Callable[[list[Asking]], Awaitable[list[Any]]]
"""Runs courses, and returns of each what it returned, or the Exception that it raised."""


async def in_turn(asking: list[Asking]) -> list[Any]:
    """Run courses one after the other; see `SideBySide`."""
    found: list[Any] = []
    for one in asking:
        try:
            found.append(await one)
        except Exception as error:
            found.append(error)
    return found


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
        self.side_by_side: SideBySide = in_turn  # where courses can be run so, all look at the same time

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation. Raises what a process refused; Unreachable, where one is away."""
        if operation in SAME:
            return (await self._at_first(resource, operation, values))[1]
        if operation in ANYWHERE:
            number, answer = await self._at_first(resource, operation, values)
            return f"{number}:{answer}"
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
        if operation in PLACES and resource.startswith("queue."):
            return await self._counted(resource, operation, values)
        if operation in EVERYWHERE:
            return await self._everywhere(resource, operation, values)
        if operation in ONE_MESSAGE and values:
            return await self._one_message(resource, operation, values)
        if operation == "closeConsumerWithID" and values and _names_one(str(values[0])):
            return await self._everywhere(resource, operation, values)
        if operation in OF_CONNECTION and values:
            number, name = self._named(str(values[0]), operation)
            return await self.parts[number].ask(resource, operation, name, *values[1:])
        raise self._of_one(operation)

    # -- looking -------------------------------------------------------------------------------------------------------

    async def _look(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        if operation == "describeConnections":
            return await self._connections(max(0, _number(values, 0, 0)), _rows(values, 1))
        if len(values) == 1 and operation in SHORT and resource == "broker":
            return await self._short(operation, str(values[0]))
        if operation in PAGES:
            return await self._page(operation, values)
        if operation == "browse":
            pages = Pages(values)
            return await pages.rows(self.parts, resource, await self._asked(resource, *pages.question()))
        if not values and (attribute := ATTRIBUTE.match(operation)):
            return await self._attribute(resource, operation, attribute[1][:1].lower() + attribute[1][1:])
        if operation == "describeAttributes" and resource == "broker":
            return await self._of_broker(str(values[0]) if values else "")
        return self._laid_together(resource, operation, values, await self._asked(resource, operation, values))

    def _laid_together(
        self, resource: str, operation: str, values: tuple[object, ...], answers: Mapping[int, Any]
    ) -> Any:
        """Return what all answered as one answer, by the operation. Raises Refused where it cannot be one."""
        if operation == "describeQueues":
            return joining.queues(answers)[: _rows(values, 2)]
        if operation == "describe" and resource.startswith("queue."):
            return joining.queues({number: [row] for number, row in answers.items()})[0]
        if operation == "describeAttributes":
            return joining.together(list(answers.values()))
        if operation in LOOKED_AT:
            return joining.looked_at(answers, self.name)
        if operation == "describeTuned":
            return joining.by_address(answers, _rows(values, 1))
        if operation == "describeResources":
            return joining.resources(answers, str(values[0]), _rows(values, 3))
        if operation == "listConnectionIDs":
            return [f"{number}:{one}" for number, some in answers.items() for one in some]
        return self._joined(operation, answers)

    def _joined(self, operation: str, answers: Mapping[int, Any]) -> Any:
        """Return what all answered as one answer, by its kind. Raises Refused where it cannot be one."""
        first = next(iter(answers.values()))
        if isinstance(first, str) and operation in JOINED:
            return self._one_text(operation, answers)
        if isinstance(first, str) and (joined := joining.text(answers)) is not None:
            return joined
        if isinstance(first, list):
            return joining.union(
                [[joining.of_process(number, row) for row in rows] for number, rows in answers.items()]
            )
        if isinstance(first, bool):
            return any(answers.values())
        if isinstance(first, int):
            return sum(answers.values())
        if len(answers) == 1 or all(answer == first for answer in answers.values()) or operation == _PART:
            return first
        raise self._of_one(operation)

    def _one_text(self, operation: str, answers: Mapping[int, str]) -> str:
        join = JOINED[operation]
        if join is not joining.earliest:
            return join(list(answers.values()))
        rows = {number: json.loads(text) for number, text in answers.items()}
        return join([json.dumps(row and joining.of_process(number, row)) for number, row in rows.items()])

    async def _short(self, operation: str, text: str) -> Any:
        """Return names of addresses with ``text`` between, or what one process lists of a connection."""
        if operation == "listAddresses":
            names = await self._attribute("broker", "getAddressNames", "addressNames")
            return text.join(sorted(names, key=str.lower))
        number, name = self._named(text, operation)
        told = await self.parts[number].ask("broker", operation, name)
        return joining.text({number: told}) if isinstance(told, str) else told

    async def _asked(self, resource: str, operation: str, values: tuple[object, ...]) -> dict[int, Any]:
        """Return what each process answers that has what is asked for. Raises InvalidDestination where none has."""
        asking = [one.ask(resource, operation, *values) for one in self.parts.values()]
        told = await self.side_by_side(asking)
        found: dict[int, Any] = {}
        missing: InvalidDestination | None = None
        for number, answer in zip(self.parts, told, strict=True):
            if isinstance(answer, InvalidDestination):
                missing = answer
            elif isinstance(answer, Unreachable | TimeoutError):
                self.failures[number] = str(answer)
            elif isinstance(answer, Exception):
                raise answer
            else:
                found[number] = answer
        if not found:
            raise missing or Unreachable("no process answers", remedy="see the log")
        return found

    async def _connections(self, begin: int, most: int) -> list[Row]:
        """Return a page of the connections of all, process by process."""
        end = begin + most
        rows: list[Row] = []

        async def add(number: int, part: Asker) -> None:
            at = 0
            while len(rows) < end:
                page = await part.ask("broker", "describeConnections", at, PAGE)
                rows.extend({**joining.of_process(number, row), "id": f"{number}:{row['id']}"} for row in page)
                at += len(page)
                if len(page) < PAGE:
                    break

        await self._in_turn(add)
        return rows[begin:end]

    async def _page(self, operation: str, values: tuple[object, ...]) -> str:
        """Return one page of what all list: queues and addresses each once, the others process by process."""
        options = values[0] if values else ""
        page, size = _number(values, 1, 1), _number(values, 2, PAGE_MOST)
        size = PAGE_MOST if size < 1 else min(size, PAGE_MOST)
        found: dict[int, list[Row]] = {}

        async def add(number: int, part: Asker) -> None:
            found[number] = await listed(part, operation, str(options), ROWS_MOST)

        await self._in_turn(add)
        if operation in ("listQueues", "listAddresses"):
            joined = joining.parted(found, "name")
        else:
            joined = [joining.named(number, row) for number, rows in found.items() for row in rows]
        joined = joining.ordered(joined, str(options))
        begin = (max(1, page) - 1) * size
        return json.dumps({"data": joined[begin : begin + size], "count": len(joined)})

    async def _in_turn(self, look: Callable[[int, Asker], Awaitable[None]]) -> None:
        """Look at one process after the other; one that goes meanwhile is named. Raises Unreachable: none is left."""
        answered = False
        for number, part in self.parts.items():
            try:
                await look(number, part)
                answered = True
            except (Unreachable, TimeoutError) as error:
                self.failures[number] = str(error)
        if not answered:
            raise Unreachable("no process answers", remedy="see the log")

    async def _attribute(self, resource: str, operation: str, name: str) -> Any:
        """Return one attribute, of which each process tells its part; the case of letters does not matter."""
        name = ATTRIBUTES.get(name.lower(), name)
        if resource == "broker" and name in joining.COUNTED_LISTS:
            return (await self._of_broker(name))[name]
        told = list((await self._asked(resource, operation, ())).values())
        return self._fact(name, told) if resource == "broker" else joining.fact(name, told)

    async def _of_broker(self, names: str) -> Row:
        """Return attributes of all as those of one; ``names`` with commas between, "" for every one.

        What several processes have is counted once: so it is asked for by name.
        """
        wanted = names.split(",") if names else []
        more = [listed for count, listed in joining.COUNTED_LISTS.items() if count in wanted and listed not in wanted]
        answers = await self._asked("broker", "describeAttributes", (",".join([*wanted, *more]),))
        rows = list(answers.values())
        found = {name: self._fact(name, [one[name] for one in rows]) for name in rows[0]}
        return {name: value for name, value in joining.counted(found).items() if name not in more}

    def _fact(self, name: str, told: list[Any]) -> Any:
        if name == "name":
            return self.name
        if name == "active":
            return all(told) and not self.failures
        if all(isinstance(value, bool) for value in told):
            return any(told)
        if all(isinstance(value, int | float) for value in told):
            return sum(told) if name in SUMS else max(told)
        return joining.fact(name, told)

    # -- changing ------------------------------------------------------------------------------------------------------

    async def _once(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        answer = await self._first().ask(resource, operation, *values)
        for part in list(self.parts.values())[1:]:
            await part.ask("broker", RELOAD)
        return answer

    async def _counted(self, resource: str, operation: str, values: tuple[object, ...]) -> int:
        """Do it to so many messages as an argument says, or to all: the next process has the rest."""
        amount = Amount(operation, values)

        async def some(part: Asker) -> None:
            if amount.left != 0:
                amount.count(int(await part.ask(resource, operation, *amount.values())))

        await self._each(list(self.parts), some)
        return amount.done

    async def _everywhere(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        answers: list[Any] = []

        async def do(part: Asker) -> None:
            answers.append(await part.ask(resource, operation, *values))

        rehearsed = operation in REHEARSED
        numbers = await self._rehearsed(operation, values) if rehearsed else list(self.parts)
        await self._each(numbers, do, minds=rehearsed)
        if all(isinstance(one, bool) for one in answers):
            return any(answers)
        if all(isinstance(one, int) for one in answers):
            return sum(answers)
        return answers[0]

    async def _each(self, numbers: list[int], act: Callable[[Asker], Awaitable[None]], *, minds: bool = False) -> None:
        """Do it at each process; one that does not have the queue has nothing to do, unless it ``minds``.

        Raises InvalidDestination.
        """
        missing: list[InvalidDestination] = []
        for at, number in enumerate(numbers):
            try:
                await act(self.parts[number])
            except EntrepotError as error:
                if isinstance(error, InvalidDestination) and not minds:
                    missing.append(error)
                    continue
                before = ", ".join(str(one) for one in numbers[:at])
                if before:
                    error.message = f"process {number}: {error.message}; it is done at process {before}"
                raise
        if len(missing) == len(numbers):
            raise missing[0]

    async def _rehearsed(self, operation: str, values: tuple[object, ...]) -> list[int]:
        """Return at which processes something is to be done, once each has said that it would.

        What one would refuse is refused for all, as one broker does. A queue that may be there already is left alone
        everywhere if one has another of that name, and made where it is not else: a name is one queue. What changes
        something is for those that have it; where none has, the first one says so. Raises what a process would.
        """
        asking = [one.ask("broker", "describeOutcome", operation, *values) for one in self.parts.values()]
        told = await self.side_by_side(asking)
        failures = [one for one in told if isinstance(one, Exception)]
        for away in failures:
            if isinstance(away, Unreachable | TimeoutError):
                raise Unreachable(
                    f"nothing was changed, since not all processes answer: {away}", remedy="try again soon"
                )
        if failures:
            raise failures[0]
        found = dict(zip(self.parts, told, strict=True))
        others = [number for number, one in found.items() if one == OTHER]
        there = [number for number, one in found.items() if one == THERE]
        return there or others[:1] or list(self.parts)

    async def _one_message(self, resource: str, operation: str, values: tuple[object, ...]) -> Any:
        """Do it to the message of this id, wherever it is. Raises Refused for a number that does not say where."""
        said = str(values[0])
        if NUMBERED.fullmatch(said):
            number, rest = self._named(said, operation)
            return await self.parts[number].ask(resource, operation, int(rest), *values[1:])
        if said.isdigit() and len(self.parts) > 1:
            raise Refused(f"each process has a message {said}", remedy=f"write PROCESS:{said}, or its id, ID:...")
        done: Any = False

        async def do(part: Asker) -> None:
            nonlocal done
            done = done or await part.ask(resource, operation, *values)

        await self._each(list(self.parts), do)
        return done

    # -- one of them ---------------------------------------------------------------------------------------------------

    def _first(self) -> Asker:
        return next(iter(self.parts.values()))

    async def _at_first(self, resource: str, operation: str, values: tuple[object, ...]) -> tuple[int, Any]:
        """Return which process did it, the first that answers and has what it is about, and its answer.

        Raises InvalidDestination where none has it, and Unreachable. It is not tried again where it may have been done.
        """
        missing: EntrepotError | None = None
        for number, part in self.parts.items():
            try:
                return number, await part.ask(resource, operation, *values)
            except InvalidDestination as error:
                missing = error
            except (Unreachable, TimeoutError) as error:
                self.failures[number] = str(error)
                if operation in ANYWHERE:
                    raise
        raise missing or Unreachable("no process answers", remedy="see the log")

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


def _names_one(session: str) -> bool:
    """Return whether a session is told from those of all processes by its name: a number is not, nor PROCESS:NUMBER."""
    number, colon, _ = session.partition(":")
    return not session.isdecimal() and not (colon and number.isdecimal())


def _number(values: tuple[object, ...], at: int, default: int = PAGE) -> int:
    """Return an argument that is a whole number, as the processes take it. Raises Refused."""
    value = values[at] if len(values) > at else None
    if value is None:
        return default
    try:
        return int(str(value))
    except ValueError:
        raise Refused(f"argument {at + 1} is no whole number", remedy="give a whole number") from None


def _rows(values: tuple[object, ...], at: int) -> int:
    """Return how many rows at most, as each process takes it (`core/operators/control.py:rows_of`)."""
    return max(0, min(_number(values, at), PAGE))


_PART: Final = "describeAvailability"  # the part in a pair: processes are in none, and all have the same
