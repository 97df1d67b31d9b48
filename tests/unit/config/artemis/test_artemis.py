"""broker.xml to the model: what each part means here, what is said about the rest, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.assembly import Plan
from entrepot.base.environment import MIB, MILLISECOND, UNLIMITED
from entrepot.base.errors import InvalidConfiguration
from entrepot.config.artemis import belongs, interpret
from entrepot.config.artemis.elements import CONTENT, CORE, KINDS
from entrepot.config.files import read as read_file
from entrepot.config.findings import Findings, Severity
from entrepot.config.founding import add_policies
from entrepot.config.model import BrokerConfig, DivertEntry, RetentionOptions, ServingOptions, Sharing, UserLimit
from entrepot.config.reading import Reading
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import Attribute, Does, Kind
from entrepot.config.xml import parse
from entrepot.core.addressing.address_settings import FULL_BLOCK, FULL_PAGE
from entrepot.core.addressing.configuration import FIELDS
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.node import Node
from entrepot.node_options import NodeOptions

OPEN = "<security-enabled>false</security-enabled>"
ACCEPTORS = '<acceptors><acceptor name="a">tcp://127.0.0.1:0?protocols=STOMP,OPENWIRE</acceptor></acceptors>'
EXAMPLE = Path(__file__).parents[3] / "config" / "artemis" / "standalone.xml"


def document(body: str = "", *, acceptors: str = ACCEPTORS, opened: str = OPEN) -> str:
    return (
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
        f"<name>n</name>{opened}{body}{acceptors}</core></configuration>"
    )


def read(text: str, spoken: tuple[str, ...] = ("openwire", "stomp")) -> Reading:
    sources = Sources(Findings())
    sources.file = "etc/broker.xml"
    return interpret(parse(text.encode(), "etc/broker.xml"), sources, spoken=spoken)


def said(reading: Reading, severity: Severity) -> list[str]:
    return [finding.what for finding in reading.findings if finding.severity is severity]


def config(body: str = "", **more: str) -> BrokerConfig:
    reading = read(document(body, **more))
    assert reading.config is not None, said(reading, Severity.ERROR)
    return reading.config


def errors(body: str, **more: str) -> list[str]:
    reading = read(document(body, **more))
    assert (reading.config is None) == bool(said(reading, Severity.ERROR))
    return said(reading, Severity.ERROR)


def policy(settings: str, name: str = "a.b", match: str = "#") -> Policy:
    made = Policies()
    body = f'<address-settings><address-setting match="{match}">{settings}</address-setting></address-settings>'
    add_policies(config(body), made)
    return made.of(name)


# -- the whole --------------------------------------------------------------------------------------------------------


def test_the_file_that_artemis_writes_for_a_new_broker() -> None:
    reading = read_file(EXAMPLE, spoken=("openwire", "stomp"))
    assert reading.config is not None, said(reading, Severity.ERROR)
    made = reading.config
    assert made.broker.name == "standalone"
    assert made.store.directory == str(EXAMPLE.resolve().parent / "data/journal/entrepot")
    assert made.store.segment == 10 * 1024 * 1024
    assert [(one.name, one.protocol, one.line) for one in made.connectors] == [
        ("artemis", "auto", 29),
        ("stomp", "stomp", 31),
    ]
    assert made.queues == (
        QueueDefinition(name="DLQ", address="DLQ", routing=ANYCAST, configured=True),
        QueueDefinition(name="ExpiryQueue", address="ExpiryQueue", routing=ANYCAST, configured=True),
    )
    assert made.sharing is None
    assert all(finding.line for finding in reading.findings)


def test_either_family_is_known_by_its_root() -> None:
    assert belongs(parse(document().encode(), "f"))
    assert belongs(parse(b'<core xmlns="urn:activemq:core"/>', "f"))
    assert not belongs(parse(b'<beans xmlns="http://www.springframework.org/schema/beans"/>', "f"))
    with pytest.raises(InvalidConfiguration):
        read_file(Path("/nowhere/broker.xml"), spoken=())


def test_relative_directories_are_those_of_the_instance() -> None:
    made = config("<journal-directory>d/j</journal-directory>")
    assert made.store.directory == str(Path.cwd() / "d/j/entrepot")
    assert config("<journal-directory>/d</journal-directory>").store.directory == "/d/entrepot"
    assert config("<persistence-enabled>false</persistence-enabled>").store.directory == ""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<nmae>x</nmae>", "holds no <nmae>"),
        ("<persistence-enabled>perhaps</persistence-enabled>", "'perhaps' does not fit"),
        ("<name><x/></name>", "is a single value"),
        ("words", "text cannot stand here"),
        ("<addresses/><addresses/>", "there is a <addresses> already"),
        ("<journal-directory>${nobody}</journal-directory>", "nobody says what"),
        ("<store><database-store/></store>", "not kept in databases"),
        ("<network-check-URL-list>ftp://a/</network-check-URL-list>", "no URL of http"),
        (
            "<network-check-list>a</network-check-list><network-check-ping-command>ping</network-check-ping-command>",
            "which host",
        ),
        (
            "<network-check-list>a</network-check-list>"
            "<network-check-ping-command>ping ' %s</network-check-ping-command>",
            "no command",
        ),
        ("<network-check-list>a</network-check-list><network-check-period>0</network-check-period>", "no time"),
        ("<queues><queue name='x'/></queues>", "Artemis itself has dropped it"),
        ("<addresses><address name='a.#'/></addresses>", "no name of an address"),
        (
            "<diverts><divert name='d'><address>a</address></divert></diverts>",
            "needs an address and a forwarding-address",
        ),
        ("<ha-policy><replication/></ha-policy>", "a primary or a backup"),
        ("<ha-policy><shared-store/></ha-policy>", "a primary or a backup"),
        ("<ha-policy><shared-store><primary/><slave/></shared-store></ha-policy>", "a primary or a backup"),
        ("<address-settings><address-setting/></address-settings>", "says for no address"),
        (
            '<address-settings><address-setting match="#"><address-full-policy>X</address-full-policy>'
            "</address-setting></address-settings>",
            "'X' does not fit the option address-full-policy",
        ),
    ],
)
def test_what_artemis_would_not_understand_or_we_cannot_do_is_an_error(body: str, message: str) -> None:
    found = errors(body)
    assert any(message in what for what in found), found


def test_a_misspelt_name_comes_with_the_right_one() -> None:
    reading = read(document("<journal-dirctory>x</journal-dirctory>"))
    assert [finding.remedy for finding in reading.findings.errors] == ["did you mean 'journal-directory'? "]


def test_a_broker_that_should_ask_for_a_password_does_not_start_without() -> None:
    for opened in ("", "<security-enabled>true</security-enabled>"):
        assert any("login.config: No such file" in what for what in errors("", opened=opened))


# -- the vocabulary ----------------------------------------------------------------------------------------------------


def unobeyed() -> Iterator[tuple[Kind, Attribute]]:
    for kind in (CORE, KINDS["address-setting"], KINDS["queue"]):
        for attribute in kind.attributes.values():
            if attribute.does is not Does.OBEYED:
                yield kind, attribute


def one_queue(text: str) -> str:
    return f'<addresses><address name="a"><anycast>{text}</anycast></address></addresses>'


def within(kind: Kind, text: str) -> str:
    return {
        "core": text,
        "address-setting": f'<address-settings><address-setting match="#">{text}</address-setting></address-settings>',
        "queue": one_queue(f'<queue name="q">{text}</queue>'),
    }[kind.name]


@pytest.mark.parametrize(
    ("kind", "attribute"), [pytest.param(*one, id=f"{one[0].name}-{one[1].name}") for one in unobeyed()]
)
def test_each_scalar_that_is_not_obeyed_is_said_with_its_place(kind: Kind, attribute: Attribute) -> None:
    value = {"flag": "true"}.get(attribute.unit.name.lower(), "77")
    if attribute.same == value or (attribute.unit.name == "FLAG" and attribute.same == "true"):
        value = "false"
    reading = read(document(within(kind, f"<{attribute.name}>{value}</{attribute.name}>")))
    hits = [one for one in reading.findings if one.path.endswith(f"/{attribute.name}")]
    assert len(hits) == 1
    assert hits[0].line == 1
    if attribute.same is not None:
        quiet = read(document(within(kind, f"<{attribute.name}>{attribute.same}</{attribute.name}>")))
        assert not [one for one in quiet.findings if one.path.endswith(f"/{attribute.name}")]


def test_a_scalar_may_be_an_attribute_too() -> None:
    body = one_queue('<queue name="q" durable="false" ring-size="3"><last-value-key>k</last-value-key></queue>')
    reading = read(document(body))
    assert reading.config is not None
    assert reading.config.queues[0].durable is False
    assert (reading.config.queues[0].ring_size, reading.config.queues[0].last_value_key) == (3, "k")


def test_attributes_of_a_queue_are_read_and_what_is_not_said_is_left_to_its_address() -> None:
    words = {
        "max-consumers": 4,
        "exclusive": True,
        "purge-on-no-consumers": True,
        "consumers-before-dispatch": 2,
        "delay-before-dispatch": 300,
        "group-rebalance": True,
        "group-rebalance-pause-dispatch": True,
        "group-buckets": 0,
        "group-first-key": "first",
        "last-value": False,
        "last-value-key": "key",
        "non-destructive": True,
        "ring-size": 9,
        "enabled": False,
        "user": "me",
    }
    said = "".join(f"<{word}>{str(value).lower()}</{word}>" for word, value in words.items())
    found = config(one_queue(f'<queue name="q">{said}</queue>')).queues[0]
    assert {word: getattr(found, FIELDS[word]) for word in words} == words
    assert config(one_queue('<queue name="q"/>')).queues[0].says_nothing()
    assert errors(one_queue('<queue name="q" ring-size="-7"/>'))


def test_the_older_word_for_last_value_queues() -> None:
    assert policy("<last-value-queue>true</last-value-queue>").given.last_value
    newer = "<default-last-value-queue>false</default-last-value-queue><last-value-queue>true</last-value-queue>"
    assert not policy(newer).given.last_value


def test_every_kind_can_be_reached_and_its_obeyed_scalars_are_heard() -> None:
    reached, pending = {"core"}, ["core"]
    while pending:
        for slot in KINDS[pending.pop()].slots.values():
            pending += [one for one in slot.kinds if one not in reached]
            reached.update(slot.kinds)
    assert reached == set(KINDS)
    assert CONTENT in KINDS["acceptor"].attributes


# -- settings ----------------------------------------------------------------------------------------------------------


def test_defaults_are_those_of_artemis() -> None:
    made = policy("")
    assert (made.dead_letter_address, made.max_deliveries, made.full, made.max_octets) == ("", 10, FULL_PAGE, UNLIMITED)
    assert (made.prioritized, made.auto_create, made.given.auto_delete, made.dead_letter_expired) == (
        True,
        True,
        True,
        False,
    )


def test_settings_are_read_with_units_and_merge_by_pattern() -> None:
    made = policy(
        "<max-size-bytes>10MiB</max-size-bytes><address-full-policy>block</address-full-policy>"
        "<redelivery-delay>1500</redelivery-delay><max-delivery-attempts>3</max-delivery-attempts>"
        "<dead-letter-address>D</dead-letter-address><redelivery-delay-multiplier>2.5</redelivery-delay-multiplier>"
    )
    assert (made.max_octets, made.full, made.redelivery_delay) == (10 * 1024 * 1024, FULL_BLOCK, 1500 * MILLISECOND)
    assert (made.max_deliveries, made.dead_letter_address, made.redelivery_multiplier) == (3, "D", 2.5)
    other = policy("<max-delivery-attempts>3</max-delivery-attempts>", "x", match="a.#")
    assert other.max_deliveries == 10


# -- addresses, queues, diverts ----------------------------------------------------------------------------------------


def test_queues_and_addresses() -> None:
    made = config(
        '<addresses><address name="orders"><anycast><queue name="orders"/></anycast><multicast><queue name="audit">'
        '<filter string="price &gt; 5"/><durable>false</durable></queue></multicast></address>'
        '<address name="news"><multicast/></address></addresses>'
    )
    assert made.queues == (
        QueueDefinition(name="orders", address="orders", routing=ANYCAST, configured=True),
        QueueDefinition(
            name="audit", address="orders", routing=MULTICAST, durable=False, selector="price > 5", configured=True
        ),
    )
    assert made.destinations == (Destination(name="news", routing=MULTICAST),)
    assert errors(one_queue('<queue name="q"><filter string="1 +"/></queue>'))


def test_diverts() -> None:
    made = config(
        "<diverts><divert name='d'><address>a</address><forwarding-address>b, c</forwarding-address>"
        '<exclusive>true</exclusive><filter string="x = 1"/><routing-type>ANYCAST</routing-type></divert>'
        "<divert name='e'><address>a</address><forwarding-address>z</forwarding-address></divert></diverts>"
    )
    to = tuple(Destination(name=one, routing=ANYCAST) for one in ("b", "c"))
    assert made.diverts == (
        DivertEntry(name="d", address="a", targets=to, exclusive=True, selector="x = 1"),
        DivertEntry(name="e", address="a", targets=(Destination(name="z", routing=UNTYPED),)),
    )


# -- acceptors ---------------------------------------------------------------------------------------------------------


def acceptor(text: str, **given: tuple[str, ...]) -> tuple[list[str], Reading]:
    reading = read(document(acceptors=f'<acceptors><acceptor name="x">{text}</acceptor>{ACCEPTORS[11:]}'), **given)
    assert reading.draft is not None
    return [one.uri for one in reading.draft.connectors if one.name == "x"], reading


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("tcp://h:1?protocols=STOMP", "stomp://h:1"),
        ("tcp://h:1?protocols=OPENWIRE;connectionsAllowed=5", "openwire://h:1?maximumConnections=5"),
        ("tcp://h:1?protocols=STOMP,OPENWIRE", "auto://h:1?auto.protocols=stomp,openwire"),
        ("tcp://h:1", "auto://h:1"),
        ("tcp://h:1?protocols=STOMP;sslEnabled=true;keyStorePath=k", "stomp+ssl://h:1?keyStorePath=k"),
        ("tcp://h:1?protocols=AMQP,MQTT", ""),
        ("vm://0", ""),
    ],
)
def test_an_acceptor_opens_what_is_spoken(text: str, uri: str) -> None:
    found, _ = acceptor(text)
    assert found == ([uri] if uri else [])


def test_what_an_acceptor_does_not_speak_is_named() -> None:
    _, reading = acceptor("tcp://h:1?protocols=CORE,STOMP,MQTT")
    assert "the acceptor 'x' does not speak CORE, MQTT: this build does not yet" in said(reading, Severity.WARNING)
    _, reading = acceptor("tcp://h:1")
    assert any("and not yet CORE, AMQP, MQTT" in what for what in said(reading, Severity.WARNING))
    _, reading = acceptor("tcp://h:1?protocols=SMTP")
    assert any("no protocol 'SMTP'" in what for what in said(reading, Severity.ERROR))
    _, reading = acceptor("tcp://h:1?protocols=STOMP;anycastPrefix=q.;amqpCredits=1")
    assert any("anycastPrefix=q. is not done here" in what for what in said(reading, Severity.WARNING))
    assert any("amqpCredits=1 has no effect" in what for what in said(reading, Severity.NOTE))


def test_an_acceptor_of_amqp_keeps_its_options() -> None:
    spoken = ("core", "amqp", "openwire")
    found, reading = acceptor("tcp://h:1?protocols=AMQP;amqpCredits=5;saslMechanisms=PLAIN", spoken=spoken)
    assert found == ["amqp://h:1?amqpCredits=5&saslMechanisms=PLAIN"]
    assert [what for what in said(reading, Severity.NOTE) if "amqpCredits" in what] == []
    found, reading = acceptor("tcp://h:1?protocols=AMQP;anycastPrefix=q/;amqpDuplicateDetection=false", spoken=spoken)
    assert found == ["amqp://h:1?anycastPrefix=q/"]
    assert any("amqpDuplicateDetection" in what for what in said(reading, Severity.WARNING))


def test_a_broker_without_a_place_to_listen() -> None:
    assert any("no acceptor" in what for what in said(read(document(acceptors="")), Severity.WARNING))
    none = '<acceptors><acceptor name="x">tcp://h:1?protocols=AMQP</acceptor></acceptors>'
    assert any("none of its acceptors" in what for what in errors("", acceptors=none))


# -- high availability -------------------------------------------------------------------------------------------------


def shared(part: str) -> Sharing | None:
    return config(f"<ha-policy><shared-store>{part}</shared-store></ha-policy>").sharing


def test_parts_of_a_shared_store_in_new_words_and_old() -> None:
    stays = Sharing(part="primary", failover_on_shutdown=False)
    assert shared("<primary/>") == shared("<master/>") == stays
    hands = "<primary><failover-on-shutdown>true</failover-on-shutdown></primary>"
    assert shared(hands) == Sharing(part="primary", failover_on_shutdown=True)
    waits = Sharing(part="backup", failover_on_shutdown=False, allow_failback=True)
    assert shared("<backup/>") == shared("<slave/>") == waits
    keeps = "<backup><allow-failback>false</allow-failback><restart-backup>false</restart-backup></backup>"
    assert shared(keeps) == Sharing(part="backup", failover_on_shutdown=False, restart_backup=False)


def test_who_stands_alone_shares_nothing() -> None:
    assert config("<ha-policy><primary-only/></ha-policy>").sharing is None
    assert config("<ha-policy><live-only/></ha-policy>").sharing is None
    assert config("<persistence-enabled>false</persistence-enabled>").sharing is None


@pytest.mark.parametrize(
    ("said", "percent", "free"),
    [
        ("<max-disk-usage>80</max-disk-usage>", 80, 0),
        ("<max-disk-usage>-1</max-disk-usage>", 0, 0),
        ("<max-disk-usage>100</max-disk-usage>", 0, 0),
        ("<min-disk-free>10MB</min-disk-free>", 0, 10 << 20),
        ("", 0, 0),
    ],
)
def test_how_full_the_disk_may_be(said: str, percent: int, free: int) -> None:
    usage = config(said).usage
    assert (usage.disk_percent_max, usage.disk_free_min) == (percent, free)


def test_a_disk_cannot_be_fuller_than_full() -> None:
    reading = read(document("<max-disk-usage>101</max-disk-usage>"))
    assert "101 is no percentage of a disk" in said(reading, Severity.ERROR)


def test_what_holds_for_everybody() -> None:
    made = config(
        "<transaction-timeout>1500</transaction-timeout><uuid-namespace>temp</uuid-namespace>"
        "<reject-empty-validated-user>true</reject-empty-validated-user><global-max-messages>9</global-max-messages>"
        "<populate-validated-user>true</populate-validated-user>"
        "<wild-card-routing-enabled>false</wild-card-routing-enabled>"
        "<persist-delivery-count-before-delivery>true</persist-delivery-count-before-delivery>"
        '<resource-limit-settings><resource-limit-setting match="ada"><max-sessions>2</max-sessions>'
        "<max-queues>3</max-queues></resource-limit-setting></resource-limit-settings>"
        "<global-max-size-percent-of-jvm-max-memory>25</global-max-size-percent-of-jvm-max-memory>"
        "<literal-match-markers>()</literal-match-markers>"
        '<address-settings><address-setting match="(a.*)"><id-cache-size>3</id-cache-size></address-setting>'
        "</address-settings>"
    )
    assert made.serving == ServingOptions(
        branch_ms=1500,
        users=(("ada", UserLimit(2, 3)),),
        demands_user=True,
        uuid_namespace="temp",
        wildcards=False,
        messages_max=9,
    )
    assert made.broker.users_on_messages
    assert made.usage.memory_limit == 512 * MIB
    plan = Plan("b", MIB, config=made)
    policies = plan.policies
    assert (policies.of("a.*").id_cache, policies.of("a.b").id_cache, policies.of("x").mark_delivered) == (
        3,
        20_000,
        True,
    )
    assert policies.namespace == "temp"
    options = plan.options
    assert (options.messages_max, options.wildcards) == (9, False)
    assert options.stamps is not None
    assert options.stamps.demands
    assert config("<temporary-queue-namespace>old</temporary-queue-namespace>").serving.uuid_namespace == "old"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("<transaction-timeout>0</transaction-timeout>", "a branch cannot last 0 ms"),
        ("<literal-match-markers>(</literal-match-markers>", "is no pair"),
        (
            "<global-max-size-percent-of-jvm-max-memory>101</global-max-size-percent-of-jvm-max-memory>",
            "101 is no percentage",
        ),
        ("<resource-limit-settings><resource-limit-setting/></resource-limit-settings>", "for no user"),
    ],
)
def test_what_cannot_hold_for_everybody_is_an_error(said: str, words: str) -> None:
    assert any(words in what for what in errors(said))


def test_scalars_of_the_broker_that_are_about_all_addresses_and_connections() -> None:
    made = config(
        "<id-cache-size>7</id-cache-size><connection-ttl-override>1500</connection-ttl-override>"
        '<address-settings><address-setting match="a"><id-cache-size>3</id-cache-size></address-setting>'
        "</address-settings>"
    )
    policies = Policies()
    add_policies(made, policies)
    assert (policies.of("x").id_cache, policies.of("a").id_cache, made.serving.ttl_override_ms) == (7, 3, 1500)
    assert made.refresh_ms == 5000
    node = Node(NodeOptions(listen=["core://127.0.0.1:0"], config=made))
    assert [one.core.ttl_ms_always for one in node.dialects] == [1500]
    assert [(one.stomp.ttl_ms, one.amqp.idle_ms) for one in node.dialects] == [(1500, 1500)]
    assert config("<configuration-file-refresh-period>-1</configuration-file-refresh-period>").refresh_ms == 0


def kept(body: str) -> Reading:
    return read(document(f"{body}<journal-directory>/somewhere/journal</journal-directory>"))


def test_what_the_journal_lets_go_of_is_kept_as_it_is_said() -> None:
    found = kept(
        '<journal-retention-directory unit="HOURS" period="3" storage-limit="2G">/somewhere/kept'
        "</journal-retention-directory>"
    )
    assert found.config is not None
    assert found.config.serving.retention == RetentionOptions("/somewhere/kept", 3 * 3_600_000, 2 << 30)
    assert not [one for one in found.findings.all if "retention" in one.path]
    days = kept('<journal-retention-directory period="2">/kept</journal-retention-directory>').config
    assert days is not None
    assert days.serving.retention == RetentionOptions("/kept", 2 * 86_400_000, 0)
    nothing = kept("").config
    assert nothing is not None
    assert nothing.serving.retention is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<journal-retention-directory/>", "names no directory"),
        ('<journal-retention-directory unit="WEEKS" period="1">/k</journal-retention-directory>', "no unit of time"),
        ('<journal-retention-directory period="0">/k</journal-retention-directory>', "for a time of 0"),
        ("<journal-retention-directory>/k</journal-retention-directory>", "kept for ever"),
    ],
)
def test_what_cannot_be_kept_is_said(text: str, why: str) -> None:
    assert why in str([one.what for one in kept(text).findings.all])


def test_what_only_entrepot_knows_is_an_instruction_in_this_family_too(tmp_path: Path) -> None:
    text = document().replace("<configuration", f"<?entrepot zone='ams' reports='{tmp_path}'?><configuration", 1)
    made = read(text)
    assert made.config is not None
    assert (made.config.own.zone, made.config.own.reports) == ("ams", str(tmp_path))
    assert "it has no 'zones'" in said(read(text.replace("zone=", "zones=")), Severity.ERROR)[0]
