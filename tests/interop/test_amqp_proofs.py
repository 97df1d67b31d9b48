"""Clients of AMQP that prove their password with SCRAM: Qpid JMS, with keys that Artemis' own tool made, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import artemis
import java_clients
import maven
import ours
import pytest
import qpid_clients

WHY_NOT: Final = artemis.unavailable()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"clients of AMQP: {WHY_NOT}")

MODULE: Final = "org.apache.activemq.artemis.spi.core.security.jaas.SCRAM"
LOGIN: Final = f"""activemq {{ {MODULE}LoginModule required; }};
amqp-sasl-scram {{ {MODULE}PropertiesLoginModule required
  org.apache.activemq.jaas.properties.user="artemis-users.properties"
  org.apache.activemq.jaas.properties.role="artemis-roles.properties"; }};
"""
TYPES: Final = (
    "createAddress", "deleteAddress", "createDurableQueue", "deleteDurableQueue", "createNonDurableQueue",
    "deleteNonDurableQueue", "send", "consume", "browse",
)  # fmt: skip


def _configuration(home: Path, port: int) -> Path:
    """Write what an instance of Artemis has for users with SCRAM; the keys are made by Artemis' own tool."""
    made = java_clients.finished(
        ["java", "-cp", artemis.class_path(), f"{MODULE}PropertiesLoginModule", "ann", "geh=eim,x"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    (home / "login.config").write_text(LOGIN)
    (home / "artemis-users.properties").write_text(made.stdout + "bob = plain word\n")
    (home / "artemis-roles.properties").write_text("shop = ann, bob\n")
    rights = "".join(f'<permission type="{one}" roles="shop"/>' for one in TYPES)
    file = home / "broker.xml"
    file.write_text(
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
        f"<journal-directory>{home}/journal</journal-directory>"
        f'<security-settings><security-setting match="#">{rights}</security-setting></security-settings>'
        f'<acceptors><acceptor name="amqp">tcp://127.0.0.1:{port}?protocols=AMQP;'
        "saslMechanisms=SCRAM-SHA-512,SCRAM-SHA-256;saslLoginConfigScope=amqp-sasl-scram</acceptor></acceptors>"
        "</core></configuration>"
    )
    return file


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ours.Entrepot]:
    made = ours.Entrepot(tmp_path)
    made.by_file = True
    made.arguments = (str(_configuration(tmp_path, made.port)),)
    made.start().await_ready()
    yield made
    made.kill()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_qpid_jms_proves_its_password(broker: ours.Entrepot, mechanism: str) -> None:
    try:
        jars = maven.jars(qpid_clients.LIBRARY)
    except maven.Unavailable as why:
        pytest.skip(str(why))
    source = java_clients.SOURCES / "proofs" / "Proves.java"
    path = f"{java_clients.compiled({source.name: source.read_text()}, f'{jars}/*')}:{jars}/*"
    who = ["ann", "geh=eim,x", "ann", "wrong", "bob", "plain word", "nobody", "plain word"]
    url = f"{qpid_clients.amqp_url(broker)}?amqp.saslMechanisms={mechanism}"
    said = java_clients.run(["java", "-XX:TieredStopAtLevel=1", "-cp", path, "Proves", url, *who])
    assert said.split() == ["hello", "refused", "hello", "refused"]
