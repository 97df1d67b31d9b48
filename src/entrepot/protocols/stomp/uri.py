"""What a listener's URI may say about STOMP: Classic's wire-format and transport options, and Artemis' parameters.

The names may stand behind ``wireFormat.``, ``transport.`` or, on a port that detects, ``wireFormat.stomp.`` and
``auto.stomp.`` (classic.md 6.1 to 6.3; artemis.md 5.3).
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from entrepot.base.settings import I64_MAX
from entrepot.base.uri import set_option
from entrepot.base.values import boolean, decimal, whole
from entrepot.protocols.stomp.options import StompOptions

PREFIXES: Final = ("wireFormat.stomp.", "auto.stomp.", "wireFormat.", "transport.")
FRAME_OCTETS_MAX: Final = 1 << 50  # larger than any disk; Classic's default of 2^63-1 means "the most"


def read_option(options: StompOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when STOMP has no such option. Raises InvalidOption."""
    remedy = "use a positive number (two, a,b for heart-beats; true or false for a choice)"
    return set_option(partial(_take, options), written, text, PREFIXES, remedy)


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
    elif name == "router":
        options.router = text
    elif name == "allowLinkStealing":
        options.link_stealing = boolean(text)
    elif name in ("hbGracePeriodMultiplier", "heartBeatToConnectionTtlModifier"):
        options.heartbeat_grace = decimal(text, 1.0, 1000.0)
    else:
        return False
    return True


def _positive(text: str) -> int:
    return whole(text, 1, I64_MAX)
