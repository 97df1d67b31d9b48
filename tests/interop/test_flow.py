"""A full queue stops a producer that waits for no answers, beside a real ActiveMQ Classic."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import classic
import pytest
from java_clients import Program, unavailable
from ours import Entrepot

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")

LIMITED: Final = """
<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue=">" memoryLimit="200000" producerFlowControl="true">
    <pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy>
  </policyEntry>
</policyEntries></policyMap></destinationPolicy>
"""


def test_a_full_queue_stops_an_asynchronous_producer(tmp_path: Path) -> None:
    """Its connection reads advisories, as every connection of a Java client does."""
    theirs = classic.Classic(tmp_path / "classic", policies=LIMITED, attributes='persistent="false"', stomp=True)
    ours = Entrepot(tmp_path / "ours", like=theirs)
    try:
        theirs.start().await_ready()
        ours.start().await_ready()
        program = Program()
        for broker in (theirs, ours):
            assert program.run("Flood", broker.url, "flood") == "stopped\nwent on\n", broker.name
    finally:
        theirs.kill()
        ours.kill()
