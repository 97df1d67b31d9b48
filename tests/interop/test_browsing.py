"""What browsers show while others read, beside a real ActiveMQ Classic."""

from __future__ import annotations

from pathlib import Path

import classic
import pytest
from java_clients import Program, unavailable
from ours import Entrepot

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


def test_a_browser_shows_what_classic_shows(tmp_path: Path) -> None:
    theirs = classic.Classic(tmp_path / "classic", stomp=True)
    ours = Entrepot(tmp_path / "ours", like=theirs)
    try:
        theirs.start().await_ready()
        ours.start().await_ready()
        program = Program()
        expected, found = (program.run("Browses", each.url) for each in (theirs, ours))
        assert "prefetched: [1@queue://browse.read, 2@queue://browse.read, 3@queue://browse.read]" in expected
        assert found == expected
    finally:
        theirs.kill()
        ours.kill()
