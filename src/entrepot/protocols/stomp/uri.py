"""What a listener's URI may say about STOMP: Classic's wire-format and transport options, and Artemis' parameters.

The names may stand behind ``wireFormat.``, ``transport.`` or, on a port that detects, ``wireFormat.stomp.`` and
``auto.stomp.`` (classic.md 6.1 to 6.3; artemis.md 5.3).
"""

from __future__ import annotations

import re
from typing import Final

from entrepot.base.errors import InvalidOption
from entrepot.protocols.stomp.options import StompOptions

PREFIXES: Final = ("wireFormat.stomp.", "auto.stomp.", "wireFormat.", "transport.")
FRAME_OCTETS_MAX: Final = 1 << 50  # larger than any disk; Classic's default of 2^63-1 means "the most"


def read_option(options: StompOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when STOMP has no such option. Raises InvalidOption."""
    name = written
    for prefix in PREFIXES:
        if written.startswith(prefix):
            name = written[len(prefix) :]
            break
    try:
        return _take(options, name, text)
    except ValueError:
        raise InvalidOption(
            f"{text!r} is no value for the option {written!r}",
            remedy="use a positive number (two, a,b for heart-beats; true or false for a choice)",
        ) from None


def _take(options: StompOptions, name: str, text: str) -> bool:
    if name in ("maxFrameSize", "maxDataLength", "stompMaxFramePayloadLength"):
        options.frame_octets_max = min(_positive(text), FRAME_OCTETS_MAX)
    elif name == "maxCommandLength":
        options.command_octets_max = _positive(text)
    elif name == "maxHeaderLength":
        options.line_octets_max = _positive(text)
    elif name == "maxHeaders":
        options.headers_max = _positive(text)
    elif name == "maximumConsumersAllowedPerConnection":
        options.subscriptions_max = min(_positive(text), options.subscriptions_max)
    elif name == "stompMinLargeMessageSize":
        options.large_octets = _positive(text)
    elif name == "defaultHeartBeat":
        if not re.fullmatch(r"\d{1,9},\d{1,9}", text):
            raise ValueError(text)
        options.heartbeat_default = text
    elif name == "allowLinkStealing":
        if text not in ("true", "false"):
            raise ValueError(text)
        options.link_stealing = text == "true"
    elif name in ("hbGracePeriodMultiplier", "heartBeatToConnectionTtlModifier"):
        grace = float(text)
        if not 1.0 <= grace <= 1000.0:
            raise ValueError(text)
        options.heartbeat_grace = grace
    else:
        return False
    return True


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise ValueError(text)
    return number
