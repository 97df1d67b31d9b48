"""W3C Trace Context: what a message says of the trace that it belongs to. [C]

`traceparent` is ``00-<32 hex: trace>-<16 hex: span>-<2 hex: flags>``, lower case; flag 1 says that the trace is
recorded (sampled). What is malformed says nothing: whoever reads begins a trace of his own, as the recommendation has
it (W3C Trace Context, 3.2). A higher version may have more behind the flags, and is read as far as version 0 goes.

`peek` finds out from the octets of a message, without opening it, that there is no context or that it is not sampled:
nearly all messages are of one of these kinds, and each is asked.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_le
from mypy_extensions import i64

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
LENGTH: Final = 55  # of a traceparent of version 0
STATE_OCTETS_MAX: Final = 512  # what has to be passed on at least (3.3.1.5); longer ones are not recorded
WINDOW: Final = 4096  # octets of headers that are looked through: more would be dear for messages of many properties

ABSENT: Final = 0
UNSAMPLED: Final = 1
UNCLEAR: Final = 2  # there may be one that is sampled: read it
UNASKED: Final = 3  # nobody looked

KEY: Final = TRACEPARENT.encode()
WIDE_KEY: Final = TRACEPARENT.encode("utf-16-le")
RUN: Final = 4  # octets that are compared at a time
STRIDE: Final = 8  # len(KEY) - RUN + 1: so far apart, one such run lies wholly in each KEY
LETTER_FIRST: Final = 0x61
LETTER_LAST: Final = 19  # from the first
LETTERS: Final = 0b10101010000000010101  # a c e n p r t
DASH: Final = 0x2D
HEX: Final = "0123456789abcdef"


class TraceContext:
    """One context that was read: lower-case hex, as long as it must be."""

    def __init__(self, trace: str, span: str, sampled: bool) -> None:
        self.trace: str = trace
        self.span: str = span
        self.sampled: bool = sampled

    def text(self) -> str:
        """Return it as a `traceparent`."""
        return said(self.trace, self.span, self.sampled)


def said(trace: str, span: str, sampled: bool = True) -> str:
    """Return a `traceparent`."""
    return f"00-{trace}-{span}-{'01' if sampled else '00'}"


def parse(text: object) -> TraceContext | None:
    """Return what ``text`` says; None where it is malformed, or no text."""
    if not isinstance(text, str) or len(text) < LENGTH or text[2] != "-" or text[35] != "-" or text[52] != "-":
        return None
    version, trace, span, flags = text[:2], text[3:35], text[36:52], text[53:55]
    if not (_is_hex(version) and _is_hex(trace) and _is_hex(span) and _is_hex(flags)) or version == "ff":
        return None
    if len(text) > LENGTH and (version == "00" or text[LENGTH] != "-"):
        return None
    if trace.strip("0") == "" or span.strip("0") == "":
        return None
    return TraceContext(trace, span, int(flags, 16) & 1 == 1)


def state_of(text: object) -> str:
    """Return a `tracestate` that can be handed on; "" for none."""
    if not isinstance(text, str) or len(text) > STATE_OCTETS_MAX or not text.isascii() or not text.isprintable():
        return ""
    return text


def _is_hex(text: str) -> bool:
    for letter in text:  # noqa: SIM110 - a loop compiles to half the time of a generator
        if letter not in HEX:
            return False
    return True


def peek(raw: bytes, start: i64, end: i64, gap: i64) -> i64:
    """Look in ``raw[start:end]`` for a `traceparent` in octets; ``gap``: octets between the name and its value."""
    found = _find(raw, start, end)
    return ABSENT if found < 0 else said_at(raw, found + len(KEY) + gap)


def said_at(raw: bytes, at: i64) -> i64:
    """Return what the value of a `traceparent` says that begins at ``at``: UNSAMPLED, or UNCLEAR."""
    if at + LENGTH > len(raw) or raw[at + 2] != DASH or raw[at + 35] != DASH or raw[at + 52] != DASH:
        return UNCLEAR
    return _flagged(raw[at + 54])


def _find(raw: bytes, start: i64, end: i64) -> i64:
    """Return where `KEY` begins in ``raw[start:end]``, -1 for nowhere.

    `bytes.find` looks at nearly each octet, for the letters of the name are common ones. Every eighth is enough: in the
    eleven letters of the name there is one of these with three letters behind it.
    """
    stop: i64 = min(end, len(raw))
    last: i64 = stop - RUN
    i: i64 = start
    while i <= last:
        if _is_letter(raw[i]) and _is_letter(raw[i + 1]) and _is_letter(raw[i + 2]) and _is_letter(raw[i + 3]):
            at: i64 = i
            while at >= start and at > i - STRIDE:
                if _is_here(raw, at, stop):
                    return at
                at -= 1
        i += STRIDE
    return -1


def _is_here(raw: bytes, at: i64, stop: i64) -> bool:
    """Return whether `KEY` is at ``at``, and ends before ``stop``: two numbers that overlap."""
    return (
        at + len(KEY) <= stop
        and read_i64_le(raw, at) == read_i64_le(KEY, 0)
        and read_i64_le(raw, at + len(KEY) - 8) == read_i64_le(KEY, len(KEY) - 8)
    )


def _is_letter(octet: i64) -> bool:
    """Return whether ``octet`` is a letter of `KEY`."""
    place = octet - LETTER_FIRST
    return 0 <= place <= LETTER_LAST and (LETTERS >> place) & 1 == 1


def peek_wide(raw: bytes, start: i64, end: i64, gap: i64) -> i64:
    """Do as `peek`, where texts are UTF-16, little-endian."""
    found: i64 = raw.find(WIDE_KEY, int(start), int(end))
    if found < 0:
        return ABSENT
    return wide_said_at(raw, found + len(WIDE_KEY) + gap)


def wide_said_at(raw: bytes, at: i64) -> i64:
    """Do as `said_at`, where texts are UTF-16, little-endian."""
    if at + 2 * LENGTH > len(raw) or raw[at + 4] != DASH or raw[at + 70] != DASH or raw[at + 104] != DASH:
        return UNCLEAR
    return _flagged(raw[at + 108])


def _flagged(digit: i64) -> i64:
    """Say what the last digit of the flags means: 1, 3 ... 9, b, d and f are sampled."""
    odd = digit & 1 == 1
    if 0x30 <= digit <= 0x39:
        return UNCLEAR if odd else UNSAMPLED
    if 0x61 <= digit <= 0x66:
        return UNSAMPLED if odd else UNCLEAR
    return UNCLEAR  # no digit: it is malformed
