"""Connection routers of real processes: unmodified Java clients are sent where a real Artemis would send them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import artemis
import java_clients
import maven
import pytest
from artemis import Artemis
from classic import HOST
from java_clients import Program, compiled, run
from librt.strings import BytesWriter
from ours import Entrepot, like_artemis

from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.codec import Decoder, Encoder, header

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

SOURCE: Final = Path(__file__).with_name("java") / "clusters" / "Routed.java"
CLIENT: Final = "org.apache.activemq:artemis-jms-client:2.42.0"
CLIENTS: Final = 8
ROUTER: Final = """
<connectors><connector name="one">tcp://127.0.0.1:{one}</connector>
<connector name="two">tcp://127.0.0.1:{two}</connector></connectors>
<connection-routers><connection-router name="r">
  <key-type>USER_NAME</key-type><local-target-filter>0-client</local-target-filter>
  <policy name="CONSISTENT_HASH"/>
  <pool>
    <username>u</username><password>p</password><check-period>300</check-period>
    <quorum-size>2</quorum-size><quorum-timeout>10000</quorum-timeout>
    <static-connectors><connector-ref>one</connector-ref><connector-ref>two</connector-ref></static-connectors>
  </pool>
</connection-router></connection-routers>
"""


def front(home: Path, name: str, one: int, two: int) -> Artemis:
    """Return an Artemis whose acceptor has the router; its file is what ours runs, too."""
    made = Artemis(home, name=name, core=ROUTER.format(one=one, two=two), acceptor="router=r")
    file = home / "broker.xml"
    doubled = f'<connectors><connector name="self">tcp://127.0.0.1:{made.port}</connector></connectors>'
    file.write_text(file.read_text().replace(doubled, ""))
    return made


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Entrepot, Artemis, Entrepot, Artemis]]:
    """Two to be sent to, and two with a router: of both kinds each."""
    home = tmp_path_factory.mktemp("routers")
    one = like_artemis(home / "one", Artemis(home / "like", name="one"))
    two = Artemis(home / "two", name="two")
    real = front(home / "real", "real", one.port, two.port)
    ours = like_artemis(home / "ours", real)
    started = (one, two, ours, real)
    try:
        for each in started:
            each.start()
        for each in started:
            each.await_ready()
        yield started
    finally:
        for each in started:
            each.kill()


def test_java_clients_are_sent_where_artemis_would_send_them(
    brokers: tuple[Entrepot, Artemis, Entrepot, Artemis],
) -> None:
    one, two, ours, real = brokers
    jars = maven.jars(CLIENT)
    path = f"{compiled({SOURCE.name: SOURCE.read_text()}, f'{jars}/*')}:{jars}/*"

    def served(router: Entrepot | Artemis) -> dict[str, str]:
        url = f"tcp://{HOST}:{router.port}?reconnectAttempts=30"
        lines = run(["java", "-XX:TieredStopAtLevel=1", "-cp", path, "Routed", url, str(CLIENTS)]).splitlines()
        assert lines[-1] == "end"
        return dict(line.split(" ", 1) for line in lines[:-1])

    mine, its = served(ours), served(real)
    assert (mine.pop("0-client"), its.pop("0-client")) == (str(ours.port), str(real.port)), "the filter keeps it"
    assert mine == its
    assert set(mine.values()) <= {str(one.port), str(two.port)}


@pytest.mark.skipif(bool(java_clients.unavailable()), reason=f"Java client: {java_clients.unavailable()}")
def test_an_openwire_client_with_failover_goes_where_it_is_sent(
    brokers: tuple[Entrepot, Artemis, Entrepot, Artemis],
) -> None:
    ours = brokers[2]
    program = Program()
    said = program.run("Sender", f"failover:(tcp://{HOST}:{ours.port})", "routed.openwire", "single", "2")
    assert said.split() == ["kept", "0.0", "kept", "1.0", "done"]


def redirected(port: int, user: str) -> str:
    """Return what a client of AMQP is told: the condition, and what comes with it; "" where it is served."""
    decoder, encoder = Decoder(1 << 20), Encoder()
    with socket.create_connection((HOST, port), timeout=30) as link:

        def say(performative: said.Composite, kind: int = 0) -> None:
            out = BytesWriter()
            encoder.write(out, 0, performative, kind)
            link.sendall(out.getvalue())

        def until(*kinds: type[said.Composite]) -> said.Composite:
            while True:
                for frame in decoder.feed(link.recv(1 << 16)):
                    if isinstance(frame.performative, kinds):
                        return frame.performative

        link.sendall(header(3))
        until(said.SaslMechanisms)
        say(said.SaslInit(mechanism="PLAIN", initial_response=f"\0{user}\0p".encode()), kind=1)
        until(said.SaslOutcome)
        link.sendall(header(0))
        say(said.Open(container_id=user))
        say(said.Begin(incoming_window=10, outgoing_window=10))
        answer = until(said.Close, said.Begin)
    error = getattr(answer, "error", None)
    return f"{error.condition} {sorted((error.info or {}).items())}" if isinstance(error, said.Error) else ""


def test_clients_of_amqp_are_told_where_artemis_tells_them(
    brokers: tuple[Entrepot, Artemis, Entrepot, Artemis],
) -> None:
    one, two, ours, real = brokers

    def told(router: Entrepot | Artemis) -> dict[str, str]:
        return {f"{at}-client": redirected(router.port, f"{at}-client") for at in range(CLIENTS)}

    mine, its = told(ours), told(real)
    assert mine == its
    assert mine.pop("0-client") == ""
    places = [sorted({"network-host": HOST, "port": port}.items()) for port in (one.port, two.port)]
    assert set(mine.values()) <= {f"amqp:connection:redirect {place}" for place in places}
