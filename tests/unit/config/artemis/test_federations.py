"""``<federations>``: what is obeyed, and what is refused by name (artemis.md 4.12)."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.federation.options import AddressPolicy, DownstreamEntry, Match, QueuePolicy, UpstreamEntry
from entrepot.config.artemis.federation_elements import FEDERATION_KINDS
from entrepot.config.findings import Severity
from entrepot.config.model import BrokerConfig, changes
from entrepot.config.vocabulary import Does

from .test_artemis import document, errors, read

CONNECTORS = (
    '<connectors><connector name="far">tcp://far:61616?tcpNoDelay=true;sslEnabled=true</connector>'
    '<connector name="other">tcp://other:5445</connector></connectors>'
)
STATIC = "<static-connectors><connector-ref>far</connector-ref><connector-ref>other</connector-ref></static-connectors>"
BACK = "<upstream-connector-ref>other</upstream-connector-ref>"
POLICIES = (
    '<queue-policy name="Q"><include queue-match="orders" address-match="#"/>'
    '<exclude queue-match="#.x"/></queue-policy>'
    '<address-policy name="A"><include address-match="news.#"/></address-policy>'
)


def text(inside: str, attributes: str = 'name="F" user="u" password="secret-1"', core: str = CONNECTORS) -> str:
    return f"{core}<federations><federation {attributes}>{inside}</federation></federations>"


def config(inside: str, **given: str) -> BrokerConfig:
    reading = read(document(text(inside, **given)))
    assert reading.findings.errors == []
    assert isinstance(reading.config, BrokerConfig)
    return reading.config


def upstream(inside: str, attributes: str = 'name="U"', **given: str) -> UpstreamEntry:
    (found,) = config(
        f'<upstream {attributes}>{STATIC}<policy ref="Q"/><policy ref="A"/>{inside}</upstream>{POLICIES}', **given
    ).federations.upstreams
    return found


def test_the_defaults_are_those_of_artemis() -> None:
    found = upstream("")
    options = found.options
    assert (found.name, [place.host for place in found.places], found.group) == ("F/U", ["far", "other"], "")
    assert found.places[0].options == {"sslEnabled": "true"}
    assert (options.user, options.password, options.priority, options.ha) == ("u", "secret-1", 0, False)
    link = options.reconnection()
    assert (link.initial_delay, link.max_delay, link.multiplier) == (SECOND // 2, 2 * SECOND, 1.0)
    assert (link.attempts_first, link.attempts_max) == (0, 0)
    assert (options.check_period, options.ttl, options.call_timeout) == (30 * SECOND, 60 * SECOND, 30 * SECOND)
    assert found.queues == (
        QueuePolicy(name="Q", includes=(Match(queue="orders", address="#"),), excludes=(Match(queue="#.x"),)),
    )
    assert found.addresses == (AddressPolicy(name="A", includes=(Match(address="news.#"),)),)
    assert (found.queues[0].priority, found.queues[0].federated) == (-1, False)
    one = found.addresses[0]
    assert (one.max_hops, one.auto_delete, one.auto_delete_delay_ms, one.auto_delete_messages) == (
        0,
        True,
        3_600_000,
        -1,
    )


def test_everything_said() -> None:
    found = upstream(
        "<ha>true</ha><retry-interval>100</retry-interval><retry-interval-multiplier>2.5</retry-interval-multiplier>"
        "<max-retry-interval>800</max-retry-interval><initial-connect-attempts>3</initial-connect-attempts>"
        "<reconnect-attempts>5</reconnect-attempts><check-period>50</check-period><call-timeout>70</call-timeout>"
        "<connection-ttl>60</connection-ttl><circuit-breaker-timeout>9</circuit-breaker-timeout>"
        "<share-connection>true</share-connection><call-failover-timeout>9</call-failover-timeout>",
        'name="U" user="other" password="secret-2" priority-adjustment="-4"',
    )
    options = found.options
    assert (options.user, options.password, options.priority, options.ha) == ("other", "secret-2", -4, True)
    link = options.reconnection()
    assert (link.initial_delay, link.max_delay, link.multiplier) == (100 * MILLISECOND, 800 * MILLISECOND, 2.5)
    assert (link.attempts_first, link.attempts_max) == (3, 6)
    assert (options.check_period, options.call_timeout) == (50 * MILLISECOND, 70 * MILLISECOND)


def test_another_user_does_not_get_the_password_of_the_federation() -> None:
    assert upstream("", 'name="U" user="other"').options.password == ""


def test_policies_with_everything_said() -> None:
    made = config(
        f'<upstream name="U">{STATIC}<policy ref="Q"/><policy ref="A"/></upstream>'
        '<queue-policy name="Q" priority-adjustment="-7" include-federated="true"/>'
        '<address-policy name="A" max-hops="-1" auto-delete="false" auto-delete-delay="5"'
        ' auto-delete-message-count="3" enable-divert-bindings="true"/>'
    )
    (found,) = made.federations.upstreams
    assert found.queues == (QueuePolicy(name="Q", priority=-7, federated=True),)
    assert found.addresses == (
        AddressPolicy(
            name="A",
            max_hops=-1,
            auto_delete=False,
            auto_delete_delay_ms=5,
            auto_delete_messages=3,
            diverts=True,
        ),
    )


def test_sets_hold_policies_and_sets() -> None:
    made = config(
        f'<upstream name="U">{STATIC}<policy ref="both"/></upstream>{POLICIES}'
        '<policy-set name="both"><policy ref="one"/><policy ref="A"/></policy-set>'
        '<policy-set name="one"><policy ref="Q"/></policy-set>'
    )
    (found,) = made.federations.upstreams
    assert ([one.name for one in found.queues], [one.name for one in found.addresses]) == (["Q"], ["A"])


def test_a_discovery_group() -> None:
    core = (
        f'{CONNECTORS}<discovery-groups><discovery-group name="g"><group-address>231.7.7.7</group-address>'
        "<group-port>9876</group-port></discovery-group></discovery-groups>"
    )
    inside = '<upstream name="U"><discovery-group-ref discovery-group-name="g"/><policy ref="Q"/></upstream>'
    (found,) = config(inside + POLICIES, core=core).federations.upstreams
    assert (found.group, found.places) == ("g", ())


@pytest.mark.parametrize(
    ("inside", "what"),
    [
        (f'<upstream name="U">{STATIC}<policy ref="X"/></upstream>', "there is no policy 'X'"),
        ('<upstream name="U"><policy ref="Q"/></upstream>', "the upstream 'U' leads nowhere"),
        (f"<upstream>{STATIC}</upstream>", "an upstream has no name"),
        (f'<upstream name="a/b">{STATIC}<policy ref="Q"/></upstream>', "a stroke"),
        (f'<upstream name="U">{STATIC}</upstream><upstream name="U">{STATIC}</upstream>', "upstream 'U' already"),
        ('<policy-set name="S"><policy ref="S"/></policy-set>', "the policy set 'S' holds itself"),
        ('<policy-set name="Q"><policy ref="A"/></policy-set>', "there is a policy 'Q' already"),
        ('<queue-policy name="A"/>', "there is a policy 'A' already"),
        ('<address-policy name="B"><include queue-match="x"/></address-policy>', "an address policy knows no queues"),
        ('<address-policy name="B" max-hops="-2"/>', "max-hops is -2"),
        ('<queue-policy name="B" transformer-ref="t"/>', "there is no transformer 't'"),
        ("<transformer><class-name>x.Y</class-name></transformer>", "a transformer has no name"),
        ('<transformer name="t"><class-name>x.Y</class-name></transformer>', "Java class"),
        (
            '<downstream name="D"><upstream-connector-ref>far</upstream-connector-ref></downstream>',
            "the downstream 'D' leads nowhere",
        ),
        (f'<downstream name="D">{STATIC}</downstream>', "the downstream 'D' is not told where this broker is"),
        (
            f'<downstream name="D">{STATIC}<upstream-connector-ref>x</upstream-connector-ref></downstream>',
            "there is no connector 'x'",
        ),
        (f"<downstream>{STATIC}{BACK}</downstream>", "a downstream has no name"),
        (f'<downstream name="D">{STATIC}{BACK}</downstream>' * 2, "there is a downstream 'D' already"),
    ],
)
def test_what_is_wrong_is_named(inside: str, what: str) -> None:
    found = errors(text(POLICIES + inside))
    assert any(what in error for error in found), found


def test_two_federations_of_one_name() -> None:
    twice = "".join(f'<federation name="F">{POLICIES}</federation>' for _ in "ab")
    assert any("federation 'F' already" in one for one in errors(f"<federations>{twice}</federations>"))


def test_an_upstream_without_policies_is_a_warning() -> None:
    reading = read(document(text(f'<upstream name="U">{STATIC}</upstream>')))
    assert any("has no policy" in one.what for one in reading.findings.all if not reading.findings.errors)


def test_passwords_are_hidden_in_findings() -> None:
    reading = read(document(text(f'<upstream name="U" password="secret-9">{STATIC}</upstream>')))
    assert "secret-9" not in "".join(one.what for one in reading.findings.all)


def test_what_changed_holds_without_a_restart() -> None:
    before = config(f'<upstream name="U">{STATIC}<policy ref="Q"/></upstream>{POLICIES}')
    after = config(f'<upstream name="U">{STATIC}<policy ref="A"/></upstream>{POLICIES}')
    (change,) = changes(before, after)
    assert (change.what, change.live) == ("federation F/U", True)


def test_what_is_not_obeyed_says_why_and_what_to_do() -> None:
    for kind in FEDERATION_KINDS:
        for part in [*kind.attributes.values()]:
            assert part.does is Does.OBEYED or part.why, part.name
        for slot in kind.slots.values():
            assert slot.does is Does.OBEYED or slot.why, slot.name


def downstream(inside: str, attributes: str = 'name="D"') -> DownstreamEntry:
    (found,) = config(
        f'<downstream {attributes}>{STATIC}{BACK}<policy ref="A"/>{inside}</downstream>{POLICIES}'
    ).federations.downstreams
    return found


def test_a_downstream_has_a_place_and_the_place_that_it_is_told() -> None:
    found = downstream("<connection-ttl>6000</connection-ttl>", 'name="D" priority-adjustment="4"')
    assert (found.name, [place.host for place in found.places]) == ("F/downstream/D", ["far", "other"])
    assert (found.connector, found.back.host, found.back.port) == ("other", "other", 5445)
    assert (found.options.user, found.options.password, found.options.priority) == ("u", "secret-1", 4)
    assert (found.options.ttl, [one.name for one in found.addresses], found.queues) == (6 * SECOND, ["A"], ())


def test_an_upstream_and_a_downstream_may_have_one_name() -> None:
    both = f'<upstream name="D">{STATIC}</upstream><downstream name="D">{STATIC}{BACK}</downstream>'
    found = config(both).federations
    assert [one.name for one in (*found.upstreams, *found.downstreams)] == [
        "F/D",
        "F/downstream/D",
    ]


def test_who_may_deploy_is_said_by_roles_and_changes_live() -> None:
    def of(attributes: str) -> BrokerConfig:
        reading = read(document(f"<federations{attributes}/>"))
        assert isinstance(reading.config, BrokerConfig)
        assert reading.findings.errors == []
        return reading.config

    had, has = of(""), of(' downstream-authorization="a, b,c"')
    assert (had.federations.deployers, has.federations.deployers) == ((), ("a", "b", "c"))
    assert [(change.what, change.live) for change in changes(had, has)] == [("downstream-authorization", True)]


def both_ways(up: str, down: str, policies: str = POLICIES) -> list[str]:
    """Return the warnings of a file that fetches from a broker, and has that one fetch from here."""
    inside = (
        f'<upstream name="U" {up}>{STATIC}<policy ref="Q"/></upstream>'
        f'<downstream name="D" {down}>{STATIC}{BACK}<policy ref="R"/></downstream>{policies}'
    )
    found = read(document(text(inside))).findings.of(Severity.WARNING)
    return [each.what for each in found if "for ever" in each.what and each.line > 0]


def queues(q: str, r: str, of_q: str = "", of_r: str = "") -> str:
    return f'<queue-policy name="Q" {of_q}>{q}</queue-policy><queue-policy name="R" {of_r}>{r}</queue-policy>'


ORDERS = '<include queue-match="orders.#"/>'
ONE = '<include queue-match="orders.a"/>'
BILLS = '<include queue-match="bills"/>'
OVER = 'priority-adjustment="2"'


@pytest.mark.parametrize(
    ("up", "down", "policies"),
    [
        ("", "", queues(ORDERS, ONE, OVER)),
        ("", "", queues(ORDERS, ONE, "", OVER)),
        ("", "", queues("", "", OVER)),
        (OVER, "", queues(ONE, ORDERS)),
        ("", OVER, queues(ONE, ORDERS)),
    ],
)
def test_two_that_fetch_one_queue_from_each_other_before_readers_are_warned_of(
    up: str, down: str, policies: str
) -> None:
    (message,) = both_ways(up, down, policies)
    assert "'F/downstream/D'" in message
    assert "'F/U'" in message


@pytest.mark.parametrize(
    ("up", "policies"),
    [
        ("", queues(ORDERS, ONE)),
        ('priority-adjustment="1"', queues(ORDERS, ONE)),
        (OVER, queues(ORDERS, BILLS)),
        (OVER, queues(ORDERS, ONE + '<exclude queue-match="orders.#"/>')),
    ],
)
def test_two_that_fetch_behind_readers_or_other_queues_are_not(up: str, policies: str) -> None:
    assert both_ways(up, "", policies) == []


def test_two_brokers_are_not_warned_of_for_each_other() -> None:
    near = "<static-connectors><connector-ref>far</connector-ref></static-connectors>"
    other = "<static-connectors><connector-ref>other</connector-ref></static-connectors>"
    inside = (
        f'<upstream name="U" {OVER}>{near}<policy ref="Q"/></upstream>'
        f'<downstream name="D">{other}{BACK}<policy ref="R"/></downstream>{queues(ORDERS, ONE)}'
    )
    assert not [each for each in read(document(text(inside))).findings.of(Severity.WARNING) if "for ever" in each.what]
