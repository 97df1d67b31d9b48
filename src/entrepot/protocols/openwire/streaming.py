"""The frame of a message whose body is not in memory: what stands before the body, and what behind it. [C]"""

from __future__ import annotations

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from entrepot.base.errors import Fault, LimitExceeded
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.codec import Encoder
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.outflow import Outflow


def begin(encoder: Encoder, command: Structure, message: commands.Message, body: Outflow, frame_max: i64) -> bytes:
    """Return the octets of the frame of ``command`` before ``body``, the content of its ``message``.

    Those behind it are put into ``body.tail``. Raises LimitExceeded, Inexpressible.
    """
    message.content = body.marker
    frame = encoder.encode(command)
    at: i64 = frame.find(body.marker)
    behind: i64 = at + len(body.marker)
    if at < 8 or frame.find(body.marker, at + 1) >= 0:
        raise Fault("the marker of a body is not where its content is, or twice in a frame")
    head = BytesWriter()
    start: i64 = 0
    if encoder.wire_format.size_prefix:
        size: i64 = len(frame) - 4 - len(body.marker) + body.length
        if size > frame_max:
            raise LimitExceeded(f"its frame of {size} octets is larger than a frame may be")
        write_i32_be(head, i32(size))
        start = 4
    head.write(frame[start : at - 4])
    write_i32_be(head, i32(body.length))
    head.write(body.prefix)
    body.tail = frame[behind:]
    return head.getvalue()
