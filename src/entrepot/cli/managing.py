"""How commands manage a broker: management messages over STOMP, asked and answered (`core/operators/management.py`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar

import click

from entrepot.base.environment import SECOND, Duration
from entrepot.base.errors import EntrepotError, Refused, TimedOut, Unreachable, kinds
from entrepot.cli.dialogue import Dialogue, credentials, places, talking
from entrepot.cli.output import progress, to_json
from entrepot.cli.values import in_words
from entrepot.client.management import ALONE
from entrepot.core.operators.together.whole import Whole
from entrepot.io import runtime
from entrepot.management.whole import sockets_of, whole_of

T = TypeVar("T")

ADDRESS: Final = "/queue/activemq.management"
ANSWERS: Final = "/temp-queue/answers"
PATIENCE: Final = 30 * SECOND  # for a short answer; a broker that is alive has it in milliseconds
OPENING: Final = 5 * SECOND  # for another process of the same broker: it is on this machine
CHUNK: Final = 10_000  # messages of one request, so that progress shows and Ctrl-C ends it soon


class Desk:
    """Where a broker is asked. One question at a time."""

    def __init__(self, dialogue: Dialogue) -> None:
        self.dialogue = dialogue
        self.asked = 0

    async def ask(self, resource: str, operation: str, *values: object, patience: Duration | None = PATIENCE) -> Any:
        """Do ``operation`` and return its result; ``patience`` None waits as long as the broker lives.

        Raises what the broker refused, by its code, and Unreachable when it does not answer.
        """
        self.asked += 1
        question = f"q{self.asked}"
        self.dialogue.client.send(
            ADDRESS,
            json.dumps(values),
            {
                "reply-to": ANSWERS,
                "correlation-id": question,
                "_AMQ_ResourceName": resource,
                "_AMQ_OperationName": operation,
                ALONE: "true",  # `WholeDesk` asks the others itself
            },
        )
        while True:
            if not await self.dialogue.until(lambda: len(self.dialogue.messages) > 0, patience):
                assert patience is not None
                raise Unreachable(
                    f"nobody answered a management message within {in_words(patience)}",
                    remedy="is it an entrepot broker? See its log",
                )
            answer = self.dialogue.messages.popleft()
            if answer.headers.get("correlation-id") == question:
                return answered(answer.headers, answer.body)

    async def in_chunks(
        self, what: str, most: int, resource: str, operation: str, arguments: Callable[[int], list[object]]
    ) -> int:
        """Do ``operation`` again and again, for so many messages as ``arguments`` is told; show how far it is.

        Return how many messages it was in all: ``most``, or fewer when there are no more.
        """
        done = 0
        with progress(what, most) as step:
            while done < most:
                chunk = min(CHUNK, most - done)
                some = int(await self.ask(resource, operation, *arguments(chunk), patience=None))
                done += some
                step(some)
                if some < chunk:
                    break
        return done


@asynccontextmanager
async def managing(url: str, who: tuple[str | None, str | None] | None = None) -> AsyncIterator[Desk]:
    """Connect to be heard as an operator, as ``who`` if the URL does not say. Raises as `talking`."""
    async with talking(url, who=who) as dialogue:
        dialogue.client.subscribe(ANSWERS)
        yield Desk(dialogue)


class WholeDesk(Desk):
    """Where all processes of one broker are asked as one."""

    def __init__(self, dialogue: Dialogue, whole: Whole, parts: Sequence[Part]) -> None:
        super().__init__(dialogue)
        self.whole: Final = whole
        self._parts: Final = parts

    async def ask(self, resource: str, operation: str, *values: object, patience: Duration | None = PATIENCE) -> Any:
        """Do ``operation`` at all of them; see `Whole.ask`, and `Desk.ask`."""
        for part in self._parts:
            part.patience = patience
        before = set(self.whole.failures)
        answer = await self.whole.ask(resource, operation, *values)
        for number, why in self.whole.failures.items():
            if number not in before:
                _warn(number, why)
        return answer


class Part:
    """One process, as `Whole` asks it. ``patience``: see `Desk.ask`."""

    def __init__(self, desk: Desk) -> None:
        self.patience: Duration | None = PATIENCE
        self._desk: Final = desk

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation. Raises as `Desk.ask`."""
        return await self._desk.ask(resource, operation, *values, patience=self.patience)


@asynccontextmanager
async def together(desk: Desk, url: str) -> AsyncIterator[Desk]:
    """Yield where all processes of a broker are asked, of which ``desk`` is at one; ``desk`` itself for any other.

    A process whose own socket ``url`` names is asked alone. One that does not answer is said on standard error.
    """
    facts = {} if "unix" in url.partition("://")[0] else await processes_at(desk)
    if not facts:
        yield desk
        return
    own, sockets = int(facts["process"]), sockets_of(facts)
    if not sockets:
        click.secho(
            f"this is process {own} of {facts['processes']} of {facts['name']!r}, and its part alone: the others are "
            "asked on their machine, by the user who runs them",
            fg="yellow",
            err=True,
        )
        yield desk
        return
    async with AsyncExitStack() as stack:
        parts, failures = {own: Part(desk)}, dict[int, str]()
        who = credentials(places(url)[0])
        for number, socket in enumerate(sockets):
            if number == own:
                continue
            try:
                async with asyncio.timeout(OPENING / SECOND):
                    other = await stack.enter_async_context(managing(f"stomp+unix://{socket}", who))
                    known = await other.ask("broker", "describeAvailability", patience=OPENING)
                if known.get("together") != facts["together"]:
                    raise Unreachable("another broker is there")
                parts[number] = Part(other)
            except TimeoutError:
                failures[number] = f"it does not answer within {in_words(OPENING)}"
            except (Unreachable, TimedOut) as error:
                failures[number] = error.message
        for number, why in failures.items():
            _warn(number, why)
        ordered = {number: parts[number] for number in sorted(parts)}
        whole = whole_of(str(facts["name"]), ordered, failures, lambda number: f"stomp+unix://{sockets[number]}")
        yield WholeDesk(desk.dialogue, whole, list(ordered.values()))


async def processes_at(desk: Desk) -> dict[str, Any]:
    """Return which process is asked of a broker that has several (`config/processes.py`); nothing for any other."""
    try:
        facts = await desk.ask("broker", "describeAvailability")
    except Refused:  # he may not ask this: the process that he came to decides about what he asks
        return {}
    return facts if isinstance(facts, dict) and "processes" in facts else {}


def _warn(number: int, why: str) -> None:
    click.secho(f"process {number} is left out: {why}", fg="yellow", err=True)


def at_desk(url: str, act: Callable[[Desk], Awaitable[T]]) -> T:
    """Connect, do ``act``, leave; return its result."""

    async def visit() -> T:
        async with managing(url) as desk, together(desk, url) as whole:
            return await act(whole)

    return runtime.run(visit())


def tell(said: str, fields: dict[str, Any], output: str) -> None:
    """Say what was done: to people on standard error, or as one line of JSON."""
    if output == "json":
        click.echo(to_json(fields))
    else:
        click.echo(said, err=True)


def answered(headers: dict[str, str], body: bytes) -> Any:
    """Return the result of an answer of management. Raises what the broker refused, by its code."""
    answer = json.loads(body)
    if headers.get("_AMQ_OperationSucceeded") == "true":
        return answer[0]
    kind = kinds(EntrepotError).get(headers.get("entrepot_code", ""), Refused)
    raise kind(str(answer[0]), remedy=headers.get("entrepot_remedy", ""))
