"""`entrepot data salvage`: what can be read of a damaged data directory goes into a new one.

The damaged one is only read. The new one is a journal of its own, written by the journal itself: it is whole, and a
broker starts from it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final

import click

from entrepot.base.errors import BodyLost, EntrepotError, StoreUnusable
from entrepot.cli.data import Spectacles, directory_argument, unused
from entrepot.cli.output import output_option, to_json
from entrepot.cli.salvaged_stages import QUEUE, SalvagedStages
from entrepot.cli.salvaged_stages import sentence as sentence_of_stages
from entrepot.core.addressing.definition import QueueDefinition, QueueRecord, decode, encode
from entrepot.core.leases.lease_records import ClaimRecord, decode_claim, decode_lease
from entrepot.core.queue.bereaved import BODY_LOST, DEAD_CAUSE
from entrepot.core.records import FIRST_QUEUE, KIND_CLAIM, KIND_LEASE, KIND_QUEUE
from entrepot.io.disk import Disk
from entrepot.io.lock import OWNER_FILE
from entrepot.journal.log import JournalCore, JournalOptions
from entrepot.journal.ports import RecoverySink
from entrepot.journal.record import RECORD_HEAD, envelope_at, record_valid
from entrepot.journal.salvage import Loss, Salvage
from entrepot.model.message import Message, read_envelope
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE

DRAIN_EVERY: Final = 2_000  # messages that may wait for the disk in memory
CAUSE: Final = "it could not be read from a damaged journal"


class Copied(RecoverySink):
    """Writes what is alive into a new journal."""

    def __init__(self, salvage: Salvage, port: Spectacles, journal: JournalCore) -> None:
        self.salvage = salvage
        self.port = port
        self.journal = journal
        self.names: dict[int, str] = {}
        self.bases: dict[tuple[int, str], int] = {}
        self.claims: list[ClaimRecord] = []
        self.alive: dict[int, bool] = {}  # numbers that were copied, kept only where there are leases
        self.messages = 0
        self.documents = 0
        self.bodies: dict[int, Message] = {}
        self.lost: list[Loss] = []
        self.nameless: dict[int, str] = {}
        self.stages = SalvagedStages(salvage.losses)
        self._bound: dict[str, list[str]] = {}  # address -> its queues
        self._strays = 0  # the queue of staged messages of no stage
        self._told = False  # all documents
        self._number = 0
        self._queues: list[int] = []
        self._deliveries: list[int] = []

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        """Copy one document; all come before the first message."""
        if self.stages.takes(kind, key, value):
            return
        self._document(kind, key, value)
        if kind == KIND_QUEUE:
            definition = decode(value).definition
            self.names[int.from_bytes(key, "big")] = definition.name
            self._bound.setdefault(definition.address, []).append(definition.name)
        elif kind == KIND_LEASE:
            lease = decode_lease(value)
            self.bases[(lease.queue, lease.group)] = lease.base
        elif kind == KIND_CLAIM:
            self.claims.append(decode_claim(value))

    def _document(self, kind: int, key: bytes, value: bytes) -> None:
        self.journal.put(kind, key, value)
        self.documents += 1

    def _end_documents(self) -> None:
        """All were told: decide about stages."""
        if not self._told:
            self._told = True
            for kind, key, value in self.stages.documents():
                self._document(kind, key, value)

    def message(
        self, queue_id: int, number: int, priority: int, expiration: int, deliveries: int, size: int, deliver_at: int
    ) -> None:
        """Collect the queues of a message; those of one number come one behind the other."""
        if number != self._number:
            self.flush()
            self._number = int(number)
        self._queues.append(int(queue_id))
        self._deliveries.append(int(deliveries))

    def flush(self) -> None:
        """Copy the message whose queues are collected."""
        self._end_documents()
        queues, deliveries = self._queues, self._deliveries
        self._queues, self._deliveries = [], []
        message = self._load(self._number) if queues else None
        if message is None:
            return
        if self.stages.is_stray(self._number, queues):
            queues = [self._queue_of_strays()]
            bound = self._bound.get(message.address, [])
            self.stages.label(message, bound[0] if len(bound) == 1 else message.address)
        for queue in queues:
            if queue >= FIRST_QUEUE and queue not in self.names:
                self._name(queue, message.address)
        self.store(message, queues)
        for queue, count in zip(queues, deliveries, strict=True):
            if count:
                self.journal.redelivered(self._number, queue, count)

    def store(self, message: Message, queues: list[int]) -> None:
        """Put a message into the new journal."""
        self.journal.store(message, queues)
        rare = message.rare
        if rare is not None and rare.large_id:
            self.bodies[int(rare.large_id)] = message
        if self.claims:
            self.alive[int(message.number)] = True
        self.messages += 1
        if self.messages % DRAIN_EVERY == 0:
            self.journal.flush()
            self.journal.port.drain()

    def _load(self, number: int) -> Message | None:
        index = self.salvage.recovery.index
        segment = index.find(number)
        assert segment is not None
        slot = int(index.slot)
        offset, length = int(segment.offsets[slot]), int(segment.lengths[slot])
        octets = self.port.read(segment.name, offset, length)
        try:
            if not record_valid(octets, 0, len(octets)):
                raise ValueError("its checksum is wrong")
            message = read_envelope(octets, envelope_at(octets, RECORD_HEAD))
        except (EntrepotError, IndexError, ValueError) as error:
            what = f"a message that makes no sense: {error}"
            self.lost.append(Loss(segment.name, offset, length, what, number=number, settlements=False))
            return None
        message.number = number
        return message

    def _queue_of_strays(self) -> int:
        """Return the queue for staged messages of no stage, made when it is needed."""
        if not self._strays:
            known = [identity for identity, name in self.names.items() if name == QUEUE]
            self._strays = known[0] if known else max(FIRST_QUEUE, *self.names, *_queues_of(self.salvage)) + 1
            if not known:
                self.names[self._strays] = QUEUE
                record = QueueRecord(QueueDefinition(name=QUEUE, address=QUEUE))
                self._document(KIND_QUEUE, self._strays.to_bytes(4, "big"), encode(record))
        return self._strays

    def _name(self, identity: int, address: str) -> None:
        """Define a queue anew whose definition is lost, under the name to which its message was sent."""
        name = address if address not in self.names.values() else f"salvaged.{identity}"
        self.names[identity] = self.nameless[identity] = name
        record = QueueRecord(QueueDefinition(name=name, address=name))
        self.journal.put(KIND_QUEUE, identity.to_bytes(4, "big"), encode(record))

    def fill_leases(self) -> list[int]:
        """Put an empty message in the place of each that a lease holds and that is lost: its positions are counted."""
        filled: list[int] = []
        for claim in self.claims:
            base = self.bases.get((claim.queue, claim.group), 0)
            for at, number in enumerate(claim.numbers):
                if claim.start + at >= base and number not in self.alive:
                    self._fill(number, claim.queue)
                    filled.append(number)
        return filled

    def _fill(self, number: int, queue: int) -> None:
        head = b"content-length:0\n\n"
        stand_in = Message(STOMP_LANGUAGE, self.names.get(queue, ""), head + b"\0")
        stand_in.body_at = len(head)
        stand_in.number = number
        stand_in.durable = True
        stand_in.annotate(BODY_LOST, "unknown")
        stand_in.annotate(DEAD_CAUSE, CAUSE)
        self.store(stand_in, [queue])


@click.command()
@directory_argument
@click.argument("new", metavar="NEW", type=click.Path(path_type=Path))
@output_option
def salvage(*, directory: Path, new: Path, output: str) -> None:
    """Copy what can be read of the damaged data directory DIR into the new one NEW, and list what cannot.

    DIR is only read; no broker may run on it. NEW must not exist, or be empty. Messages, settlements, queues, leases
    and all else are taken over as a start of the broker would find them, but for what stands in damaged octets: each
    such stretch is listed with what is known of it. Where it may have held settlements, messages that were done with
    come again. Of a damaged batch all records are taken that can be read, so a transaction may come in part.

    Exit code 0 when nothing was lost, 1 otherwise; NEW is complete in both cases. See docs/salvage.md.
    """
    port = Spectacles(directory)
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise StoreUnusable(f"{new} is not empty", remedy="name a directory that does not exist")
    if directory.resolve() in [new.resolve(), *new.resolve().parents]:
        raise StoreUnusable(f"{new} lies in {directory}, which is only read", remedy="name a directory elsewhere")
    with unused(directory):
        found = Salvage(port)
        found.run()
        copied, flaws, filled = _write(found, port, new)
    losses = [_row(loss, copied.names) for loss in [*found.losses, *copied.lost]]
    losses += [{"body": flaw} for flaw in flaws]
    losses += [{"queue": name, "what": "its definition is lost"} for name in copied.nameless.values()]
    losses += copied.stages.rows()
    losses += [{"leased": number, "what": "lost; an empty message is in its place"} for number in filled]
    summary: dict[str, Any] = {
        "messages": copied.messages - len(filled),
        "documents": copied.documents,
        "bodies": len(copied.bodies),
        "losses": len(losses),
        "unconfirmed": found.unconfirmed,
    }
    for row in losses:
        click.echo(to_json(row) if output == "json" else _sentence(row))
    if output == "json":
        click.echo(to_json(summary))
    else:
        click.echo(
            f"{summary['messages']} messages, {copied.documents} documents and {len(copied.bodies)} large bodies are "
            f"in {new}; {len(losses)} losses"
        )
    if found.unconfirmed:
        click.echo(f"what stands behind {found.unconfirmed} was never confirmed to anybody and is left out", err=True)
    if any(row.get("settlements") for row in losses):
        click.echo("settlements may be lost: messages that were done with may come again", err=True)
    if losses:
        raise SystemExit(1)


def _write(found: Salvage, port: Spectacles, new: Path) -> tuple[Copied, list[str], list[int]]:
    """Write the new directory; return what went there, which large bodies are lost, and what was put into leases."""
    report = found.recovery.report
    disk = Disk(new, lambda completion: None, name="salvage")
    journal = JournalCore(disk, JournalOptions(node=report.node, created=int(report.created)))
    try:
        journal.recover(RecoverySink())
        copied = Copied(found, port, journal)
        found.tell(copied)
        copied.flush()
        filled = copied.fill_leases()
        flaws: list[str] = []
        for blob, message in copied.bodies.items():
            flaw = _copy_body(found, port, blob, message, new)
            if flaw:
                flaws.append(flaw)
        _sync(new / "blobs")
    finally:
        journal.close()
    refusal = journal.refusal()
    if refusal is not None:
        raise refusal
    return copied, flaws, filled


def _queues_of(found: Salvage) -> list[int]:
    """Return the queues that have messages."""
    queues: dict[int, bool] = {}
    index = found.recovery.index
    for segment in index.segments:
        for slot in range(int(segment.count)):
            if segment.states[slot]:
                queues[int(segment.queue_at(slot))] = True
    for several in index.several.values():
        queues.update(dict.fromkeys(several, True))
    return list(queues)


def _copy_body(found: Salvage, port: Spectacles, blob: int, message: Message, new: Path) -> str:
    """Copy the file of a large body as it is; return why it is lost, or "". The start makes a dead letter then."""
    rare = message.need_rare()
    flaw = str(found.recovery.overflow.flaw_inside(blob, rare.large_length, rare.large_checked))
    source, target = port.directory / "blobs" / f"{blob}.blob", new / "blobs" / f"{blob}.blob"
    try:
        shutil.copyfile(source, target)
    except OSError as error:
        target.unlink(missing_ok=True)
        if not flaw:
            raise BodyLost(f"{source} cannot be copied to {target}: {error.strerror}") from error
        return flaw
    target.chmod(OWNER_FILE)
    _sync(target)
    return flaw


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _row(loss: Loss, names: dict[int, str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "segment": loss.segment,
        "offset": loss.offset,
        "octets": loss.octets,
        "what": loss.what,
        "settlements": loss.settlements,
    }
    if loss.number:
        row["message"] = loss.number
        row["queues"] = [names.get(queue, str(queue)) for queue in loss.queues]
    elif loss.before or loss.after:
        row["after"] = loss.after
        row["before"] = loss.before
        if loss.missing >= 0:
            row["missing"] = loss.missing
    return row


def _sentence(row: dict[str, Any]) -> str:
    if "staged" in row or "sink" in row:
        return sentence_of_stages(row)
    if "body" in row:
        return f"lost: {row['body']}; its message will be a dead letter without it"
    if "queue" in row:
        return f"lost: the definition of a queue, which is called {row['queue']} now"
    if "leased" in row:
        return f"lost: message {row['leased']}, which a lease holds; an empty one is in its place"
    text = f"lost: {row['segment'] or 'segment'}:{row['offset']}, {row['octets']} octets: {row['what']}"
    if "message" in row:
        text += f"; perhaps message {row['message']} of {', '.join(row['queues'])}"
    elif "after" in row:
        text += f"; between message {row['after']} and " + (f"message {row['before']}" if row["before"] else "the end")
        if "missing" in row:
            text += f", {row['missing']} messages at most"
    if row["settlements"]:
        text += "; it may have held settlements"
    return text
