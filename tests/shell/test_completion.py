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
CASES: Final = (
    ("entrepot conf", "entrepot configuration "),
    ("entrepot queue remo", "entrepot queue remove-message "),
    ("entrepot queue list --outp", "entrepot queue list --output "),
    ("entrepot queue list --output c", "entrepot queue list --output csv "),
)
"""What is typed before the key, and what stands there then."""


def program(home: Path) -> None:
    """Put `entrepot` where the shell looks for programs."""
    made = home / "entrepot"
    made.write_text(ENTREPOT.format(python=sys.executable))
    made.chmod(0o755)


class Terminal:
    """A shell at a terminal, somebody types in it."""

    def __init__(self, home: Path, *command: str) -> None:
        program(home)
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
        for keys, whole in CASES:
            terminal.type(keys + "\t")
            terminal.shows(whole)
            terminal.type("\x15")  # the line is taken back
        terminal.type("entrepot queue re\t\t")
        for name in ("regroup", "remove-message", "replay", "resume", "retry"):
            terminal.shows(name)
    finally:
        terminal.close()


@pytest.mark.skipif(not shutil.which("zsh"), reason="no zsh; Debian: apt install zsh")
def test_zsh_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "zsh", "-f", "-i")
    try:
        terminal.type(
            'unsetopt PROMPT_SP; autoload -U compinit; compinit -u; eval "$(entrepot completion zsh)"; echo re""ady\n'
        )
        terminal.shows("ready\r\n")
        for keys, whole in CASES:
            terminal.type(keys + "\t")
            terminal.shows(whole)
            terminal.type("\x15")
        terminal.type("entrepot queue re\t\t")
        for name in ("regroup", "remove-message", "replay", "resume", "retry"):
            terminal.shows(name)
    finally:
        terminal.close()


@pytest.mark.skipif(not shutil.which("fish"), reason="no fish; Debian: apt install fish")
def test_fish_completes_commands_options_and_their_values(tmp_path: Path) -> None:
    program(tmp_path)
    folder = tmp_path / ".config" / "fish" / "completions"
    folder.mkdir(parents=True)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    environment.pop("XDG_CONFIG_HOME", None)
    asked = "; ".join(f"complete -C '{keys}'" for keys, _ in CASES)
    commands = f"entrepot completion fish > {folder}/entrepot.fish; and {asked}"
    done = subprocess.run(
        ["fish", "-c", commands], capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == [whole.split()[-1] for _, whole in CASES]
