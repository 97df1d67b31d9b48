"""What a real broker writes to standard error when its log is JSON."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from shell.daemon import Daemon


@pytest.fixture
def said(tmp_path: Path) -> list[dict[str, object]]:
    """Return the lines of a broker that met a peer who spoke no language."""
    broker = Daemon(tmp_path, "--log-format", "json").start()
    try:
        with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as peer:
            peer.sendall(b"NONSENSE\n\n\0")
            while peer.recv(1000):
                pass
    finally:
        broker.stop()
    return [json.loads(line) for line in broker.log.read_text().splitlines()]


def test_every_line_is_an_object_with_a_code(said: list[dict[str, object]]) -> None:
    assert {"LOG-1001", "LOG-1015", "LOG-3001", "LOG-3008"} <= {line["code"] for line in said}
    assert all(line["code"] != "LOG-0000" and str(line["time"]).endswith("Z") for line in said)


def test_an_error_of_ours_is_named(said: list[dict[str, object]]) -> None:
    (refused,) = (line for line in said if line["code"] == "LOG-3008")
    assert refused["level"] == "WARNING"
    assert "127.0.0.1" in str(refused["message"])
