"""Any octets as AMQP: read in any chunks, opened as messages, written again, and said to a whole broker.

The first octet chooses what is done, the second the size of the chunks; the rest is what the peer sends.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from librt.strings import BytesWriter

from entrepot.base.errors import Inexpressible, PeerError
from entrepot.protocols.amqp import performatives
from entrepot.protocols.amqp.codec import Decoder, Encoder, Frame, header
from entrepot.protocols.amqp.convert import message_of
from entrepot.protocols.amqp.large import find_body
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.performatives import Attach, Begin, Flow, Open, Target, Transfer
from entrepot.protocols.amqp.performatives import Source as Terminus
from entrepot.protocols.amqp.presenting import presented
from entrepot.protocols.amqp.primitives import Source
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.protocols.amqp.writing import write_value
from entrepot.protocols.session import Shell
from kit import Rig

FRAME_OCTETS_MAX = 1 << 20
VECTORS = Path(__file__).parents[1] / "vectors" / "amqp-proton-j-0.34.1.tsv"
NAMES = ("JMSMessageID", "JMSType", "JMSReplyTo", "n", "m.x")


def fuzz(data: bytes) -> None:
    """Raises PeerError for what a peer may not send, AssertionError for our own mistakes."""
    if len(data) < 2:
        return
    octets, chunk = data[2:], data[1] or len(data)
    kind = data[0] % 4
    if kind == 0:
        frames(octets, chunk)
    elif kind == 1:
        values(octets)
    elif kind == 2:
        message(octets)
    else:
        said_to_a_broker(octets, chunk)


def frames(octets: bytes, chunk: int) -> None:
    """Frames in any chunks are the same frames, and what is read can be written."""
    decoder = Decoder(FRAME_OCTETS_MAX)
    found: list[Frame] = []
    for at in range(0, len(octets), chunk):
        try:
            found += decoder.feed(octets[at : at + chunk])
            decoder.check()
        except PeerError:
            break
        assert decoder.buffered() <= len(octets)
    for frame in found:
        if frame.performative is None:
            continue
        out = BytesWriter()
        try:
            Encoder().write_with(out, frame.channel, frame.performative, frame.payload, frame.kind)
        except Inexpressible:
            continue
        (again,) = Decoder(FRAME_OCTETS_MAX).feed(out.getvalue())
        assert type(again.performative) is type(frame.performative)


def values(octets: bytes) -> None:
    """What is read is written so that it is read the same."""
    for typed in (False, True):
        source = Source(octets, 0, len(octets))
        value = source.value(typed)
        out = BytesWriter()
        try:
            write_value(out, value)
        except Inexpressible:
            continue
        once = out.getvalue()
        out = BytesWriter()
        write_value(out, Source(once, 0, len(once)).value(typed))
        assert out.getvalue() == once
    skipped = Source(octets, 0, len(octets))
    skipped.skip()
    assert skipped.at <= len(octets)


def message(octets: bytes) -> None:
    """A message is opened, and presented again."""
    find_body(octets)
    made = message_of(octets, 1).message
    made.address = "a"
    made.common()
    made.language.identity(made)
    made.language.exact(made)
    for name in NAMES:
        made.fact(name)
    made.language.changed(made)
    message_of(presented(made, 1, 0, "ID:1", 1), 1)


def said_to_a_broker(octets: bytes, chunk: int) -> None:
    """A connection with two links goes on with any octets; another one goes on as if nothing was."""
    rig = Rig(disk=False)
    sessions = [AmqpServerSession(Shell(), rig.broker, AmqpOptions(), number, f"p{number}") for number in (1, 2)]
    for session in sessions:
        session.receive(header(0) + opening(), rig.now)
        assert not session.closing
    for at in range(0, len(octets), chunk):
        if not sessions[0].closing:
            sessions[0].receive(octets[at : at + chunk], rig.now)
            sessions[0].outgoing()
    rig.turn()
    sessions[0].detach("gone", rig.now)
    sessions[1].outgoing()
    sessions[1].receive(sending(), rig.now)
    rig.turn()
    assert b"\x53\x24" in sessions[1].outgoing(), "another connection was harmed"
    sessions[1].detach("gone", rig.now)
    rig.broker.check()


def opening() -> bytes:
    """Return what opens a connection, a session, a link to send and one to read."""
    out, encoder = BytesWriter(), Encoder()
    encoder.write(out, 0, Open(container_id="c"))
    encoder.write(out, 0, Begin(incoming_window=100, outgoing_window=100))
    encoder.write(out, 0, Attach(name="s", handle=0, role=False, target=Target(address="q"), initial_delivery_count=0))
    encoder.write(out, 0, Attach(name="r", handle=1, role=True, source=Terminus(address="q"), target=Target()))
    flow = Flow(next_incoming_id=0, incoming_window=100, next_outgoing_id=0, outgoing_window=100, handle=1)
    flow.delivery_count, flow.link_credit = 0, 10
    encoder.write(out, 0, flow)
    return out.getvalue()


def sending() -> bytes:
    """Return a transfer of a message that is not durable."""
    out = BytesWriter()
    first = Transfer(handle=0, delivery_id=0, delivery_tag=b"0", message_format=0)
    Encoder().write_with(out, 0, first, b"\x00\x53\x77\xa1\x01x")
    return out.getvalue()


def corpus() -> list[bytes]:
    """Return examples of everything."""
    found: list[bytes] = []
    for line in VECTORS.read_text().splitlines():
        name, octets, _ = line.split("\t")
        raw = bytes.fromhex(octets)
        if name[0].islower():
            found.append(b"\x01\x00" + raw)
            continue
        found.append(b"\x02\x00" + raw + b"\x00\x53\x77\xa1\x01x")
        out = BytesWriter()
        made = getattr(performatives, name)()
        try:
            Encoder().write(out, 0, made)
        except Inexpressible:
            continue
        frame = (8 + len(raw)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + raw
        found += [b"\x00\x07" + frame, b"\x03\x00" + frame]
    return [*found, b"\x03\x00" + sending(), b"\x00\x01" + header(0) + opening()]


CORPUS = corpus()
