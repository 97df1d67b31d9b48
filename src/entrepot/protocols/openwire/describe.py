"""Commands as plain data: for logs, for comparisons, for people. Never on the path of a message."""

from __future__ import annotations

from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.schema import type_named


def describe(value: object) -> object:
    """Return plain data: a structure becomes a dict of its fields with ``"type"`` first, a throwable a dict too."""
    if isinstance(value, Structure):
        each = type_named(type(value).__name__)
        plain: dict[str, object] = {"type": each.name}
        for field in each.fields:
            plain[field.name] = describe(getattr(value, field.name))
        return plain
    if isinstance(value, list):
        return [describe(element) for element in value]
    if isinstance(value, Throwable):
        return {
            "type": "Throwable",
            "class_name": value.class_name,
            "message": value.message,
            "stack": [(line.class_name, line.method, line.file, line.line) for line in value.stack],
            "cause": describe(value.cause),
        }
    return value
