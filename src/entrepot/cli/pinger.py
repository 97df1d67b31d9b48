"""A broker that looks whether it is the one that is cut off: waits for the network, and stops when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from entrepot.io import runtime
from entrepot.io.network_check import NetworkCheck

if TYPE_CHECKING:
    from entrepot.ha.network_check import NetworkCheckOptions


def pinger(options: NetworkCheckOptions | None) -> Pinger | None:
    """Return what looks, None where nothing is to be looked for. Raises InvalidOption."""
    return None if options is None else Pinger(NetworkCheck(options))


class Pinger:
    """``gone``: a look found nobody, and the broker was asked to stop."""

    def __init__(self, check: NetworkCheck) -> None:
        self.check = check
        self.gone = False
        self._watch: asyncio.Task[None] | None = None

    async def waits(self) -> bool:
        """Wait until the network is there; False when somebody asked to stop meanwhile."""
        stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        undo = runtime.on_signals(stop.set_result)
        look = asyncio.ensure_future(self.check.until_reachable())
        either: list[asyncio.Future[Any]] = [look, stop]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return look.done()
        finally:
            undo()
            look.cancel()
            await asyncio.wait([look])

    def watch(self, ask_to_stop: Callable[[str], None]) -> None:
        """Look from now on, and ask the broker to stop when the network is gone."""

        async def look() -> None:
            why = await self.check.until_cut_off()
            self.gone = True
            ask_to_stop(why)

        self._watch = asyncio.get_running_loop().create_task(look())

    def ends(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
