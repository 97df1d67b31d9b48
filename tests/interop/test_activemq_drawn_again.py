"""What a real ActiveMQ gives again to a broker of ours that draws from it: the same message, or another with its id.

One that comes again is dropped; one that somebody sends again is not. ActiveMQ numbers what it takes, but begins anew
at each start, and with a JDBC store the number is another one when the message is read from there: the time at which
it came in stays with it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import classic
import jolokias
import maven
import pytest
from classic import NEWER, VERSION, Classic, free_port
from drawings import PATIENCE_S, QUIET_S, Beside, Theirs
from java_broker import HOST

import entrepot.client.wires
from entrepot.protocols.openwire.commands import ConnectionId
from promises import never

pytestmark = pytest.mark.skipif(bool(classic.unavailable()), reason=f"ActiveMQ: {classic.unavailable()}")

DERBY: Final = "org.apache.derby:derby:10.14.2.0:jar"
STORES: Final = ("kahaDB", "jdbc")
JDBC: Final = '<jdbcPersistenceAdapter dataSource="#derby" createTablesOnStartup="true"/>'
NO_AUDIT: Final = """\
<destinationPolicy><policyMap><policyEntries><policyEntry queue=">" enableAudit="false"/></policyEntries></policyMap>
</destinationPolicy>
"""
SOURCE: Final = """\
  <bean id="derby" class="org.apache.derby.jdbc.EmbeddedDataSource">
    <property name="databaseName" value="{home}/derby"/><property name="createDatabase" value="create"/>
  </bean>
</beans>"""


def made(home: Path, store: str = "kahaDB", **how: Any) -> Classic:
    """Return one with that store."""
    far = Classic(home / "far", name="far", **how)
    if store == "jdbc":
        try:
            far.jars = [*far.jars, str(maven.file(DERBY))]
        except maven.Unavailable as why:
            pytest.skip(str(why))
        file = far.home / "activemq.xml"
        text = re.sub(r"<kahaDB[^>]*/>", JDBC, file.read_text())
        file.write_text(text.replace("</beans>", SOURCE.format(home=far.home)))
    far.start().await_ready()
    return far


@pytest.fixture(params=STORES)
def joined(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Theirs, Beside]]:
    far = made(tmp_path, request.param)
    beside = Beside(tmp_path, far.port)
    try:
        yield Theirs(far), beside
    finally:
        beside.close()
        far.kill()


def test_what_was_not_acknowledged_before_a_restart_is_known_after_it(joined: tuple[Theirs, Beside]) -> None:
    theirs, beside = joined
    sent = [f"{number}" for number in range(50)]
    beside.hold("Q")
    beside.until(lambda: beside.explained("Q")["code"] == "reading")
    beside.cable.hold(said=True, answers=False)  # our acknowledgements do not arrive
    theirs.send(sent, "Q")
    beside.await_count("Q", 50)
    theirs.broker.kill()
    beside.cable.cut()
    theirs.broker.start().await_ready()
    beside.cable.heal()
    beside.until(lambda: beside.bridge()["duplicates"] == 50 or beside.waits("Q") > 50)
    time.sleep(QUIET_S)
    with never():
        assert beside.drawn("Q", 50) == sent
        assert theirs.take("Q") == []


def test_another_with_the_id_and_the_number_of_one_before_a_restart_is_not_lost(
    joined: tuple[Theirs, Beside], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an application sends that numbers its messages itself, over AMQP."""
    theirs, beside = joined
    monkeypatch.setattr(entrepot.client.wires, "ConnectionId", lambda name: ConnectionId("ID:always-the-same:1"))
    beside.hold("Q")
    turns = 5
    for turn in range(turns):
        beside.cable.cut()
        theirs.broker.kill()
        theirs.broker.start().await_ready()
        theirs.send([f"{turn}"], "Q")
        beside.cable.heal()
        beside.until(lambda: int(beside.bridge()["received"]) > turn)  # noqa: B023 - called here
        time.sleep(QUIET_S)
    beside.release("Q")
    time.sleep(0.3)
    with never():
        assert beside.took("/queue/Q") == [f"{turn}" for turn in range(turns)]


class Operated:
    """An ActiveMQ whose operator talks to its Jolokia.

    Its queues do not audit: else ActiveMQ itself drops what is moved to a queue that had it, whoever reads there.
    """

    def __init__(self, home: Path, version: str) -> None:
        try:
            agent = jolokias.agent()
        except maven.Unavailable as why:
            pytest.skip(str(why))
        self.port = free_port()
        self.far = Classic(home / "far", name="far", version=version, policies=NO_AUDIT)
        self.far.java += [f"-javaagent:{agent}=port={self.port},host={HOST},discoveryEnabled=false"]
        file = self.far.home / "activemq.xml"
        text = file.read_text().replace('useJmx="false"', 'useJmx="true"')
        file.write_text(text.replace("<persistenceAdapter>", jolokias.MANAGED + "<persistenceAdapter>"))
        self.far.start().await_ready()

    def does(self, operation: str, *arguments: object, queue: str = "") -> Any:
        """Have the operation done by the broker, or a queue of it; return what it says."""
        which = "org.apache.activemq:type=Broker,brokerName=far"
        which += f",destinationType=Queue,destinationName={queue}" if queue else ""
        asked = {"type": "exec", "mbean": which, "operation": operation, "arguments": arguments}
        request = Request(f"http://{HOST}:{self.port}/jolokia/", json.dumps(asked).encode())
        with urlopen(request, timeout=PATIENCE_S) as answer:
            told = json.loads(answer.read())
        assert told["status"] == 200, told
        return told["value"]


@pytest.fixture(params=[VERSION, NEWER], ids=["shipped", NEWER])
def operated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Operated, Beside]]:
    why = classic.unavailable(request.param)
    if why:
        pytest.skip(why)
    place = Operated(tmp_path, request.param)
    beside = Beside(tmp_path, place.far.port)
    try:
        yield place, beside
    finally:
        beside.close()
        place.far.kill()


def test_what_an_operator_sends_again_comes_again(operated: tuple[Operated, Beside]) -> None:
    place, beside = operated
    theirs = Theirs(place.far)
    beside.hold("Q")
    theirs.send(["a"], "queue://Q,queue://P")
    beside.await_count("Q", 1)
    assert place.does("moveMatchingMessagesTo(java.lang.String,java.lang.String)", "", "Q", queue="P") == 1
    assert beside.drawn("Q", 2) == ["a", "a"]


def test_what_was_put_away_there_comes_when_it_is_tried_again(operated: tuple[Operated, Beside]) -> None:
    place, beside = operated
    theirs = Theirs(place.far)
    theirs.send(["a"], "Q", time_to_live=0.2)
    time.sleep(0.5)
    assert theirs.take("Q") == []
    beside.hold("Q")
    beside.until(lambda: beside.explained("Q")["code"] == "reading")
    assert place.does("retryMessages()", queue="ActiveMQ.DLQ") == 1
    assert beside.drawn("Q", 1) == ["a"]


def test_a_queue_that_is_deleted_while_it_is_drawn_is_drawn_when_it_is_there_again(
    operated: tuple[Operated, Beside],
) -> None:
    place, beside = operated
    theirs = Theirs(place.far)
    beside.hold("Q")
    theirs.send(["a"], "Q")
    beside.await_count("Q", 1)
    place.does("removeQueue(java.lang.String)", "Q")
    theirs.send(["b"], "Q")
    assert beside.drawn("Q", 2) == ["a", "b"]
    assert theirs.take("Q") == []


def test_a_queue_that_is_emptied_by_an_operator_while_it_is_drawn_goes_on(operated: tuple[Operated, Beside]) -> None:
    """What was on its way is here: it is acknowledged, though it is there no more."""
    place, beside = operated
    theirs = Theirs(place.far)
    beside.hold("Q")
    beside.until(lambda: beside.explained("Q")["code"] == "reading")
    beside.cable.hold(said=False, answers=True)
    theirs.send([f"{number}" for number in range(20)], "Q")
    place.does("purge()", queue="Q")
    beside.cable.heal()
    beside.await_count("Q", 20)
    theirs.send(["b"], "Q")
    assert beside.drawn("Q", 21) == [*(f"{number}" for number in range(20)), "b"]
    assert beside.bridge()["state"] == "open"
