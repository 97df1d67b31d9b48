"""SEND: frames that become messages, and bodies that are streamed to disk before they do. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from entrepot.base.errors import PeerError, Refused, StorageError, TransactionError
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED
from entrepot.core.transactions.transaction import KEEP_UNITS
from entrepot.model import address as names
from entrepot.model.message import Message
from entrepot.protocols.serving.pace import DiskPace
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp.answers import Answers
from entrepot.protocols.stomp.codec import CONTEXT_AT, Reader
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.protocols.stomp.escapes import V10, V11, V12, decode_headers, octets_of, text_of
from entrepot.protocols.stomp.headers import whole_number, write_headers
from entrepot.protocols.stomp.large import Inflow
from entrepot.protocols.stomp.places import Places
from entrepot.protocols.stomp.transacting import Transacting

GROUP_SEQUENCE_MAX: Final = (1 << 31) - 1  # Java's int, and the journal's


class Sending:
    """What one connection sends. ``inflow``: the body that is coming in."""

    def __init__(
        self, session: ServerSession, reader: Reader, answers: Answers, places: Places, transacting: Transacting
    ) -> None:
        self.session: ServerSession = session
        self.broker: BrokerCore = session.broker
        self.number: i64 = session.number
        self.reader: Reader = reader
        self.answers: Answers = answers
        self.places: Places = places
        self.targets: dict[bytes, Target] = places.targets
        self.transacting: Transacting = transacting
        self.inflow: Inflow | None = None
        self.pace: DiskPace | None = None

    def send(self) -> None:
        """Do a SEND. Raises Refused, StorageError."""
        reader = self.reader
        target = self.targets.get(reader.destination())
        if target is None or reader.special is not None or reader.escaped:
            self._send_with_care()
            return
        broker = self.broker
        session = self.session
        if session.patience is not None:
            session.patience.check(False)
        tail = reader.tail()
        message = Message(STOMP_LANGUAGE, target.name, tail)
        message.body_at = len(tail) - (reader.body_end + 1 - reader.body_at)
        message.context = u8(reader.seen >> CONTEXT_AT)
        message.timestamp = broker.wall
        message.origin = self.number
        message.durable = reader.persistent
        stamps = broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, session.subject.name)
        if broker.sending.send(message, target) == BLOCKED:
            session.stop_for(target)
        if reader.receipt_end:
            self.answers.confirm(message.durable)

    def _send_with_care(self) -> None:
        reader = self.reader
        tail = reader.tail()
        message = Message(STOMP_LANGUAGE, "", tail)
        message.body_at = len(tail) - (reader.body_end + 1 - reader.body_at)
        message.context = u8(reader.seen >> CONTEXT_AT)
        self._submit(message, reader.destination(), reader.receipt())

    def _submit(self, message: Message, written: bytes, receipt: bytes) -> None:
        """Give ``message`` what its headers ask for, and send it to ``written``, now or with its transaction.

        The octets of its headers may be gone from the reader: behind a large body other octets stand there.
        """
        reader = self.reader
        session = self.session
        special: dict[bytes, bytes] = {} if reader.special is None else reader.special
        target = self.places.target(written, special)
        message.address = target.name
        message.timestamp = self.broker.wall
        message.origin = self.number
        message.durable = reader.persistent
        if reader.escaped:
            self._settle_escapes(message)
        if special:
            self._apply(message, special)
        stamps = self.broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, session.subject.name)
        if target.service is not None:
            self._check_answers(message)
        if b"stage" in special and self.transacting.staging is not None:
            self._send_staged(message, target, special, receipt)
            return
        if b"transaction" in special:
            self._send_in(message, target, text_of(special[b"transaction"], reader.version))
            self.answers.answer(receipt, False)
            return
        if session.patience is not None:
            session.patience.check(False)
        if self.broker.sending.send(message, target) == BLOCKED:
            session.stop_for(target)
        if special.get(b"receipt-message-id") == b"true":
            self.answers.answer_with({"message-id": self.broker.ids.identity_of(message)}, receipt)
        else:
            self.answers.answer(receipt, message.durable or message.rare is not None)

    def _send_staged(self, message: Message, target: Target, special: dict[bytes, bytes], receipt: bytes) -> None:
        if b"transaction" in special:
            raise TransactionError("a SEND cannot be part of a stage and of a transaction", remedy="choose one")
        session = self.session
        staging = self.transacting.staging
        assert staging is not None
        if session.patience is not None:
            session.patience.check(False)
        if staging.send(text_of(special[b"stage"], self.reader.version), message, target) == BLOCKED:
            session.stop_for(target)
        self.answers.answer(receipt, True)

    def _send_in(self, message: Message, target: Target, name: str) -> None:
        session = self.session
        transaction = self.transacting.need(name)
        try:
            if session.patience is not None:
                session.patience.check(False)
            if message.rare is not None and message.rare.large_id:
                raise TransactionError(
                    f"a body of {message.rare.large_length} octets is too long for a transaction",
                    remedy="send it outside of one",
                )
            self.broker.effort.spent += KEEP_UNITS
            transaction.send(message, target)
            if self.broker.flow.is_blocked(target):
                session.stop_for(target)  # its COMMIT is not read either
        except Refused as refusal:
            transaction.fail(refusal)  # or its COMMIT would do the rest without this
            raise

    def _check_answers(self, message: Message) -> None:
        """Raise AccessDenied for a question whose answers would go where this user may not send."""
        place = message.fact("JMSReplyTo")
        if isinstance(place, str) and place:
            self.broker.access.answer(self.session.subject, names.parse(place))

    def _settle_escapes(self, message: Message) -> None:
        """Bring a tail with backslashes to the form of STOMP 1.2, which is how escaped tails are kept."""
        body_at = int(message.body_at)
        version = self.reader.version
        headers = decode_headers(message.raw[:body_at], version, False)  # also checks every escape sequence
        if version == V10 or (version == V11 and b"\r" in message.raw[:body_at]):
            writer = BytesWriter()
            write_headers(writer, headers, V12)
            writer.append(10)
            message.raw = writer.getvalue() + message.raw[body_at:]
            message.body_at = len(writer)
        message.escaped = True

    def _apply(self, message: Message, special: dict[bytes, bytes]) -> None:
        """Obey the headers that the broker reads (classic.md 6.3, artemis.md 5.3)."""
        for name, octets in special.items():
            value = text_of(octets, self.reader.version)
            if name == b"priority":
                message.priority = min(9, max(0, whole_number(value, "priority")))
            elif name == b"expires":
                message.expiration = max(0, whole_number(value, "expires"))
            elif name == b"timestamp":
                message.timestamp = max(0, whole_number(value, "timestamp"))
            elif name in (b"JMSXGroupID", b"_AMQ_GROUP_ID"):
                message.need_rare().group = value
            elif name in (b"JMSXGroupSeq", b"_AMQ_GROUP_SEQUENCE"):
                sequence = whole_number(value, name.decode())
                if abs(sequence) > GROUP_SEQUENCE_MAX:
                    raise Refused(f"{name.decode()} is {sequence}, which does not fit 32 bits")
                message.need_rare().group_sequence = sequence
            elif name == b"_AMQ_DUPL_ID":
                message.need_rare().duplicate_id = octets
            elif name.startswith(b"AMQ_SCHEDULED_"):
                message.annotate(name.decode(), value)
            elif name == b"reply-to" and value.startswith("/temp-"):
                line = b"reply-to:" + octets_of(self.places.reply_to(value), V12) + b"\n"
                message.raw = line + message.raw
                message.escaped = True  # the real name holds colons
                message.body_at += len(line)

    # -- large bodies --------------------------------------------------------------------------------------------------

    def begin_large(self) -> None:
        """Begin to stream a body to disk; the headers of its SEND are complete."""
        reader = self.reader
        message = Message(STOMP_LANGUAGE, "", reader.head())
        message.body_at = len(message.raw)
        self.inflow = Inflow(self.broker, message, reader.destination(), reader.receipt())

    def take_large(self, inflow: Inflow) -> bool:
        """Pass on what came of a large body; True when it is complete and its message has been sent."""
        reader = self.reader
        inflow.write(reader.large_piece())
        pace = self.pace
        if pace is None:
            pace = self.pace = DiskPace(self.session)
        pace.look(inflow)
        if reader.large_left > 0:
            return False
        self.inflow = None
        try:
            if inflow.refusal is not None:
                raise inflow.refusal
            self._submit(inflow.message_now(), inflow.destination, inflow.receipt)
        except (Refused, StorageError) as error:
            if self.transacting.doom(error, inflow.receipt):
                self.answers.error(error, inflow.receipt)
        except PeerError as error:
            self.answers.error(error, inflow.receipt)
            self.session.refused = str(error)
            self.session.leave()
        finally:
            inflow.finish()
        return True

    def end(self) -> None:
        """The connection is gone: a body that is not complete is dropped."""
        if self.pace is not None:
            self.pace.end()
        if self.inflow is not None:
            self.inflow.finish()
            self.inflow = None
