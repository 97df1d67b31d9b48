"""What brokers that do not change showed the programs of these tests, recorded in `recorded/`.

A real Artemis takes as long as ours to show what it does, and shows the same each time. A recording stands for it in
ordinary runs. One that was made of other programs, configuration or versions than a test has now is an error until
``make recordings`` has written it anew; where there is none, the real broker is asked, which is slower.
``make interop`` asks it each time and compares what it shows with the recording.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("recorded")
ASKED: Final = os.environ.get("ENTREPOT_RECORDINGS", "")  # "live": ask and compare; "write": ask and write; else: trust
HEAD: Final = "made of "
PART: Final = "## "

Shown = dict[str, str]
"""What was printed, by feature or command."""


class Recording:
    """One file of `recorded/`."""

    def __init__(self, name: str, *made_of: object) -> None:
        """``made_of``: all that decides what the broker shows; only its text matters."""
        self.file = FOLDER / f"{name}.txt"
        self.key = hashlib.sha256(repr(made_of).encode()).hexdigest()[:24]

    def held(self) -> Shown | None:
        """Return what was recorded, or None when it was made of something else."""
        if not self.file.is_file():
            return None
        head, _, text = self.file.read_text().partition("\n")
        return parts(text) if head == HEAD + self.key else None

    def shown(self, ask: Callable[[], Shown]) -> Shown:
        """Return what the broker shows: from the recording, or from ``ask``, which starts the broker.

        Raises AssertionError for a recording of something else.
        """
        held = self.held()
        if ASKED != "write":
            assert held is not None or not self.file.exists(), f"{self.file.name} is out of date: `make recordings`"
        if held is not None and not ASKED:
            return held
        found = ask()
        if ASKED == "write" and held is None:
            FOLDER.mkdir(exist_ok=True)
            self.file.write_text(f"{HEAD}{self.key}\n" + "".join(PART + name + "\n" + found[name] for name in found))
        return found


def parts(text: str) -> Shown:
    """Return what a program printed under each ``## NAME``."""
    found = {}
    for part in ("\n" + text).split("\n" + PART)[1:]:
        name, _, lines = part.partition("\n")
        found[name] = lines + "\n" if lines and not lines.endswith("\n") else lines
    return found


def turned(text: str) -> str:
    """Return ``text`` with what its readers got, a list each, in order, line by line: who is first is chance."""
    return "\n".join(
        " ".join([line.partition("[")[0], *sorted(re.findall(r"\[.*?\]", line))]) for line in text.splitlines()
    )
