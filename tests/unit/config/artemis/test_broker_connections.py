"""``<broker-connections>``: what is obeyed, and what is refused by name (artemis.md 2.8)."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.broker_connections.connection import options_for
from entrepot.cluster.broker_connections.options import AmqpConnectionEntry, Element, FetchOptions, MirrorOptions, Way
from entrepot.cluster.federation.options import AddressPolicy, Match, QueuePolicy
from entrepot.config.artemis import broker_connection_places
from entrepot.config.artemis.amqp_federations import WITHOUT_EFFECT
from entrepot.config.findings import Severity
from entrepot.config.model import BrokerConfig, changes
from entrepot.io.options import TAKERS

from .test_artemis import document, errors, read, said

SENDER = '<sender queue-name="Q"/>'


OF_ARTEMIS = """
activemqServerName sslEnabled httpEnabled httpClientIdleTime httpClientIdleScanPeriod httpRequiresSessionId
httpUpgradeEnabled httpUpgradeEndpoint useServlet servletPath useNio useNioGlobalWorkerPool useEpoll useKQueue
useGlobalWorkerPool localAddress localPort keyStoreProvider keyStoreType keyStorePath keyStorePassword keyStoreAlias
trustStoreProvider trustStoreType trustStorePath trustStorePassword enabledCipherSuites enabledProtocols verifyHost
trustAll forceSSLParameters sniHost tcpNoDelay tcpSendBufferSize tcpReceiveBufferSize writeBufferHighWaterMark
writeBufferLowWaterMark nioRemotingThreads remotingThreads batchDelay socksEnabled socksHost socksPort socksVersion
socksUsername socksPassword socksRemoteDNS connect-timeout-millis useDefaultSslContext sslProvider
trustManagerFactoryPlugin handshake-timeout crlPath
amqpMinLargeMessageSize amqpCredits amqpLowCredits amqpDuplicateDetection amqpIdleTimeout directDeliver pubSubPrefix
maxFrameSize saslMechanisms saslLoginConfigScope anycastPrefix multicastPrefix initialRemoteMaxFrameSize
amqpUseModifiedForTransientDeliveryErrors amqpTreatRejectAsUnmodifiedDeliveryFailed ackManagerFlushTimeout
mirrorMaxPendingAcks
"""
"""What a connector of Artemis 2.42 allows, and what its AMQP has setters for."""
POLICY = '<local-queue-policy name="p"><include address-match="Q.#"/></local-queue-policy>'


def fed(inside: str) -> str:
    return f"<federation>{inside}</federation>"


def text(inside: str = SENDER, attributes: str = 'uri="tcp://far:5672" name="A"') -> str:
    return f"<broker-connections><amqp-connection {attributes}>{inside}</amqp-connection></broker-connections>"


def config(written: str) -> BrokerConfig:
    reading = read(document(written))
    assert reading.findings.errors == []
    assert isinstance(reading.config, BrokerConfig)
    return reading.config


def entry(inside: str = SENDER, attributes: str = 'uri="tcp://far:5672" name="A"') -> AmqpConnectionEntry:
    (found,) = config(text(inside, attributes)).amqp_connections
    return found


def test_the_defaults_are_those_of_artemis() -> None:
    options = entry().options
    assert (options.name, options.user, options.password, options.auto_start) == ("A", "", "", True)
    link = options.reconnection()
    assert (link.initial_delay, link.max_delay, link.exponential) == (5 * SECOND, 5 * SECOND, False)
    assert (link.attempts_first, link.attempts_max) == (0, 0)


def test_what_is_written_counts() -> None:
    found = entry(
        attributes='uri="tcp://far" name="A" user="u" password="p" retry-interval="20" reconnect-attempts="2"'
    )
    assert (found.options.user, found.options.password) == ("u", "p")
    link = found.options.reconnection()
    assert (link.initial_delay, link.attempts_max) == (20 * MILLISECOND, 3)
    assert not entry(attributes='uri="tcp://far" name="A" auto-start="false"').options.auto_start


def test_each_element_means_a_queue_or_a_pattern() -> None:
    inside = '<sender address-match="out.#"/><receiver queue-name="in"/><peer address-match="router.*"/>'
    assert entry(inside).elements == (
        Element(way=Way.SENDER, pattern="out.#"),
        Element(way=Way.RECEIVER, queue="in"),
        Element(way=Way.PEER, pattern="router.*"),
    )
    sender = entry(inside).elements[0]
    assert sender.means("out.a.b", "q")
    assert not sender.means("in", "out.a")
    assert not Element(way=Way.SENDER, pattern="#").means("activemq.notifications", "x")


def test_alternates_stand_behind_a_number_sign_with_the_options_of_the_first() -> None:
    uri = "tcp://a:5671?sslEnabled=true;trustStorePath=/t.pem;tcpNoDelay=true#b:5672,tcp://c:5673?verifyHost=false"
    places = entry(attributes=f'uri="{uri}" name="A"').places
    assert [(place.host, place.port) for place in places] == [("a", 5671), ("b", 5672), ("c", 5673)]
    assert places[1].options == {"sslEnabled": "true", "trustStorePath": "/t.pem", "tcpNoDelay": "true"}
    assert places[2].options["verifyHostName"] == "false"


def test_the_uri_says_what_amqp_does_at_each_place() -> None:
    said_of = "amqpCredits=20;amqpLowCredits=19;amqpMinLargeMessageSize=7;amqpIdleTimeout=9000;maxFrameSize=4096"
    uri = f"tcp://a:1?{said_of};saslMechanisms=PLAIN;connect-timeout-millis=700#b:2"
    found = entry(SENDER + fed(POLICY), attributes=f'uri="{uri}" name="A"')
    assert [place.options for place in found.places] == [{"connectionTimeout": "700"}] * 2
    options = options_for(found)
    assert (options.credit, options.credit_low, options.large_octets) == (20, 19, 7)
    assert (options.idle_ms, options.frame_octets_max, options.mechanisms) == (9_000, 4_096, ["PLAIN"])
    assert found.federation is not None
    assert found.federation.policies[0].options == FetchOptions(credit=20, credit_low=19, large_octets=7)
    plain = options_for(entry())
    assert (plain.credit, plain.idle_ms, plain.mechanisms) == (1_000, 30_000, ["PLAIN", "ANONYMOUS"])


def test_credits_of_0_pull_queues_of_a_federation() -> None:
    found = entry(fed(POLICY), attributes='uri="tcp://a?amqpCredits=0" name="A"')
    assert options_for(found).credit == 1_000, "its other links are as usual"
    assert found.federation is not None
    assert found.federation.policies[0].options == FetchOptions(credit=0)
    inside = '<property key="amqpCredits" value="0"/><property key="amqpPullConsumerCredits" value="7"/>'
    found = entry(
        fed(
            inside + POLICY + '<local-address-policy name="a"><property key="amqpCredits" value="9"/>'
            "</local-address-policy>"
        )
    )
    assert found.federation is not None
    assert [one.options for one in found.federation.policies] == [
        FetchOptions(credit=0, pull=7),
        FetchOptions(credit=9, pull=7),
    ]


@pytest.mark.parametrize("name", broker_connection_places.WITHOUT_EFFECT)
def test_an_option_of_the_uri_without_effect_is_said(name: str) -> None:
    reading = read(document(text(attributes=f'uri="tcp://a?{name}=1" name="A"')))
    why = broker_connection_places.WITHOUT_EFFECT[name]
    assert f"the option {name} of the URI has no effect: {why}" in said(reading, Severity.WARNING)


@pytest.mark.parametrize("name", [*broker_connection_places.REFUSED, "usemaskedpassword"])
def test_an_option_of_the_uri_that_cannot_be_obeyed_is_refused(name: str) -> None:
    (error,) = errors(text(attributes=f'uri="tcp://a?{name}=1" name="A"'))
    assert f"the option {name} is refused: " in error


def test_every_option_that_artemis_has_is_known() -> None:
    known = {
        *broker_connection_places.OF_AMQP,
        *broker_connection_places.WITHOUT_EFFECT,
        *broker_connection_places.REFUSED,
        *broker_connection_places.CALLED,
        *TAKERS,
    }
    assert [name for name in OF_ARTEMIS.split() if name not in known] == []


@pytest.mark.parametrize(
    ("written", "what"),
    [
        (text(attributes='name="A"'), "the connection 'A' leads nowhere"),
        (text(attributes='uri="tcp://far:5672"'), "a connection has no name"),
        (text(attributes='uri="udp://far:5672" name="A"'), "is no place of TCP"),
        (text(attributes='uri="tcp://far:x" name="A"'), "this is no port"),
        (text("<sender/>"), "the sender means nothing"),
        (text('<sender queue-name="q" address-match="a"/>'), "the sender means a queue and a pattern"),
        (text('<mirror sync="perhaps"/>'), "sync"),
        (text('<mirror queue-creation="perhaps"/>'), "queue-creation"),
        (text(fed("<remote-queue-policy name='r'><transformer/></remote-queue-policy>")), "a Java class"),
        (text(fed("<local-address-policy name='r' max-hops='-1'/>")), "max-hops is -1"),
        (text(fed("<remote-address-policy name='r'><include queue-match='q'/></remote-address-policy>")), "no queues"),
        (text(fed("<local-queue-policy/>")), "a policy has no name"),
        (text(fed(POLICY + POLICY)), "there is a policy 'p' already"),
        (text(fed('<property key="amqpCredits" value="0"/><local-address-policy name="r"/>')), "amqpCredits is 0 for"),
        (text('<receiver queue-name="q"/>', 'uri="tcp://a?amqpCredits=0" name="A"'), "amqpCredits is 0: nothing could"),
        (text(attributes='uri="tcp://a?amqpCredits=x" name="A"'), "amqpCredits"),
        (text(attributes='uri="tcp://a?amqpIdleTimeout=0" name="A"'), "amqpIdleTimeout is 0"),
        (text(attributes='uri="tcp://a?saslMechanisms=XOAUTH2" name="A"'), "'XOAUTH2' of SASL is not known"),
        (text(attributes='uri="tcp://a#b?amqpCredits=3" name="A"'), "amqpCredits behind the #"),
        (text('<mirror><property key="colour" value="red"/></mirror>'), "there is no property 'colour' of a mirror"),
        (text(fed('<property key="colour" value="red"/>' + POLICY)), "there is no property 'colour'"),
        (text('<bridge name="b"/>'), "<bridge> is refused: it is not built yet"),
        (text().replace("</broker-connections>", "") + text().replace("<broker-connections>", ""), "already"),
    ],
)
def test_what_cannot_be_is_refused_by_name(written: str, what: str) -> None:
    assert any(what in error for error in errors(written)), errors(written)


def test_a_federation_is_as_it_is_written() -> None:
    found = entry(fed(POLICY)).federation
    assert found is not None
    (one,) = found.policies
    assert (found.name, one.options) == ("A", FetchOptions())
    assert one.queues == QueuePolicy(name="p", includes=(Match(address="Q.#"),), priorities=False, keeps=True)
    inside = (
        '<property key="amqpCredits" value="20"/><local-queue-policy name="p" include-federated="true" '
        'priority-adjustment="3"><property key="amqpLowCredits" value="5"/>'
        '<property key="ignoreQueueConsumerFilters" value="true"/></local-queue-policy>'
    )
    found = entry(f'<federation name="F">{inside}</federation>').federation
    assert found is not None
    (one,) = found.policies
    assert (found.name, one.options.credit, one.options.credit_low) == ("F", 20, 5)
    assert one.queues is not None
    assert (one.queues.priority, one.queues.federated, one.queues.selectors) == (3, True, False)


def test_policies_are_of_queues_and_of_addresses_on_either_side() -> None:
    inside = (
        '<local-address-policy name="p" auto-delete="true" auto-delete-delay="7" auto-delete-message-count="-1" '
        'max-hops="2" enable-divert-bindings="true"><include address-match="T.#"/><exclude address-match="T.x"/>'
        "</local-address-policy>"
        '<remote-queue-policy name="p"/><remote-address-policy name="r"/>' + POLICY
    )
    found = entry(fed(inside)).federation
    assert found is not None
    assert [(one.name, one.queues is not None) for one in found.policies] == [("p", True), ("p", False)]
    assert [(one.name, one.queues is not None) for one in found.remote] == [("p", True), ("r", False)]
    assert found.policies[1].addresses == AddressPolicy(
        name="p",
        max_hops=2,
        auto_delete=True,
        auto_delete_delay_ms=7,
        auto_delete_messages=-1,
        diverts=True,
        includes=(Match(address="T.#"),),
        excludes=(Match(address="T.x"),),
    )
    assert found.remote[1].addresses == AddressPolicy(
        name="r", auto_delete=False, auto_delete_delay_ms=0, auto_delete_messages=0
    )


def test_addresses_that_go_round_are_said() -> None:
    two = '<local-address-policy name="l"{0}/><remote-address-policy name="r"{0}/>'
    (what,) = said(read(document(text(fed(two.format(""))))), Severity.WARNING)
    assert "by 'l' and, the other way, by 'r': each side wants them as long as the other one does" in what
    assert said(read(document(text(fed(two.format(' max-hops="1"'))))), Severity.WARNING) == []


def test_a_property_without_effect_is_said() -> None:
    for key, why in WITHOUT_EFFECT.items():
        reading = read(document(text(fed(POLICY + f'<property key="{key}" value="1"/>'))))
        assert f"the property {key} has no effect: {why}" in said(reading, Severity.WARNING)


def test_a_mirror_is_as_it_is_written() -> None:
    assert entry("<mirror/>").mirror == MirrorOptions()
    made = entry('<mirror message-acknowledgements="false" queue-removal="false" address-filter="eu,!eu.uk"/>').mirror
    assert made == MirrorOptions(acknowledgements=False, removal=False, address_filter="eu,!eu.uk")
    assert entry('<mirror sync="false" durable="true"/>').mirror == MirrorOptions()
    assert entry('<mirror sync="true" durable="false"/>').mirror == MirrorOptions(sync=True, durable=False)
    tunnel = read(document(text('<mirror><property key="tunnel-core-messages" value="true"/></mirror>')))
    assert any("as messages of AMQP" in what for what in said(tunnel, Severity.NOTE))


def test_a_circle_and_a_connection_without_links_are_warned_of() -> None:
    circle = read(document(text('<sender queue-name="q"/><receiver queue-name="q"/>')))
    assert any("go round and round" in what for what in said(circle, Severity.WARNING))
    nothing = read(document(text("")))
    assert any("has no link" in what for what in said(nothing, Severity.WARNING))


def test_a_running_broker_follows() -> None:
    before, after = config(text()), config(text('<receiver queue-name="Q"/>'))
    assert [(change.what, change.live) for change in changes(before, after)] == [("amqp-connection A", True)]
