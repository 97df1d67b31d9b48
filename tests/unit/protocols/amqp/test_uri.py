"""Options of a listener, in the words of both families."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.uri import read_option


@pytest.mark.parametrize(
    ("written", "text", "attribute", "value"),
    [
        ("amqpCredits", "10", "credit", 10),
        ("wireFormat.producerCredit", "10", "credit", 10),
        ("amqpLowCredits", "3", "credit_low", 3),
        ("amqpIdleTimeout", "0", "idle_ms", 0),
        ("amqpIdleTimeout", "-1", "idle_ms", 60_000),
        ("wireFormat.idleTimeout", "30000", "idle_ms", 30_000),
        ("amqpMinLargeMessageSize", "-1", "large_octets", -1),
        ("wireFormat.maxAmqpFrameSize", "4096", "frame_octets_max", 4096),
        ("wireFormat.maxFrameSize", "104857600", "message_octets_max", 104_857_600),
        ("wireFormat.allowNonSaslConnections", "false", "plain_start", False),
        ("saslMechanisms", "PLAIN,EXTERNAL", "mechanisms", ["PLAIN", "EXTERNAL"]),
        ("transport.transformer", "native", "transformer", "native"),
        ("anycastPrefix", "q/,qq/", "anycast_prefixes", ["q/", "qq/"]),
        ("multicastPrefix", "t/", "multicast_prefixes", ["t/"]),
        ("auto.amqp.transport.transformer", "raw", "transformer", "raw"),
    ],
)
def test_an_option_is_read(written: str, text: str, attribute: str, value: object) -> None:
    options = AmqpOptions()
    assert read_option(options, written, text)
    assert getattr(options, attribute) == value


@pytest.mark.parametrize(
    ("written", "text"),
    [("amqpCredits", "0"), ("amqpCredits", "x"), ("saslMechanisms", "GSSAPI"), ("transformer", "odd")],
)
def test_a_value_that_is_none_is_refused(written: str, text: str) -> None:
    with pytest.raises(InvalidOption):
        read_option(AmqpOptions(), written, text)


def test_options_of_others_are_not_known() -> None:
    assert not read_option(AmqpOptions(), "maxHeaders", "1")
