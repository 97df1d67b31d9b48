"""What of Spark's words reaches the terminal of a job."""

from __future__ import annotations

import subprocess
import sys

from entrepot.cli.noise import LINES_MAX, Sieve

WRITTEN = """WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/23 00:39:24 WARN Utils: Your hostname, vm, resolves to a loopback address
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
the broker B of the network is not read: it is too old
Traceback (most recent call last):
  File "daemon.py", line 264, in manager
  File "daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
26/11/23 00:39:26 ERROR Executor: out of memory
Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: something of the program
Traceback (most recent call last):
  File "cut short"
"""
KEPT = """the broker B of the network is not read: it is too old
26/11/23 00:39:26 ERROR Executor: out of memory
Traceback (most recent call last):
  File "worker.py", line 1, in main
ValueError: something of the program
Traceback (most recent call last):
  File "cut short"
"""


def test_only_noise_is_kept_back() -> None:
    out: list[str] = []
    sieve = Sieve(out.append)
    for line in WRITTEN.splitlines(keepends=True):
        sieve.line(line)
    sieve.end()
    assert "".join(out) == KEPT


def test_two_processes_that_are_hung_up_on_at_once_write_in_turns() -> None:
    def passed(*ends: str) -> list[str]:
        out: list[str] = []
        sieve = Sieve(out.append)
        for line in (
            ("Traceback (most recent call last):\n",) * 2 + ("  File 1\n",) * 2 + (ends[0], "  File 2\n", ends[1])
        ):
            sieve.line(line)
        sieve.line("behind\n")
        return out

    assert passed("BrokenPipeError: 1\n", "BrokenPipeError: 2\n") == ["behind\n"]
    for ends in (("ValueError: 1\n", "BrokenPipeError: 2\n"), ("BrokenPipeError: 1\n", "ValueError: 2\n")):
        assert len(passed(*ends)) == 8, "one says something: both are shown"


def test_a_traceback_without_an_end_is_not_held_for_ever() -> None:
    out: list[str] = []
    sieve = Sieve(out.append)
    sieve.line("Traceback (most recent call last):\n")
    for _ in range(LINES_MAX):
        sieve.line("  File\n")
    assert len(out) >= LINES_MAX


def test_a_process_that_is_started_meanwhile_is_read_and_this_one_is_not() -> None:
    program = """
import subprocess, sys
from entrepot.cli.noise import without_noise
text = sys.stdin.read()
print("before", file=sys.stderr)
with without_noise():
    print("WARNING: Using incubator modules, says this one", file=sys.stderr)
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stderr.write(sys.argv[1])", text])
print("behind", file=sys.stderr)
child.wait()
import time; time.sleep(0.3)
"""
    done = subprocess.run([sys.executable, "-c", program], input=WRITTEN, capture_output=True, text=True, check=True)
    told = done.stderr.replace("WARNING: Using incubator modules, says this one\n", "")
    assert told != done.stderr
    assert sorted(told.splitlines()) == sorted(["before", "behind", *KEPT.splitlines()])
