"""What courses of questions ask of the world that runs them: promises of what is told later, and courses side by side.

Courses are coroutines. In the real world a loop of asyncio runs them, in the seeded one `simulation/courses.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
End_co = TypeVar("End_co", covariant=True)


class Promise(Awaitable[T], Protocol[T]):
    """Something that is told later, once."""

    def done(self) -> bool:
        """Return whether it was told, or given up."""

    def set_result(self, value: T, /) -> None:
        """Tell it."""

    def set_exception(self, error: BaseException, /) -> None:
        """Tell why it will not be."""


class Task(Awaitable[End_co], Protocol[End_co]):
    """A course under way."""

    def done(self) -> bool:
        """Return whether it has ended."""

    def cancelled(self) -> bool:
        """Return whether it was given up."""

    def result(self) -> End_co:
        """Return how it ended, or raise why."""

    def exception(self) -> BaseException | None:
        """Return why it failed; None: it did not."""

    def cancel(self) -> object:
        """Give it up."""

    def add_done_callback(self, told: Callable[[Any], object], /) -> None:
        """Call ``told`` at its end."""


class Loop(Protocol):
    """Runs courses."""

    def promise(self) -> Promise[Any]:
        """Return a new one."""

    def start(self, course: Coroutine[Any, Any, T]) -> Task[T]:
        """Begin a course, beside those that are under way."""


async def every(loop: Loop, courses: Sequence[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    """Run ``courses`` side by side; return how each ended. Those that go on when this is given up are given up too."""
    tasks = [loop.start(one) for one in courses]
    found: list[T | Exception] = []
    try:
        for task in tasks:
            try:
                found.append(await task)
            except Exception as error:
                found.append(error)
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
    return found
