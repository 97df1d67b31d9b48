"""Staged commits over STOMP: STAGE, STAGED, DECIDE, PUBLISH, ABANDON, and SEND with ``stage`` (docs/stages.md). [C]

One `Staging` belongs to one connection, made by its first such frame. What it opened and did not close is dropped with
the connection. Every answer waits until the journal has what it says.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Refused, StageError
from entrepot.core.addressing.routing import Target
from entrepot.core.stages.counting import NOBODY, Author
from entrepot.core.stages.staged import Publication, Stage, StageWaiter
from entrepot.model.message import Message
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp import commands
from entrepot.protocols.stomp.answers import Answers
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.headers import whole_number

OPEN_MAX: Final = 1_000  # stages that one connection may have open


class _Published(StageWaiter):
    """Answers a PUBLISH that takes several turns."""

    def __init__(self, staging: Staging, publication: Publication, receipt: bytes) -> None:
        self.staging: Staging | None = staging
        self.publication: Publication = publication
        self.receipt: bytes = receipt

    def published(self, count: i64) -> None:
        """Answer."""
        staging = self.staging
        if staging is not None:
            staging.waiting.remove(self)
            staging.answer_published(self.publication, self.receipt)

    def refused(self, error: EntrepotError) -> None:
        """Say why not."""
        staging = self.staging
        if staging is not None:
            staging.waiting.remove(self)
            staging.answers.refuse(error, self.receipt)


class Staging:
    """What one connection does with stages. ``open`` has those that it writes into, by part."""

    def __init__(self, session: ServerSession, reader: Reader, answers: Answers) -> None:
        self.session: ServerSession = session
        self.reader: Reader = reader
        self.answers: Answers = answers
        self.open: dict[str, Stage] = {}
        self.waiting: list[_Published] = []

    def command(self, command: i64, headers: dict[str, str]) -> None:
        """Obey one frame. Raises Refused."""
        stages = self.session.broker.stages
        sink = headers.get("sink", "")
        batch = whole_number(headers.get("batch", ""), "batch")
        access = self.session.broker.access
        access.stage(self.session.subject, sink)
        if access.guarded:
            stages.admit(sink, self.session.subject.name)
        try:
            self._obey(command, sink, batch, headers)
        finally:
            stages.ledger.let_go(sink)  # a frame without effect makes nobody the owner of a name

    def _obey(self, command: i64, sink: str, batch: int, headers: dict[str, str]) -> None:
        stages = self.session.broker.stages
        receipt = self.reader.receipt()
        answer: dict[str, str] = {"sink": sink, "batch": str(batch)}
        author = author_of(headers)
        if command == commands.STAGE:
            self._stage(sink, batch, headers.get("part", ""), author)
        elif command == commands.STAGED:
            stage = self._staged(sink, batch, headers.get("part", ""))
            answer["count"] = str(stage.count)
            answer["octets"] = str(stage.octets)
            answer["octets-at-once"] = str(stages.publishing.atomic_octets)
        elif command == commands.DECIDE:
            answer["parts"] = ",".join(stages.decide(sink, batch, parts_of(headers), author))
        elif command == commands.PUBLISH:
            publication = stages.publish(sink, batch, parts_of(headers), author)
            if not publication.done:
                waiter = _Published(self, publication, receipt)
                self.waiting.append(waiter)
                publication.waiters.append(waiter)
                return
            answer["count"] = str(publication.count)
        elif headers.get("forget", "") == "true":
            answer["dropped"] = str(stages.forget(sink))
        else:
            answer["dropped"] = str(stages.abandon(sink, batch, parts_of(headers) if "parts" in headers else None))
        if receipt:
            self.answers.answer_with(answer, receipt)

    def answer_published(self, publication: Publication, receipt: bytes) -> None:
        """Say how many messages were published."""
        if receipt:
            answer = {
                "sink": publication.sink,
                "batch": str(publication.batch),
                "count": str(publication.count),
            }
            self.answers.answer_with(answer, receipt)

    def _stage(self, sink: str, batch: int, part: str, author: Author) -> None:
        self.open = {name: stage for name, stage in self.open.items() if not stage.dropped}
        if part in self.open:
            raise StageError(f"the part {part!r} is open on this connection", remedy="give parts unique keys")
        if len(self.open) >= OPEN_MAX:
            raise Refused(f"{OPEN_MAX} stages are open on this connection", remedy="close some with STAGED")
        self.open[part] = self.session.broker.stages.open(sink, batch, part, author)

    def _staged(self, sink: str, batch: int, part: str) -> Stage:
        stage = self.need(part)
        if stage.sink != sink or stage.batch != batch:
            raise StageError(f"the part {part!r} belongs to batch {stage.batch} of {stage.sink!r}")
        self.session.broker.stages.close(stage)  # when the disk is full it stays open: the same may work later
        del self.open[part]
        return stage

    def need(self, part: str) -> Stage:
        """Return the open stage ``part``. Raises StageError."""
        stage = self.open.get(part)
        if stage is None:
            raise StageError(f"no stage {part!r} is open on this connection", remedy="send STAGE first")
        return stage

    def send(self, part: str, message: Message, target: Target) -> int:
        """Keep a message in the open stage ``part``. Raises Refused: the stage cannot be closed then."""
        stage = self.need(part)
        return self.session.broker.stages.send(stage, message, target)

    def doom(self, part: str, error: EntrepotError) -> None:
        """A SEND into ``part`` was refused."""
        stage = self.open.get(part)
        if stage is not None:
            stage.fail(error)

    def detach(self) -> None:
        """The connection is gone, and what it left open with it."""
        for stage in self.open.values():
            self.session.broker.stages.drop(stage, "its connection is gone")
        self.open.clear()
        for waiter in self.waiting:
            waiter.staging = None
            waiter.publication.waiters.remove(waiter)
        self.waiting.clear()


def parts_of(headers: dict[str, str]) -> list[str]:
    """Return the parts that a frame names, each once; an empty list when it names none."""
    text = headers.get("parts")
    if text is None:
        raise Refused("the header parts is missing", remedy="an empty one says: none")
    return list(dict.fromkeys([part.strip() for part in text.split(",") if part.strip()]))


def author_of(headers: dict[str, str]) -> Author:
    """Return who a frame says that it is from."""
    if "counter" not in headers and "start" not in headers and "write" not in headers:
        return NOBODY
    return Author(
        headers.get("counter", ""), headers.get("start", ""), headers.get("write", ""), headers.get("decider", "")
    )
