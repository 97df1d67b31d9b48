"""What docs/high-availability.md tells to type and to install: the units are accepted, their command runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pairs import Connection, Start, free_port, until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "high-availability.md"


def units() -> dict[str, str]:
    """Return name -> text of each unit on the page."""
    return dict(re.findall(r"```text\n# /etc/systemd/system/(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))


def command() -> list[str]:
    """Return what the service starts, without the program."""
    (line,) = re.findall(
        r"^ExecStart=/usr/bin/entrepot (.*?[^\\])$", units()["entrepot.service"], re.DOTALL | re.MULTILINE
    )
    return shlex.split(line.replace("\\\n", " "))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze (Debian: systemd)")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    found = units()
    assert sorted(found) == ["entrepot.service", "mnt-entrepot.mount"]
    for name, text in found.items():
        (tmp_path / name).write_text(text.replace("/usr/bin/entrepot", sys.executable))  # it must be there
    files = [str(tmp_path / name) for name in found]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line]  # not what it finds in others
    assert (done.returncode, said) == (0, [])


def test_two_machines_start_what_the_unit_says(start: Start, tmp_path: Path) -> None:
    written = command()
    options = dict(zip(written[1::2], written[2::2], strict=True))
    assert written[0] == "run"
    assert options["--ha"] == "shared-store"
    assert (options["--name"], options["--data"]) == ("%H", "/mnt/entrepot")
    listens = [written[at + 1] for at, word in enumerate(written) if word == "--listen"]
    assert [each.rpartition(":")[2] for each in listens] == ["61616", "61613"]
    # The same schemes at free ports; name, directory, STOMP and status are those that `start` gives.
    automatic = f"{listens[0].partition('://')[0]}://127.0.0.1:{free_port()}"
    master = start("machine-a", "--listen", automatic)
    until(master.serves, "the first machine serves")
    backup = start("machine-b", "--listen", automatic)
    until(backup.waits, "the second machine waits")
    for port in (master.port, int(automatic.rpartition(":")[2])):
        Connection(port).close()
    shown = subprocess.run(
        [sys.executable, "-m", "entrepot", "ha", "status", str(tmp_path / "data")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "machine-a" in shown.stdout
