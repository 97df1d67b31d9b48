"""OpenWire's frames on one side, its commands as XML on the other: an OpenWire session that goes over HTTP.

ActiveMQ's ``http:`` transport sends no `WireFormatInfo`: nothing is negotiated there. So a session of ours, server or
client, is given one by the relay, in the plainest form there is (loose, no cache), and its own goes no further.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import Inexpressible, MalformedFrame, ProtocolViolation
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import Command, WireFormatInfo
from entrepot.protocols.openwire.negotiation import UNLIMITED, WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.xstream import decode, encode


class Relay:
    """What stands between one session and its polls. ``greeting`` must be given to the session first of all."""

    def __init__(self) -> None:
        options = WireFormatOptions(max_frame_size=UNLIMITED)
        self._decoder: Final = Decoder(WireFormat.before_agreement(offer_of(options)), keep_encodings=False)
        self._encoder: Final = Encoder(WireFormat.before_agreement(offer_of(options)))
        self.greeting: Final = self._encoder.encode(offer_of(options))

    def to_text(self, data: bytes) -> list[bytes]:
        """Return the XML of the commands that ``data``, what the session wrote, completes."""
        found: list[bytes] = []
        for command in self._decoder.feed(data):
            if isinstance(command, WireFormatInfo):
                self._encoder.switch(self._decoder.wire_format)
            else:
                found.append(encode(command))
        self._decoder.check()
        return found

    def to_frame(self, text: bytes) -> bytes:
        """Return what the session is to be given for the XML that its peer sent; b"" for nothing.

        Raises MalformedFrame, LimitExceeded, ProtocolViolation: the peer's fault.
        """
        command = decode(text)
        if isinstance(command, WireFormatInfo):  # ActiveMQ answers it with 200, and reads no more of it
            return b""
        if not isinstance(command, Command):
            raise ProtocolViolation(f"{type(command).__name__} is no command")
        try:
            return self._encoder.encode(command)
        except Inexpressible as error:
            raise MalformedFrame(error.message) from error
