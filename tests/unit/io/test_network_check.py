"""Whether one of the targets of a network check answers: URLs, commands, and echo requests where they are allowed."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.ha.network_check import NetworkCheckOptions, command
from entrepot.io import network_check
from entrepot.io.network_check import NetworkCheck

PROBE = """#!/bin/sh
echo "$@" >> {told}
case "$2" in 127.0.0.1) exit 0 ;; 127.0.0.2) exit 1 ;; *) sleep 60 ;; esac
"""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/" else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


@pytest.fixture
def page() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def probe(tmp_path: Path) -> Path:
    made = tmp_path / "probe"
    made.write_text(PROBE.format(told=tmp_path / "told"))
    made.chmod(0o755)
    return made


def reachable(**options: Any) -> bool:
    check = NetworkCheck(NetworkCheckOptions(timeout=300 * MILLISECOND, **options))
    return asyncio.run(check.reachable())


def test_one_page_that_answers_is_enough(page: str) -> None:
    assert reachable(urls=(f"{page}/",))
    assert reachable(urls=("http://127.0.0.1:1/", f"{page}/"))
    assert not reachable(urls=("http://127.0.0.1:1/", f"{page}/broken"))


def test_a_command_is_told_who_and_how_long(probe: Path, tmp_path: Path) -> None:
    text = f"{probe} %d %s"
    assert reachable(hosts=("127.0.0.1",), ping=text)
    assert not reachable(hosts=("127.0.0.2",), ping=text)
    assert not reachable(hosts=("no.such.host.invalid",), ping=text)
    assert (tmp_path / "told").read_text().splitlines() == ["1 127.0.0.1", "1 127.0.0.2"]
    assert command(["a", "%s-%d"], "h", 2500 * MILLISECOND) == ["a", "h-3"]


def test_a_command_that_never_ends_is_ended(probe: Path) -> None:
    began = time.monotonic()
    assert not reachable(hosts=("127.0.0.3",), ping=f"{probe} %d %s")
    assert time.monotonic() - began < 5
    assert reachable(hosts=("127.0.0.3", "127.0.0.1"), ping=f"{probe} %d %s")  # the other ends with the look


def test_a_command_that_is_not_there_is_no_answer() -> None:
    assert not reachable(hosts=("127.0.0.1",), ping="/no/such/program %s")


def test_hosts_that_nothing_here_can_ping_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_check, "may_echo", lambda: False)
    monkeypatch.setattr(network_check.shutil, "which", lambda name: None)
    with pytest.raises(InvalidOption, match="no echo requests"):
        NetworkCheck(NetworkCheckOptions(hosts=("a",)))
    NetworkCheck(NetworkCheckOptions(urls=("http://a/",)))


def test_it_waits_until_somebody_answers_and_says_when_nobody_does(page: str) -> None:
    short = 20 * MILLISECOND

    async def run() -> str:
        await NetworkCheck(NetworkCheckOptions(urls=(f"{page}/",), period=short)).until_reachable()
        return await NetworkCheck(NetworkCheckOptions(urls=(f"{page}/broken",), period=short)).until_cut_off()

    assert asyncio.run(run()) == f"the network is gone: none of {page}/broken answers"


ECHO = """
import asyncio
from entrepot.ha.network_check import NetworkCheckOptions
from entrepot.io.network_check import NetworkCheck, may_echo
assert may_echo()
for host, there in (("127.0.0.1", True), ("192.0.2.1", False), ("::1", True)):
    options = NetworkCheckOptions(hosts=(host,), timeout=300_000_000)
    assert asyncio.run(NetworkCheck(options).reachable()) == there, host
"""


def test_echo_requests_are_sent_where_the_system_allows_them() -> None:
    """In a network of its own, whose setting can be changed."""
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare here")
    allow = "ip link set lo up && echo '0 2147483647' > /proc/sys/net/ipv4/ping_group_range"
    inside = ["unshare", "--net", "sh", "-c", f'{allow} || exit 77; exec "$@"', "sh", sys.executable, "-c", ECHO]
    done = subprocess.run(inside, capture_output=True, text=True, timeout=60)
    if done.returncode in (1, 77) and "Error" not in done.stderr:
        pytest.skip(f"no network of its own: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr


def test_the_period_is_that_of_artemis() -> None:
    assert (NetworkCheckOptions().period, NetworkCheckOptions().timeout) == (5 * SECOND, SECOND)


def test_a_name_that_is_looked_up_for_ever_holds_one_thread_and_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(network_check, "may_echo", lambda: True)
    monkeypatch.setattr(network_check, "GRACE_S", 0.0)
    monkeypatch.setattr(network_check, "_address", lambda host: release.wait(60) and None)

    async def looks() -> list[bool]:
        check = NetworkCheck(NetworkCheckOptions(hosts=("slow",), timeout=100 * MILLISECOND))
        return [await check.reachable() for _ in range(3)]

    before = threading.active_count()
    began = time.monotonic()
    try:
        assert asyncio.run(looks()) == [False] * 3
        assert time.monotonic() - began < 5
        assert threading.active_count() <= before + 1
    finally:
        release.set()
