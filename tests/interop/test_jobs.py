"""The scheduler managed by messages, beside a real ActiveMQ Classic."""

from __future__ import annotations

from pathlib import Path

import classic
import pytest
from java_clients import Program, unavailable
from ours import Entrepot

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


def test_jobs_are_shown_and_removed_as_in_classic(tmp_path: Path) -> None:
    theirs = classic.Classic(tmp_path / "classic", attributes='schedulerSupport="true"', stomp=True)
    ours = Entrepot(tmp_path / "ours", like=theirs)
    try:
        theirs.start().await_ready()
        ours.start().await_ready()
        program = Program()
        expected, found = (program.run("Jobs", each.url) for each in (theirs, ours))
        assert "Exception" not in expected
        assert found == expected
    finally:
        theirs.kill()
        ours.kill()
