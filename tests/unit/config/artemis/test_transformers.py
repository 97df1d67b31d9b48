"""Transformers that a file names: the one that Artemis has is obeyed, wherever one may stand; others are refused."""

from __future__ import annotations

from entrepot.config.artemis.transformer_elements import CLASS
from entrepot.config.artemis.transformers import Headers
from entrepot.config.model import BrokerConfig
from entrepot.model.headers import ADD_HEADERS

from .test_artemis import document, errors, read

SETS = f"""<transformer><class-name>{ADD_HEADERS}</class-name>
<property key="colour" value="red"/><property key="size" value="2"/></transformer>"""


def test_a_divert_sets_headers_and_runs_no_other_class() -> None:
    where = "<name>d</name><address>a</address><forwarding-address>b</forwarding-address>"
    (made,) = config_of(f"<diverts><divert name='d'>{where[14:]}{SETS}</divert></diverts>").diverts
    assert made.headers == (("colour", "red"), ("size", "2"))
    inside = "<divert name='d'><address>a</address><forwarding-address>b</forwarding-address>{}</divert>"
    for transformer, what in (
        ("<transformer-class-name>x.Y</transformer-class-name>", "the transformer x.Y cannot run: a Java class"),
        ("<transformer><class-name>x.Y</class-name></transformer>", "the transformer x.Y cannot run: a Java class"),
        ("<transformer/>", "the transformer without a class-name cannot run"),
        (SETS.replace("colour", "_AMQ_GROUP_ID"), "cannot set the property '_AMQ_GROUP_ID'"),
        (SETS + "<transformer-class-name>x</transformer-class-name>", "a <transformer> and a <transformer-class-name>"),
    ):
        found = errors("<diverts>" + inside.format(transformer) + "</diverts>")
        assert any(what in one for one in found), found


def config_of(written: str) -> BrokerConfig:
    reading = read(document(written))
    assert reading.findings.errors == []
    assert isinstance(reading.config, BrokerConfig)
    return reading.config


HEADERS: Headers = (("colour", "red"), ("size", "2"))
CONNECTOR = "<connectors><connector name='far'>tcp://far:61616</connector></connectors>"
STATIC = "<static-connectors><connector-ref>far</connector-ref></static-connectors>"


def test_a_bridge_sets_headers() -> None:
    bridge = f"<bridges><bridge name='b'><queue-name>Q</queue-name>{SETS}{STATIC}</bridge></bridges>"
    assert config_of(CONNECTOR + bridge).core_bridges[0].headers == HEADERS


def test_policies_of_a_federation_name_transformers() -> None:
    named = SETS.replace("<transformer>", "<transformer name='t'>")
    inside = (
        f"{named}<queue-policy name='q' transformer-ref='t'/><address-policy name='a' transformer-ref='t'/>"
        f"<upstream name='u'>{STATIC}<policy ref='q'/><policy ref='a'/></upstream>"
    )
    (one,) = config_of(
        f"{CONNECTOR}<federations><federation name='f'>{inside}</federation></federations>"
    ).federations.upstreams
    assert (one.queues[0].headers, one.addresses[0].headers) == (HEADERS, HEADERS)


def test_policies_over_amqp_have_them() -> None:
    inside = "".join(
        f"<{side}-{kind}-policy name='{kind}'>{SETS}</{side}-{kind}-policy>"
        for side in ("local", "remote")
        for kind in ("queue", "address")
    )
    connection = f"<amqp-connection uri='tcp://far' name='A'><federation>{inside}</federation></amqp-connection>"
    (entry,) = config_of(f"<broker-connections>{connection}</broker-connections>").amqp_connections
    assert entry.federation is not None
    found = [one.queues or one.addresses for one in (*entry.federation.policies, *entry.federation.remote)]
    assert [one.headers for one in found if one is not None] == [HEADERS] * 4
    assert any(
        "the transformer x cannot run" in one
        for one in errors(
            f"<broker-connections>{connection.replace(SETS, f'<{CLASS}>x</{CLASS}>')}</broker-connections>"
        )
    )
