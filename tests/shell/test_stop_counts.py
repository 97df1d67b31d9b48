"""A broker that is restarted over and over harms no message that a consumer holds: it is marked, and never counted."""

from __future__ import annotations

from pathlib import Path

from shell.daemon import Daemon, Wire

STOPS = 4
LIMIT = 2  # tries after which a message is a dead letter


def test_what_is_held_when_the_broker_stops_is_marked_and_does_not_die(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "--set", f"#:max_deliveries={LIMIT}").start()
    try:
        Wire(daemon.port).send("/queue/q", b"good", persistent="true")
        for at in range(STOPS):
            reader = Wire(daemon.port)
            reader.subscribe("/queue/q", ack="client-individual")
            frame = reader.hear()
            assert frame.body == b"good"
            assert (frame.headers.get("redelivered") == "true") == (at > 0)
            assert daemon.stop() == 0
            reader.cut()
            daemon.start()
        reader = Wire(daemon.port)
        reader.subscribe("/queue/q", ack="client-individual")
        assert reader.hear().body == b"good"
    finally:
        daemon.kill()
