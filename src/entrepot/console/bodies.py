"""Bodies of messages as people read them: JSON and XML laid out, octets in hex."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any


def pretty(row: Mapping[str, Any]) -> tuple[str, str]:
    """Return what kind of body a message has, and the text that shows it."""
    kind, body = str(row.get("kind")), row.get("body")
    if kind in ("map", "stream"):
        return kind, json.dumps(body, indent=2, ensure_ascii=False)
    if kind in ("bytes", "object") and isinstance(body, str):
        octets = base64.b64decode(body)
        try:
            text = octets.decode()
            if text.isprintable() or all(one.isprintable() or one in "\r\n\t" for one in text):
                return kind, _pretty_text(text)[1]
        except UnicodeDecodeError:
            pass
        return kind, hexadecimal(octets)
    if isinstance(body, str):
        found, text = _pretty_text(body)
        return found or kind, text
    return kind, "" if body is None else str(body)


def hexadecimal(octets: bytes) -> str:
    """Return octets as people read them: offset, 16 in hex, and those that are letters."""
    lines = []
    for at in range(0, len(octets), 16):
        some = octets[at : at + 16]
        letters = "".join(chr(one) if 32 <= one < 127 else "." for one in some)
        lines.append(f"{at:08x}  {some.hex(' '):<47}  {letters}")
    return "\n".join(lines)


def _pretty_text(text: str) -> tuple[str, str]:
    if text[:1] in "{[" and text:
        try:
            return "JSON", json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            return "", text
    if text.lstrip()[:1] == "<":
        return "XML", text.replace("><", ">\n<")
    return "", text
