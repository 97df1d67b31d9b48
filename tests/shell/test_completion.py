"""The scripts of `entrepot completion` in real shells, as the documentation has them put into a profile."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

PATIENCE: Final = 60.0
ENTREPOT: Final = '#!/bin/sh\nexec {python} -m entrepot "$@"\n'


class Terminal:
    """A shell at a terminal, somebody types in it."""

    def __init__(self, home: Path, *command: str) -> None:
        program = home / "entrepot"
        program.write_text(ENTREPOT.format(python=sys.executable))
        program.chmod(0o755)
        environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(home)}
        self.typed, there = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=there, stdout=there, stderr=there, cwd=home, env=environment, start_new_session=True
        )
        os.close(there)
        self.seen = ""

    def type(self, keys: str) -> None:
        self.seen = ""
        os.write(self.typed, keys.encode())

    def shows(self, text: str) -> None:
        """Wait until ``text`` is on the screen."""
        until = time.monotonic() + PATIENCE
        while text not in self.seen:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} is not in {self.seen!r}"
            if select.select([self.typed], [], [], left)[0]:
                self.seen += os.read(self.typed, 65536).decode("utf-8", "replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.typed)


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_bash_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "bash", "--norc", "--noprofile", "-i")
    try:
        terminal.type('eval "$(entrepot completion bash)"; echo re""ady\n')
        terminal.shows("ready\r\n")
        for keys, whole in (
            ("entrepot conf", "entrepot configuration "),
            ("entrepot queue remo", "entrepot queue remove-message "),
            ("entrepot queue list --outp", "entrepot queue list --output "),
            ("entrepot queue list --output c", "entrepot queue list --output csv "),
        ):
            terminal.type(keys + "\t")
            terminal.shows(whole)
            terminal.type("\x15")  # the line is taken back
        terminal.type("entrepot queue re\t\t")
        for name in ("regroup", "remove-message", "replay", "resume", "retry"):
            terminal.shows(name)
    finally:
        terminal.close()


@pytest.mark.parametrize(("shell", "source"), [("zsh", "autoload -U compinit; compinit -u; eval"), ("fish", "")])
def test_other_shells_take_the_script(shell: str, source: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if not program:
        pytest.skip(f"no {shell}")
    made = [sys.executable, "-m", "entrepot", "completion", shell]
    script = subprocess.run(made, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    file = tmp_path / "script"
    file.write_text(script)
    command = f'{source} "$(cat {file})"' if source else f"source {file}; complete -C 'entrepot conf' >/dev/null"
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [program, "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
