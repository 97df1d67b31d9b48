"""What a client's URL says."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.settings import Dialect
from entrepot.client.options import ONE_WAY, ClientOptions, Reach, read_target
from entrepot.protocols.openwire.negotiation import WireFormatOptions


def hosts(url: str) -> list[str]:
    return [place.host for place in read_target(url, {}).places]


def test_a_single_place_is_dialled_once() -> None:
    target = read_target("tcp://a:1?jms.useAsyncSend=true&wireFormat.cacheEnabled=true", {})
    assert not target.reconnects
    assert target.failover.max_reconnect_attempts == 0
    assert target.client.use_async_send
    assert WireFormatOptions.of(target.places[0]).cache_enabled
    assert WireFormatOptions.of(target.places[0]).host == "a"


def test_host_and_port_are_enough() -> None:
    assert hosts("somewhere:61616") == ["somewhere"]


def test_failover_options_and_nested_ones() -> None:
    target = read_target(
        "failover:(tcp://a:1,tcp://b:1?wireFormat.version=9)?randomize=false&timeout=3000&jms.clientID=me"
        "&nested.wireFormat.maxInactivityDuration=1000",
        {},
    )
    assert target.reconnects
    assert not target.failover.randomize
    assert target.failover.timeout == 3 * SECOND
    assert target.client.client_id == "me"
    assert [WireFormatOptions.of(place).max_inactivity_duration for place in target.places] == [1000, 1000]
    assert [WireFormatOptions.of(place).version for place in target.places] == [12, 9]


def test_static_has_its_own_defaults() -> None:
    target = read_target("static:(tcp://a:1,tcp://b:1)?backOffMultiplier=3&maxReconnectAttempts=0", {})
    assert target.failover.initial_reconnect_delay == SECOND
    assert target.failover.reconnect_delay_exponent == 3.0
    assert target.failover.max_reconnect_attempts == -1


def test_discovery() -> None:
    target = read_target("discovery:(multicast://default?group=g)?initialReconnectDelay=5", {})
    assert target.reach is Reach.MULTICAST
    assert target.beacon is not None
    assert target.beacon.options == {"group": "g"}
    assert target.failover.initial_reconnect_delay == 5 * MILLISECOND
    assert hosts("discovery:(static:(tcp://a:1,tcp://b:1))") == ["a", "b"]


def test_masterslave_keeps_the_order() -> None:
    assert not read_target("masterslave:(tcp://a:1,tcp://b:1)", {}).failover.randomize


def test_redelivery_policy() -> None:
    policy = read_target(
        "tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=-1&jms.redeliveryPolicy.initialRedeliveryDelay=20", {}
    ).client.redelivery_policy()
    assert not policy.exhausted(1000)
    assert policy.next_delay_ms(0, 0.5) == 20
    assert policy.next_delay_ms(20, 0.5) == 1000


def test_credentials_of_the_url_and_of_the_caller() -> None:
    assert read_target("tcp://me:pw@a:1", {}).client.user_name == "me"
    assert read_target("tcp://me:pw@a:1", {"user_name": "you", "password": "x"}).client.user_name == "you"


@pytest.mark.parametrize("url", ["failover:(tcp://a:1)?randomise=false", "tcp://a:1?jms.prefetchPolicy.all=40000"])
def test_what_is_no_option_is_refused(url: str) -> None:
    with pytest.raises(InvalidOption):
        read_target(url, {})


def test_a_list_that_is_none() -> None:
    with pytest.raises(InvalidURI):
        read_target("broker:(tcp://a:1)/x", {})


def test_how_messages_are_treated() -> None:
    handling = read_target(
        "failover:(tcp://a:1)?jms.optimizeAcknowledge=true&jms.optimizeAcknowledgeTimeOut=50&jms.auditDepth=7"
        "&jms.auditMaximumProducerNumber=3&jms.nonBlockingRedelivery=true&jms.messagePrioritySupported=true"
        "&jms.consumerExpiryCheckEnabled=false",
        {},
    ).client.handling()
    assert (handling.lazily, handling.lazy_ns) == (True, 50 * MILLISECOND)
    assert (handling.audit_depth, handling.audit_producers) == (7, 3)
    assert (handling.non_blocking, handling.by_priority, handling.individually) == (True, True, True)
    assert not handling.check_expiry


@pytest.mark.parametrize("name", ONE_WAY)
@pytest.mark.parametrize("url", ["tcp://a:1?{}", "failover:(tcp://a:1)?{}"])
def test_an_option_with_one_meaning_agrees_or_is_refused_with_the_reason(name: str, url: str) -> None:
    agreed, why = ONE_WAY[name]
    other = {"true": "false", "false": "true", "0": "5"}[agreed]
    read_target(url.format(f"{name}={agreed}"), {})
    with pytest.raises(InvalidOption, match=why):
        read_target(url.format(f"{name}={other}"), {})


def test_every_connection_option_of_java_is_known() -> None:
    """classic.md 4.17; what is not here is about Java's own threads and class loaders."""
    java = """
        alwaysSyncSend auditDepth auditMaximumProducerNumber checkForDuplicates clientID clientIDPrefix closeTimeout
        connectResponseTimeout connectionIDPrefix consumerExpiryCheckEnabled consumerFailoverRedeliveryWaitPeriod
        copyMessageOnSend disableTimeStampsByDefault dispatchAsync exclusiveConsumer messagePrioritySupported
        nestedMapAndListEnabled nonBlockingRedelivery objectMessageSerializationDefered optimizeAcknowledge
        optimizeAcknowledgeTimeOut optimizedAckScheduledAckInterval optimizedMessageDispatch password
        producerWindowSize requestTimeout rmIdFromConnectionId sendAcksAsync sendTimeout transactedIndividualAck
        trustAllPackages useAsyncSend useCompression useRetroactiveConsumer userName watchTopicAdvisories
    """
    known = {*ClientOptions.names(Dialect.URI), *ONE_WAY}
    assert {f"jms.{name}" for name in java.split()} <= known


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("stomp://localhost:61613", "stomp.py"),
        ("amqp://localhost", "61616"),
        ("failover:(tcp://a:61616,stomp+ssl://b:61613)", "OpenWire"),
    ],
)
def test_what_is_not_openwire_is_refused_at_once(url: str, said: str) -> None:
    with pytest.raises(InvalidURI, match=said):
        read_target(url, {})


@pytest.mark.parametrize(
    "url", ["tcp://a:61616?jms.foo=1", "failover:(tcp://a:61616?jms.usAsyncSend=true)", "failover:(tcp://a)?jms.foo=1"]
)
def test_an_option_that_nobody_knows_is_refused(url: str) -> None:
    """Finding U16."""
    with pytest.raises(InvalidOption, match=r"jms\.useAsyncSend"):
        read_target(url, {})


@pytest.mark.parametrize(
    "url", ["tcp://a", "nio+ssl://a", "auto://a", "openwire+unix:///run/x", "vm://name", "https://a"]
)
def test_places_where_openwire_may_be_spoken(url: str) -> None:
    if "unix" not in url:
        assert read_target(url, {}).places[0].scheme == url.partition(":")[0]
