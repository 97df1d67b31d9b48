"""What a listener's URI may say about AMQP: parameters of Artemis' acceptors, options of Classic's connectors.

Artemis: artemis.md 5.3 and 5.4; Classic: classic.md 6.5, on a port that detects behind ``wireFormat.amqp.`` and
``auto.amqp.``.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidOption
from entrepot.base.uri import set_option
from entrepot.base.values import INT_MAX, boolean, whole
from entrepot.protocols.amqp.options import ANONYMOUS, EXTERNAL, PLAIN, AmqpOptions
from entrepot.protocols.sasl import SCRAM

KNOWN: Final = (PLAIN, ANONYMOUS, EXTERNAL, *SCRAM)
FRAME_OCTETS_MIN: Final = 512
FRAME_OCTETS_MAX: Final = 16 * 1024 * 1024
TRANSFORMERS: Final = ("jms", "native", "raw")
IDLE_DEFAULT: Final = "-1"


def read_option(options: AmqpOptions, written: str, text: str) -> bool:
    """Set what ``written`` names from ``text``; False when AMQP has no such option. Raises InvalidOption."""
    name = (
        written.removeprefix("auto.amqp.").removeprefix("transport.").removeprefix("wireFormat.").removeprefix("amqp.")
    )
    return set_option(lambda _, text: _numbers(options, name, text) or _words(options, name, text), written, text)


def _numbers(options: AmqpOptions, name: str, text: str) -> bool:
    if name in ("amqpCredits", "producerCredit"):
        options.credit = whole(text, 1, INT_MAX)
        options.credit_low = min(options.credit_low, max(options.credit // 3, 0))
    elif name == "amqpLowCredits":
        options.credit_low = whole(text, 0, INT_MAX)
    elif name in ("amqpIdleTimeout", "idleTimeout", "idelTimeout"):
        if text != IDLE_DEFAULT:
            options.idle_ms = whole(text, 0, INT_MAX)
    elif name == "amqpMinLargeMessageSize":
        options.large_octets = -1 if text == "-1" else whole(text, 0, INT_MAX)
    elif name == "maxAmqpFrameSize":
        options.frame_octets_max = whole(text, FRAME_OCTETS_MIN, FRAME_OCTETS_MAX)
    elif name == "maxFrameSize":
        options.message_octets_max = whole(text, FRAME_OCTETS_MIN)
    elif name == "connectAttemptTimeout":
        options.connect_timeout_ms = whole(text, 1, INT_MAX)
    elif name == "maximumConsumersAllowedPerConnection":
        options.readers_max = whole(text, 1, INT_MAX)
    else:
        return False
    return True


def _words(options: AmqpOptions, name: str, text: str) -> bool:
    if name == "allowNonSaslConnections":
        options.plain_start = boolean(text)
    elif name == "transformer":
        if text not in TRANSFORMERS:
            raise InvalidOption(f"there is no transformer {text!r}", remedy=f"use {', '.join(TRANSFORMERS)}")
        options.transformer = text
    elif name == "saslMechanisms":
        words = [word.strip().upper() for word in text.replace(";", ",").split(",") if word.strip()]
        unknown = [word for word in words if word not in KNOWN]
        if unknown:
            raise InvalidOption(
                f"the mechanism {unknown[0]!r} of SASL is not known here", remedy=f"known: {', '.join(KNOWN)}"
            )
        options.mechanisms = words
    elif name == "router":
        options.router = text
    elif name == "anycastPrefix":
        options.anycast_prefixes = [word for word in text.split(",") if word]
    elif name == "multicastPrefix":
        options.multicast_prefixes = [word for word in text.split(",") if word]
    else:
        return False
    return True
