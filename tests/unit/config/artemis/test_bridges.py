"""``<bridges>``: what is obeyed, and what is refused by name (artemis.md 4.11)."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.carrying.options import CoreBridgeEntry, RoutingType
from entrepot.config.model import BrokerConfig

from .test_artemis import document, errors, read

CONNECTORS = (
    '<connectors><connector name="far">tcp://far:61616?tcpNoDelay=true;sslEnabled=true</connector>'
    '<connector name="other">tcp://other:5445</connector></connectors>'
)
STATIC = "<static-connectors><connector-ref>far</connector-ref><connector-ref>other</connector-ref></static-connectors>"


def bridge(inside: str, core: str = "") -> CoreBridgeEntry:
    text = f'{CONNECTORS}{core}<bridges><bridge name="b"><queue-name>Q</queue-name>{inside}</bridge></bridges>'
    reading = read(document(text))
    assert reading.findings.errors == []
    config = reading.config
    assert isinstance(config, BrokerConfig)
    (found,) = config.core_bridges
    return found


def test_the_defaults_are_those_of_artemis() -> None:
    found = bridge(STATIC)
    options = found.options
    assert [place.host for place in found.places] == ["far", "other"]
    assert found.places[0].options == {"sslEnabled": "true"}
    assert (options.name, options.queue, options.forwards, options.routing) == ("b", "Q", "", RoutingType.PASS)
    assert (options.retry_interval, options.check_period, options.ttl) == (2 * SECOND, 30 * SECOND, 60 * SECOND)
    assert (options.confirmation_window, options.producer_window, options.large_from) == (10 << 20, 1 << 20, 100 << 10)
    assert (options.deduplicates, options.attempts, options.attempts_first) == (True, -1, -1)


def test_everything_said() -> None:
    found = bridge(
        "<forwarding-address>F</forwarding-address><filter string=\"a = 'b'\"/><ha>true</ha>"
        "<retry-interval>100</retry-interval><retry-interval-multiplier>2.5</retry-interval-multiplier>"
        "<max-retry-interval>800</max-retry-interval><initial-connect-attempts>3</initial-connect-attempts>"
        "<reconnect-attempts>5</reconnect-attempts><use-duplicate-detection>false</use-duplicate-detection>"
        "<confirmation-window-size>1K</confirmation-window-size><producer-window-size>-1</producer-window-size>"
        "<routing-type>MULTICAST</routing-type><concurrency>4</concurrency><user>u</user><password>p</password>"
        f"<pending-ack-timeout>7</pending-ack-timeout>{STATIC}"
    )
    options = found.options
    assert (found.selector, options.forwards, options.ha) == ("a = 'b'", "F", True)
    link = options.reconnection()
    assert (link.initial_delay, link.max_delay, link.multiplier) == (100 * MILLISECOND, 800 * MILLISECOND, 2.5)
    assert (link.attempts_first, link.attempts_max) == (3, 6)
    assert (options.deduplicates, options.confirmation_window, options.producer_window) == (False, 1024, -1)
    assert (options.routing, options.concurrency, options.ack_timeout) == (RoutingType.MULTICAST, 4, 7 * MILLISECOND)
    assert (options.user, options.password) == ("u", "p")


def test_a_bridge_is_the_user_of_the_cluster_unless_it_says_otherwise() -> None:
    cluster = "<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>"
    options = bridge(STATIC, cluster).options
    assert (options.user, options.password) == ("c", "secret")


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        (
            f"<queue-name>Q</queue-name>{STATIC}<transformer><class-name>x</class-name></transformer>",
            "the transformer x cannot",
        ),
        (
            f"<queue-name>Q</queue-name>{STATIC}<transformer-class-name>x</transformer-class-name>",
            "the transformer x cannot",
        ),
        ("<queue-name>Q</queue-name>", "the bridge 'b' leads nowhere"),
        (STATIC, "the bridge 'b' takes from no queue"),
        (f"<queue-name>Q</queue-name>{STATIC.replace('far', 'x')}", "there is no connector 'x'"),
        (f"<queue-name>Q</queue-name>{STATIC}<routing-type>SOME</routing-type>", "SOME"),
        (f"<queue-name>Q</queue-name>{STATIC}<concurrency>0</concurrency>", "concurrency"),
        (f'<queue-name>Q</queue-name>{STATIC}<filter string="a ="/>', "selector"),
        ('<queue-name>Q</queue-name><discovery-group-ref discovery-group-name="g"/>', "no discovery group 'g'"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(inside: str, what: str) -> None:
    found = errors(f'{CONNECTORS}<bridges><bridge name="b">{inside}</bridge></bridges>')
    assert any(what in one for one in found), found


def test_names_are_unique() -> None:
    one = f'<bridge name="b"><queue-name>Q</queue-name>{STATIC}</bridge>'
    assert errors(f"{CONNECTORS}<bridges>{one}{one}</bridges>") == ["there is a bridge 'b' already"]


def test_a_discovery_group_instead_of_connectors() -> None:
    group = (
        '<discovery-groups><discovery-group name="g"><group-address>231.7.7.7</group-address>'
        "<group-port>9876</group-port></discovery-group></discovery-groups>"
    )
    found = bridge('<discovery-group-ref discovery-group-name="g"/>', group)
    assert (found.group, found.places) == ("g", ())
    both = f'<queue-name>Q</queue-name>{STATIC}<discovery-group-ref discovery-group-name="g"/>'
    said = errors(f'{CONNECTORS}{group}<bridges><bridge name="b">{both}</bridge></bridges>')
    assert said == ["it has static connectors and a discovery group"]
