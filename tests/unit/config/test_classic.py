"""activemq.xml to the model: what each part of the file means here, and what is refused."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import InvalidConfiguration
from entrepot.base.uri import parse as parse_uri
from entrepot.cluster.networks.connector import NetworkConnector
from entrepot.config.classic import read as read_file
from entrepot.config.classic.policy_elements import ELSEWHERE, KINDS
from entrepot.config.findings import Severity
from entrepot.config.founding import add_policies, set_options
from entrepot.config.model import BrokerConfig, IncludedDestination, changes
from entrepot.config.xml import parse
from entrepot.core.addressing.address_settings import FULL_BLOCK, FULL_FAIL, FULL_PAGE, SLOW_KILL
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.core.options import BrokerOptions
from entrepot.model.address import ANYCAST, MULTICAST

from .broker_xml import MEMORY, broker, errors, read, said

MIB = 1024 * 1024


def config(text: str, **given: object) -> BrokerConfig:
    reading = read(text, **given)
    assert reading.config is not None, said(reading, Severity.ERROR)
    return reading.config


def policy(entries: str, name: str = "a.b", routing: int = ANYCAST, attributes: str = "", more: str = "") -> Policy:
    """Return what holds for an address under these policy entries."""
    body = (
        f"<destinationPolicy><policyMap><policyEntries>{entries}</policyEntries></policyMap></destinationPolicy>{more}"
    )
    policies = Policies()
    add_policies(config(broker(body, attributes)), policies)
    return policies.of(name, routing)


# -- the broker -------------------------------------------------------------------------------------------------------


def test_a_broker_that_says_nothing_has_the_defaults_of_classic() -> None:
    made = config(broker())
    assert (made.broker.name, made.broker.scheduler, made.broker.delete_all) == ("localhost", False, False)
    assert made.store.directory == str(Path("activemq-data/localhost/KahaDB/entrepot"))
    assert made.usage.memory_limit == 1024 * MIB * 70 // 100
    assert [(one.name, one.prefix) for one in made.virtual_topics] == [("VirtualTopic.>", "Consumer.*.")]
    assert (made.mirror_prefix, made.composites, made.networks) == ("", (), ())


def test_every_setting_of_the_core_has_a_value_of_classic() -> None:
    policies = Policies()
    add_policies(config(broker()), policies)
    chosen = policies.of("any.thing", MULTICAST)
    assert (chosen.prioritized, chosen.max_deliveries, chosen.full, chosen.given.delay_before_dispatch) == (
        False,
        -1,
        FULL_BLOCK,
        0,
    )
    assert chosen.max_octets == 2**62


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<beans/>", "no <broker>"),
        ("<core xmlns='urn:activemq'/>", "not a configuration"),
        (
            broker().replace("</beans>", "<broker xmlns='http://activemq.apache.org/schema/core'/></beans>"),
            "in this file already",
        ),
        (broker(attributes='brokrName="x"'), "no attribute 'brokrName'"),
        (broker(attributes='persistent="perhaps"'), "'perhaps' does not fit"),
        (broker(attributes='brokerName="${nobody}"'), "nobody says what"),
        (broker(attributes='masterConnectorURI="tcp://a:1"'), "pure master/slave"),
        (broker("<destinationPolicies/>"), "holds no <destinationPolicies>"),
        (broker("<brokerName>x</brokerName>"), "is a single value"),
        (broker("words"), "text cannot stand here"),
        (
            broker('<plugins><bean xmlns="http://www.springframework.org/schema/beans" class="my.Plugin"/></plugins>'),
            "my.Plugin",
        ),
        (broker('<x:y xmlns:x="urn:x"/>'), "Java beans are not loaded"),
        (broker("<plugins><kahaDB/></plugins>"), "does not belong into <plugins>"),
        (broker("<plugins><vmCursor/></plugins>"), "does not belong into <plugins>"),
        (broker("<plugins><loggingBrokerPlugn/></plugins>"), "there is no <loggingBrokerPlugn>"),
        (broker("<persistenceAdapter><kahaDB/><kahaDB/></persistenceAdapter>"), "holds one element"),
        (broker('<plugins x="1"/>'), "is a property and has no attributes"),
        (broker("<systemUsage><systemUsage sendFailIfNoSpace='#bean'/></systemUsage>"), "refers to a Java bean"),
    ],
)
def test_what_classic_would_not_understand_is_an_error(text: str, message: str) -> None:
    found = errors(text)
    assert any(message in what for what in found), found


def test_a_misspelt_name_comes_with_the_right_one() -> None:
    reading = read(broker(attributes='brokrName="x"'))
    assert [finding.remedy for finding in reading.findings.errors] == ["did you mean 'brokerName'? "]


def test_prefixes_old_name_spaces_and_a_bare_broker_are_read() -> None:
    old = '<beans xmlns="http://activemq.org/config/1.0"><broker brokerName="old"/></beans>'
    prefixed = '<amq:broker xmlns:amq="http://activemq.apache.org/schema/core" amq:brokerName="bare"/>'
    assert config(old).broker.name == "old"
    assert config(prefixed).broker.name == "bare"


def test_a_broker_without_connectors_is_worth_a_warning() -> None:
    assert any("no client can connect" in what for what in said(read(broker(listen="")), Severity.WARNING))


# -- placeholders and what stands around ------------------------------------------------------------------------------


def test_property_files_however_they_are_named(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.properties").write_text(f"{name}=v{name}\n")
    around = f"""
      <bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">
        <property name="locations"><list><value>file:{tmp_path}/one.properties</value></list></property>
        <property name="ignoreResourceNotFound" value="true"/>
        <property name="location" value="{tmp_path}/two.properties,{tmp_path}/none.properties"/>
        <property name="properties"><props><prop key="four">vfour</prop></props></property>
        <property name="systemPropertiesModeName" value="X"/>
      </bean>
      <context:property-placeholder xmlns:context="urn:c" location="file:{tmp_path}/three.properties"/>"""
    reading = read(broker(attributes='brokerName="${one}-${two}-${three}-${four}-${five:x}"', around=around))
    assert reading.config is not None, said(reading)
    assert reading.config.broker.name == "vone-vtwo-vthree-vfour-x"
    assert any("systemPropertiesModeName has no effect" in what for what in said(reading, Severity.NOTE))


def test_a_property_file_that_is_not_there_is_an_error_as_in_spring() -> None:
    around = '<bean class="a.PropertyPlaceholderConfigurer"><property name="location" value="file:/none/x"/></bean>'
    assert any("/none/x" in what for what in errors(broker(around=around)))


def test_beans_imports_and_strange_elements_around_the_broker_are_reported() -> None:
    around = """<bean id="ds" class="org.x.Thing"/><import resource="jetty.xml"/><import resource="other.xml"/>
      <alias name="a"/><camelContext xmlns="urn:camel"/><description>text</description>"""
    found = said(read(broker(around=around)), Severity.WARNING)
    for wanted in (
        "org.x.Thing",
        "no console is started: cannot read 'jetty.xml'",
        "other.xml is not read",
        "<alias>",
    ):
        assert any(wanted in what for what in found), (wanted, found)
    assert any("Camel" in what for what in found)


def test_no_finding_shows_a_secret() -> None:
    body = """<networkConnectors><networkConnector name="hunter22" password="hunter22"
        uri="static:(tcp://u:pass1234@b:1)"/>
      <networkConnector name="pass1234" uri="nonsense"/></networkConnectors>"""
    reading = read(broker(body))
    assert len(reading.findings) >= 2
    told = " ".join(finding.describe() for finding in reading.findings)
    assert "hunter22" not in told
    assert "pass1234" not in told
    assert "****" in told


# -- stores and limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "attributes", "directory", "segment"),
    [
        (
            '<persistenceAdapter><kahaDB directory="x/y" journalMaxFileLength="16mb"/></persistenceAdapter>',
            "",
            "x/y/entrepot",
            16,
        ),
        ("<persistenceAdapter><kahaDB/></persistenceAdapter>", "", "activemq-data/entrepot", 32),
        ('<persistenceFactory><mKahaDB directory="m"/></persistenceFactory>', "", "m/entrepot", 32),
        ("", 'dataDirectory="d" brokerName="b"', "d/b/KahaDB/entrepot", 32),
        (MEMORY, "", "", 32),
        ('<persistenceAdapter><kahaDB directory="x"/></persistenceAdapter>', 'persistent="false"', "", 32),
    ],
)
def test_where_the_journal_is(body: str, attributes: str, directory: str, segment: int) -> None:
    made = config(broker(body, attributes))
    assert (made.store.directory, made.store.segment) == (directory, segment * MIB)


def test_a_store_of_kahadb_is_left_alone_and_said(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").write_bytes(b"")
    body = f'<persistenceAdapter><kahaDB directory="{tmp_path}"/></persistenceAdapter>'
    assert any("holds a store of KahaDB" in what for what in said(read(broker(body)), Severity.WARNING))


@pytest.mark.parametrize("name", ["jdbcPersistenceAdapter", "levelDB", "replicatedLevelDB", "journaledJDBC"])
def test_stores_that_are_not_there_are_refused(name: str) -> None:
    assert any(name in what for what in errors(broker(f"<persistenceAdapter><{name}/></persistenceAdapter>")))


def test_two_stores_are_one_too_many() -> None:
    body = "<persistenceAdapter><kahaDB/></persistenceAdapter><persistenceFactory><kahaDB/></persistenceFactory>"
    assert any("two stores" in what for what in errors(broker(body)))


@pytest.mark.parametrize(
    ("memory", "environment", "limit"),
    [
        ('limit="64 mb"', {}, 64 * MIB),
        ('percentOfJvmHeap="50"', {}, 512 * MIB),
        ('percentOfJvmHeap="50"', {"ACTIVEMQ_OPTS_MEMORY": "-Xms64M -Xmx4G"}, 2048 * MIB),
        ('percentOfJvmHeap="25"', {"ACTIVEMQ_OPTS": "-Dx=y -Xmx400m"}, 100 * MIB),
        ("", {}, 1024 * MIB * 70 // 100),
    ],
)
def test_memory_of_the_broker(memory: str, environment: dict[str, str], limit: int) -> None:
    body = f"<systemUsage><systemUsage><memoryUsage><memoryUsage {memory}/></memoryUsage></systemUsage></systemUsage>"
    assert config(broker(body), environment=environment).usage.memory_limit == limit


@pytest.mark.parametrize("memory", ['limit="0"', 'limit="much"', 'percentOfJvmHeap="101"'])
def test_impossible_limits(memory: str) -> None:
    body = f"<systemUsage><systemUsage><memoryUsage><memoryUsage {memory}/></memoryUsage></systemUsage></systemUsage>"
    assert errors(broker(body))


@pytest.mark.parametrize("name", ["store", "temp"])
@pytest.mark.parametrize(
    ("said", "octets", "percent"),
    [
        ('limit="10 mb"', 10 * MIB, 0),
        ('percentLimit="40"', 0, 40),
        ('percentLimit="50" total="1 gb"', 512 * MIB, 0),
        ('name="x"', 0, 0),
    ],
)
def test_disk_of_the_broker(name: str, said: str, octets: int, percent: int) -> None:
    body = f"<systemUsage><systemUsage><{name}Usage><{name}Usage {said}/></{name}Usage></systemUsage></systemUsage>"
    usage = config(broker(body)).usage
    assert (getattr(usage, f"{name}_limit"), getattr(usage, f"{name}_percent")) == (octets, percent)


@pytest.mark.parametrize("said", ['limit="0"', 'percentLimit="101"', 'limit="much"'])
def test_impossible_limits_of_the_disk(said: str) -> None:
    assert errors(
        broker(f"<systemUsage><systemUsage><storeUsage><storeUsage {said}/></storeUsage></systemUsage></systemUsage>")
    )


# -- connectors -------------------------------------------------------------------------------------------------------


def connectors(*texts: str) -> str:
    inner = "".join(f"<transportConnector {text}/>" for text in texts)
    return f"<transportConnectors>{inner}</transportConnectors>"


@pytest.mark.parametrize(
    ("uri", "made"),
    [
        ("tcp://0.0.0.0:61616?maximumConnections=9", "openwire://0.0.0.0:61616?maximumConnections=9"),
        ("nio://a:1", "openwire+nio://a:1"),
        ("ssl://a:1", "openwire+ssl://a:1"),
        ("nio+ssl://a:1", "openwire+nio+ssl://a:1"),
        ("stomp+nio+ssl://a:1", "stomp+nio+ssl://a:1"),
        ("auto+nio://a:1", "auto+nio://a:1"),
    ],
)
def test_the_scheme_of_a_connector_names_its_protocol(uri: str, made: str) -> None:
    assert [one.uri for one in config(broker(listen=connectors(f'name="c" uri="{uri}"'))).connectors] == [made]


@pytest.mark.parametrize("scheme", ["mqtt", "amqp+ssl", "ws", "wss", "http", "https", "stomp+ws", "vm", "udp"])
def test_a_protocol_that_is_not_spoken_is_refused_by_name_and_the_others_start(scheme: str) -> None:
    listen = connectors(f'name="odd" uri="{scheme}://a:1"', 'name="good" uri="stomp://a:2"')
    reading = read(broker(listen=listen))
    assert reading.config is not None
    assert [one.name for one in reading.config.connectors] == ["good"]
    found = said(reading, Severity.WARNING)
    assert len(found) == 1
    assert "'odd' does not start" in found[0]
    assert errors(broker(listen=connectors(f'name="odd" uri="{scheme}://a:1"')))  # none is left


@pytest.mark.parametrize("uri", ["http://a:1", "https://a:1?maximumConnections=9"])
def test_http_is_activemqs_own_and_takes_what_openwire_takes(uri: str) -> None:
    listen = connectors(f'name="c" uri="{uri}" updateClusterClients="true" discoveryUri="multicast://default"')
    (made,) = config(broker(listen=listen), spoken=("openwire", "http")).connectors
    assert made.uri.startswith(uri)
    assert made.uri.endswith("updateClusterClients=true")
    assert (made.protocol, made.discovery) == ("http", "multicast://default")


@pytest.mark.parametrize(
    ("uri", "made"),
    [
        ("amqp+nio://a:1", "amqp+nio://a:1?wireFormat.allowNonSaslConnections=false"),
        (
            "amqp://a:1?wireFormat.allowNonSaslConnections=true",
            "amqp://a:1?wireFormat.allowNonSaslConnections=true",
        ),
    ],
)
def test_amqp_of_classic_asks_for_sasl_unless_it_is_told_not_to(uri: str, made: str) -> None:
    listen = connectors(f'name="c" uri="{uri}" allowLinkStealing="true"')
    assert [one.uri for one in config(broker(listen=listen), spoken=("openwire", "amqp")).connectors] == [made]


def test_openwire_depends_on_the_build() -> None:
    listen = connectors('uri="tcp://a:1"', 'uri="stomp://a:2"')
    assert [one.name for one in config(broker(listen=listen), spoken=("stomp",)).connectors] == ["stomp://a:2"]


@pytest.mark.parametrize(
    ("listen", "message"),
    [
        (connectors('name="x"'), "no uri"),
        (connectors('uri="tcp://"'), "names no host"),
        (connectors('uri="gopher://a:1"'), "no transport 'gopher'"),
        (connectors('uri="failover:(tcp://a:1)"'), "listens on one place"),
        (connectors('name="x" uri="tcp://a:1"', 'name="x" uri="tcp://a:2"'), "two transport connectors"),
    ],
)
def test_connectors_that_cannot_be_meant(listen: str, message: str) -> None:
    found = errors(broker(listen=listen))
    assert any(message in what for what in found), found


def test_a_connector_may_stay_closed_and_others_come_as_a_list() -> None:
    listen = connectors('name="x" uri="tcp://a:1" autoStart="false"')
    made = config(broker(listen=listen, attributes='transportConnectorURIs="stomp://a:2, tcp://b:3"'))
    assert [one.uri for one in made.connectors] == ["stomp://a:2", "openwire://b:3"]


def test_the_certificates_of_the_broker_go_to_connectors_with_tls_that_name_none() -> None:
    body = '<sslContext><sslContext keyStore="file:/k.p12" keyStorePassword="pw1" trustStore="t.pem"/></sslContext>'
    listen = connectors(
        'uri="ssl://a:1?needClientAuth=true"', 'uri="stomp+ssl://a:2?keyStorePath=o"', 'uri="tcp://a:3"'
    )
    uris = [one.uri for one in config(broker(body, listen=listen)).connectors]
    assert uris[0] == (
        "openwire+ssl://a:1?keyStorePath=/k.p12&keyStorePassword=pw1&trustStorePath=t.pem&needClientAuth=true"
    )
    assert uris[1:] == ["stomp+ssl://a:2?keyStorePath=o", "openwire://a:3"]
    other = body.replace("file:/k.p12", "classpath:k.p12")
    assert any("not a file of this machine" in what for what in errors(broker(other, listen=listen)))


# -- network connectors -----------------------------------------------------------------------------------------------


def test_a_network_connector_is_read_in_full() -> None:
    body = """<networkConnectors><networkConnector name="n" uri="static:(tcp://b:1)" duplex="true" networkTTL="3"
        messageTTL="2" prefetchSize="7" userName="u">
      <excludedDestinations><queue physicalName="a.>"/><topic physicalName="b"/></excludedDestinations>
      <dynamicallyIncludedDestinations><topic physicalName="T?forceDurable=true"/></dynamicallyIncludedDestinations>
      <staticallyIncludedDestinations><queue physicalName="s"/></staticallyIncludedDestinations>
      </networkConnector></networkConnectors>"""
    (made,) = config(broker(body)).networks
    options = made.options
    assert (options.name, options.duplex, options.consumer_ttl, options.message_ttl) == ("n", True, 3, 2)
    assert (options.prefetch, options.user, options.conduit_subscriptions) == (7, "u", True)
    assert made.excluded == (
        IncludedDestination(pattern="a.>", topic=False),
        IncludedDestination(pattern="b", topic=True),
    )
    assert made.dynamically_included == (IncludedDestination(pattern="T", topic=True, force_durable=True),)
    assert made.statically_included == (IncludedDestination(pattern="s", topic=False),)


def test_a_ttl_that_is_said_wins_over_network_ttl_also_when_it_is_the_default() -> None:
    connector = '<networkConnector uri="static:(tcp://b:1)" networkTTL="3" messageTTL="1"/>'
    (made,) = config(broker(f"<networkConnectors>{connector}</networkConnectors>")).networks
    bridging = NetworkConnector(made.options).options
    assert (bridging.consumer_ttl, bridging.message_ttl) == (3, 1)


def test_the_registry_of_brokers_is_refused_and_the_transport_is_not() -> None:
    body = '<networkConnectors><networkConnector uri="{}"/></networkConnectors>'
    assert any("registry" in what for what in errors(broker(body.format("http://a:1/discovery-registry/default"))))
    assert config(broker(body.format("static:(http://a:1)"))).networks


def test_one_mistake_is_one_error() -> None:
    body = '<networkConnectors><networkConnector uri="${nobody}"/></networkConnectors>'
    assert errors(broker(body)) == ["nobody says what ${nobody} is"]


def test_an_element_that_is_written_as_an_attribute_is_said_to_be_one() -> None:
    (found,) = read(broker(attributes='systemUsage="#limits"')).findings.of(Severity.ERROR)
    assert found.remedy == "it is an element: <broker><systemUsage>...</systemUsage>"


def test_a_network_connector_that_does_not_run_says_so_and_one_that_does_is_silent() -> None:
    body = '<networkConnectors><networkConnector uri="static:(tcp://b:1)"/></networkConnectors>'
    assert [what for what in said(read(broker(body)), Severity.WARNING) if "does not run" in what]
    assert not said(read(broker(body), bridges=True))


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ('uri=""', "no uri"),
        ('uri="static:()"', "list of URIs is empty"),
        ('uri="multicast://default" prefetchSize="0"', "does not fit"),
        ('uri="multicast://default"/><networkConnector uri="multicast://other"', "two network connectors 'NC'"),
        ('uri="multicast://default" bridgeFactory="#mine"', "a Java class"),
    ],
)
def test_network_connectors_that_cannot_be_meant(inner: str, message: str) -> None:
    found = errors(broker(f"<networkConnectors><networkConnector {inner}/></networkConnectors>"))
    assert any(message in what for what in found), found


# -- policies ---------------------------------------------------------------------------------------------------------


def test_entries_do_not_inherit_and_hold_for_their_kind_alone() -> None:
    entries = """<policyEntry queue=">" memoryLimit="5mb" prioritizedMessages="true"/>
      <policyEntry queue="a.>" queuePrefetch="7"/><policyEntry topic="a.>" memoryLimit="2mb" topicPrefetch="9"/>"""
    general, special = policy(entries, "x"), policy(entries, "a.b")
    assert (general.max_octets, general.prioritized, general.queue_prefetch) == (5 * MIB, True, 1000)
    assert (special.max_octets, special.prioritized, special.queue_prefetch) == (2**62, False, 7)
    topic = policy(entries, "a.b", MULTICAST)
    assert (topic.max_octets, topic.topic_prefetch, topic.queue_prefetch) == (2 * MIB, 9, 1000)


@pytest.mark.parametrize(
    ("usage", "entry", "full", "wait"),
    [
        ("", "", FULL_BLOCK, 0),
        ("", 'producerFlowControl="false"', FULL_PAGE, 0),
        ("", 'sendFailIfNoSpace="true"', FULL_FAIL, 0),
        ('sendFailIfNoSpace="true"', "", FULL_FAIL, 0),
        ('sendFailIfNoSpace="true"', 'sendFailIfNoSpace="false"', FULL_BLOCK, 0),
        ('sendFailIfNoSpaceAfterTimeout="3000"', "", FULL_BLOCK, 3000),
        ('sendFailIfNoSpaceAfterTimeout="3000"', 'sendFailIfNoSpaceAfterTimeout="50"', FULL_BLOCK, 50),
        ('sendFailIfNoSpaceAfterTimeout="3000"', 'producerFlowControl="false"', FULL_PAGE, 0),
    ],
)
def test_what_a_full_queue_does(usage: str, entry: str, full: int, wait: int) -> None:
    more = f"<systemUsage><systemUsage {usage}/></systemUsage>"
    chosen = policy(f'<policyEntry queue=">" {entry}/>', more=more)
    assert (chosen.full, chosen.block_ms_max) == (full, wait)


def test_simple_attributes_reach_their_settings() -> None:
    chosen = policy(
        """<policyEntry queue="a.*" durableTopicPrefetch="2"
        allConsumersExclusiveByDefault="true"
        strictOrderDispatch="true" timeBeforeDispatchStarts="500" consumersBeforeDispatchStarts="3"
        gcInactiveDestinations="true" inactiveTimoutBeforeGC="7000"/>""",
        attributes='schedulePeriodForDestinationPurge="1000"',
    )
    assert (chosen.durable_prefetch, chosen.given.exclusive, chosen.strict_order) == (
        2,
        True,
        True,
    )
    assert (chosen.given.delay_before_dispatch, chosen.given.consumers_before_dispatch) == (500 * MILLISECOND, 3)
    assert (chosen.given.auto_delete, chosen.given.auto_delete_delay) == (True, 7000 * MILLISECOND)


def test_unused_destinations_stay_where_nobody_says_how_often_to_look() -> None:
    assert not policy('<policyEntry queue=">" gcInactiveDestinations="true"/>').given.auto_delete


@pytest.mark.parametrize(
    ("strategy", "fields"),
    [
        ("<discarding/>", {"dead_letter_address": ""}),
        ('<sharedDeadLetterStrategy deadLetterQueue="D"/>', {"dead_letter_address": "D"}),
        (
            '<sharedDeadLetterStrategy processExpired="false" processNonPersistent="true" expiration="9">'
            '<deadLetterQueue><queue physicalName="E"/></deadLetterQueue></sharedDeadLetterStrategy>',
            {
                "dead_letter_address": "E",
                "dead_letter_expired": False,
                "dead_letter_non_persistent": True,
                "dead_letter_expiry_ms": 9,
            },
        ),
        (
            '<individualDeadLetterStrategy queuePrefix="D." topicPrefix="T." queueSuffix=".q" topicSuffix=".t"/>',
            {
                "dead_letter_individual": True,
                "dead_letter_prefix": "D.",
                "dead_letter_topic_prefix": "T.",
                "dead_letter_suffix": ".q",
                "dead_letter_topic_suffix": ".t",
            },
        ),
    ],
)
def test_dead_letters(strategy: str, fields: dict[str, object]) -> None:
    chosen = policy(f'<policyEntry queue=">"><deadLetterStrategy>{strategy}</deadLetterStrategy></policyEntry>')
    assert {name: getattr(chosen.given, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("slot", "strategy", "fields"),
    [
        ("pendingMessageLimitStrategy", '<constantPendingMessageLimitStrategy limit="0"/>', {"pending_limit": 0}),
        ("pendingMessageLimitStrategy", "<constantPendingMessageLimitStrategy/>", {"pending_limit": -1}),
        ("pendingMessageLimitStrategy", "<prefetchRatePendingMessageLimitStrategy/>", {"pending_rate": 0.5}),
        (
            "pendingMessageLimitStrategy",
            '<prefetchRatePendingMessageLimitStrategy multiplier="2.5"/>',
            {"pending_rate": 2.5, "pending_limit": -1},
        ),
        (
            "slowConsumerStrategy",
            '<abortSlowConsumerStrategy maxSlowDuration="5000"/>',
            {"slow_after": 5000 * MILLISECOND, "slow": SLOW_KILL},
        ),
        (
            "slowConsumerStrategy",
            "<abortSlowAckConsumerStrategy/>",
            {"slow_after": 30_000 * MILLISECOND, "slow": SLOW_KILL},
        ),
        ("messageGroupMapFactory", '<messageGroupHashBucketFactory bucketCount="64"/>', {"group_buckets": 64}),
        ("messageGroupMapFactory", "<simpleMessageGroupMapFactory/>", {"group_buckets": -1}),
        ("messageEvictionStrategy", "<oldestMessageEvictionStrategy/>", {"pending_limit": -1}),
    ],
)
def test_strategies(slot: str, strategy: str, fields: dict[str, object]) -> None:
    chosen = policy(f'<policyEntry topic=">"><{slot}>{strategy}</{slot}></policyEntry>', routing=MULTICAST)
    assert {name: getattr(chosen.given, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "buckets"), [("bucket", 1024), ("bucket?bucketCount=8", 8), ("simple", -1), ("cached", -1)]
)
def test_message_group_maps_by_name(text: str, buckets: int) -> None:
    assert policy(f'<policyEntry queue=">" messageGroupMapFactoryType="{text}"/>').given.group_buckets == buckets


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("<policyEntry/>", "no destination"),
        ('<policyEntry queue="a" topic="b"/>', "several destinations"),
        ('<policyEntry queue="a" queuePrefetch="-1"/>', "does not fit the option queuePrefetch"),
        ('<policyEntry queue="a" memoryLimit="lots"/>', "does not fit"),
        ('<policyEntry queue="a" sendFailIfNoSpace="maybe"/>', "neither true nor false"),
        ('<policyEntry queue="a" sendFailIfNoSpaceAfterTimeout="9000000000000000000"/>', "too long"),
        ('<policyEntry queue="a" messageGroupMapFactoryType="bucket?bucketCount=x"/>', "buckets is out of range"),
        ('<policyEntry queue="a" messageGroupMapFactoryType="mine"/>', "no message group map"),
        ('<policyEntry queue="a..b"/>', ""),
        (
            '<policyEntry topic="a"><dispatchPolicy><clientIdFilterDispatchPolicy/></dispatchPolicy></policyEntry>',
            "clients that they are not for",
        ),
        (
            '<policyEntry topic="a"><slowConsumerStrategy><abortSlowConsumerStrategy maxSlowDuration="0"/>'
            "</slowConsumerStrategy></policyEntry>",
            "slow at once",
        ),
        (
            '<policyEntry topic="a"><pendingMessageLimitStrategy>'
            '<prefetchRatePendingMessageLimitStrategy multiplier="-1"/>'
            "</pendingMessageLimitStrategy></policyEntry>",
            "multiplier is out of range",
        ),
    ],
)
def test_entries_that_cannot_be_meant(entry: str, message: str) -> None:
    body = f"<destinationPolicy><policyMap><policyEntries>{entry}</policyEntries></policyMap></destinationPolicy>"
    found = errors(broker(body)) if message else ["", *errors(broker(body))]
    assert any(message in what for what in found), found


def test_an_entry_may_name_several_patterns_or_a_nested_destination() -> None:
    entries = """<policyEntry queue="a.>, b" queuePrefetch="3"/>
      <policyEntry queuePrefetch="4"><destination><queue physicalName="c"/></destination></policyEntry>"""
    assert [policy(entries, name).queue_prefetch for name in ("a.x", "b", "c", "d")] == [3, 3, 4, 1000]


def test_entries_for_temporary_destinations_are_reported_and_left_out() -> None:
    body = """<destinationPolicy><policyMap><policyEntries><policyEntry tempQueue="true" queuePrefetch="1"/>
      </policyEntries></policyMap></destinationPolicy>"""
    reading = read(broker(body))
    assert any("temporary destinations" in what for what in said(reading, Severity.WARNING))
    assert reading.config is not None
    assert len(reading.config.policies) == 1


def test_the_default_entry_holds_where_no_other_does() -> None:
    body = """<destinationPolicy><policyMap><defaultEntry>
      <policyEntry queuePrefetch="3" topicPrefetch="4"/></defaultEntry>
      <policyEntries><policyEntry queue="a" memoryLimit="1mb"/></policyEntries></policyMap></destinationPolicy>"""
    policies = Policies()
    add_policies(config(broker(body)), policies)
    assert [policies.of("x", ANYCAST).queue_prefetch, policies.of("x", MULTICAST).topic_prefetch] == [3, 4]
    assert policies.of("a", ANYCAST).queue_prefetch == 1000


def test_what_may_go_back_through_a_bridge_is_kept_with_its_entry() -> None:
    body = """<destinationPolicy><policyMap><policyEntries><policyEntry queue=">"><networkBridgeFilterFactory>
      <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true" replayDelay="500" rateLimit="9"/>
      </networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"""
    bridge = config(broker(body)).policies[1].bridge
    assert bridge is not None
    assert (bridge.replay_when_no_consumers, bridge.replay_delay, bridge.rate_limit) == (True, 500 * MILLISECOND, 9)


# -- plugins ----------------------------------------------------------------------------------------------------------


def test_plugins_hold_for_every_entry() -> None:
    plugins = """<plugins><discardingDLQBrokerPlugin dropAll="true"/>
      <timeStampingBrokerPlugin zeroExpirationOverride="1000" ttlCeiling="5000"/></plugins>"""
    strategy = "<deadLetterStrategy><individualDeadLetterStrategy/></deadLetterStrategy>"
    entry = f'<policyEntry queue="a.>">{strategy}</policyEntry>'
    for name in ("a.b", "x"):
        chosen = policy(entry, name, more=plugins)
        assert (chosen.dead_letter_address, chosen.dead_letter_individual) == ("", False)
        assert (chosen.expiry_ms, chosen.expiry_ms_max) == (1000, 5000)


def test_the_redelivery_plugin_has_patterns_of_its_own() -> None:
    plugins = """<plugins><redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap>
      <defaultEntry><redeliveryPolicy maximumRedeliveries="2" initialRedeliveryDelay="10"/></defaultEntry>
      <redeliveryPolicyEntries><redeliveryPolicy queue="a.>" maximumRedeliveries="-1" redeliveryDelay="20"
        useExponentialBackOff="true" backOffMultiplier="3" useCollisionAvoidance="true" maximumRedeliveryDelay="99"/>
      </redeliveryPolicyEntries></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"""
    entry = '<policyEntry queue="a.b" queuePrefetch="3"/>'
    mine = policy(entry, "a.b", more=plugins)
    assert (mine.queue_prefetch, mine.max_deliveries, mine.nack_redelivers) == (3, -1, True)
    assert (mine.redelivery_delay_first, mine.redelivery_delay) == (1000 * MILLISECOND, 20 * MILLISECOND)
    assert (mine.redelivery_multiplier, mine.redelivery_jitter, mine.redelivery_delay_max) == (
        3.0,
        0.15,
        99 * MILLISECOND,
    )
    other = policy(entry, "x", more=plugins)
    assert (other.max_deliveries, other.redelivery_delay, other.redelivery_multiplier) == (3, 10 * MILLISECOND, 1.0)


def test_a_redelivery_plugin_without_a_map_is_that_of_the_client() -> None:
    chosen = policy("", more="<plugins><redeliveryPlugin/></plugins>")
    assert (chosen.max_deliveries, chosen.redelivery_delay, chosen.nack_redelivers) == (7, 1000 * MILLISECOND, True)


@pytest.mark.parametrize("name", ["jaasCertificateAuthenticationPlugin", "jaasDualAuthenticationPlugin"])
def test_a_broker_that_should_check_certificates_does_not_start_without_its_files(name: str) -> None:
    assert any("cannot read login.config" in what for what in errors(broker(f"<plugins><{name}/></plugins>")))


# -- destinations -----------------------------------------------------------------------------------------------------


def test_destinations_virtual_topics_composites_and_mirrors() -> None:
    body = """<destinations><queue physicalName="Q.1"/><topic physicalName="T.1"/>
      <queue physicalName="Q.1"/></destinations>
      <destinationInterceptors><mirroredQueue prefix="M."/><virtualDestinationInterceptor><virtualDestinations>
        <virtualTopic name="V.>" prefix="C.*." postfix=".end"/>
        <compositeQueue name="in" forwardOnly="false" sendWhenNotMatched="true"><forwardTo><queue physicalName="out"/>
          <filteredDestination selector="a &gt; 1" topic="tout"/></forwardTo></compositeQueue>
        <compositeTopic name="tin"><forwardTo><filteredDestination>
          <destination><queue physicalName="deep"/></destination>
          </filteredDestination></forwardTo></compositeTopic>
      </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"""
    made = config(broker(body))
    assert [place.qualified() for place in made.destinations] == ["queue://Q.1", "topic://T.1"]
    assert [(one.name, one.prefix, one.postfix) for one in made.virtual_topics] == [("V.>", "C.*.", ".end")]
    assert made.mirror_prefix == "M."
    queue, topic = made.composites
    assert (queue.name, queue.topic, queue.forward_only, queue.send_when_not_matched) == ("in", False, False, True)
    assert [(one.target.qualified(), one.selector) for one in queue.forwards] == [
        ("queue://out", ""),
        ("topic://tout", "a > 1"),
    ]
    assert (topic.topic, [one.target.qualified() for one in topic.forwards]) == (True, ["queue://deep"])


def test_an_empty_list_of_interceptors_takes_the_default_away() -> None:
    assert config(broker("<destinationInterceptors/>")).virtual_topics == ()
    assert config(broker(attributes='useVirtualTopics="false"')).virtual_topics == ()
    assert config(broker(attributes='useMirroredQueues="true"')).mirror_prefix == "VirtualTopic.Mirror."


@pytest.mark.parametrize(
    ("inner", "message"),
    [
        ('<virtualTopic prefix=""/>', "would have the name of the topic"),
        (
            '<compositeQueue name="a.*"><forwardTo><queue physicalName="b"/></forwardTo></compositeQueue>',
            "not one name",
        ),
        ("<compositeQueue/>", "empty name"),
        ('<compositeQueue name="a"><forwardTo><queue physicalName="b.>"/></forwardTo></compositeQueue>', "wildcard"),
        (
            '<compositeQueue name="a"><forwardTo><filteredDestination selector="(" queue="b"/></forwardTo>'
            "</compositeQueue>",
            "selector",
        ),
        ('<compositeQueue name="a"><forwardTo><filteredDestination/></forwardTo></compositeQueue>', "no destination"),
    ],
)
def test_virtual_destinations_that_cannot_be_meant(inner: str, message: str) -> None:
    body = f"""<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>{inner}
      </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"""
    found = errors(broker(body))
    assert any(message in what for what in found), found


def test_destinations_that_cannot_be_made() -> None:
    assert errors(broker('<destinations><queue physicalName="a.>"/></destinations>'))
    assert errors(broker('<destinations><tempQueue physicalName="a"/></destinations>'))
    assert errors(broker("<destinations><queue/></destinations>"))


# -- whatever comes ---------------------------------------------------------------------------------------------------

NAMES = sorted(
    {*KINDS, *ELSEWHERE, "bean", "property", "beans", "import", "nonsense"}
    | {slot for kind in KINDS.values() for slot in kind.slots}
)
ATTRIBUTES = sorted({name for kind in KINDS.values() for name in kind.attributes} | {"id", "class", "name", "value"})
VALUES = st.one_of(
    st.sampled_from(
        [
            "",
            "true",
            "0",
            "-1",
            "5",
            "1e400",
            "nan",
            "9" * 30,
            "10 mb",
            ">",
            "a.>",
            "a,b",
            "#ref",
            "${x}",
            "${",
            "ENC(x)",
        ]
    ),
    st.sampled_from(["tcp://a:1", "static:(tcp://a:1)", "ssl://a", "x:", "bucket?bucketCount=0", "topic://x", "a = 1"]),
    st.text(max_size=8).filter(
        lambda text: not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", text)
    ),
)


def quoted(value: str) -> str:
    return value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def element(name: str, attributes: dict[str, str], children: list[str]) -> str:
    given = " ".join(f'{key}="{quoted(value)}"' for key, value in attributes.items())
    return f"<{name} {given}>{''.join(children)}</{name}>"


TREES = st.recursive(
    st.builds(
        element, st.sampled_from(NAMES), st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=3), st.just([])
    ),
    lambda inner: st.builds(
        element,
        st.sampled_from(NAMES),
        st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=3),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@st.composite
def likely(draw: st.DrawFn, name: str = "broker", depth: int = 0) -> str:
    """Draw a tree whose elements may stand where they stand, mostly."""
    kind = KINDS[name]
    given = draw(st.dictionaries(st.sampled_from(sorted(kind.attributes) or ["x"]), VALUES, max_size=4))
    children: list[str] = []
    if kind.slots and depth < 5:
        for slot_name in draw(st.lists(st.sampled_from(sorted(kind.slots)), max_size=3)):
            inside = [draw(likely(one, depth + 1)) for one in draw(_some(kind.slots[slot_name].kinds))]
            children.append(element(slot_name, {}, inside))
    return element(name, given, children)


def _some(names: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), max_size=2) if names else st.just([])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.one_of(TREES, TREES.map(lambda text: broker(text)), TREES.map(lambda text: broker(around=text)), likely()))
def test_any_xml_makes_findings_and_never_another_error(text: str) -> None:
    try:
        reading = read(text, environment={"x": "1"})
    except InvalidConfiguration:
        return
    assert (reading.config is None) == bool(reading.findings.errors)
    if reading.config is not None:
        add_policies(reading.config, Policies())


@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.xml"
    path.write_bytes(data)
    with suppress(InvalidConfiguration):
        assert read_file(path, spoken=("stomp",)).findings.errors


def test_parse_is_what_the_reader_reads() -> None:
    assert parse(broker().encode(), "f").named("broker")[0].named("transportConnectors")


# -- zones ------------------------------------------------------------------------------------------------------------


def test_zones_are_said_where_activemq_does_not_look() -> None:
    inside = broker("<?entrepot client-zone='ams=user:a*'?>")
    text = "<?entrepot zone='${where}' client-zone=\"fra=10.2.0.0/16\"?>" + inside
    made = config(text, defines={"where": "ams"})
    assert (made.own.zone, made.own.client_zones) == ("ams", ("fra=10.2.0.0/16", "ams=user:a*"))
    assert config(f"<?xml-stylesheet zone='x'?>{broker()}").own.zone == ""


def test_the_reports_of_the_console_are_said_there_too(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    made = config(f"<?entrepot reports='${{where}}/there'?>{broker()}", defines={"where": str(tmp_path)})
    assert made.own.reports == str(tmp_path / "there")
    absent = read(f"<?entrepot reports='file:{tmp_path}/not'?>{broker()}")
    assert absent.config is not None
    assert absent.config.own.reports == str(tmp_path / "not")
    (note,) = [one for one in absent.findings if "?entrepot" in one.path]
    assert (note.severity, " is not there: " in note.what) == (Severity.NOTE, True)
    (change,) = changes(made, absent.config)
    assert (change.what, change.live) == ("reports of the console", False)


INSTRUCTIONS = (
    "zone='a b'", "zone=ams", "colour='red'", "client-zone='ams=?'", "zone", "reports=''", "reports='hdfs://n/r'",
    "reports='/etc/passwd'",
)  # fmt: skip


@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_what_is_no_instruction_is_an_error(text: str) -> None:
    assert len(errors(f"<?entrepot {text}?>{broker()}")) == 1


def test_a_broker_whose_connectors_all_wait_for_an_operator_starts() -> None:
    reading = read(broker(listen=connectors('uri="tcp://a:1" autoStart="false"')))
    assert reading.config is not None
    assert any("none of its transport connectors is opened" in what for what in said(reading, Severity.WARNING))


def test_a_broker_that_asks_for_no_jmx_gets_what_it_asks_for() -> None:
    assert not said(read(broker(attributes='useJmx="false"')), Severity.NOTE)
    assert said(read(broker(attributes='useJmx="true"')), Severity.NOTE)


# -- what a connector publishes, and counts ----------------------------------------------------------------------------


def test_a_connector_publishes_and_counts_as_the_file_says() -> None:
    policy_text = (
        '<publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy="IPADDRESS" '
        'clusterClientUriQuery="a=1&amp;b=2">'
        '<portMapping><map><entry key="61616" value="7000"/></map></portMapping>'
        '<hostMapping><entry key="in" value="out"/></hostMapping>'
        "</publishedAddressPolicy></publishedAddressPolicy>"
    )
    counts = 'maximumConsumersAllowedPerConnection="5" maximumProducersAllowedPerConnection="6"'
    body = (
        f'<transportConnectors><transportConnector name="o" uri="tcp://0.0.0.0:61616" {counts}>{policy_text}'
        f'</transportConnector><transportConnector name="s2" uri="stomp://0.0.0.0:61613" {counts}/>'
        "</transportConnectors>"
    )
    made = config(broker(body))
    options = {one.name: parse_uri(one.uri).options for one in made.connectors}
    assert options["o"] == {
        "publishedHostStrategy": "IPADDRESS",
        "clusterClientUriQuery": "a=1&b=2",
        "publishedPortMapping": "61616=7000",
        "publishedHostMapping": "in=out",
        "maximumConsumersAllowedPerConnection": "5",
        "maximumProducersAllowedPerConnection": "6",
    }
    assert options["s2"] == {"maximumConsumersAllowedPerConnection": "5"}


@pytest.mark.parametrize(
    ("policy_text", "what"),
    [
        ('<publishedAddressPolicy publishedHostStrategy="NAME"/>', "no publishedHostStrategy"),
        ("<publishedAddressPolicy><portMapping><x/></portMapping></publishedAddressPolicy>", "no entry of a map"),
        (
            '<publishedAddressPolicy><portMapping><entry key="a" value="1"/></portMapping></publishedAddressPolicy>',
            "no value for the option",
        ),
    ],
)
def test_a_policy_of_published_addresses_that_cannot_be_obeyed_is_an_error(policy_text: str, what: str) -> None:
    reading = read(
        broker(
            '<transportConnectors><transportConnector name="o" uri="tcp://h:1"><publishedAddressPolicy>'
            f"{policy_text}</publishedAddressPolicy></transportConnector></transportConnectors>"
        )
    )
    assert any(what in text for text in said(reading, Severity.ERROR))


def test_users_on_messages_refused_durables_and_selective_virtual_topics() -> None:
    body = (
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        '<virtualTopic name="VT.>" prefix="C.*." selectorAware="true"/>'
        "</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )
    made = config(broker(body, 'populateJMSXUserID="true" rejectDurableConsumers="true"'))
    assert made.virtual_topics[0].selective
    options = BrokerOptions("b")
    set_options(made, options)
    assert options.refuses_durables
    assert options.stamps is not None
    assert options.stamps.users
