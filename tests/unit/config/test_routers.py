"""Connection routers of a broker.xml: what is read of them, and what is an error."""

from __future__ import annotations

import pytest

from entrepot.cluster.routers.options import KeyType, PolicyKind
from entrepot.config import artemis
from entrepot.config.findings import Findings, Severity
from entrepot.config.reading import Reading
from entrepot.config.routers import routers_of
from entrepot.config.sources import Sources
from entrepot.config.xml import parse

POOL = "<pool><static-connectors><connector-ref>one</connector-ref></static-connectors>{}</pool>"
CLUSTER = (
    '<cluster-connections><cluster-connection name="c"><connector-ref>one</connector-ref></cluster-connection>'
    "</cluster-connections>"
)


def read(router: str, acceptor: str = "") -> Reading:
    text = (
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>b</name>'
        "<persistence-enabled>false</persistence-enabled><security-enabled>false</security-enabled>"
        f'<acceptors><acceptor name="a">tcp://0.0.0.0:61616{acceptor}</acceptor></acceptors>'
        f'<connectors><connector name="one">tcp://h1:61617</connector></connectors>{CLUSTER}'
        f'<connection-routers><connection-router name="r">{router}</connection-router></connection-routers>'
        "</core></configuration>"
    )
    return artemis.interpret(parse(text.encode(), "b.xml"), Sources(Findings()), spoken=("core", "stomp"))


def errors(reading: Reading) -> list[str]:
    return [one.what for one in reading.findings.all if one.severity is Severity.ERROR]


def test_all_that_a_router_says() -> None:
    reading = read(
        "<key-type>CLIENT_ID</key-type><key-filter>^.{3}</key-filter><local-target-filter>EU.*</local-target-filter>"
        '<policy name="LEAST_CONNECTIONS"><property key="CONNECTION_COUNT_THRESHOLD" value="10"/></policy>'
        "<cache><persisted>true</persisted><timeout>5000</timeout></cache>"
        + POOL.format(
            "<username>u</username><password>p</password><check-period>100</check-period><quorum-size>2</quorum-size>"
            "<quorum-timeout>7</quorum-timeout><local-target-enabled>true</local-target-enabled>"
        ),
        "?router=r",
    )
    assert errors(reading) == []
    assert reading.config is not None
    assert reading.config.connectors[0].uri.endswith("router=r")
    (router,) = routers_of(reading.config.peering)
    assert (router.name, router.key) == ("r", KeyType.CLIENT_ID)
    assert router.key_filter is not None
    assert router.local_filter is not None
    assert (router.key_filter.pattern, router.local_filter.pattern) == ("^.{3}", "EU.*")
    assert router.policy is not None
    assert router.cache is not None
    assert router.pool is not None
    assert (router.policy.kind, router.policy.threshold) == (PolicyKind.LEAST_CONNECTIONS, 10)
    assert (router.cache.persisted, router.cache.timeout_ms) == (True, 5_000)
    pool = router.pool
    assert (pool.user, pool.password, pool.check_ms, pool.quorum, pool.quorum_ms) == ("u", "p", 100, 2, 7)
    assert pool.local
    assert [one.value("port") for one in pool.connectors] == ["61617"]


def test_defaults_and_a_pool_of_a_cluster() -> None:
    reading = read('<policy name="ROUND_ROBIN"/><pool><cluster-connection>c</cluster-connection></pool>')
    assert errors(reading) == []
    assert reading.config is not None
    (router,) = routers_of(reading.config.peering)
    assert router.key is KeyType.SOURCE_IP
    assert router.pool is not None
    assert (router.pool.cluster, router.pool.check_ms, router.pool.quorum, router.pool.quorum_ms) == (
        "c",
        5000,
        1,
        3000,
    )


@pytest.mark.parametrize(
    ("router", "acceptor", "expected"),
    [
        ("<key-type>SHOE_SIZE</key-type>", "", "there is no key-type 'SHOE_SIZE'"),
        ("<key-filter>(</key-filter>", "", "key-filter is no regular expression"),
        ('<policy name="DICE"/>', "", "there is no policy 'DICE'"),
        ('<policy name="CONSISTENT_HASH_MODULO"/>', "", "needs the property MODULO"),
        (
            '<policy name="ROUND_ROBIN"><property key="X" value="1"/></policy>' + POOL.format(""),
            "",
            "has no property 'X'",
        ),
        ('<policy name="ROUND_ROBIN"/>', "", "has a policy and no pool"),
        ('<policy name="ROUND_ROBIN"/><pool/>', "", "has 0 sources of brokers"),
        (
            '<policy name="ROUND_ROBIN"/><pool><cluster-connection>x</cluster-connection></pool>',
            "",
            "there is no cluster connection 'x'",
        ),
        (
            '<policy name="ROUND_ROBIN"/>' + POOL.format("<quorum-size>2</quorum-size>"),
            "",
            "quorum-size is 2, and the pool has 1 brokers",
        ),
        ('<policy name="ROUND_ROBIN"/>' + POOL.format(""), "?router=other", "there is no connection router 'other'"),
    ],
)
def test_what_is_wrong_is_an_error(router: str, acceptor: str, expected: str) -> None:
    found = errors(read(router, acceptor))
    assert len(found) == 1, found
    assert expected in found[0]
