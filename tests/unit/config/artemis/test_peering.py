"""What a broker.xml says about its cluster, its pair and its bridges is in the model, as written."""

from __future__ import annotations

from entrepot.config.artemis import interpret
from entrepot.config.findings import Findings, Severity
from entrepot.config.model import BrokerConfig
from entrepot.config.peering import CHECK_MS, TTL_MS, Peering
from entrepot.config.sources import Sources
from entrepot.config.xml import parse


def config(core: str, **defines: str) -> BrokerConfig:
    sources = Sources(Findings(), defines=defines)
    sources.file = "b.xml"
    text = f'<configuration><core xmlns="urn:activemq:core">\n{core}</core></configuration>'
    reading = interpret(parse(text.encode(), "b.xml"), sources, spoken=("openwire", "stomp"))
    assert reading.draft is not None
    return reading.draft


def peering(core: str, **defines: str) -> Peering:
    return config(core, **defines).peering


def test_a_broker_that_stands_alone_says_nothing() -> None:
    assert peering("") == Peering(at=peering("").at)


def test_cluster_connections_with_their_connectors_and_groups() -> None:
    found = peering(
        """<connectors><connector name="me">tcp://${host}:61616?sslEnabled=true;x=y</connector>
        <connector name="me">tcp://twice:1</connector></connectors>
        <discovery-groups><discovery-group name="d"><group-address>231.7.7.7</group-address>
        <group-port>9876</group-port><refresh-timeout>5000</refresh-timeout></discovery-group></discovery-groups>
        <broadcast-groups><broadcast-group name="b"><jgroups-channel>c</jgroups-channel>
        <connector-ref>me</connector-ref></broadcast-group></broadcast-groups>
        <cluster-connections><cluster-connection name="k"><connector-ref>me</connector-ref><max-hops>2</max-hops>
        <message-load-balancing>strict</message-load-balancing><check-period>many</check-period>
        <static-connectors allow-direct-connections-only="true"><connector-ref>other</connector-ref>
        </static-connectors></cluster-connection></cluster-connections>""",
        host="h",
    )
    assert [(one.name, one.uri, one.at.line) for one in found.places] == [
        ("me", "tcp://h:61616?sslEnabled=true&x=y", 2),
        ("me", "tcp://twice:1", 3),
    ]
    assert [(one.address, one.port, one.period_ms) for one in found.discoveries] == [("231.7.7.7", "9876", 5000)]
    assert [(one.jgroups, [two.name for two in one.connectors]) for one in found.broadcasts] == [("c", ["me"])]
    (cluster,) = found.clusters
    assert (cluster.name, cluster.connector, cluster.max_hops, cluster.balancing) == ("k", "me", 2, "strict")
    assert cluster.connectors is not None
    assert ([one.name for one in cluster.connectors], cluster.direct) == (["other"], True)
    assert (cluster.check_ms, cluster.ttl_ms, cluster.deduplicates) == (CHECK_MS, TTL_MS, True)
    assert [(flaw.severity, flaw.what) for flaw in found.flaws] == [
        (Severity.ERROR, "the channel 'c' has no jgroups-file"),
        (Severity.ERROR, "check-period is 'many', and not a number"),
    ]


def test_a_cluster_connection_by_uri() -> None:
    found = peering(
        """<cluster-connections><cluster-connection-uri name="k"
        address="static:(tcp://a:1,tcp://b:2)?connectorName=me;maxHops=3;duplicateDetection=false"/>
        </cluster-connections>""".replace(";", "&amp;")
    )
    (cluster,) = found.clusters
    assert (cluster.connector, cluster.max_hops, cluster.deduplicates) == ("me", 3, False)
    assert cluster.uri.startswith("static:(tcp://a:1,tcp://b:2)")
    assert cluster.connectors is None


def test_bridges_and_the_part_of_a_pair() -> None:
    found = peering(
        """<ha-policy><shared-store><backup><failover-on-shutdown>true</failover-on-shutdown></backup></shared-store>
        </ha-policy><bridges><bridge name="x"><queue-name>q</queue-name><filter string="a = 1"/>
        <retry-interval-multiplier>2.5</retry-interval-multiplier><reconnect-attempts>5</reconnect-attempts>
        <discovery-group-ref discovery-group-name="d"/></bridge></bridges>"""
    )
    (bridge,) = found.bridges
    assert (bridge.queue, bridge.selector, bridge.multiplier, bridge.attempts) == ("q", "a = 1", 2.5, 5)
    assert (bridge.connectors, [one.name for one in bridge.groups]) == (None, ["d"])
    assert found.part is not None
    assert (found.part.backup, found.part.replicates) == (True, False)
