"""Management messages of programs to `entrepot run --processes`: one answers for all, by the rights of who asks."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from daemon import Daemon

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Unreachable
from entrepot.client.blocking import Connection, Session, connect
from entrepot.client.message import Message, Received

XML = """<beans xmlns="http://www.springframework.org/schema/beans"><broker xmlns="http://activemq.apache.org/schema/core"
 brokerName="mq" persistent="false"><plugins><simpleAuthenticationPlugin><users>
<authenticationUser username="boss" password="b" groups="admins"/>
<authenticationUser username="poor" password="p" groups="mice"/>
</users></simpleAuthenticationPlugin><authorizationPlugin><map><authorizationMap><authorizationEntries>
<authorizationEntry queue=">" read="admins,mice" write="admins,mice" admin="admins"/>
<authorizationEntry topic=">" read="*" write="*" admin="*"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>
<transportConnectors><transportConnector name="all" uri="auto://127.0.0.1:0"/></transportConnectors></broker></beans>
"""


class Broker(Daemon):
    """Two processes, who ask who comes."""

    def facts(self) -> dict[str, Any]:
        found = json.loads(self.ports.read_text())
        assert isinstance(found, dict)
        return found

    def alone(self, number: int, user: str = "boss") -> Connection:
        return connect(f"unix://{self.facts()['sockets']}/{number}.sock", user=user, password=user[0])

    def shared(self, user: str = "boss", scheme: str = "core") -> Connection:
        return connect(f"{scheme}://127.0.0.1:{self.port}", user=user, password=user[0])

    def send(self, number: int, queue: str, count: int) -> None:
        with (
            self.alone(number) as connection,
            connection.session() as session,
            session.producer(f"queue://{queue}") as producer,
        ):
            for _ in range(count):
                producer.send("m")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    home = tmp_path_factory.mktemp("managed")
    (home / "activemq.xml").write_text(XML)
    made = Broker(home, str(home / "activemq.xml"), "--processes", "2", files=True)
    made.start()
    yield made
    made.stop()


def test_a_program_is_answered_for_all_processes(broker: Broker) -> None:
    broker.send(0, "orders", 2)
    broker.send(1, "orders", 3)
    broker.send(1, "other", 1)
    for scheme in ("core", "tcp"):
        with broker.shared(scheme=scheme) as connection, connection.management() as management:
            assert management.get("queue.orders", "messageCount") == 5
            assert management.get("queue.other", "MessageCount") == 1
            assert management.get("broker", "name") == "mq"
            assert sorted(set(management.get("broker", "queueNames")) & {"orders", "other"}) == ["orders", "other"]
            page = json.loads(management.call("broker", "listQueues", "", 1, 100))
            assert {row["name"]: row["messageCount"] for row in page["data"]}["orders"] in (5, "5")
            with pytest.raises(EntrepotError, match="Problem while retrieving attribute messageCount"):
                management.get("queue.nothing", "messageCount")
            with pytest.raises(InvalidDestination):
                management.call("queue.nothing", "pause")
    for number, count in ((0, 2), (1, 3)):  # the socket of one process is about that one
        with broker.alone(number) as connection, connection.management() as management:
            assert management.get("queue.orders", "messageCount") == count
    with broker.shared() as connection, connection.management() as management:
        assert management.call("queue.orders", "pause") is None
        assert management.get("queue.orders", "paused") is True
    for number in (0, 1):
        with broker.alone(number) as connection, connection.management() as management:
            assert management.get("queue.orders", "paused") is True
    with broker.shared() as connection, connection.management() as management:
        management.call("queue.orders", "resume")
        assert management.call("queue.orders", "removeMessages", "") == 5
        assert management.get("queue.orders", "messageCount") == 0


def test_a_program_is_told_by_each_process_why_messages_wait_and_where_one_is(broker: Broker) -> None:
    broker.send(0, "why", 2)
    broker.send(1, "why", 3)
    for scheme in ("core", "tcp"):
        with broker.shared(scheme=scheme) as connection, connection.management() as management:
            told = management.call("broker", "explain", "why")
            assert told["broker"] == "mq"
            assert [(one["process"], one["queue"], one["waiting"]) for one in told["queues"]] == [
                (0, "why", 2),
                (1, "why", 3),
            ]
            assert all(one["reasons"] for one in told["queues"])
            assert management.call("broker", "explain", "nothing")["queues"] == []
    with broker.alone(1) as connection, connection.management() as management:
        [row, *_] = management.call("queue.why", "listMessages", "")
        assert [one["waiting"] for one in management.call("broker", "explain", "why")["queues"]] == [3]
    with broker.shared() as connection, connection.management() as management:
        found = management.call("broker", "where", row["userID"])
        assert [(one["process"], one["queue"]) for one in found["places"]] == [(1, "why")]
        assert management.call("broker", "where", "ID:nobody-1")["places"] == []


def test_who_may_not_manage_is_refused(broker: Broker) -> None:
    with (
        broker.shared("poor") as connection,
        connection.management() as management,
        pytest.raises(AccessDenied),
    ):
        management.get("broker", "name")


def ask(session: Session, attribute: str, **more: object) -> Received:
    wanted = Message("[]", properties={"_AMQ_ResourceName": "broker", "_AMQ_Attribute": attribute, **more})
    return session.request("activemq.management", wanted, timeout=20)


def test_a_process_that_does_not_answer_is_named_and_nothing_is_changed_without_it(broker: Broker) -> None:
    broker.send(0, "stopped", 1)
    with broker.shared() as connection, connection.management() as management, connection.session() as session:
        [name] = json.loads(str(ask(session, "name", entrepot_alone=True).body))
        away = {"mq-0": 1, "mq-1": 0}[name]
        pid = int(broker.facts()["processes"][away]["pid"])
        os.kill(pid, signal.SIGSTOP)
        try:
            with ThreadPoolExecutor() as pool:
                looked, paused = (
                    pool.submit(ask, session, "active"),
                    pool.submit(management.call, "queue.stopped", "pause"),
                )
                answer = looked.result()
                assert json.loads(str(answer.body)) == [False]
                assert answer.properties["entrepot_missing"] == f"process {away}: it does not answer within 5 s"
                with pytest.raises(Unreachable, match="nothing was changed"):
                    paused.result()
        finally:
            os.kill(pid, signal.SIGCONT)
        assert management.get("broker", "active") is True
