"""Looks whether any of the targets of `ha/network_check.py` answers: echo requests, commands, and requests for URLs."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption
from entrepot.ha.network_check import NetworkCheckOptions, command

SYSTEM: Final = "ping -c 1 -W %d %s"
SYSTEM6: Final = "ping -6 -c 1 -W %d %s"
ECHO: Final = (8, 128)  # ICMP's type of a request: of IP 4, and of 6
ECHO_HEAD: Final = struct.Struct(">BBHHH")
GRACE_S: Final = 1.0  # beyond its timeout: for a command to begin, a name to be looked up
BIND_TO_DEVICE: Final = 25  # SO_BINDTODEVICE of Linux

T = TypeVar("T")

log: Final = logging.getLogger("entrepot.ha")


class NetworkCheck:
    """The looks of one broker. Make it before anything is opened: what cannot be done is said then."""

    def __init__(self, options: NetworkCheckOptions) -> None:
        """Raises InvalidOption where hosts are to be pinged and nothing here can."""
        self.options: Final = options
        self._echoes: Final = not options.ping and not options.ping6 and may_echo()
        self._busy: Final[dict[str, bool]] = {}  # targets that a thread still waits for
        if options.hosts and not self._echoes and not options.ping and shutil.which("ping") is None:
            raise InvalidOption(
                "network-check-list names hosts, and this process may send no echo requests, nor is there a ping",
                remedy="install ping, name a network-check-ping-command, allow net.ipv4.ping_group_range, or use "
                "network-check-URL-list",
            )

    async def reachable(self) -> bool:
        """Say whether one target answers; the first that does ends the look."""
        looks: list[Coroutine[Any, Any, bool]] = [self._asked(url) for url in self.options.urls]
        looks += [self._pinged(host) for host in self.options.hosts]
        tasks = [asyncio.ensure_future(self._in_time(look)) for look in looks]
        try:
            for each in asyncio.as_completed(tasks):
                if await each:
                    return True
            return False
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until_reachable(self) -> None:
        """Return when a target answers; say once that none does."""
        told = False
        while not await self.reachable():
            if not told:
                told = True
                log.warning("waits for the network: none of %s answers", self.spoken())
            await asyncio.sleep(self.options.period / SECOND)

    async def until_cut_off(self) -> str:
        """Return why the broker should stop, once no target answers."""
        while True:
            await asyncio.sleep(self.options.period / SECOND)
            if not await self.reachable():
                return f"the network is gone: none of {self.spoken()} answers"

    def spoken(self) -> str:
        """Return the targets for people."""
        return ", ".join(self.options.targets)

    async def _in_time(self, look: Coroutine[Any, Any, bool]) -> bool:
        try:
            async with asyncio.timeout(self.options.timeout / SECOND + GRACE_S):
                return await look
        except TimeoutError:
            return False

    async def _aside(self, target: str, work: Callable[[], T | None]) -> T | None:
        """Do ``work`` on a thread that nobody waits for in the end; None while an earlier one for ``target`` goes on.

        A name server that is away holds a thread for half a minute, whatever the timeout.
        """
        if target in self._busy:
            return None
        self._busy[target] = True
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T | None] = loop.create_future()

        def settle(found: T | None) -> None:
            if not answer.done():
                answer.set_result(found)

        def do() -> None:
            found = work()
            self._busy.pop(target, None)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=do, name="entrepot-network-check", daemon=True).start()
        return await answer

    async def _asked(self, url: str) -> bool:
        return bool(await self._aside(url, partial(_answers, url, self.options.timeout / SECOND)))

    async def _pinged(self, host: str) -> bool:
        found = await self._aside(host, partial(_address, host))
        if found is None:
            return False
        family, address = found
        if self._echoes:
            echo = partial(_echoes, family, address, self.options.timeout / SECOND, self.options.interface)
            return bool(await self._aside(host, echo))
        return await self._commanded(address, sixth=family == socket.AF_INET6)

    async def _commanded(self, host: str, *, sixth: bool) -> bool:
        options = self.options
        text = options.ping6 or SYSTEM6 if sixth else options.ping or SYSTEM
        words = command(shlex.split(text), host, options.timeout)
        if options.interface and not (options.ping6 if sixth else options.ping):
            words[1:1] = ["-I", options.interface]
        try:
            running = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            log.warning("%s cannot be run: %s", words[0], error)
            return False
        try:
            return await running.wait() == 0
        finally:
            if running.returncode is None:
                with suppress(ProcessLookupError):
                    running.kill()


def may_echo() -> bool:
    """Say whether this process may send echo requests without being root (Linux: net.ipv4.ping_group_range)."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()
    except OSError:
        return False
    return True


def _echoes(family: int, address: str, timeout: float, interface: str) -> bool:
    """Send one echo request and wait for its answer. The kernel writes its identifier, and tells ours from others."""
    sixth = family == socket.AF_INET6
    number = socket.IPPROTO_ICMPV6 if sixth else socket.IPPROTO_ICMP
    try:
        with socket.socket(family, socket.SOCK_DGRAM, number) as one:
            one.settimeout(timeout)
            if interface:
                one.setsockopt(socket.SOL_SOCKET, BIND_TO_DEVICE, interface.encode())
            one.sendto(ECHO_HEAD.pack(ECHO[sixth], 0, 0, 0, 1) + os.urandom(8), (address, 0))
            one.recv(256)
    except OSError:
        return False
    return True


def _address(host: str) -> tuple[int, str] | None:
    """Return family and address of ``host``, None where no name server knows it."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None)[0]
    except (OSError, UnicodeError):
        return None
    return family, str(address[0])


def _answers(url: str, timeout: float) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:  # http and https, as the configuration says
            return bool(answer.status < 400)
    except (OSError, ValueError, urllib.error.URLError):
        return False
