"""New durable subscriptions that ask for what is still stored: Java clients, beside Classic, over a kill -9."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import classic
import ours
import pytest
from test_java_client import Program, unavailable

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


def test_a_new_durable_subscription_gets_what_others_still_have(tmp_path: Path) -> None:
    program = Program()

    def tell(broker: classic.Classic | ours.Entrepot) -> list[str]:
        said = []
        for when in ("before", "after"):
            broker.start().await_ready()
            try:
                said += program.run("Retroactive", broker.url, when).splitlines()
            finally:
                broker.kill()
        return said

    theirs = classic.Classic(tmp_path / "classic")
    with ThreadPoolExecutor() as pool:  # the program waits most of the time
        wanted, seen = pool.map(tell, (theirs, ours.Entrepot(tmp_path / "ours", like=theirs)))
    assert wanted == seen
    assert "retroactive [m1, m2, m3]" in seen
