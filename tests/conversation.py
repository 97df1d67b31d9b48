"""Conversations as golden text: what clients say, and everything that the broker answers.

A file under tests/conversations/ is a list of steps, separated by empty lines. The lines before ``----`` are commands,
those after it what came of them. ``pytest --rewrite-conversations`` writes the answers anew; read the difference.

Commands (NAME is a connection; arguments as in a shell)::

    open NAME [VERSION [h:v]..] connect; the CONNECTED frame is shown
    NAME FRAME h:v ... [| body] send a frame; `{x}` stands for what `keep` remembered
    NAME raw TEXT               send octets as they are; \\n and \\0 mean what they say
    keep X HEADER of NAME       remember a header of the last MESSAGE that NAME got, or of a RECEIPT since
    close NAME                  cut the connection
    wait MS                     let time pass
    restart | kill | crash      the broker, on the same disk
    queues                      show every queue
    delete QUEUE                an operator deletes it
    policy PATTERN k=v ...      for queues made from now on
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.frames import FrameParser, encode_frame
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.ranges import decode, headers_of
from entrepot.protocols.stomp.server import StompSession
from kit import Rig

HIDDEN = ("timestamp", "server", "session", "priority:4", "expires:0")  # the same in every answer, or of no interest


class Wire:
    """One STOMP connection without a socket."""

    def __init__(self, rig: Rig, number: int) -> None:
        self.session = StompSession(Shell(), rig.broker, StompOptions(), number, f"peer-{number}")
        self.parser = FrameParser()
        self.version = "1.0"
        self.last: dict[str, str] = {}
        self.told_closed = False


class Conversation:
    """Runs the steps of one file against one broker on a simulated disk."""

    def __init__(self) -> None:
        self.rig = Rig(segment_bytes=1 << 16)
        self.wires: dict[str, Wire] = {}
        self.kept: dict[str, str] = {}
        self.count = 0

    def run(self, commands: list[str]) -> list[str]:
        """Run one step and return what came of it."""
        shown: list[str] = []
        for command in commands:
            shown += self.do(command)
            self.rig.turn()
            shown += self.answers()
        return shown

    def do(self, command: str) -> list[str]:
        """Run one command; return what it shows by itself."""
        line, bar, body = command.partition(" | ")
        words = shlex.split(re.sub(r"\{(\w+)\}", lambda found: self.kept[found[1]], line))
        verb = words[0]
        if verb == "open":
            self.open(words[1], words[2] if len(words) > 2 else "1.2", words[3:])
        elif verb == "close":
            self.wires.pop(words[1]).session.detach("cut", self.rig.now)
        elif verb == "wait":
            self.wait(int(words[1]))
        elif verb in ("restart", "kill", "crash"):
            for wire in self.wires.values():
                if verb == "restart":
                    wire.session.detach("the broker stops", self.rig.now)
            self.wires.clear()
            self.rig.restart({"restart": "close"}.get(verb, verb))
        elif verb == "queues":
            return [self.line_of(queue) for queue in self.rig.broker.table.queues.values()]
        elif verb == "delete":
            self.rig.broker.queues.delete(self.rig.queue(words[1]), "an operator deleted it")
        elif verb == "policy":
            self.rig.policies.add(words[1], dict(word.split("=", 1) for word in words[2:]))
        elif verb == "keep":
            self.kept[words[1]] = self.wires[words[4]].last[words[2]]
        elif words[1] == "raw":
            self.feed(self.wires[verb], words[2].encode().decode("unicode_escape").encode("latin-1"))
        else:
            wire = self.wires[verb]
            headers = dict(word.split(":", 1) for word in words[2:])
            self.feed(wire, encode_frame(words[1], headers, body.encode() if bar else b"", wire.version))
        return []

    def open(self, name: str, version: str, more: list[str]) -> None:
        self.count += 1
        self.wires[name] = wire = Wire(self.rig, self.count)
        headers = {"accept-version": version, "host": "test", "client-id": name}
        headers.update(word.split(":", 1) for word in more)
        self.feed(wire, encode_frame("CONNECT", {} if version == "1.0" else headers))
        wire.version = version

    def wait(self, milliseconds: int) -> None:
        """Let time pass in small steps, for the broker and for every connection."""
        for _ in range(max(1, milliseconds // 100)):
            self.rig.wait(min(100, milliseconds))
            for wire in self.wires.values():
                if wire.session.deadline() <= self.rig.now:
                    wire.session.advance(self.rig.now)

    def feed(self, wire: Wire, data: bytes) -> None:
        wire.session.receive(data, self.rig.now)

    def answers(self) -> list[str]:
        """Return every frame that the broker sent meanwhile, connection by connection."""
        shown: list[str] = []
        for name, wire in self.wires.items():
            while data := wire.session.outgoing():
                wire.parser.feed(data)
                while frame := wire.parser.take():
                    if frame.command == "MESSAGE":
                        wire.last = dict(frame.headers)
                    elif frame.command == "RECEIPT":
                        wire.last.update(frame.headers)
                    words = [f"{key}:{value}" for key, value in frame.headers.items()]
                    words = [word for word in words if word.partition(":")[0] not in HIDDEN and word not in HIDDEN]
                    if frame.headers.get("form") == "batch":
                        shown.append(f"{name}> {' '.join([frame.command, *words])}")
                        shown += entries(name, frame.body)
                        continue
                    body = f" | {frame.body.decode()}" if frame.body else ""
                    shown.append(f"{name}> {' '.join([frame.command, *words])}{body}")
                    if frame.command == "CONNECTED":
                        wire.parser.version = wire.version = frame.headers["version"]
            if wire.session.closing and not wire.told_closed:
                wire.told_closed = True
                wire.session.detach("closed", self.rig.now)
                shown.append(f"{name}> closed")
        return shown

    def line_of(self, queue: object) -> str:
        count, flying = queue.count, queue.in_flight  # type: ignore[attr-defined]
        flags = " paused" if queue.gate.paused else ""  # type: ignore[attr-defined]
        return f"{queue.name}: {count} messages, {flying} in flight{flags}"  # type: ignore[attr-defined]


def entries(name: str, body: bytes) -> list[str]:
    """Return the messages of a batch, one a line."""
    found = decode(body)
    shown: list[str] = []
    for at in range(len(found)):
        fields = {"position": found.positions[at], "id": found.ids[at], "destination": found.destinations[at]}
        fields.update(priority=found.priorities[at], flags=found.flags[at], deliveries=found.deliveries[at])
        words = [f"{key}:{value}" for key, value in (*fields.items(), *headers_of(found.headers[at]).items())]
        shown.append(f"{name}>   {' '.join(words)} | {found.bodies[at].decode()}")
    return shown


def play(path: Path, rewrite: bool) -> None:
    """Run a file; assert that every answer is as written, or write the answers."""
    play_steps(Conversation().run, path, rewrite)


def play_steps(run: Callable[[list[str]], list[str]], path: Path, rewrite: bool) -> None:
    """Let ``run`` do each step of a file; assert that every answer is as written, or write the answers."""
    written: list[str] = []
    for block in path.read_text().strip("\n").split("\n\n"):
        lines = block.split("\n")
        at = lines.index("----") if "----" in lines else len(lines)
        commands = [line for line in lines[:at] if not line.startswith("#")]
        got = run(commands) if commands else []
        if not rewrite:
            assert got == lines[at + 1 :], f"{path.name}: after {commands}"
        written.append("\n".join([*lines[:at], "----", *got] if commands else lines))
    if rewrite:
        path.write_text("\n\n".join(written) + "\n")
