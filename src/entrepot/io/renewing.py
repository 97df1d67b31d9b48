"""Certificates that are renewed while the broker runs: ``sslAutoReload`` of an acceptor, as Artemis has it (5.4).

Files are looked at and read beside the loop, in a thread. Who comes after a change sees the new certificate and is
judged by the new trust store; who is connected stays. What cannot be used, a file that is half written or a key that is
not the certificate's, is said once, and what held goes on to hold until the files change again.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.io.reloading import Signs, signed
from entrepot.io.tcp import Listener
from entrepot.io.tls import TlsOptions, server_context

PERIOD_S: Final = 5.0  # between two looks where nothing says otherwise: configuration-file-refresh-period of Artemis
KEPT: Final = "the certificates were changed and cannot be used, what held goes on to hold"

log: Final = logging.getLogger("entrepot.listener")


class Renewal:
    """Looks at the files of those ``listeners`` that say ``sslAutoReload=true``, every ``period_ms``; 0: `PERIOD_S`."""

    def __init__(self, listeners: Sequence[Listener], period_ms: float = 0) -> None:
        self.listeners: Final = [one for one in listeners if renews(one)]
        self._period: Final = period_ms / 1000 or PERIOD_S
        self._signs: Final[dict[Listener, Signs]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look from now on; nothing is looked at where no listener wants it."""
        if self.listeners:
            for listener in self.listeners:
                self._signs[listener] = await asyncio.to_thread(_look, listener.options.tls)
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def look(self) -> int:
        """Look once; return how many listeners show something else now."""
        changed = 0
        for listener in self.listeners:
            tls = listener.options.tls
            seen = await asyncio.to_thread(_look, tls)
            if seen == self._signs.get(listener):
                continue
            self._signs[listener] = seen
            try:
                context: ssl.SSLContext = await asyncio.to_thread(server_context, tls)
                if listener.is_open:
                    await listener.renew(context)
                else:
                    listener.listening.context = context  # it shows this when it is opened again
            except (EntrepotError, OSError) as error:
                log.error("%s: changed certificates cannot be used, what held goes on to hold: %s", listener.uri, error)
                continue
            log.info("%s: the certificates were read again", listener.uri)
            changed += 1
        return changed

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._period)
            try:
                await self.look()
            except Exception:  # a bug of ours: the next change may be read all the same
                log.exception(KEPT)


def renews(listener: Listener) -> bool:
    """Return whether its certificates are looked at."""
    return listener.options.secure and listener.options.tls.reloads


def _look(tls: TlsOptions) -> Signs:
    return signed([Path(name) for name in (tls.certificate, tls.key, tls.trust) if name])
