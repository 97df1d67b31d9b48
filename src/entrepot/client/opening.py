"""What is opened, used and closed: ``async with`` for all that a connection opens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T", bound="Closing")


class Closing:
    """Something that is opened, used and closed."""

    async def close(self) -> None:
        """Close it. Does nothing the second time."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Opening(Generic[T]):
    """What is being opened: ``await`` it, or use it in ``async with``, which also closes it."""

    def __init__(self, open: Callable[[], Awaitable[T]]) -> None:
        self._open = open
        self._opened: T | None = None

    def __await__(self) -> Generator[object, None, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)
