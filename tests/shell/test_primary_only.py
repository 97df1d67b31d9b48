"""``<primary-only>`` with ``<scale-down>``: a node that stops gives all to another one, and ends (artemis.md 2.1)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from test_cluster_switch import CONFIGURATION
from test_pair_xml import Running, Start, receive, send, start

from pairs import PATIENCE, Connection, free_port, until
from promises import never

__all__ = ["start"]

POLICY = """<ha-policy><{kind}><scale-down>{inside}</scale-down></{kind}></ha-policy>
<acceptors>"""
NAMED = "<connectors><connector-ref>other</connector-ref></connectors>"
SENT = [str(number).encode().ljust(2_000) for number in range(300)]
SETTINGS = '<address-setting match="#"><redistribution-delay>'
FULL = '<address-setting match="#"><max-size-bytes>200000</max-size-bytes><address-full-policy>BLOCK'
"""Of the other node: it takes a part of what is sent, and no more before that is read."""
READ = 30  # messages that the other node has been read, when the one that gives is killed


class Two:
    """Two nodes of a cluster, of which ``one`` gives all away when it is stopped."""

    def __init__(self, home: Path, start: Start, kind: str, inside: str, *, full: bool = False) -> None:
        self._start = start
        self.stomp = {name: free_port() for name in ("one", "two")}
        core = {name: free_port() for name in self.stomp}
        policy = POLICY.format(kind=kind, inside=inside)
        self.files = {}
        for name, other in (("one", "two"), ("two", "one")):
            text = CONFIGURATION.replace("<acceptors>", policy if name == "one" else "<acceptors>").format(
                name=name, journal=home / name, core=core[name], other=core[other], stomp=self.stomp[name]
            )
            if full and name == "two":
                text = text.replace(SETTINGS, f"{FULL}</address-full-policy><redistribution-delay>")
            self.files[name] = home / f"{name}.xml"
            self.files[name].write_text(text)
        self.two = self.start("two")
        self.one = self.start("one")
        send(self.stomp["one"], *SENT)

    def start(self, name: str) -> Running:
        running = self._start(self.files[name])
        until(running.serves, f"{name} serves")
        return running


@pytest.mark.parametrize(
    ("kind", "inside"), [("primary-only", NAMED), ("live-only", "")], ids=["to a connector", "to the cluster"]
)
def test_a_node_that_is_stopped_gives_all_to_the_other_and_ends(
    start: Start, tmp_path: Path, kind: str, inside: str
) -> None:
    two = Two(tmp_path, start, kind, inside)
    assert two.one.end(signal.SIGTERM) == 0, two.one.text()
    found = receive(two.stomp["two"], len(SENT))
    with never():
        assert found == SENT, "each once, in their order"
    again = two.start("one")
    send(two.stomp["one"], b"after")
    assert receive(two.stomp["one"], 1) == [b"after"], "it began anew, with nothing"
    assert again.end(signal.SIGTERM) == 0


def test_killed_in_the_middle_it_has_the_rest_and_gives_that_when_it_is_stopped_again(
    start: Start, tmp_path: Path
) -> None:
    two = Two(tmp_path, start, "primary-only", NAMED, full=True)
    reader = Connection(two.stomp["two"], PATIENCE)
    reader.socket.sendall(
        b"SUBSCRIBE\ndestination:/queue/q\nid:1\nack:client-individual\nactivemq.prefetchSize:1\n\n\0"
    )
    two.one.process.send_signal(signal.SIGTERM)
    found = [taken(reader) for _ in range(READ)]
    two.one.end(signal.SIGKILL)
    again = two.start("one")
    again.process.send_signal(signal.SIGTERM)
    found += [taken(reader) for _ in range(len(SENT) - READ)]
    assert again.process.wait(PATIENCE) == 0, again.text()  # a second SIGTERM would end it at once
    with never():
        assert sorted(found) == sorted(SENT), "each once"
        reader.socket.settimeout(1.0)
        with pytest.raises(TimeoutError):
            reader.frame()
    reader.close()


def taken(reader: Connection) -> bytes:
    """Return the body of the next message, which is acknowledged."""
    head, _, body = reader.frame().partition(b"\n\n")
    name = next(line for line in head.split(b"\n") if line.startswith(b"ack:"))
    reader.socket.sendall(b"ACK\nid:" + name[4:] + b"\n\n\0")
    return body
