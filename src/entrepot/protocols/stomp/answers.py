"""RECEIPT and ERROR: what a client of STOMP is told about its frames, at once or when the disk has them. [C]"""

from __future__ import annotations

from librt.strings import BytesWriter

from entrepot.base.errors import EntrepotError
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.escapes import octets_of
from entrepot.protocols.stomp.headers import write_headers


class Receipt(Confirmation):
    """The RECEIPT of one frame; ``more``: header lines behind its id."""

    def __init__(self, answers: Answers, receipt: bytes, more: bytes = b"") -> None:
        super().__init__(answers.confirmations)
        self.answers: Answers = answers
        self.receipt: bytes = receipt
        self.more: bytes = more

    def give(self) -> None:
        """Write it."""
        self.answers.write_receipt(self.receipt, self.more)

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored."""
        self.answers.error(error, self.receipt)


class LastReceipt(Receipt):
    """The RECEIPT of DISCONNECT: the last thing said."""

    def __init__(self, answers: Answers, receipt: bytes, session: ServerSession) -> None:
        super().__init__(answers, receipt)
        self.session: ServerSession = session

    def give(self) -> None:
        """Write it, and close."""
        super().give()
        self.session.leave()

    def refuse(self, error: EntrepotError) -> None:
        """Say that something is not stored, and close."""
        super().refuse(error)
        self.session.leave()


class Answers:
    """The answers of one connection."""

    def __init__(self, outlet: Outlet, confirmations: Confirmations, reader: Reader) -> None:
        self.outlet: Outlet = outlet
        self.confirmations: Confirmations = confirmations
        self.reader: Reader = reader

    def confirm(self, on_disk: bool) -> None:
        """Answer the frame that is being done, if it asks for that: at once, or when all of it is on disk."""
        if self.reader.receipt_end:
            self.answer(self.reader.receipt(), on_disk)

    def answer(self, receipt: bytes, on_disk: bool) -> None:
        """Write the RECEIPT that was asked for, if one was."""
        if receipt:
            if on_disk or self.confirmations.owes():
                self.confirmations.ask(Receipt(self, receipt))
            else:
                self.write_receipt(receipt, b"")

    def answer_with(self, fields: dict[str, str], receipt: bytes) -> None:
        """Write a RECEIPT with further headers, once all that was done so far is on disk. Nothing for no receipt."""
        if receipt:
            more = BytesWriter()
            write_headers(more, fields, self.reader.version)
            self.confirmations.ask(Receipt(self, receipt, more.getvalue()))

    def write_receipt(self, receipt: bytes, more: bytes) -> None:
        """Write a RECEIPT now."""
        out = self.outlet.out
        out.write(b"RECEIPT\nreceipt-id:")
        out.write(receipt)
        out.append(10)
        if more:
            out.write(more)
        out.write(b"\n\0\n")
        self.outlet.note()

    def error(self, error: EntrepotError, receipt: bytes) -> None:
        """Write an ERROR frame: what happened in the header, what to do in the body."""
        version = self.reader.version
        out = self.outlet.out
        first = error.message.splitlines()[0] if error.message else error.code
        out.write(b"ERROR\nmessage:" + octets_of(first, version) + b"\ncode:" + error.code.encode())
        if receipt:
            out.write(b"\nreceipt-id:" + receipt)
        body = str(error).encode()
        out.write(b"\ncontent-type:text/plain\ncontent-length:%d\n\n" % len(body) + body + b"\0\n")
        self.outlet.note()

    def refuse(self, error: EntrepotError, receipt: bytes) -> None:
        """Answer a frame of before with an ERROR, if anybody is there to read it."""
        if not self.confirmations.ended:
            self.error(error, receipt)
