"""Measure the CORE codec: a SEND and a RECEIVE of a 1 KiB text message. Prints JSON.

``python bench/core_codec.py [--frames N]``; microseconds per frame, the best of several rounds. ``decode`` ends with a
packet, ``arrive`` with a message of the broker; ``encode`` is what a delivery costs. ``compiled`` says whether the
modules ran as native code. Set PYTHONPATH to measure another copy of the source.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from time import perf_counter_ns

from librt.strings import BytesWriter

from entrepot.base.primitive import BYTE, Primitive
from entrepot.protocols.artemis import codec
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.codec import Decoder, Encoder
from entrepot.protocols.artemis.convert import ROUTING_ANYCAST, presented
from entrepot.protocols.artemis.headers import TYPE_TEXT, Headers, assembled
from entrepot.protocols.artemis.packets import Send
from entrepot.protocols.artemis.schema import VERSION_MAX

ROUNDS = 7


def octets() -> bytes:
    """Return a message as the JMS client sends it."""
    headers = Headers()
    headers.address = "orders.europe"
    headers.user_id = bytes(range(16))
    headers.kind = TYPE_TEXT
    headers.durable = True
    headers.timestamp = 1_700_000_000_000
    usual = {"_AMQ_ROUTING_TYPE": Primitive(BYTE, 1), "__AMQ_CID": "b4f1c2d3-7a5e-4d2c", "region": "EU"}
    return assembled(text_body("x" * 512), headers, dict(usual))


def measure(work: Callable[[], None], frames: int) -> float:
    best = min(timed(work) for _ in range(ROUNDS))
    return round(best / frames / 1000, 3)


def timed(work: Callable[[], None]) -> int:
    start = perf_counter_ns()
    work()
    return perf_counter_ns() - start


def decoding(frames: int, *, arrive: bool) -> float:
    encoder, decoder = Encoder(), Decoder(preface=False)
    encoder.speak(VERSION_MAX)
    decoder.speak(VERSION_MAX)
    frame = encoder.encode(Send(message=octets(), require_response=True, correlation=-7, sender=1, channel=11))
    chunk = frame * 50

    def work() -> None:
        for _ in range(frames // 50):
            for packet in decoder.feed(chunk):
                if arrive and isinstance(packet, Send):
                    message_of(packet.message, "")

    return measure(work, frames)


def encoding(frames: int) -> float:
    encoder = Encoder()
    encoder.speak(VERSION_MAX)
    message = message_of(octets(), "")

    def work() -> None:
        target = BytesWriter()
        for number in range(frames):
            said = presented(message, ROUTING_ANYCAST, "")
            encoder.receive_into(target, 11, said, number=number, consumer=3, delivery_count=1)
            if len(target) > 65536:
                target.truncate(0)

    return measure(work, frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=20_000)
    frames = parser.parse_args().frames
    result = {
        "compiled": not codec.__file__.endswith(".py"),
        "python": platform.python_version(),
        "octets": len(octets()),
        "decode_us": decoding(frames, arrive=False),
        "arrive_us": decoding(frames, arrive=True),
        "encode_us": encoding(frames),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
