"""Passwords that `artemis mask` hid: what the codec of Artemis 2.42 wrote is read, everywhere, by any kind of key."""

from __future__ import annotations

import pytest

from entrepot.config.artemis import interpret
from entrepot.config.artemis.masks import CODEC, KEY_PROPERTY, KEY_VARIABLE, decoder
from entrepot.config.findings import Findings, Severity
from entrepot.config.reading import Reading
from entrepot.config.sources import Sources
from entrepot.config.xml import parse

pytest.importorskip("cryptography")

WRITTEN = {
    "password": "3a34fd21b82bf2a822fa49a8d8fa115d",
    "hello": "-29b5a01e888105be",
    "a longer password than that": "7b43caeb9ceedf31540f7e47381c33d9712392a3d705f447e9d237bd71b729fc",
    "grüße": "35fabd4c318a49ec",
    "z7": "-5497d5852202da1",
}
"""What ``DefaultSensitiveStringCodec`` of 2.42 wrote, by what it was given."""
OTHER_KEY = "-7c27a4b22586ab06"
"""``hello`` by the key ``mykey``."""
BRIDGE = (
    '<bridges><bridge name="b"><queue-name>q</queue-name>{}'
    "<static-connectors><connector-ref>c</connector-ref></static-connectors></bridge></bridges>"
)
CONNECTOR = '<connectors><connector name="c">tcp://127.0.0.1:1{}</connector></connectors>'


def read(inside: str, acceptor: str = "", **given: dict[str, str]) -> Reading:
    text = (
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><security-enabled>false</security-enabled>'
        f'<persistence-enabled>false</persistence-enabled>{inside}<acceptors><acceptor name="a">'
        f"tcp://127.0.0.1:0?protocols=STOMP{acceptor}</acceptor></acceptors></core></configuration>"
    )
    sources = Sources(Findings(), **given)
    sources.file = "broker.xml"
    return interpret(parse(text.encode(), "broker.xml"), sources, spoken=("stomp",))


def bridged(password: str, before: str = "", **given: dict[str, str]) -> str:
    reading = read(before + CONNECTOR.format("") + BRIDGE.format(password), **given)
    assert reading.config is not None, [one.describe() for one in reading.findings.errors]
    assert "hello" not in "".join(one.describe() for one in reading.findings.sorted())
    return reading.config.core_bridges[0].options.password


@pytest.mark.parametrize(("plain", "masked"), list(WRITTEN.items()))
def test_what_artemis_wrote_is_read(plain: str, masked: str) -> None:
    assert decoder("clusterpassword")(masked) == plain


@pytest.mark.parametrize("text", ["", "xyz", "12", "3a34fd21b82bf2a822fa49a8d8fa115e"])
def test_what_it_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it "):
        decoder("clusterpassword")(text)


def test_elements_and_attributes_in_enc_or_bare_where_all_are_masked() -> None:
    hello = WRITTEN["hello"]
    assert bridged(f"<password>ENC({hello})</password>") == "hello"
    assert bridged("<password>hello</password>") == "hello"
    bare = "<mask-password>true</mask-password>"
    assert bridged(f"<password>{hello}</password>", bare) == "hello"
    assert bridged(f"<password>ENC({hello})</password>", bare) == "hello"


def test_the_password_of_the_cluster_and_those_in_uris() -> None:
    store = f"?sslEnabled=true;trustStorePassword=ENC({WRITTEN['grüße']})"
    reading = read(f"<cluster-password>ENC({WRITTEN['password']})</cluster-password>" + CONNECTOR.format(store))
    assert reading.config is not None
    peering = reading.config.peering
    assert (peering.cluster_password, peering.masked) == ("password", False)
    assert "trustStorePassword=gr%C3%BC%C3%9Fe" in peering.places[0].uri


@pytest.mark.parametrize(
    ("before", "given"),
    [
        (f"<password-codec>{CODEC};key=mykey</password-codec>", {}),
        ("", {"environment": {KEY_VARIABLE: "mykey"}}),
        ("", {"defines": {KEY_PROPERTY: "mykey"}}),
    ],
)
def test_a_key_of_ones_own(before: str, given: dict[str, dict[str, str]]) -> None:
    assert bridged(f"<password>ENC({OTHER_KEY})</password>", before, **given) == "hello"


def errors(inside: str) -> list[str]:
    reading = read(inside)
    assert reading.config is None
    return [one.describe() for one in reading.findings.of(Severity.ERROR)]


def test_another_key_and_another_codec_are_errors_that_say_so() -> None:
    (told,) = errors(CONNECTOR.format("") + BRIDGE.format(f"<password>ENC({OTHER_KEY})</password>"))
    assert "masked with another key" in told
    assert OTHER_KEY not in told
    (told,) = errors("<password-codec>com.example.Mine;a=b</password-codec>")
    assert "com.example.Mine" in told
    (told,) = errors(
        f"<password-codec>{CODEC};key=abc</password-codec><cluster-password>ENC({OTHER_KEY})</cluster-password>"
    )
    assert "3 octets" in told
