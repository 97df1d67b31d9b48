"""The transformer that Artemis' distribution has, by the same file at both: readers see the same properties."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest
from artemis import Artemis, unavailable
from ours import Entrepot, of_kind
from test_amqp_connections import PATIENCE_S, session

pytest.importorskip("proton")
from proton import Message as AmqpMessage
from proton.utils import BlockingConnection

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Artemis: {unavailable()}")

NAME: Final = "org.apache.activemq.artemis.core.server.transformer.AddHeadersTransformer"
SETS: Final = f"""<transformer><class-name>{NAME}</class-name>
  <property key="colour" value="red"/><property key="size" value="2"/></transformer>"""
QUEUES: Final = "".join(
    f'<address name="{name}"><anycast><queue name="{name}"/></anycast></address>' for name in ("to",)
)
DIVERT: Final = f"""<diverts><divert name="d"><address>from</address><forwarding-address>to</forwarding-address>
  <exclusive>true</exclusive><routing-type>ANYCAST</routing-type>{SETS}</divert></diverts>"""
BRIDGE: Final = f"""<bridges><bridge name="b"><queue-name>to</queue-name>{SETS}<retry-interval>100</retry-interval>
  <user>u</user><password>p</password><static-connectors><connector-ref>far</connector-ref></static-connectors>
  </bridge></bridges>"""
FEDERATION: Final = f"""<broker-connections><amqp-connection uri="tcp://127.0.0.1:{{port}}" name="far" user="u"
  password="p" retry-interval="100"><federation><local-queue-policy name="p"><include
  address-match="to" queue-match="to"/>{SETS}</local-queue-policy></federation></amqp-connection>
  </broker-connections>"""
CORE_FEDERATION: Final = f"""<connectors><connector name="far">tcp://127.0.0.1:{{port}}</connector></connectors>
  <federations><federation name="F" user="u" password="p">
  <upstream name="U"><retry-interval>100</retry-interval><static-connectors><connector-ref>far</connector-ref>
  </static-connectors><policy ref="q"/><policy ref="a"/></upstream>
  <queue-policy name="q" transformer-ref="t"><include queue-match="to" address-match="#"/></queue-policy>
  <address-policy name="a" transformer-ref="t" auto-delete="false"><include address-match="news"/></address-policy>
  {SETS.replace("<transformer>", '<transformer name="t">')}</federation></federations>"""
TOPIC: Final = '<address name="news"><multicast>{}</multicast></address>'
SENT: Final = {"colour": "blue", "n": 7}
SEEN: Final = {"colour": "red", "size": "2", "n": 7}
KINDS: Final = ["artemis", "ours"]


def made(kind: str, home: Path, name: str, core: str = "", more: str = "") -> Artemis | Entrepot:
    return of_kind(kind, home, name, core, addresses=QUEUES + more)


def send(broker: Artemis | Entrepot, where: str, amqp_name: str = "") -> None:
    """Send one message by CORE, and one by AMQP."""

    async def play() -> None:
        async with asyncio.timeout(60), session(broker) as one, one.producer(where) as producer:
            await producer.send("by CORE", properties=SENT)

    asyncio.run(play())
    link = BlockingConnection(f"amqp://127.0.0.1:{broker.port}", timeout=PATIENCE_S)
    try:
        link.create_sender(amqp_name or where).send(AmqpMessage(body="by AMQP", durable=True, properties=SENT))
    finally:
        link.close()


def await_news(far: Artemis | Entrepot, near: Artemis | Entrepot) -> None:
    """Wait until what is sent to the topic of ``far`` comes, and take it all."""

    async def play() -> None:
        async with (
            asyncio.timeout(PATIENCE_S),
            session(far) as there,
            session(near) as here,
            there.producer("topic://news") as producer,
            here.consumer("news::desk") as consumer,
        ):
            came = False
            while not came:
                await producer.send("probe")
                while await consumer.receive(0.5) is not None:
                    came = True

    asyncio.run(play())


def read(broker: Artemis | Entrepot, where: str, by_amqp: bool) -> dict[str, dict[str, Any]]:
    """Return the properties of two messages that are read, by their bodies."""
    found: dict[str, dict[str, Any]] = {}
    if by_amqp:
        link = BlockingConnection(f"amqp://127.0.0.1:{broker.port}", timeout=PATIENCE_S)
        try:
            receiver = link.create_receiver(where)
            for _ in range(2):
                message = receiver.receive(PATIENCE_S)
                receiver.accept()
                annotations = {str(key) for key in message.annotations or {}}
                assert not annotations & {"x-opt-colour", "x-opt-size"}
                found[message.body] = {str(key): value for key, value in (message.properties or {}).items()}
        finally:
            link.close()
        return _said(found)

    async def play() -> None:
        async with asyncio.timeout(120), session(broker) as one, one.consumer(where) as consumer:
            for _ in range(2):
                message = await consumer.receive(PATIENCE_S)
                assert message is not None, "nothing came"
                found[message.body] = dict(message.properties)

    asyncio.run(play())
    return _said(found)


def _said(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {body: {key: said[key] for key in ("colour", "size", "n") if key in said} for body, said in found.items()}


BOTH: Final = {"by CORE": SEEN, "by AMQP": SEEN}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_amqp", [False, True])
def test_a_divert_sets_them(tmp_path: Path, kind: str, by_amqp: bool) -> None:
    broker = made(kind, tmp_path, "near", DIVERT)
    try:
        broker.start().await_ready()
        send(broker, "from")
        assert read(broker, "to", by_amqp) == BOTH
    finally:
        broker.kill()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_amqp", [False, True])
def test_a_bridge_sets_them(tmp_path: Path, kind: str, by_amqp: bool) -> None:
    far = made("artemis", tmp_path / "far", "far")
    far.start().await_ready()
    connectors = f'<connectors><connector name="far">tcp://127.0.0.1:{far.port}</connector></connectors>'
    near = made(kind, tmp_path / "near", "near", connectors + BRIDGE)
    try:
        near.start().await_ready()
        send(near, "to")
        assert read(far, "to", by_amqp) == BOTH
    finally:
        near.kill()
        far.kill()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_amqp", [False, True])
def test_a_federation_sets_them(tmp_path: Path, kind: str, by_amqp: bool) -> None:
    far = made("artemis", tmp_path / "far", "far")
    far.start().await_ready()
    near = made(kind, tmp_path / "near", "near", FEDERATION.format(port=far.port))
    try:
        near.start().await_ready()
        send(far, "to")
        unseen = {"by AMQP": SENT} if by_amqp and kind == "artemis" else {}  # it passes its octets on as they came
        assert read(near, "to", by_amqp) == {**BOTH, **unseen}
    finally:
        near.kill()
        far.kill()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["to", "news"])
def test_a_federation_over_core_sets_them(tmp_path: Path, kind: str, where: str) -> None:
    far = made("artemis", tmp_path / "far", "far", more=TOPIC.format(""))
    far.start().await_ready()
    desk = TOPIC.format('<queue name="desk"/>')
    near = made(kind, tmp_path / "near", "near", CORE_FEDERATION.format(port=far.port), desk)
    try:
        near.start().await_ready()
        if where == "news":
            await_news(far, near)
        send(far, "topic://news" if where == "news" else where, amqp_name=where)
        assert read(near, "news::desk" if where == "news" else where, by_amqp=False) == BOTH
    finally:
        near.kill()
        far.kill()
