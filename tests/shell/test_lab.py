"""`entrepot lab` at a pseudo-terminal and without one: keys, cuts, kills, and nothing left behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.cli.lab.brokers import edges

PATIENCE_S = 40.0
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\x1b[=>]")


class Terminal:
    """A program at a terminal of its own, 80 by 24."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "TMPDIR": str(directory)}
        for name in ("COLUMNS", "LINES"):  # of another terminal: readline sets them in whoever runs these tests
            environment.pop(name, None)
        command = [sys.executable, "-m", "entrepot", *arguments]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
        )
        os.close(slave)
        self.shown = ""

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def read(self, seconds: float) -> None:
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            try:
                self.shown += CONTROL.sub("", os.read(self.master, 65_536).decode(errors="replace"))
            except OSError:  # the other end is closed
                time.sleep(0.01)

    def until(self, pattern: str) -> str:
        """Wait until ``pattern`` is shown, forget what came before, and return what matched."""
        end = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < end, (pattern, self.shown[-6000:])
            self.read(0.2)
        self.shown = self.shown[found.end() :]
        return found.group()

    def end(self) -> int:
        until = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.1)
        for _ in range(10):
            self.read(0.01)
        return self.process.wait(1)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path, "lab", "3", "--shape", "ring", "--rate", "100")
    yield made
    if made.process.poll() is None:
        made.process.send_signal(signal.SIGTERM)
        made.process.wait(PATIENCE_S)
    os.close(made.master)


def brokers_of(directory: Path) -> list[int]:
    """Return the processes whose working directory is below ``directory``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                where = os.readlink(entry / "cwd")
            except OSError:
                continue
            if where.startswith(str(directory)):
                found.append(int(entry.name))
    return found


def test_a_broker_is_killed_a_link_cut_and_all_arrives(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until(r"3 brokers, ring")
    terminal.until(r"c +b3 ─ b1 +open")
    assert len(brokers_of(tmp_path)) == 3
    terminal.press(" ")
    terminal.until(r"load on · sent [1-9]")
    terminal.until(r"b2 +up +2 ")
    terminal.press("2")
    terminal.until(r"b2: kill -9")
    terminal.until(r"b2 +down")
    terminal.until(r"(producer|consumer) 2 is at b[13] now")
    terminal.press("2")
    terminal.until(r"b2 accepts connections again")
    terminal.until(r"b2 +up")
    terminal.press("c")
    terminal.until(r"the link c \(b3 ─ b1\) is cut")
    terminal.until(r"c +b3 ─ b1 +cut")
    terminal.press("c")
    terminal.until(r"c +b3 ─ b1 +open")
    terminal.press(" ")
    terminal.until(r"load off")
    terminal.press("q")
    assert terminal.end() == 0, terminal.shown
    told = re.search(r"promised ([\d,]+), arrived ([\d,]+), came again \d+, missing 0", terminal.shown)
    assert told is not None, terminal.shown[-2000:]
    assert int(told.group(1).replace(",", "")) > 50
    assert brokers_of(tmp_path) == []
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("entrepot-lab-")]


def test_without_a_terminal_it_writes_lines_and_ends_by_itself(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "entrepot", "lab", "2", "--for", "3", "--load"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "links a:open" in result.stdout
    assert re.search(r"promised [1-9]\d*, arrived \d+, came again 0, missing 0", result.stdout)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "entrepot", "lab", "2", "--shape", "chain"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "b1 listens" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert brokers_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["starting", "up"])
def test_killed_it_leaves_no_broker(tmp_path: Path, moment: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "entrepot", "lab", "2", "--shape", "chain"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + PATIENCE_S
    try:
        while len(brokers_of(tmp_path)) < 2:
            assert time.monotonic() < end
            time.sleep(0.01)
        if moment == "up":
            assert process.stdout is not None
            assert "b1 listens" in process.stdout.readline()
    finally:
        process.kill()
        process.communicate()
    while left := brokers_of(tmp_path):
        assert time.monotonic() < end, left
        time.sleep(0.02)
    if moment == "up":
        for log in tmp_path.glob("*/b*/broker.log"):
            assert "stopping: SIGTERM" in log.read_text()  # in order: the next start has nothing to repair


@pytest.mark.parametrize(
    ("shape", "count", "joined"),
    [
        ("mesh", 3, [(0, 1), (0, 2), (1, 2)]),
        ("chain", 3, [(0, 1), (1, 2)]),
        ("hub", 4, [(1, 0), (2, 0), (3, 0)]),
        ("ring", 3, [(0, 1), (1, 2), (2, 0)]),
        ("ring", 2, [(0, 1)]),
    ],
)
def test_shapes(shape: str, count: int, joined: list[tuple[int, int]]) -> None:
    assert edges(shape, count) == joined
