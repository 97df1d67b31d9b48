"""What a listener's URI may say about CORE: Artemis' parameters of acceptors (artemis.md 5.4)."""

from __future__ import annotations

from functools import partial

from entrepot.base.uri import set_option
from entrepot.base.values import INT_MAX, whole
from entrepot.protocols.artemis.options import CoreOptions

OPTION_NAMES = ("router", "anycastPrefix", "multicastPrefix", "connectionTtl", "connectionTtlMin", "connectionTtlMax")


def read_option(options: CoreOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when CORE has no such option. Raises InvalidOption."""
    return set_option(partial(_take, options), written, text, remedy="use milliseconds, or -1 for no limit")


def _take(options: CoreOptions, name: str, text: str) -> bool:
    if name == "router":
        options.router = text
    elif name == "anycastPrefix":
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
