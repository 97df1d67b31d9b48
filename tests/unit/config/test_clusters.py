"""What a broker.xml says of clusters, with connectors in place of names; what cannot be deployed is said."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cluster.clusters.options import Balancing, ClusterOptions, GroupingOptions, place_of
from entrepot.config.clusters import PASSWORD, USER, Clusters, clusters_of, refuse_nobody
from unit.config.artemis.test_peering import peering

PLACES = """<connectors><connector name="me">tcp://a:1</connector><connector name="you">tcp://b:2?sslEnabled=true;trustStorePath=t</connector>
    </connectors>"""


def clusters(core: str) -> Clusters:
    return clusters_of(peering(PLACES + core))


def connection(core: str, attributes: str = "") -> str:
    return f"""<cluster-connections><cluster-connection name="k"{attributes}><connector-ref>me</connector-ref>{core}
    </cluster-connection></cluster-connections>"""


def test_the_defaults_are_those_of_the_code_of_artemis() -> None:
    found = clusters(connection(""))
    (options,) = found.connections
    assert options == ClusterOptions(name="k", own=options.own)
    assert (options.confirmation_window, options.retry_ms, options.balancing) == (10 << 20, 500, Balancing.ON_DEMAND)
    assert (found.credentials.user, found.credentials.password) == (USER, PASSWORD)
    assert [note[:9] for note in found.notes] == ["AMQ222007"]


def test_every_option_is_read() -> None:
    (options,) = clusters(
        connection(
            """<address>eu,!eu.uk</address><check-period>1</check-period><connection-ttl>2</connection-ttl>
            <min-large-message-size>3K</min-large-message-size><call-timeout>4</call-timeout>
            <retry-interval>5</retry-interval><retry-interval-multiplier>1.5</retry-interval-multiplier>
            <max-retry-interval>6</max-retry-interval><initial-connect-attempts>7</initial-connect-attempts>
            <reconnect-attempts>8</reconnect-attempts><use-duplicate-detection>false</use-duplicate-detection>
            <message-load-balancing>strict</message-load-balancing><max-hops>2</max-hops>
            <confirmation-window-size>1M</confirmation-window-size><producer-window-size>-1</producer-window-size>
            <notification-interval>9</notification-interval><notification-attempts>10</notification-attempts>
            <client-id>x</client-id>
            <static-connectors allow-direct-connections-only="true"><connector-ref>you</connector-ref>
            </static-connectors>"""
        )
    ).connections
    assert [one.name for one in options.seeds] == ["you"]
    assert options == ClusterOptions(
        name="k",
        own=options.own,
        seeds=options.seeds,
        direct=True,
        address="eu,!eu.uk",
        balancing=Balancing.STRICT,
        max_hops=2,
        check_ms=1,
        ttl_ms=2,
        call_ms=4,
        retry_ms=5,
        retry_multiplier=1.5,
        retry_ms_max=6,
        attempts_first=7,
        attempts=8,
        deduplicates=False,
        large_octets=3 << 10,
        confirmation_window=1 << 20,
        producer_window=-1,
        notification_ms=9,
        notification_attempts=10,
        client_id="x",
    )


def test_the_same_by_uri() -> None:
    (options,) = clusters(
        """<cluster-connections><cluster-connection-uri name="k"
        address="static://(tcp://b:2,tcp://c)?connectorName=me;maxHops=3;retryInterval=7;callTimeout=8"/>
        </cluster-connections>""".replace(";", "&amp;")
    ).connections
    assert (options.max_hops, options.retry_ms, options.call_ms, options.own.name) == (3, 7, 8, "me")
    assert [(place.host, place.port) for place in map(place_of, options.seeds) if place] == [("b", 2), ("c", 61616)]


def test_a_connector_is_dialled_as_it_says() -> None:
    (options,) = clusters(
        connection("<static-connectors><connector-ref>you</connector-ref></static-connectors>")
    ).connections
    place = place_of(options.seeds[0])
    assert place is not None
    assert (place.scheme, place.host, place.port, place.options) == ("ssl", "b", 2, {"trustStorePath": "t"})


def test_what_cannot_be_deployed_is_left_out_and_said() -> None:
    found = clusters(
        """<cluster-connections><cluster-connection name="a"><connector-ref>none</connector-ref></cluster-connection>
        <cluster-connection name="b"><connector-ref>me</connector-ref>
        <discovery-group-ref discovery-group-name="none"/></cluster-connection>
        <cluster-connection name="b"><connector-ref>me</connector-ref></cluster-connection>
        <cluster-connection name="c"><connector-ref>me</connector-ref><static-connectors>
        <connector-ref>none</connector-ref></static-connectors></cluster-connection></cluster-connections>
        <broadcast-groups><broadcast-group name="x"><group-address>231.7.7.7</group-address>
        <group-port>9876</group-port><connector-ref>none</connector-ref></broadcast-group>
        <broadcast-group name="y"><connector-ref>me</connector-ref></broadcast-group></broadcast-groups>"""
    )
    assert [one.name for one in found.connections] == ["c"]
    assert found.connections[0].seeds == ()
    assert found.broadcasts == ()
    told = "\n".join(found.notes)
    for what in ("AMQ222217", "AMQ222130", "AMQ222133", "no discovery group 'none'", "no group-address"):
        assert what in told


def test_the_grouping_handler() -> None:
    handler = "<grouping-handler name='g'><type>{}</type><address>jms</address>{}</grouping-handler>"
    timed = "<timeout>7</timeout><group-timeout>8</group-timeout><reaper-period>9</reaper-period>"
    given = clusters(connection("") + handler.format("REMOTE", timed)).grouping
    assert given == GroupingOptions(local=False, address="jms", timeout=7_000_000, forgets=8_000_000, reaper=9_000_000)
    assert clusters(connection("") + handler.format("local", "")).grouping == GroupingOptions(local=True, address="jms")
    for text, told in (
        (connection("") + handler.format("BOTH", ""), "'BOTH'"),
        (handler.format("LOCAL", ""), "nobody"),
    ):
        found = clusters(text)
        assert found.grouping is None
        assert any(told in note for note in found.notes)


def test_groups() -> None:
    found = clusters(
        """<broadcast-groups><broadcast-group name="x"><group-address>231.7.7.7</group-address>
        <group-port>9876</group-port><connector-ref>me</connector-ref></broadcast-group></broadcast-groups>
        <discovery-groups><discovery-group name="y"><group-address>231.7.7.7</group-address>
        <group-port>9876</group-port><local-bind-address>127.0.0.1</local-bind-address>
        <refresh-timeout>5</refresh-timeout></discovery-group></discovery-groups>"""
        + connection('<discovery-group-ref discovery-group-name="y"/>')
    )
    (broadcast,), (discovery,) = found.broadcasts, found.discoveries
    assert (broadcast.address, broadcast.port, broadcast.period) == ("231.7.7.7", 9876, 2_000_000_000)
    assert (discovery.local_address, discovery.refresh) == ("127.0.0.1", 5_000_000)
    assert found.hears == {"k": ("y",)}


def test_a_masked_password_is_not_taken_for_the_password() -> None:
    found = clusters("<cluster-password>ENC(abc)</cluster-password>" + connection(""))
    assert found.connections == ()
    assert "the cluster-password is masked" in found.notes[0]


SCALED = """<ha-policy><primary-only><scale-down><connectors><connector-ref>you</connector-ref></connectors>{}
</scale-down></primary-only></ha-policy>"""


def test_scale_down_is_read() -> None:
    found = clusters(SCALED.format("<group-name>g</group-name>") + connection(""))
    assert found.scale_down is not None
    assert (found.scale_down.group, [one.host for one in found.takers]) == ("g", ["b"])
    assert found.connections[0].scale_down_group == "g"
    assert clusters(SCALED.format("<enabled>false</enabled>") + connection("")).scale_down is None
    assert clusters(connection("")).scale_down is None


def test_a_backup_that_gives_away_what_it_takes_over_needs_a_cluster_that_it_joins() -> None:
    policy = "<ha-policy><shared-store><backup><scale-down/></backup></shared-store></ha-policy>"
    refuse_nobody(peering(PLACES + policy + connection("")))
    masked = "<cluster-password>ENC(abc)</cluster-password>"
    with pytest.raises(InvalidOption, match="joins no cluster: the cluster-password is masked"):
        refuse_nobody(peering(PLACES + masked + policy + connection("")))
