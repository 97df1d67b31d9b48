"""Where a broker is reached: by clients on its machine, by those elsewhere, by beacons."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import Endpoint
from entrepot.io.options import no_option
from entrepot.io.places import SPOKEN, Places, announced_uri, dialled, parse_discovery, published
from entrepot.io.tcp import Listener, Listening
from entrepot.protocols.openwire.options import Published
from entrepot.protocols.session import HTTP, OPENWIRE, STOMP


def listener(text: str) -> Listener:
    """Return one whose place is what the text says."""
    made = Listener(Listening(text, no_option, SPOKEN), None, dict.fromkeys(SPOKEN))  # type: ignore[arg-type]
    made.port = made.listening.endpoint.port  # as if it were open
    return made


def places(*texts: str, more: tuple[str, ...] = ()) -> Places:
    return Places([listener(text) for text in (*texts, *more)], len(texts))


def test_a_protocol_of_its_own_goes_before_one_that_finds_out() -> None:
    found = places("auto://127.0.0.1:1", "stomp://127.0.0.1:2")
    assert found.spoken(STOMP) == "stomp://127.0.0.1:2"
    assert found.spoken(OPENWIRE) == "openwire://127.0.0.1:1"
    assert found.spoken("tcp") == "tcp://127.0.0.1:1"


def test_what_nobody_speaks_is_refused_with_what_is_spoken() -> None:
    with pytest.raises(InvalidOption, match="does not speak 'mqtt'") as refused:
        places("stomp://127.0.0.1:2").spoken("mqtt")
    assert "stomp" in refused.value.remedy


def test_a_listener_that_is_not_for_others_is_no_place_for_them() -> None:
    found = places("stomp://127.0.0.1:2", more=("openwire://127.0.0.1:9",))
    assert [one.place.port for one in found.public] == [2]
    with pytest.raises(InvalidOption, match="does not speak"):
        found.spoken(OPENWIRE)


def test_a_wildcard_is_dialled_on_this_machine() -> None:
    assert dialled(listener("stomp://0.0.0.0:2"), STOMP) == Endpoint("stomp", "127.0.0.1", 2)
    assert dialled(listener("openwire://[::]:3"), OPENWIRE).host == "::1"


def test_clients_are_told_the_place_of_openwire_alone() -> None:
    assert published(listener("stomp://127.0.0.1:2"), Published()) == ""
    assert published(listener("openwire://127.0.0.1:3"), Published()).startswith("tcp://127.0.0.1:3")


def test_statistics_have_the_names_of_activemq() -> None:
    assert places("openwire://127.0.0.1:3", "stomp://127.0.0.1:2").by_protocol() == {
        "openwire": "tcp://127.0.0.1:3",
        "stomp": "stomp://127.0.0.1:2",
    }


def test_beacons_announce_the_first_place_of_openwire_and_those_that_say_so() -> None:
    found = places("stomp://127.0.0.1:2", "openwire://127.0.0.1:3", "openwire://127.0.0.1:4")
    told = found.announced(["multicast://default"], ["multicast://default", "", "multicast://other"])
    assert [uri.rpartition(":")[2] for _, uri in told] == ["3", "4"]
    assert announced_uri(listener("openwire://127.0.0.1:3")).startswith("tcp://")


def test_a_beacon_is_one_place() -> None:
    with pytest.raises(InvalidURI, match="announced in one place"):
        parse_discovery("static:(multicast://a,multicast://b)")


def test_http_is_one_of_the_languages() -> None:
    assert HTTP in SPOKEN
