"""The vectors of CORE as plain data, and packets as plain data to compare them with."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from entrepot.protocols.artemis import schema
from entrepot.protocols.artemis.codec import Decoder
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.artemis.primitives import EXTRA, Connector, Xid

VECTORS = Path(__file__).parents[3] / "vectors" / "core-2.42.0.jsonl.gz"
RENAMED = {"session_channel": "channel"}  # every packet has a ``channel`` of its own
OPERATIONS = ("update", "add", "event")
PARAMETER_KINDS = ("bool", "int", "long", "string")


@cache
def vectors() -> list[dict[str, Any]]:
    """Return the lines, each with ``index``."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [{"index": index, **json.loads(line, strict=False)} for index, line in enumerate(lines)]


def decoded(vector: dict[str, Any]) -> Packet:
    """Return the packet of one vector."""
    decoder = Decoder(preface=False)
    decoder.speak(vector["version"])
    (packet,) = decoder.feed(bytes.fromhex(vector["hex"]))
    return packet


def described(packet: Packet, version: int) -> dict[str, Any]:
    """Return the fields that travelled, as a vector writes them; messages and records are left closed."""
    row = schema.packet_named(type(packet).__name__)
    found: dict[str, Any] = {}
    for field in row.fields:
        if schema.travels(row, field, packet.form, version):
            value = getattr(packet, field.name)
            if field.when and not eval(field.when, {}, dict(found)):  # the table's own words
                continue
            if value is None and field.optional and field.kind in (schema.L, schema.I, schema.Y, schema.B):
                continue
            found[RENAMED.get(field.name, field.name)] = plain(value, field.kind)
    return found


def plain(value: Any, kind: schema.Kind) -> Any:
    """Return one value as a vector writes it."""
    if kind is schema.Kind.OPERATION:
        return OPERATIONS[value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, Xid):
        return {"format": value.format_id, "branch": value.branch.hex(), "global": value.global_id.hex()}
    if isinstance(value, Connector):
        params = [[EXTRA * each.extra + each.key, PARAMETER_KINDS[each.kind], each.value] for each in value.parameters]
        return {"name": value.name, "factory": value.factory, "params": params}
    if isinstance(value, list):
        return [plain(each, kind) for each in value]
    return value
