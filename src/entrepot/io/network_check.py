"""Looks whether any of the targets of `ha/network_check.py` answers: echo requests, commands, and requests for URLs."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import socket
import struct
import urllib.error
import urllib.request
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption
from entrepot.ha.network_check import NetworkCheckOptions, command

SYSTEM: Final = "ping -c 1 -W %d %s"
SYSTEM6: Final = "ping -6 -c 1 -W %d %s"
ECHO: Final = (8, 128)  # ICMP's type of a request: of IP 4, and of 6
ECHO_HEAD: Final = struct.Struct(">BBHHH")
BIND_TO_DEVICE: Final = 25  # SO_BINDTODEVICE of Linux

log: Final = logging.getLogger("entrepot.ha")


class NetworkCheck:
    """The looks of one broker. Make it before anything is opened: what cannot be done is said then."""

    def __init__(self, options: NetworkCheckOptions) -> None:
        """Raises InvalidOption where hosts are to be pinged and nothing here can."""
        self.options: Final = options
        self._echoes: Final = not options.ping and not options.ping6 and may_echo()
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
        tasks = [asyncio.ensure_future(look) for look in looks]
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

    async def _asked(self, url: str) -> bool:
        return await asyncio.to_thread(_answers, url, self.options.timeout / SECOND)

    async def _pinged(self, host: str) -> bool:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
        except OSError:
            return False
        family, _, _, _, address = found[0]
        if self._echoes:
            return await asyncio.to_thread(
                _echoes, family, str(address[0]), self.options.timeout / SECOND, self.options.interface
            )
        return await self._commanded(str(address[0]), sixth=family == socket.AF_INET6)

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
            async with asyncio.timeout(options.timeout / SECOND + 1.0):
                return await running.wait() == 0
        except TimeoutError:
            return False
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


def _answers(url: str, timeout: float) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:  # http and https, as the configuration says
            return bool(answer.status < 400)
    except (OSError, ValueError, urllib.error.URLError):
        return False
