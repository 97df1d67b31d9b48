"""Measure the OpenWire codec: a `MessageDispatch` that carries a 1 KiB text message. Prints JSON.

``python bench/openwire_codec.py [--frames N]``; microseconds per frame, the best of several rounds. ``pass_on`` is a
dispatch around the message's first encoding, ``encode`` the same dispatch field by field. ``compiled`` says whether
the modules ran as native code. Set PYTHONPATH to measure another copy of the source.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from time import perf_counter_ns

from librt.strings import BytesWriter

from entrepot.protocols.openwire import codec
from entrepot.protocols.openwire.bodies import pack_properties, text_message
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import ActiveMQQueue, ConsumerId, MessageDispatch, MessageId, ProducerId
from entrepot.protocols.openwire.negotiation import WireFormat

ROUNDS = 7
CONNECTION = "ID:client-17.example.org-40123-1700000000000-1:1"
FORMATS = {
    "loose": WireFormat(),
    "loose+cache": WireFormat(cache_size=1024),
    "tight": WireFormat(tight=True),
    "tight+cache": WireFormat(tight=True, cache_size=1024),
}


def dispatch() -> MessageDispatch:
    producer = ProducerId(CONNECTION, 1, 1)
    message = text_message("x" * 1024)
    message.command_id = 17
    message.response_required = True
    message.producer_id = producer
    message.destination = ActiveMQQueue("ORDERS.EUROPE")
    message.message_id = MessageId(producer_id=producer, producer_sequence_id=4711, broker_sequence_id=815)
    message.correlation_id = "order-4711"
    message.persistent = True
    message.priority = 4
    message.timestamp = 1_700_000_000_000
    message.marshalled_properties = pack_properties({"region": "EU", "amount": 17})
    message.broker_in_time = 1_700_000_000_001
    message.broker_out_time = 1_700_000_000_002
    return MessageDispatch(consumer_id=ConsumerId(CONNECTION, 1, 1), destination=message.destination, message=message)


def measure(work: Callable[[], None], frames: int) -> float:
    best = min(timed(work) for _ in range(ROUNDS))
    return round(best / frames / 1000, 3)


def timed(work: Callable[[], None]) -> int:
    start = perf_counter_ns()
    work()
    return perf_counter_ns() - start


def decoding(wire_format: WireFormat, frames: int, *, keep: bool) -> float:
    encoder = Encoder(wire_format)
    command = dispatch()
    encoder.encode(command)  # fills the cache, whose steady state is of interest
    decoder = Decoder(wire_format, keep_encodings=keep)
    decoder.feed(Encoder(wire_format).encode(command))
    chunk = encoder.encode(command) * 50

    def work() -> None:
        for _ in range(frames // 50):
            decoder.feed(chunk)

    return measure(work, frames)


def encoding(wire_format: WireFormat, frames: int, *, kept: bool) -> float:
    encoder = Encoder(wire_format)
    (command,) = Decoder(WireFormat(), keep_encodings=kept).feed(Encoder(WireFormat()).encode(dispatch()))

    def work() -> None:
        target = BytesWriter()
        for _ in range(frames):
            encoder.encode_into(target, command)
            if len(target) > 65536:
                target.truncate(0)

    return measure(work, frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=5000)
    frames = parser.parse_args().frames
    result: dict[str, object] = {
        "compiled": not codec.__file__.endswith(".py"),
        "python": platform.python_version(),
        "octets": len(Encoder(FORMATS["loose"]).encode(dispatch())),
    }
    for name, wire_format in FORMATS.items():
        result[name] = {
            "decode_us": decoding(wire_format, frames, keep=False),
            "encode_us": encoding(wire_format, frames, kept=False),
        }
    result["pass_on"] = {
        "decode_us": decoding(FORMATS["loose"], frames, keep=True),
        "encode_us": encoding(FORMATS["loose"], frames, kept=True),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
