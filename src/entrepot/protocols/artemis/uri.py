"""What a listener's URI may say about CORE: Artemis' parameters of acceptors (artemis.md 5.4)."""

from __future__ import annotations

from entrepot.base.errors import InvalidOption
from entrepot.base.values import INT_MAX, whole
from entrepot.protocols.artemis.options import CoreOptions

OPTION_NAMES = ("anycastPrefix", "multicastPrefix", "connectionTtl", "connectionTtlMin", "connectionTtlMax")


def read_option(options: CoreOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when CORE has no such option. Raises InvalidOption."""
    try:
        return _take(options, written, text)
    except ValueError:
        raise InvalidOption(
            f"{text!r} is no value for the option {written!r}", remedy="use milliseconds, or -1 for no limit"
        ) from None


def _take(options: CoreOptions, name: str, text: str) -> bool:
    if name == "anycastPrefix":
        options.anycast_prefixes = _prefixes(text)
    elif name == "multicastPrefix":
        options.multicast_prefixes = _prefixes(text)
    elif name == "connectionTtl":
        options.ttl_ms = _milliseconds(text)
    elif name == "connectionTtlMin":
        options.ttl_ms_min = _milliseconds(text)
    elif name == "connectionTtlMax":
        options.ttl_ms_max = _milliseconds(text)
    else:
        return False
    return True


def _prefixes(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _milliseconds(text: str) -> int:
    return -1 if text == "-1" else whole(text, 0, INT_MAX)
