"""A broker is killed under clients of Qpid Proton: what was accepted is there, what was settled does not come again.

One program sends durable messages and notes what was `accepted`. Another takes each message exactly once: it says
`accepted`, and notes it when the broker has settled.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from classic import free_port
from ours import HOST, Entrepot, listens

from promises import never

COUNT: Final = 150
EVERY: Final = 40  # accepted messages between two kills
SENDER: Final = """
import sys, time
from proton import Message, ProtonException
from proton.utils import BlockingConnection
number = accepted = 0
while accepted < int(sys.argv[2]):
    try:
        link = BlockingConnection(sys.argv[1], timeout=5).create_sender("rounds")
        while accepted < int(sys.argv[2]):
            number += 1
            link.send(Message(body=f"m{number}", durable=True))
            accepted += 1
            print(f"m{number}", flush=True)
    except (ProtonException, OSError):
        time.sleep(0.05)
"""
READER: Final = """
import os, sys, time
from proton import Delivery, Disposition, ProtonException, Timeout
from proton.utils import BlockingConnection
from proton.reactor import LinkOption
from proton import Link
class ExactlyOnce(LinkOption):
    def apply(self, link): link.rcv_settle_mode = Link.RCV_SECOND
while True:
    try:
        wire = BlockingConnection(sys.argv[1], timeout=5)
        link = wire.create_receiver("rounds", credit=5, options=ExactlyOnce())
        while True:
            message = link.receive(timeout=1)
            delivery = link.fetcher.unsettled[-1]
            print("came", message.body, flush=True)
            delivery.update(Delivery.ACCEPTED)
            wire.wait(lambda: delivery.settled, timeout=5)
            print("done", message.body, flush=True)
            link.fetcher.settle()
    except Timeout:
        if os.path.exists(sys.argv[3]):  # all is sent, and nothing more comes
            break
    except (ProtonException, OSError):
        time.sleep(0.05)
"""


@pytest.mark.skipif(importlib.util.find_spec("cproton_ffi") is None, reason="Qpid Proton for Python is not here")
def test_kill_9_under_proton_loses_nothing_and_doubles_nothing_that_was_settled(tmp_path: Path) -> None:
    port = free_port()
    broker = Entrepot(tmp_path, arguments=("--listen", f"amqp://{HOST}:{port}")).start().await_ready()
    listens(HOST, port)
    url, over = f"amqp://{HOST}:{port}", tmp_path / "over"
    sender, reader = (
        subprocess.Popen([sys.executable, "-c", text, url, str(COUNT), str(over)], stdout=subprocess.PIPE, text=True)
        for text in (SENDER, READER)
    )
    accepted: list[str] = []
    try:
        assert sender.stdout is not None
        for line in sender.stdout:
            accepted.append(line.strip())
            if len(accepted) % EVERY == 0 and len(accepted) < COUNT:
                broker.kill()
                broker.start().await_ready()
        over.touch()
        read = reader.communicate(timeout=60)[0]
    finally:
        sender.kill()
        reader.kill()
        broker.kill()
    lines = [line.split() for line in read.splitlines()]
    came = [name for what, name in lines if what == "came"]
    done = [name for what, name in lines if what == "done"]
    assert len(accepted) == COUNT
    with never():
        assert not set(accepted) - set(came), "accepted, and never came"
        assert len(done) == len(set(done)), "settled, and came again"
    after = {name: at for at, (what, name) in enumerate(lines) if what == "done"}
    assert not [name for at, (what, name) in enumerate(lines) if what == "came" and at > after.get(name, at)]
