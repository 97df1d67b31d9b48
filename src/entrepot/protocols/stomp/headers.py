"""Header lines of STOMP: written, and read as what they say. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import InvalidSelector, Refused
from entrepot.core.broker import selector_or_none
from entrepot.model.predicate import Predicate, compile_selector
from entrepot.model.syntax import CONVERT_PREFIX
from entrepot.protocols.stomp.escapes import octets_of

NUMBER_DIGITS_MAX: Final = 18  # every such number fits the 64 bits that the journal has for it


def write_headers(writer: BytesWriter, headers: dict[str, str], version: i64) -> None:
    """Append header lines, escaped as ``version`` wants."""
    for name, value in headers.items():
        writer.write(octets_of(name, version))
        writer.append(58)
        writer.write(octets_of(value, version))
        writer.append(10)


def selector_of(text: str) -> Predicate | None:
    """Return the predicate of a selector; STOMP properties are strings, so numbers compare by conversion (4.9)."""
    text = text.strip()
    if not text or text.startswith(CONVERT_PREFIX):
        return selector_or_none(text)
    try:
        return compile_selector(CONVERT_PREFIX + text)
    except InvalidSelector:
        compile_selector(text)  # raises too, and counts characters as the client does
        raise


def whole_number(text: str, name: str) -> int:
    """Return the value of the header ``name``. Raises Refused for one that is no whole number of 18 digits at most."""
    digits = text.strip()
    if digits.startswith("-"):
        digits = digits[1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > NUMBER_DIGITS_MAX:
        raise Refused(f"{name} is {text[:40]!r}, not a whole number")
    return int(text)
