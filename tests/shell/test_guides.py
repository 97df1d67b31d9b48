"""The blocks of README.md and docs/ run as they stand, those of a page in their order (tests/guides.py says which).

What differs from a reader's machine: ports are free ones, and so a command is told where the broker is; brokers run in
the background, where a reader takes another terminal; what goes on for ever is ended after some seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon import PATIENCE, Daemon

from guides import ROOT, SHELL, Block, all_blocks, blocks

STOMP, AUTO = "stomp://127.0.0.1:61613", "auto://127.0.0.1:61616"
OF_THE_CHECKOUT = "make", "pip", "systemctl"
"""Programs that do here what CI does anyway, or what a test must not: their lines are only parsed."""

TAKEN_FOR_GRANTED = {
    "docs/managing.md": "entrepot send /queue/orders coffee",
    "docs/stuck.md": "entrepot send /queue/orders coffee",
    "docs/bridges.md": """
        entrepot run --name west --ephemeral
        entrepot run --name here --ephemeral --connect 'static:(tcp://west:61616)?name=toFar'""",
    "docs/salvage.md": """
        while [ ! -e ports ]; do sleep 0.05; done |
        python -m entrepot run --data entrepot-data --listen stomp://127.0.0.1:0 --until-eof --ports-file ports""",
    "docs/networks/index.md": f"cp {ROOT}/docs/networks/conf/pair/*.xml .",
}
"""What a page supposes that its reader has."""

SHIM = f"""\
#!{sys.executable}
import json, os, re, signal, subprocess, sys, time
from pathlib import Path

home = Path(os.environ["GUIDE_HOME"])
program = [sys.executable, "-m", "entrepot"]
arguments = sys.argv[1:]


def places():
    return {{path.stem: json.loads(path.read_text()) for path in sorted(home.glob("*.ports"))}}


def dialled(match):  # a broker that was started before, by its name
    found = [uri for uri in places()[match[1]]["uris"] if uri.startswith(("auto", "tcp"))]
    return found[0].replace("auto", "tcp", 1)


def start(arguments):
    name = arguments[arguments.index("--name") + 1] if "--name" in arguments else "localhost"
    if not any(word.startswith("--listen") for word in arguments):
        arguments += ["--listen", {STOMP!r}, "--listen", {AUTO!r}]
    if "--data" not in arguments and "--ephemeral" not in arguments:
        arguments += ["--data", str(home / f"{{name}}.data")]  # each is on a machine of its own
    arguments = [re.sub(r"://(?:0\\.0\\.0\\.0|127\\.0\\.0\\.1):\\d+", "://127.0.0.1:0", word) for word in arguments]
    arguments = [re.sub(r"tcp://(\\w+):\\d+", dialled, word) if "static:" in word else word for word in arguments]
    ports = home / f"{{name}}.ports"
    fifo = os.open(home / "alive", os.O_RDONLY)
    with open(home / "log", "ab") as log:
        started = subprocess.Popen(
            [*program, *arguments, "--until-eof", "--ports-file", str(ports)], stdin=fifo, stdout=log, stderr=log
        )
    while not ports.exists():
        if started.poll() is not None:
            sys.exit((home / "log").read_text())
        time.sleep(0.01)


if os.path.basename(sys.argv[0]) == "python":
    text = " ".join(arguments)
    if "entrepot.simulation" in text and "--seed " not in text:
        arguments = re.sub(r" --seeds \\d+", "", text).split() + ["--seeds", "1"]
    os.execv(sys.executable, [sys.executable, *arguments])
if arguments[:1] == ["run"]:
    start(arguments)
    sys.exit(0)
if arguments[0] not in ("check", "simulate", "lab", "user", "trace", "ha") and "ENTREPOT_URL" not in os.environ:
    if not places():
        start(["run", "--ephemeral"])
    os.environ["ENTREPOT_URL"] = next(iter(places().values()))["stomp"]
if arguments[:1] == ["where"]:  # the reader has another id
    seen = subprocess.run([*program, "browse", "/queue/orders", "-o", "json"], capture_output=True, check=True).stdout
    arguments[1] = json.loads(seen.splitlines()[0])["headers"]["message-id"]
if arguments[:1] == ["lab"]:
    arguments += ["--for", "2"]
if arguments[:1] == ["perf"]:  # it keeps all processors busy
    arguments += ["--duration", "1s"]
os.execv(sys.executable, [*program, *arguments])
"""


class Desk:
    """A directory with `entrepot` on its path, and brokers that end with the test."""

    def __init__(self, home: Path) -> None:
        self.home = home
        folder = home / "bin"
        folder.mkdir()
        (folder / "entrepot").write_text(SHIM)
        shutil.copy(folder / "entrepot", folder / "python")
        for name in OF_THE_CHECKOUT:
            (folder / name).write_text("#!/bin/sh\n")
        for path in folder.iterdir():
            path.chmod(0o755)
        (home / ".venv/bin").mkdir(parents=True)
        (home / ".venv/bin/activate").touch()
        os.mkfifo(home / "alive")
        self.alive = os.open(home / "alive", os.O_RDWR)
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("ENTREPOT_") or name.endswith("PURE")
        }
        self.environment |= {"PATH": f"{folder}:{os.environ['PATH']}", "GUIDE_HOME": str(home)}

    def run(self, script: str) -> str:
        """Run a script in a shell that stops at the first command that fails; return what it wrote."""
        done = subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert "Traceback" not in done.stdout
        return done.stdout

    def leave(self) -> None:
        os.close(self.alive)  # each broker's standard input ends
        for path in self.home.glob("*.ports"):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(json.loads(path.read_text())["pid"], signal.SIGTERM)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.leave()


def shell_pages() -> list[str]:
    return list(dict.fromkeys(block.page for block in all_blocks(*SHELL) if block.runs))


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("page", shell_pages())
def test_commands_of_a_page_run_in_their_order(desk: Desk, page: str) -> None:
    desk.run(TAKEN_FOR_GRANTED.get(page, ""))
    for block in blocks(page, *SHELL):
        if block.runs:
            print(desk.run(block.script()))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One for the programs of all pages: none may stand in the way of another."""
    made = Daemon(tmp_path_factory.mktemp("guides"), "--listen", "auto://127.0.0.1:0").start()
    yield made
    made.stop()


@pytest.mark.parametrize(
    "block", [pytest.param(one, id=f"{one.page}:{one.line}") for one in all_blocks("python") if one.runs]
)
def test_program(broker: Daemon, block: Block, tmp_path: Path) -> None:
    place = json.loads(broker.ports.read_text())["uris"][1].replace("auto", "tcp", 1)
    text = block.text.replace("61613", str(broker.port)).replace("tcp://127.0.0.1:61616", place)
    file = tmp_path / "test_guide.py"
    file.write_text(textwrap.dedent(text))
    command = [sys.executable, str(file)]
    environment = {**os.environ, "ENTREPOT_URL": place}
    if "\ndef test_" in f"\n{block.text}" or "\nasync def test_" in f"\n{block.text}":
        command = [sys.executable, "-m", "pytest", "-q", "-p", "entrepot.testing", "-p", "no:cacheprovider", str(file)]
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # where it is installed it would be there twice
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{block.page}:{block.line}\n{done.stdout}{done.stderr}"


def test_readers_find_something_to_run() -> None:
    assert {"README.md", "docs/client.md", "docs/managing.md"} <= {one.page for one in all_blocks("python") if one.runs}
    assert "README.md" in shell_pages()
    assert (ROOT / "README.md").is_file()
