"""How commands manage a broker: management messages over STOMP, asked and answered (`core/operators/management.py`)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import click

from entrepot.base.environment import SECOND, Duration
from entrepot.base.errors import EntrepotError, Refused, Unreachable, kinds
from entrepot.cli.dialogue import Dialogue, talking
from entrepot.cli.output import progress, to_json
from entrepot.cli.values import in_words
from entrepot.io import runtime

T = TypeVar("T")

ADDRESS: Final = "/queue/activemq.management"
ANSWERS: Final = "/temp-queue/answers"
PATIENCE: Final = 30 * SECOND  # for a short answer; a broker that is alive has it in milliseconds
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
async def managing(url: str) -> AsyncIterator[Desk]:
    """Connect to be heard as an operator. Raises as `talking`."""
    async with talking(url) as dialogue:
        dialogue.client.subscribe(ANSWERS)
        yield Desk(dialogue)


def at_desk(url: str, act: Callable[[Desk], Awaitable[T]]) -> T:
    """Connect, do ``act``, leave; return its result."""

    async def visit() -> T:
        async with managing(url) as desk:
            return await act(desk)

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
