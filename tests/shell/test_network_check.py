"""A broker whose network is gone stops, and begins anew in the same process when it is back (artemis.md 2.9)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from test_pair_xml import Start, receive, send, start

from pairs import free_port, until

__all__ = ["start"]

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>alone</name>
<security-enabled>false</security-enabled><journal-directory>{home}/journal</journal-directory>
<network-check-URL-list>{url}</network-check-URL-list><network-check-period>100</network-check-period>
<network-check-timeout>2000</network-check-timeout>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{port}?protocols=STOMP</acceptor></acceptors>
</core></configuration>
"""


class Gateway:
    """What answers while the network is there."""

    def __init__(self) -> None:
        self.port = free_port()
        self.server: ThreadingHTTPServer | None = None

    def up(self, delay: float = 0.0) -> None:
        """Be there; ``delay``: s until each answer."""

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                time.sleep(delay)
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Be quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), Page)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def down(self) -> None:
        if self.server is not None:
            self.server.shutdown()
            self.server.server_close()
            self.server = None


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.down()


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


@pytest.mark.timeout(120)
def test_it_stops_when_nobody_answers_and_begins_anew_when_somebody_does(
    start: Start, tmp_path: Path, gateway: Gateway
) -> None:
    port = free_port()
    file = tmp_path / "broker.xml"
    file.write_text(CONFIGURATION.format(home=tmp_path, port=port, url=f"http://127.0.0.1:{gateway.port}/"))
    broker = start(file)
    until(lambda: "waits for the network" in broker.text(), "it waits before it opens anything")
    assert not listens(port)
    gateway.up()
    until(lambda: listens(port), "it serves")
    number = broker.process.pid
    send(port, b"kept")
    gateway.down()
    until(lambda: "the network is gone" in broker.text(), "it notices")
    until(lambda: not listens(port), "it serves nobody")
    assert broker.process.poll() is None
    gateway.up()
    until(lambda: listens(port), "it serves again")
    assert broker.process.pid == number
    assert receive(port, 1) == [b"kept"]
    gateway.down()
    until(lambda: broker.text().count("waits for the network") == 2, "it waits again")
    broker.process.terminate()
    assert broker.process.wait(30) == 0


@pytest.mark.timeout(120)
def test_who_is_asked_to_stop_while_it_looks_before_it_serves_ends(
    start: Start, tmp_path: Path, gateway: Gateway
) -> None:
    """The signal was forgotten, and the broker served."""
    gateway.up(delay=1.5)
    port = free_port()
    file = tmp_path / "broker.xml"
    text = CONFIGURATION.format(home=tmp_path, port=port, url=f"http://127.0.0.1:{gateway.port}/")
    policy = "<ha-policy><shared-store><primary/></shared-store></ha-policy></core>"
    file.write_text(text.replace("</core>", policy))
    broker = start(file)
    until(lambda: "is the master now" in broker.text(), "it has the lease, and looks once more")
    broker.process.terminate()
    assert broker.process.wait(30) == 0
    assert "listening" not in broker.text()
