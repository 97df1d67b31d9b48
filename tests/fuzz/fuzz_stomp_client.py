"""Any octets from a broker: the client raises nothing, its events do not depend on how the octets are cut, and it ends
each connection at most once."""

from __future__ import annotations

from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.client import Connected, ConnectOptions, Disconnected, Event, StompClient
from entrepot.protocols.stomp.frames import Frame, FrameParser, Limits, encode_frame

LIMITS = Limits(head=400, headers=10, body=400)
CORPUS = [
    b"CONNECTED\nversion:1.2\nheart-beat:10000,10000\nsession:s\n\n\0",
    b"CONNECTED\nversion:1.1\n\n\0\nMESSAGE\nmessage-id:m\nsubscription:s1\na:x\\cy\\n\n\nbody\0",
    b"CONNECTED\r\nversion:1.2\r\n\r\n\0MESSAGE\r\nack:1\r\ncontent-length:3\r\n\r\na\0b\0\r\n\r\n",
    b"CONNECTED\nversion:1.2\n\n\0RECEIPT\nreceipt-id:r1\n\n\0ERROR\nmessage:no\n\ndetails\0",
]


def events_of(data: bytes, chunk: int) -> list[Event]:
    """Return everything that happens when ``data`` arrives in chunks of so many octets."""
    client = StompClient(Shell(), ConnectOptions(limits=LIMITS))
    client.connect(0)
    for at in range(0, len(data), chunk):
        client.receive(data[at : at + chunk], at)
    client.detach("the end", len(data))
    return client.events()


def fuzz(data: bytes) -> None:
    """Raises AssertionError for our own mistakes."""
    whole = events_of(data, max(len(data), 1))
    assert events_of(data, 1) == whole
    assert events_of(data, 7) == whole
    assert isinstance(whole[-1], Disconnected)
    assert sum(isinstance(event, Disconnected) for event in whole) == 1
    assert sum(isinstance(event, Connected) for event in whole) <= 1
    read_again(data)


def read_again(data: bytes) -> None:
    """What one version reads it writes so that it reads the same."""
    for version in ("1.1", "1.2"):
        parser = FrameParser(version, LIMITS)
        parser.feed(data)
        frame = parser.take()
        if frame is None or "content-length" not in frame.headers or frame.command in ("CONNECT", "STOMP", "CONNECTED"):
            continue
        again = FrameParser(version)
        again.feed(encode_frame(frame.command, frame.headers, frame.body, version))
        assert again.take() == Frame(frame.command, frame.headers, frame.body)
