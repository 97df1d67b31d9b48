"""Header octets as text, and text as header octets: UTF-8, with the escapes of each version of STOMP. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame

V10: Final = 10
V11: Final = 11
V12: Final = 12


def decode_headers(lines: bytes, version: i64, returns: bool) -> dict[str, str]:
    """Return the headers in ``lines``, each ended by LF; of repeated ones the first. Raises MalformedFrame."""
    found: dict[str, str] = {}
    for line in lines.split(b"\n"):
        if returns and line.endswith(b"\r"):
            line = line[:-1]
        if not line:
            continue
        name, _, value = line.partition(b":")
        key = text_of(name, version)
        if key not in found:
            found[key] = text_of(value, version)
    return found


def text_of(octets: bytes, version: i64) -> str:
    """Return header octets as text, unescaped for STOMP 1.1 and 1.2. Raises MalformedFrame."""
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise MalformedFrame(f"the header octets {octets[:80]!r} are not UTF-8") from None
    if version == V10 or "\\" not in text:
        return text
    parts: list[str] = []
    i = 0
    while i < len(text):
        character = text[i]
        if character == "\\":
            i += 1
            escape = text[i : i + 1]
            if escape == "n":
                parts.append("\n")
            elif escape == "c":
                parts.append(":")
            elif escape == "\\":
                parts.append("\\")
            elif escape == "r" and version == V12:
                parts.append("\r")
            else:
                raise MalformedFrame(f"\\{escape} is no escape sequence of STOMP headers (in {text[:80]!r})")
        else:
            parts.append(character)
        i += 1
    return "".join(parts)


def octets_of(text: str, version: i64) -> bytes:
    """Return header text as octets, escaped as ``version`` wants; 1.0 cannot say a line end and gets a space."""
    if version == V10:
        return text.replace("\n", " ").encode()
    if "\\" in text:  # to look is cheaper than to replace nothing, and few headers have any of them
        text = text.replace("\\", "\\\\")
    if "\n" in text:
        text = text.replace("\n", "\\n")
    if ":" in text:
        text = text.replace(":", "\\c")
    if version == V12 and "\r" in text:
        text = text.replace("\r", "\\r")
    return text.encode()
