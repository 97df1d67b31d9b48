"""Courses of questions in the seeded world (`core/operators/together/loop.py`): coroutines, a step an event."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

from entrepot.base.errors import Fault

T = TypeVar("T")

Soon = Callable[[Callable[[], None]], None]
"""Does something as an event of its own, unless the process is gone by then."""


class Pledge:
    """A promise. ``soon``: see `Soon`."""

    def __init__(self, soon: Soon) -> None:
        self._soon: Final = soon
        self._done = False
        self._given_up = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiting: list[Callable[[Any], object]] = []

    def done(self) -> bool:
        """Return whether it was told, or given up."""
        return self._done

    def cancelled(self) -> bool:
        """Return whether it was given up."""
        return self._given_up

    def exception(self) -> BaseException | None:
        """Return why it failed."""
        return self._error

    def result(self) -> Any:
        """Return what was told, or raise why there is nothing."""
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, value: Any, /) -> None:
        """Tell it. Raises Fault the second time."""
        self._value = value
        self._tell()

    def set_exception(self, error: BaseException, /) -> None:
        """Tell why it will not be. Raises Fault the second time."""
        self._error = error
        self._tell()

    def add_done_callback(self, told: Callable[[Any], object], /) -> None:
        """Call ``told`` when it is told."""
        if self._done:
            self._soon(lambda: _call(told, self))
        else:
            self._waiting.append(told)

    def give_up(self) -> None:
        """It is told to nobody."""
        self._given_up = True
        self._tell()

    def _tell(self) -> None:
        if self._done:
            raise Fault("a promise is told twice")
        self._done = True
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            self._soon(lambda told=told: _call(told, self))  # type: ignore[misc]

    def __await__(self) -> Generator[Any, Any, Any]:
        if not self._done:
            yield self
        return self.result()


class Running(Pledge):
    """A course under way."""

    def __init__(self, soon: Soon, course: Coroutine[Any, Any, Any]) -> None:
        super().__init__(soon)
        self._course: Final = course
        soon(self._step)

    def cancel(self) -> None:
        """Give it up."""
        if not self._done:
            self._course.close()
            self.give_up()

    def _step(self) -> None:
        if self._done:
            return
        try:
            awaited = self._course.send(None)
        except StopIteration as end:
            self.set_result(end.value)
        except Exception as error:
            self.set_exception(error)
        else:
            awaited.add_done_callback(lambda _: self._step())


class Steps:
    """The loop of one process."""

    def __init__(self, soon: Soon) -> None:
        self._soon: Final = soon

    def promise(self) -> Pledge:
        """Return a new one."""
        return Pledge(self._soon)

    def start(self, course: Coroutine[Any, Any, T]) -> Running:
        """Begin a course."""
        return Running(self._soon, course)


def _call(told: Callable[[Any], object], pledge: Pledge) -> None:
    told(pledge)
