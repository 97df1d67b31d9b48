"""Any octets as a command in XML: read, written and read again, with nothing raised but PeerError."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from entrepot.base.errors import Inexpressible
from entrepot.protocols.openwire.codec import Encoder
from entrepot.protocols.openwire.describe import describe
from entrepot.protocols.openwire.negotiation import WireFormat
from entrepot.protocols.openwire.xstream import decode, encode

VECTORS = Path(__file__).parents[1] / "vectors" / "xstream-5.17.6.jsonl.gz"


def fuzz(data: bytes) -> None:
    """Raises PeerError for what a peer may not send, AssertionError for our own mistakes."""
    command = decode(data)
    try:
        again = encode(command)
        Encoder(WireFormat()).encode(command)  # what a broker makes of it
    except Inexpressible:
        return
    once = decode(again)
    assert encode(once) == again
    assert type(once) is type(command)
    describe(once)


with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
    CORPUS = [json.loads(line)["xml"].encode() for line in lines]
