"""Java and STOMP clients talk with one another: the same talk at ActiveMQ Classic and here, transcripts compared."""

from __future__ import annotations

import difflib
import re
import socket
import subprocess
from typing import Final

import classic
import ours
import pytest
from test_java_client import Program, unavailable

from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")

QUIET_S: Final = 0.7
PATIENCE_S: Final = 10.0
SHOWN: Final = ("transformation", "transformation-error", "content-length", "correlation-id", "type", "destination")


class Stomp:
    """One raw STOMP 1.1 connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((classic.HOST, port), timeout=PATIENCE_S)
        self.parser = FrameParser()
        self.send("CONNECT", {"accept-version": "1.1", "host": "x"})
        assert self.read(PATIENCE_S) is not None
        self.parser.version = "1.1"

    def send(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.socket.sendall(encode_frame(command, headers, body, "1.0" if command == "CONNECT" else "1.1"))

    def read(self, patience: float = QUIET_S) -> Frame | None:
        self.socket.settimeout(patience)
        while True:
            frame = self.parser.take()
            if frame is not None:
                return frame
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return None
            if not data:
                return None
            self.parser.feed(data)

    def close(self) -> None:
        self.socket.close()


def said(frame: Frame | None) -> str:
    """Return a frame as a line, without what differs from run to run."""
    if frame is None:
        return "nothing"
    headers = {name: frame.headers[name] for name in SHOWN if name in frame.headers}
    text = f"{frame.command} {headers} {frame.body!r}"
    return re.sub(r"ID:[-.:\w\\]+", "ID", text)


class Talk:
    """What one broker makes of it."""

    def __init__(self, program: Program, broker: classic.Classic | ours.Entrepot) -> None:
        self.program = program
        self.broker = broker
        self.lines: list[str] = []

    def java(self, *arguments: str) -> subprocess.Popen[str]:
        command = self.program.command("Talk", self.broker.url, *arguments)
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen[str]) -> None:
        out, _ = process.communicate(timeout=60)
        self.lines += re.sub(r"ID:[-.:\w]+", "ID", out).splitlines()

    def hold(self) -> str:
        self._java_speaks()
        self._stomp_speaks()
        self._java_asks()
        self._stomp_asks()
        return "\n".join(self.lines)

    def _java_speaks(self) -> None:
        self.finish(self.java("say", "said"))
        stomp = Stomp(self.broker.stomp_port)
        stomp.send("SUBSCRIBE", {"id": "1", "destination": "/queue/said"})
        for _ in range(3):
            self.lines.append(f"java said: {said(stomp.read(5))}")
        stomp.close()

    def _stomp_speaks(self) -> None:
        stomp = Stomp(self.broker.stomp_port)
        to = {"destination": "/queue/heard"}
        sent: list[tuple[dict[str, str], bytes]] = [
            ({"mark": "7"}, "text \u00e4".encode()),
            ({"content-length": "3"}, b"\0\1\xff"),
            ({"amq-msg-type": "bytes"}, b"octets"),
            ({"correlation-id": "c", "type": "t", "priority": "7"}, b"headers"),
        ]
        for headers, body in sent:
            stomp.send("SEND", to | headers, body)
        self.finish(self.java("hear", "heard", str(len(sent))))
        stomp.close()

    def _java_asks(self) -> None:
        stomp = Stomp(self.broker.stomp_port)
        stomp.send("SUBSCRIBE", {"id": "1", "destination": "/queue/service"})
        asking = self.java("ask", "service")
        question = stomp.read(PATIENCE_S)
        assert question is not None
        self.lines.append(f"asked: {said(question)} to {question.headers['reply-to'].split('ID')[0]}")
        headers = {"destination": question.headers["reply-to"], "correlation-id": question.headers["correlation-id"]}
        stomp.send("SEND", headers, b"answer")
        self.finish(asking)
        stomp.close()

    def _stomp_asks(self) -> None:
        serving = self.java("serve", "other.service")
        stomp = Stomp(self.broker.stomp_port)
        stomp.send("SUBSCRIBE", {"id": "1", "destination": "/temp-queue/mine"})
        headers = {"destination": "/queue/other.service", "reply-to": "/temp-queue/mine", "correlation-id": "c-2"}
        stomp.send("SEND", headers, b"question")
        self.lines.append(f"answered: {said(stomp.read(PATIENCE_S))}")
        self.finish(serving)
        stomp.close()


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The transcript of ActiveMQ, and ours."""
    program = Program()
    theirs = classic.Classic(tmp_path_factory.mktemp("classic"), stomp=True)
    held: list[str] = []
    for broker in (theirs, ours.Entrepot(tmp_path_factory.mktemp("ours"), like=theirs)):
        broker.start().await_ready()
        try:
            held.append(Talk(program, broker).hold())
        finally:
            broker.kill()
    return held[0], held[1]


def test_java_and_stomp_understand_one_another_as_at_activemq(talks: tuple[str, str]) -> None:
    wanted, seen = talks
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "ActiveMQ", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)
