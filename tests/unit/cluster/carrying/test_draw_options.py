"""What ``artemis:(...)`` and ``activemq:(...)`` say."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MIB, SECOND
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.cluster.carrying.draw_options import ActiveMQOptions, ArtemisOptions, draw_of, draws_of, is_draw


def test_places_and_options() -> None:
    entry = draw_of("artemis:(tcp://a:61616,ssl://b:61617?trustStorePath=x.pem)?user=me&password=it&only=Q,A.*", 1)
    assert [(place.scheme, place.host, place.port) for place in entry.places] == [
        ("tcp", "a", 61616),
        ("ssl", "b", 61617),
    ]
    assert entry.places[1].options == {"trustStorePath": "x.pem"}
    options = entry.options
    assert isinstance(options, ArtemisOptions)
    assert (options.name, options.user, options.password, options.only) == ("artemis", "me", "it", ("Q", "A.*"))
    assert (options.ha, options.window, options.back) == (True, MIB, ())


def test_one_place_needs_no_parentheses_and_the_second_has_another_name() -> None:
    entry = draw_of("artemis:tcp://a:61616", 2)
    assert [place.host for place in entry.places] == ["a"]
    assert entry.options.name == "artemis-2"


def test_what_goes_back_is_a_core_bridge_for_each_queue() -> None:
    entry = draw_of("artemis:(tcp://a:1,tcp://b:2)?user=me&password=it&back=results,more&retryInterval=250", 1)
    results, more = entry.bridges()
    assert (results.options.name, results.options.queue, results.options.forwards) == (
        "artemis-results",
        "results",
        "",
    )
    assert (more.options.queue, more.options.user, more.options.password) == ("more", "me", "it")
    assert results.options.deduplicates
    assert results.options.retry_interval == SECOND // 4
    assert results.places == entry.places
    assert draw_of("artemis:(tcp://a:1)", 1).bridges() == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("artemis:(tcp://a:1)?usr=me", InvalidOption),
        ("artemis:(tcp://a:1)?window=3", InvalidOption),
        ("artemis:(http://a:1)", InvalidURI),
        ("artemis:(failover:(tcp://a:1))", InvalidURI),
        ("artemis:(tcp://me:it@a:1)", InvalidURI),
        ("artemis:()", InvalidURI),
        ("artemis://a:1", InvalidURI),
        ("activemq:(tcp://a:1)?user=me", InvalidOption),
        ("activemq:(tcp://a:1)?window=1048576", InvalidOption),
        ("activemq:(tcp://a:1)?prefetchSize=0", InvalidOption),
        ("activemq:failover:(tcp://a:1)?randomize=false", InvalidOption),
        ("activemq:(failover:(tcp://a:1),tcp://b:1)", InvalidURI),
        ("activemq:(tcp://me:it@a:1)", InvalidURI),
        ("activemq:(http://a:1)", InvalidURI),
        ("activemq:()", InvalidURI),
    ],
)
def test_what_cannot_be_is_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        draw_of(text, 1)
    assert "me:it" not in str(caught.value)


def test_waits_of_a_lost_connection_grow() -> None:
    made = ArtemisOptions(retry=SECOND, retry_max=8 * SECOND).reconnection()
    assert (made.initial_delay, made.max_delay, made.exponential, made.attempts_max) == (SECOND, 8 * SECOND, True, 0)


def test_what_names_a_broker_to_draw_from() -> None:
    assert is_draw("artemis:(tcp://a:1)")
    assert is_draw(" ActiveMQ:tcp://a:1")
    assert not is_draw("static:(tcp://a:1)")
    assert not is_draw("activemq")


@pytest.mark.parametrize("text", ["(tcp://a:1,ssl://b:2)", "failover:(tcp://a:1,ssl://b:2)"])
def test_an_activemq(text: str) -> None:
    entry = draw_of(f"activemq:{text}?userName=me&password=it&prefetchSize=50&clientID=c&only=Q", 1)
    options = entry.options
    assert isinstance(options, ActiveMQOptions)
    assert (options.name, options.user, options.password, options.client_id) == ("activemq", "me", "it", "c")
    assert (options.prefetch, options.only) == (50, ("Q",))
    assert [(place.host, place.port) for place in entry.places] == [("a", 1), ("b", 2)]
    assert entry.bridges() == []


def test_each_kind_is_counted_for_itself() -> None:
    texts = ("artemis:tcp://a:1", "static:(tcp://b:1)", "activemq:tcp://c:1", "artemis:tcp://d:1", "activemq:tcp://e:1")
    assert [entry.options.name for entry in draws_of(texts)] == ["artemis", "activemq", "artemis-2", "activemq-2"]


def test_the_user_stands_where_its_kind_has_it() -> None:
    for kind, name in (("artemis", "user"), ("activemq", "userName")):
        with pytest.raises(InvalidURI) as caught:
            draw_of(f"{kind}:(tcp://me:it@a:1)", 1)
        assert f"?{name}=NAME" in str(caught.value.remedy)
