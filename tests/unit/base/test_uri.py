"""URIs: the forms that both families' documents show, what is refused and where, and the way back to text."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidURI
from entrepot.base.uri import (
    LIST_SCHEMES,
    NESTING_MAX,
    NO_PORT,
    URI_LENGTH_MAX,
    Composite,
    Endpoint,
    parse,
    parse_list,
    split_options,
)

A = Endpoint("tcp", "a", 1)
B = Endpoint("tcp", "b", 2)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("tcp://localhost:61616", Endpoint("tcp", "localhost", 61616)),
        ("TCP://Host", Endpoint("tcp", "Host")),
        ("tcp://0.0.0.0:0", Endpoint("tcp", "0.0.0.0", 0)),
        ("ssl://[::1]:61617", Endpoint("ssl", "::1", 61617)),
        ("ssl://[fe80::1%25eth0]", Endpoint("ssl", "fe80::1%eth0")),
        ("auto+nio+ssl://h:5671", Endpoint("auto+nio+ssl", "h", 5671)),
        ("stomp+ssl://h:61614", Endpoint("stomp+ssl", "h", 61614)),
        ("nio://h:1?x=", Endpoint("nio", "h", 1, options={"x": ""})),
        ("amqp://h:5672?flag", Endpoint("amqp", "h", 5672, options={"flag": ""})),
        ("ws://h:80/mqtt?a=1&b=2", Endpoint("ws", "h", 80, "/mqtt", {"a": "1", "b": "2"})),
        ("wss://h/", Endpoint("wss", "h", path="/")),
        ("http://h:8080/reg/default", Endpoint("http", "h", 8080, "/reg/default")),
        ("mqtt://u:p%40ss@h:1883", Endpoint("mqtt", "h", 1883, user="u", password="p@ss")),
        ("tcp://u@h:1", Endpoint("tcp", "h", 1, user="u")),
        (
            "tcp://0.0.0.0:61616?maximumConnections=1000&wireFormat.maxFrameSize=104857600",
            Endpoint(
                "tcp", "0.0.0.0", 61616, options={"maximumConnections": "1000", "wireFormat.maxFrameSize": "104857600"}
            ),
        ),
        ("multicast://default?group=x", Endpoint("multicast", "default", options={"group": "x"})),
        ("multicast://239.255.2.3:6155", Endpoint("multicast", "239.255.2.3", 6155)),
        ("udp://231.7.7.7:9876?refreshTimeout=1", Endpoint("udp", "231.7.7.7", 9876, options={"refreshTimeout": "1"})),
        ("zeroconf:_default", Endpoint("zeroconf", path="_default")),
        ("vm://broker?create=false", Endpoint("vm", "broker", options={"create": "false"})),
        ("vm://0", Endpoint("vm", "0")),
        ("peer://group/name", Endpoint("peer", "group", path="/name")),
        ("xbean:activemq.xml", Endpoint("xbean", path="activemq.xml")),
        ("  tcp://h:1\n", Endpoint("tcp", "h", 1)),
        (
            "vm://x?brokerConfig=broker:(tcp://a:1,tcp://b:2)?persistent=false",
            Endpoint("vm", "x", options={"brokerConfig": "broker:(tcp://a:1,tcp://b:2)?persistent=false"}),
        ),
        ("tcp://h?a=1&a=2&&b=x+y%2Bz%20%C3%A9", Endpoint("tcp", "h", options={"a": "2", "b": "x y+z é"})),
    ],
)
def test_endpoints(text: str, endpoint: Endpoint) -> None:
    assert parse(text) == endpoint
    assert parse(endpoint.format()) == endpoint


@pytest.mark.parametrize(
    ("text", "composite"),
    [
        ("failover:(tcp://a:1,tcp://b:2)", Composite("failover", (A, B))),
        ("failover://(tcp://a:1,tcp://b:2)", Composite("failover", (A, B))),
        ("failover:tcp://a:1,tcp://b:2", Composite("failover", (A, B))),
        ("failover://tcp://a:1,tcp://b:2", Composite("failover", (A, B))),
        (
            "failover:(tcp://a:1?x=y,tcp://b:2)?randomize=false&nested.z=1",
            Composite("failover", (A.with_options({"x": "y"}), B), {"randomize": "false", "nested.z": "1"}),
        ),
        ("failover:tcp://a:1?x=y", Composite("failover", (A.with_options({"x": "y"}),))),
        ("static:(tcp://a:1)", Composite("static", (A,))),
        ("simple:(tcp://a:1)", Composite("simple", (A,))),
        ("masterslave:(tcp://a:1,tcp://b:2)", Composite("masterslave", (A, B))),
        (
            "static:(failover:(tcp://a:1,tcp://b:2)?maxReconnectAttempts=0,tcp://b:2)?x=1",
            Composite("static", (Composite("failover", (A, B), {"maxReconnectAttempts": "0"}), B), {"x": "1"}),
        ),
        (
            "fanout:(multicast://default)?minAckCount=3",
            Composite("fanout", (Endpoint("multicast", "default"),), {"minAckCount": "3"}),
        ),
        (
            "discovery:(multicast://default?group=g)?maxReconnectAttempts=3",
            Composite(
                "discovery",
                (Endpoint("multicast", "default", options={"group": "g"}),),
                {"maxReconnectAttempts": "3"},
            ),
        ),
        ("discovery:multicast://default", Composite("discovery", (Endpoint("multicast", "default"),))),
        ("broker:(tcp://a:1)/name?persistent=false", Composite("broker", (A,), {"persistent": "false"}, "name")),
        ("broker:()", Composite("broker")),
        ("vm:(broker:(tcp://a:1))", Composite("vm", (Composite("broker", (A,)),))),
        ("vm:broker:(tcp://a:1)?x=1", Composite("vm", (Composite("broker", (A,), {"x": "1"}),))),
        ("(tcp://a:1,tcp://b:2)?ha=true", Composite("", (A, B), {"ha": "true"})),
        (
            "static://(tcp://a:1,tcp://b:2)?connectorName=netty-connector&maxHops=1",
            Composite("static", (A, B), {"connectorName": "netty-connector", "maxHops": "1"}),
        ),
        ("static:( tcp://a:1 ,\n   tcp://b:2 )", Composite("static", (A, B))),
        (
            "failover:(tcp://a:1,tcp://b:2)?priorityURIs=tcp://a:1,tcp://b:2",
            Composite("failover", (A, B), {"priorityURIs": "tcp://a:1,tcp://b:2"}),
        ),
        (
            "failover:(ssl://[::1]:1,tcp://b:2)",
            Composite("failover", (Endpoint("ssl", "::1", 1), B)),
        ),
    ],
)
def test_composites(text: str, composite: Composite) -> None:
    assert parse(text) == composite
    assert parse(composite.format()) == composite


@pytest.mark.parametrize(
    ("text", "position", "word"),
    [
        ("", 0, "missing"),
        ("localhost:61616", 0, "scheme"),
        ("127.0.0.1:61616", 0, "scheme"),
        ("failover:(a,b)", 10, "scheme"),
        ("tcp:localhost:1", 4, "host"),
        ("tcp://", 6, "host"),
        ("tcp://:1", 6, "host"),
        ("tcp://h:", 8, "port"),
        ("tcp://h:65536", 8, "port"),
        ("tcp://h:-1", 8, "port"),
        ("tcp://h:٣", 8, "port"),
        ("tcp://h:1:2", 7, "colon"),
        ("tcp://::1", 6, "colon"),
        ("tcp://a%3Ab", 6, "colon"),
        ("tcp://[::1", 6, "bracket"),
        ("tcp://[::g]:1", 6, "IPv6"),
        ("tcp://[::1]1", 11, "bracket"),
        ("tcp://a:1,tcp://b:2", 9, "colon|port|character"),
        ("tcp://a b:1", 7, "character"),
        ("tcp://h?a=b c", 11, "character"),
        ("tcp://h?a=%4", 10, "percent"),
        ("tcp://h?a=%zz&b=1", 10, "percent"),
        ("tcp://h?a=%FF", 10, "UTF-8"),
        ("tcp://h#x", 7, "character"),
        ("tcp://h?=x", 8, "name"),
        ("failover:(tcp://a:1", 9, "never closed"),
        ("failover:(tcp://a:1))", 20, "behind"),
        ("failover:(tcp://a:1)randomize=false", 20, "behind"),
        ("failover:tcp://a:1)", 18, "not opened"),
        ("failover:(tcp://a:1,)", 20, "missing"),
        ("failover:(,tcp://a:1)", 10, "missing"),
        ("failover:()", 9, "empty"),
        ("failover:", 9, "empty"),
        ("()", 0, "empty"),
        ("masterslave:(tcp://a:1)", 12, "two"),
        ("static:(failover:(tcp://a:x))", 26, "port"),
    ],
)
def test_refusals_say_where_and_what_to_do(text: str, position: int, word: str) -> None:
    with pytest.raises(InvalidURI, match=word) as caught:
        parse(text)
    if "," not in text or "(" in text or text.startswith("failover"):
        assert f"at character {position}" in caught.value.message
    assert caught.value.remedy


def test_an_error_does_not_tell_the_password() -> None:
    with pytest.raises(InvalidURI) as caught:
        parse("tcp://user:secret@host:none")
    assert "secret" not in str(caught.value)


def test_hostile_text_is_refused_before_it_costs_anything() -> None:
    with pytest.raises(InvalidURI, match="long"):
        parse("tcp://" + "h" * URI_LENGTH_MAX)
    deep = "static:(" * NESTING_MAX + "tcp://a:1" + ")" * NESTING_MAX
    assert isinstance(parse(deep), Composite)
    with pytest.raises(InvalidURI, match="deep"):
        parse(f"static:({deep})")
    with pytest.raises(InvalidURI):
        parse("(" * 60_000)


def test_lists() -> None:
    assert parse_list("tcp://a:1,tcp://b:2") == [A, B]
    assert parse_list("failover:(tcp://a:1,tcp://b:2), tcp://a:1") == [Composite("failover", (A, B)), A]
    assert parse_list("") == []
    assert parse_list("tcp://a:1,") == [A]
    with pytest.raises(InvalidURI):
        parse_list("tcp://a:1,(tcp://b:2")


def test_split_options_takes_one_name_space_and_keeps_order() -> None:
    options = {"transport.b": "1", "x": "2", "transport.a.c": "3", "transport.": "4", "transportx": "5"}
    taken, rest = split_options(options, "transport.")
    assert list(taken.items()) == [("b", "1"), ("a.c", "3")]
    assert list(rest.items()) == [("x", "2"), ("transport.", "4"), ("transportx", "5")]


def test_options_are_added_without_changing_the_original() -> None:
    endpoint = Endpoint("tcp", "a", 1, options={"x": "1"})
    assert endpoint.with_options({"x": "2", "y": "3"}).options == {"x": "2", "y": "3"}
    assert endpoint.options == {"x": "1"}
    composite = Composite("failover", (endpoint,)).with_options({"z": "4"})
    assert composite == Composite("failover", (endpoint,), {"z": "4"})


def test_leaves_are_found_in_order() -> None:
    nested = parse("static:(failover:(tcp://a:1,tcp://b:2),tcp://a:1)")
    assert list(nested.endpoints()) == [A, B, A]
    assert list(A.endpoints()) == [A]


@pytest.mark.parametrize(
    ("scheme", "secure"),
    [("tcp", False), ("ssl", True), ("auto+nio+ssl", True), ("wss", True), ("amqp+wss", True), ("https", True)],
)
def test_secure_schemes(scheme: str, secure: bool) -> None:
    assert Endpoint(scheme, "h").secure is secure


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("tcp://u:secret@h:1", "tcp://u:****@h:1"),
        ("tcp://u@h:1", "tcp://u@h:1"),
        ("ssl://h:1?trustStorePassword=secret&x=1", "ssl://h:1?trustStorePassword=****&x=1"),
        (
            "failover:(tcp://u:secret@a:1,ssl://b:2?keyPassword=secret)?nested.jms.password=secret",
            "failover:(tcp://u:****@a:1,ssl://b:2?keyPassword=****)?nested.jms.password=****",
        ),
        (
            "failover:(tcp://a:1)?priorityURIs=tcp://u:secret@a:1,tcp://b:2",
            "failover:(tcp://a:1)?priorityURIs=tcp://u:****@a:1,tcp://b:2",
        ),
        (
            "vm://x?brokerConfig=broker:(ssl://a:1?keyPassword=secret,tcp://b:2)",
            "vm://x?brokerConfig=broker:(ssl://a:1?keyPassword=****,tcp://b:2)",
        ),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert parse(text).masked() == masked
    assert parse(text).format().count("secret") == text.count("secret")


@pytest.mark.parametrize("piece", ["//a:", "password", "//", "a:@", "password="])
def test_masking_a_hostile_value_takes_linear_time(piece: str) -> None:
    text = "tcp://h?x=" + piece * ((URI_LENGTH_MAX - 10) // len(piece))
    assert parse(text).masked()


word = st.text("ab19-._~%é @:/?&=+,()[]#*\\\"'", min_size=1, max_size=8)
options = st.dictionaries(word, st.text("ab19-%é @:/?&=+,()[]#*", max_size=10), max_size=3)
hosts = st.text("ab19-._~é %,()@/[", min_size=1, max_size=8) | st.sampled_from(["::1", "fe80::1%eth0", "1.2.3.4"])
endpoints = st.builds(
    Endpoint,
    st.sampled_from(["tcp", "auto+ssl", "vm", "multicast", "xbean"]),
    hosts,
    st.just(NO_PORT) | st.integers(0, 65_535),
    st.just("") | word.map(lambda text: "/" + text),
    options,
    st.just("") | word,
    st.just("") | word,
) | st.builds(Endpoint, st.sampled_from(["vm", "xbean", "zeroconf"]), path=word, options=options)
uris = st.recursive(
    endpoints,
    lambda members: st.builds(
        Composite,
        st.sampled_from(["", "x", *sorted(LIST_SCHEMES)]),
        st.lists(members, min_size=2, max_size=3).map(tuple),
        options,
        st.just("") | word,
    ),
    max_leaves=6,
)


@given(uris)
@example(Endpoint("vm", path="broker:(tcp://a)"))
@example(Endpoint("xbean", path="12"))
def test_text_and_back(value: Endpoint | Composite) -> None:
    depth = _depth(value)
    if depth <= NESTING_MAX:
        assert parse(value.format()) == value


def _depth(value: Endpoint | Composite) -> int:
    return 0 if isinstance(value, Endpoint) else 1 + max(_depth(member) for member in value.members)


@given(st.text("tcpvm:/@?&=%4,()[]+#. 1\n", max_size=40))
@example("vm:%62roker:x")
@example("x:%31")
def test_any_text_is_read_or_refused_and_what_is_read_goes_round(text: str) -> None:
    try:
        value = parse(text)
    except InvalidURI:
        return
    assert parse(value.format()) == value
    assert isinstance(value.masked(), str)
