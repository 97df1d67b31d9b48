"""Which console is started beside a broker: what an option says, what a file says, and what the broker speaks."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cli.console import askable, askable_by, planned
from entrepot.config.console import ConsolePlace, ConsoleRealm, ConsoleSettings, ConsoleTls
from entrepot.config.model import BrokerConfig, OwnSettings

TLS = ConsoleTls(certificate="/k.pem")
WRITTEN = ConsoleSettings(
    places=(ConsolePlace(host="localhost", port=8162, tls=TLS), ConsolePlace(host="localhost", port=8161)),
    realm=ConsoleRealm(users=()),
    file="jetty.xml",
)


def test_an_option_goes_before_the_place_and_tls_and_users_stay() -> None:
    config = BrokerConfig(console=WRITTEN)
    assert planned(None, config) == WRITTEN
    assert planned("none", config) is None
    found = planned("10.0.0.1:9000", config)
    assert found is not None
    assert found.places == (ConsolePlace(host="10.0.0.1", port=9000, tls=TLS),)
    assert found.realm == WRITTEN.realm


def test_the_directory_of_reports_is_the_files_whoever_says_the_place() -> None:
    there = OwnSettings(reports="/r")
    shown = planned(None, BrokerConfig(console=WRITTEN, own=there))
    elsewhere = planned(":9000", BrokerConfig(own=there))
    assert shown is not None
    assert elsewhere is not None
    assert (shown.reports, elsewhere.reports) == ("/r", "/r")
    assert planned(None, BrokerConfig(own=there)) is None


def test_without_a_file_there_is_what_the_option_says() -> None:
    assert planned(None, None) is None
    assert planned(None, BrokerConfig()) is None
    found = planned(":9000", None)
    assert found is not None
    assert (found.places, found.realm) == ((ConsolePlace(host="0.0.0.0", port=9000),), None)


@pytest.mark.parametrize(
    ("uri", "speaks"),
    [
        ("auto://0.0.0.0:1", True),
        ("openwire+ssl://0.0.0.0:1", True),
        ("stomp+ssl://0.0.0.0:1", False),
        ("core://0.0.0.0:1", False),
        ("auto://0.0.0.0:1?protocols=CORE,OPENWIRE&x=1", True),
        ("auto://0.0.0.0:1?auto.protocols=core,amqp,ws", False),
        ("auto://0.0.0.0:1?transport.auto.protocols=default,stomp", True),
    ],
)
def test_a_broker_is_asked_where_it_takes_openwire(uri: str, speaks: bool) -> None:
    assert askable(["stomp://0.0.0.0:2", uri]) is speaks


def test_a_console_that_cannot_ask_is_refused_to_an_option_and_left_out_for_a_file() -> None:
    given = ConsoleSettings(places=WRITTEN.places)
    assert askable_by(given, ["auto://a:1"]) is given
    assert askable_by(WRITTEN, ["stomp://a:1"]) is None
    with pytest.raises(InvalidOption, match="--console asks the broker in OpenWire"):
        askable_by(given, ["stomp://a:1"])
