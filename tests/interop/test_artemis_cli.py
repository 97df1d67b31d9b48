"""The ``artemis`` command line from a Maven repository, unmodified, at Artemis and here: what it prints, compared.

Its messages go over CORE, and so do its questions: everything about queues, addresses and nodes is management by
messages (``activemq.management``). What it prints at a real Artemis is recorded (`recorded.py`).
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import artemis
import core_clients
import maven
import ours
import pytest
import recorded
from click.testing import CliRunner, Result
from java_clients import finished

from entrepot.cli.main import cli as main

VERSION: Final = "2.42.0"
PATIENCE_S: Final = 60


def unavailable() -> str:
    why = artemis.unavailable()
    if not why:
        try:
            _jars()
        except maven.Unavailable as problem:
            why = str(problem)
    return why


def _jars() -> Path:
    return maven.jars(f"org.apache.activemq:artemis-cli:{VERSION}")


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"the artemis command line: {unavailable()}")

QUEUE: Final = "queue://cli.q"
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "producer": ("producer", "--destination", QUEUE, "--message-count", "10", "--message", "hello"),
    "browser": ("browser", "--destination", QUEUE),
    "filtered browser": ("browser", "--destination", QUEUE, "--filter", "AMQPriority > 4"),
    "consumer": ("consumer", "--destination", QUEUE, "--message-count", "4"),
    "transacted producer": (
        "producer", "--destination", QUEUE, "--message-count", "6", "--commit-interval", "2", "--text-size", "50",
    ),
    "qualified consumer": (
        "consumer", "--destination", "fqqn://cli.q::cli.q", "--message-count", "2", "--receive-timeout", "2000",
    ),
    "transfer": (
        "transfer", "--source-queue", "cli.q", "--target-queue", "cli.moved", "--message-count", "3",
        "--receive-timeout", "500",
    ),
    "address create": ("address", "create", "--name", "cli.address", "--anycast", "--no-multicast"),
    "address show": ("address", "show", "--name", "cli.address"),
    "queue create": (
        "queue", "create", "--name", "cli.made", "--address", "cli.address", "--anycast", "--durable",
        "--preserve-on-no-consumers", "--auto-create-address",
    ),
    "queue create again": (
        "queue", "create", "--name", "cli.made", "--address", "cli.address", "--anycast", "--durable",
        "--preserve-on-no-consumers", "--auto-create-address",
    ),
    "address update": ("address", "update", "--name", "cli.address", "--anycast", "--multicast"),
    "queue update": ("queue", "update", "--name", "cli.made", "--anycast", "--max-consumers", "3"),
    "queue stat": ("queue", "stat", "--queueName", "cli", "--maxRows", "20"),
    "queue purge": ("queue", "purge", "--name", "cli.q"),
    "purged": ("browser", "--destination", QUEUE),
    "check queue": (
        "check", "queue", "--name", "cli.q", "--up", "--produce", "3", "--browse", "3", "--consume", "3",
    ),
    "check node": ("check", "node", "--up"),
    "check full node": ("check", "node", "--up", "--memoryUsage", "90", "--diskUsage", "99"),
    "check missing queue": ("check", "queue", "--name", "cli.none", "--up"),
    "check backup": ("check", "node", "--backup"),
    "check peers": ("check", "node", "--peers", "2"),
    "check with a wrong option": ("check", "node", "--nonsense"),
    "queue delete": ("queue", "delete", "--name", "cli.made"),
    "queue delete again": ("queue", "delete", "--name", "cli.made"),
    "address in use": ("address", "delete", "--name", "cli.q"),
    "missing address": ("address", "show", "--name", "cli.none"),
    "perf": ("perf", "client", "--duration", "2", "--warmup", "0", "queue://cli.perf"),
    "address delete": ("address", "delete", "--name", "cli.address"),
}  # fmt: skip
PROBES: Final[dict[str, tuple[str, ...]]] = {
    "check queue": ("--queue", "cli.q"),
    "check node": (),
    "check full node": ("--memory-below", "90", "--store-below", "99"),
    "check missing queue": ("--queue", "cli.none"),
    "check backup": ("--backup",),
    "check peers": ("--peers", "2"),
}
"""What it is asked -> what `entrepot probe` is asked for the same."""
NOT_COMPARED: Final = re.compile(
    r"SLF4J|Connection brokerURL|.*\btook\b|Running |.*elapsed|--- (?!SUMMARY|result)|\s*$", re.IGNORECASE
)
VARIES: Final = re.compile(
    r"\d+ (milli)?seconds?|\[[\w-]*\d[\w-]*\]|ID:[\w-]+|\d+\.\d+ seconds|\b[0-9a-f]{8}-[0-9a-f-]{27}|tcp://\S+|\d+ ms"
)


class Cli:
    """The program; `run` returns what it printed and how it ended."""

    def __init__(self, url: str, home: Path) -> None:
        self._url = url
        self._home = home

    def run(self, *command: str) -> str:
        """Return what does not vary from run to run, and the status last."""
        jvm = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256M", f"-Dartemis.home={self._home}", "-cp", f"{_jars()}/*"]
        words = command[:2] if command[1][:2] != "--" else command[:1]
        whole = [*jvm, "org.apache.activemq.artemis.cli.Artemis", *words]
        whole += [*self._where(words), *command[len(words) :]]
        done = finished(
            whole, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=self._home,
            stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(self._home)},
        )  # fmt: skip
        lines = [VARIES.sub("N", line) for line in (done.stdout + done.stderr).splitlines()]
        return "\n".join([*(line for line in lines if not NOT_COMPARED.match(line)), f"status {done.returncode}\n"])

    def _where(self, words: tuple[str, ...]) -> list[str]:
        if words == ("transfer",):
            return ["--source-url", self._url, "--target-url", self._url]
        return ["--url", self._url, "--user", "app", "--password", "secret"]


def _seen(broker: artemis.Artemis | ours.Entrepot, probed: dict[str, Result] | None = None) -> dict[str, str]:
    broker.start().await_ready()
    try:
        cli = Cli(broker.url, broker.home)
        printed = {name: cli.run(*command) for name, command in COMMANDS.items()}
        if probed is not None:
            url = broker.url.replace("tcp://", "stomp://app:secret@")
            probed.update({name: CliRunner().invoke(main, ["probe", *PROBES[name], "--url", url]) for name in PROBES})
        return printed
    finally:
        broker.kill()


class Printed(NamedTuple):
    """What it printed, by command; ``ours`` is None while this build has no CORE."""

    artemis: dict[str, str]
    ours: dict[str, str] | None
    recorded: dict[str, str] | None
    """What it printed at Artemis when that was recorded; None when that is not current."""
    probed: dict[str, Result]
    """What `entrepot probe` said of ours."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    home = tmp_path_factory.mktemp("cli")
    recording = recorded.Recording("artemis-cli", core_clients.MADE_OF, VERSION, COMMANDS, NOT_COMPARED, VARIES)
    with ThreadPoolExecutor() as pool:
        theirs = pool.submit(recording.shown, lambda: _seen(core_clients.theirs(home / "artemis")))
        probed: dict[str, Result] = {}
        own = pool.submit(_seen, core_clients.own(home / "ours"), probed) if core_clients.speaks_core() else None
        return Printed(theirs.result(), own.result() if own else None, recording.held(), probed)


FAILS: Final = (  # the others that it cannot do it says, and ends with 0
    "check missing queue", "check backup", "check peers", "check with a wrong option",
)  # fmt: skip


def test_the_command_line_works_at_artemis(printed: Printed) -> None:
    wrong = {name: text for name, text in printed.artemis.items() if text.endswith("status 0\n") == (name in FAILS)}
    assert not wrong
    if printed.recorded is not None:
        assert [_lines(name, text) for name, text in printed.artemis.items()] == [
            _lines(name, text) for name, text in printed.recorded.items()
        ], "it prints something else than when it was recorded"


@pytest.mark.parametrize("name", COMMANDS)
def test_it_prints_the_same_here(name: str, printed: Printed) -> None:
    if printed.ours is None:
        pytest.skip("this build of entrepot has no CORE server")
    expected, found = _lines(name, printed.artemis[name]), _lines(name, printed.ours[name])
    assert expected == found, "\n".join(difflib.unified_diff(expected, found, "Artemis", "entrepot"))


@pytest.mark.parametrize("name", PROBES)
def test_a_probe_ends_as_the_check_of_artemis_does(name: str, printed: Printed) -> None:
    if printed.ours is None:
        pytest.skip("this build of entrepot has no CORE server")
    probed = printed.probed[name]
    assert printed.artemis[name].endswith(f"status {probed.exit_code}\n"), probed.output
    assert ("success" in printed.artemis[name]) == ("not well" not in probed.output), probed.output


def _lines(name: str, text: str) -> list[str]:
    """Return what was printed; that of ``queue stat`` is in the order of a hash table, which varies."""
    return sorted(text.splitlines()) if name == "queue stat" else text.splitlines()
