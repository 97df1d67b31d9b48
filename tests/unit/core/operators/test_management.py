"""Management by messages: what Artemis' names answer, in steps, bounded, and wrong requests told what is wrong."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from entrepot.base.errors import AccessDenied
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators import management, upkeep, views
from entrepot.core.operators.census import Census, Question
from entrepot.core.operators.controls import control
from entrepot.core.operators.management import ADDRESS, REQUESTS_MAX, Management, install
from entrepot.core.operators.rbac import VIEWS, Guard
from entrepot.core.security.access import EVERYTHING, VIEW, Rule, grants
from entrepot.core.security.directory import Directory, Subject, User
from entrepot.core.transactions.transaction import Transaction
from entrepot.journal.limits import NO_LIMIT, SHARE
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination, parse, parse_one
from entrepot.model.headers import ADD_HEADERS
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import START, Reader, Rig, admitted


class Office(Census):
    """Two connections, one of which may be closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []
        self.who: list[Subject] = []

    def subjects(self, connection: str) -> list[Subject]:
        return self.who

    def count(self) -> int:
        return 2

    def connections(self, skip: int, most: int) -> list[dict[str, str]]:
        return [{"id": "1", "peer": "a"}, {"id": "2", "peer": "b"}][skip : skip + most]

    def close(self, connection: str, why: str) -> bool:
        self.closed.append(connection)
        return connection == "1"


class Client:
    """One STOMP 1.2 connection without a socket; ``got`` is every frame that came."""

    count = 0

    def __init__(self, rig: Rig) -> None:
        Client.count += 1
        self.rig = rig
        self.session = StompSession(Shell(), rig.broker, StompOptions(), Client.count, f"peer-{Client.count}")
        self.parser = FrameParser()
        self.got: list[Frame] = []
        self.say("CONNECT", {"accept-version": "1.2", "host": "x"})
        self.hear()
        self.parser.version = "1.2"

    def say(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.session.receive(encode_frame(command, headers, body, "1.2"), self.rig.now)

    def hear(self) -> list[Frame]:
        """Return the new frames."""
        new: list[Frame] = []
        while data := self.session.outgoing():
            self.parser.feed(data)
            while frame := self.parser.take():
                new.append(frame)
        self.got += new
        return new

    def ask(self, command: str, body: bytes = b"", **headers: str) -> list[Frame]:
        self.say(command, headers, body)
        self.rig.turn()
        return self.hear()


class Operator:
    """Asks over STOMP, as any client does."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.office = Office()
        self.management = management.install(rig.broker, self.office)
        self.client = Client(rig)
        self.client.ask("SUBSCRIBE", id="1", destination="/temp-queue/answers")

    def ask(self, resource: str, name: str, *values: Any, attribute: bool = False, **headers: str) -> Frame:
        kind = "_AMQ_Attribute" if attribute else "_AMQ_OperationName"
        fields = {"destination": ADDRESS, "reply-to": "/temp-queue/answers", "_AMQ_ResourceName": resource, kind: name}
        self.client.say("SEND", {**fields, **headers}, json.dumps(values).encode() if values else b"")
        self.client.got.clear()
        for _ in range(1000):
            self.rig.wait(0)
            self.client.hear()
            if self.client.got:
                (frame,) = self.client.got
                return frame
        raise AssertionError("no answer")

    def do(self, resource: str, name: str, *values: Any) -> Any:
        frame = self.ask(resource, name, *values)
        assert (frame.command, frame.headers["_AMQ_OperationSucceeded"]) == ("MESSAGE", "true"), frame.body
        (result,) = json.loads(frame.body)
        return result

    def get(self, resource: str, name: str) -> Any:
        frame = self.ask(resource, name, attribute=True)
        assert frame.headers["_AMQ_OperationSucceeded"] == "true", frame.body
        (result,) = json.loads(frame.body)
        return result

    def fail(self, resource: str, name: str, *values: Any) -> str:
        frame = self.ask(resource, name, *values)
        assert frame.headers["_AMQ_OperationSucceeded"] == "false"
        assert frame.headers["entrepot_code"].startswith("ENT-")
        (told,) = json.loads(frame.body)
        return str(told)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_attributes_have_the_names_of_artemis(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send_all("Q", range(5))
    reader = rig.reader("Q", 2)
    assert operator.get("queue.Q", "messageCount") == 5
    assert operator.get("queue.Q", "DeliveringCount") == 2
    assert operator.do("queue.Q", "getConsumerCount") == 1
    assert operator.do("queue.Q", "isPaused") is False
    assert operator.get("queue.Q", "routingType") == "ANYCAST"
    assert operator.get("address.Q", "queueNames") == ["Q"]
    assert operator.get("address.Q", "routingTypes") == ["ANYCAST"]
    assert operator.get("address.Q", "messageCount") == 5
    assert operator.get("queue.Q", "definition") == {"name": "Q", "address": "Q", "auto_created": True}
    assert operator.get("broker", "name") == "test"
    assert operator.get("broker", "nodeID") == rig.broker.ids.node.uuid_text
    assert operator.get("broker", "nodeUUID") == str(UUID(bytes=rig.broker.ids.node.uuid))
    reader.ack()
    assert operator.get("queue.Q", "messagesAcknowledged") == 5
    assert operator.get("broker", "totalMessagesAdded") >= 5


def test_an_answer_goes_where_it_was_asked_for_with_its_correlation(rig: Rig) -> None:
    operator = Operator(rig)
    frame = operator.ask("broker", "name", attribute=True, **{"correlation-id": "c1"})
    assert frame.headers["correlation-id"] == "c1"
    assert frame.headers["destination"] == "/temp-queue/answers"
    frame = operator.ask("broker", "name", attribute=True)
    assert frame.headers["correlation-id"].startswith("ID:")


def test_nothing_is_queued_and_nobody_is_limited() -> None:
    rig = Rig(max_octets="1", full="FAIL")
    operator = Operator(rig)
    rig.reader(f"queue://{ADDRESS}").close()  # a queue of that name changes nothing
    for _ in range(3):
        assert operator.get("broker", "started") is True
    assert rig.queue(ADDRESS).count == 0
    assert rig.queue(ADDRESS).accepted == 0


def test_targets_that_were_known_before_the_service_learn_of_it(rig: Rig) -> None:
    target = rig.broker.target([parse_one(f"queue://{ADDRESS}")])
    rig.broker.send(rig.message("{}", ADDRESS), target)
    rig.turn()
    management.install(rig.broker)
    rig.broker.send(rig.message("{}", ADDRESS), target)
    rig.turn()
    assert rig.queue(ADDRESS).count == 1


def test_pause_and_resume_are_on_disk_when_they_are_answered(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send("Q", "a")
    operator.do("queue.Q", "pause")
    reader = rig.reader("Q", 1)
    assert reader.bodies == []
    assert operator.get("queue./queue/Q", "paused") is True  # a destination will do
    operator.do("queue.Q", "resume")
    assert reader.bodies == ["a"]
    operator.do("queue.Q", "pause")
    rig.restart("crash")
    assert rig.queue("Q").gate.paused


def test_an_answer_waits_for_the_disk(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send_all("Q", range(3))
    fields = {"destination": ADDRESS, "reply-to": "/temp-queue/answers", "_AMQ_ResourceName": "queue.Q"}
    operator.client.say("SEND", {**fields, "_AMQ_OperationName": "removeAllMessages"})
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    assert rig.queue("Q").count == 0
    assert operator.management.storing == 1
    assert operator.client.hear() == []
    rig.turn()
    rig.wait(0)
    assert len(operator.client.hear()) == 1


def test_messages_are_counted_and_listed(rig: Rig) -> None:
    operator = Operator(rig)
    for number in range(1200):
        rig.broker.send(rig.message(str(number), "Q", properties={"n": number}), rig.broker.target(parse("Q")))
    rig.turn()
    operator.client.ask("SEND", b"words", destination="/queue/Q", colour="red")
    assert operator.do("queue.Q", "countMessages") == 1201
    assert operator.do("queue.Q", "countMessages", "n >= 1000") == 200
    listed = operator.do("queue.Q", "listMessages", "colour = 'red'")
    assert [(row["properties"], row["text"], row["protocol"]) for row in listed] == [
        ({"colour": "red"}, "words", "STOMP")
    ]
    assert listed[0]["timestamp"] == START
    everything = json.loads(operator.do("queue.Q", "listMessagesAsJSON", ""))
    assert len(everything) == 1000
    page = operator.do("queue.Q", "browse", 3, 100)
    assert [row["messageID"] for row in page] == [row["messageID"] for row in everything[200:300]]
    assert "unreadable" in page[0]  # the language of this kit cannot be said in another
    assert operator.do("queue.Q", "browse", "n = 7")[0]["messageID"] == everything[7]["messageID"]


def test_removing_by_selector_by_count_by_id_and_all(rig: Rig) -> None:
    operator = Operator(rig)
    for number in range(1300):
        rig.broker.send(rig.message(str(number), "Q", properties={"n": number}), rig.broker.target(parse("Q")))
    rig.turn()
    assert operator.do("queue.Q", "removeMessages", "n < 600") == 600
    assert operator.do("queue.Q", "removeMessages", 100, "n < 602") == 2  # with a flush limit
    assert operator.do("queue.Q", "purge", 3) == 3
    rows = operator.do("queue.Q", "browse", 1, 2)
    assert operator.do("queue.Q", "removeMessage", rows[0]["messageID"]) is True
    assert operator.do("queue.Q", "removeMessage", rows[1]["userID"]) is True
    assert operator.do("queue.Q", "removeMessage", rows[1]["userID"]) is False
    assert operator.do("queue.Q", "removeAllMessages") == 1300 - 607
    assert rig.queue("Q").count == 0


def test_moving_copying_burying_and_retrying(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send_all("Q", range(10))
    assert operator.do("queue.Q", "copyMessages", None, "Copy", 4) == 4
    assert rig.bodies("Copy") == ["0", "1", "2", "3"]
    assert operator.do("queue.Q", "moveMessages", "", "R", False, 2) == 2  # as Artemis' consoles ask
    assert operator.do("queue.Q", "moveMessages", 50, None, "/queue/R", True) == 8
    rows = operator.do("queue.R", "browse")
    assert operator.do("queue.R", "moveMessage", rows[5]["userID"], "S") is True
    assert rig.bodies("S") == ["5"]
    assert operator.do("queue.R", "sendMessageToDeadLetterAddress", rows[0]["messageID"]) is True
    assert operator.do("queue.R", "sendMessagesToDeadLetterAddress", "", 2) == 2
    assert operator.get("queue.ActiveMQ.DLQ", "messageCount") == 3
    assert "no dead-letter address" in operator.fail("queue.ActiveMQ.DLQ", "sendMessagesToDeadLetterAddress")
    letter = operator.do("queue.ActiveMQ.DLQ", "browse", 1, 1)[0]
    assert letter["properties"]["_AMQ_ORIG_QUEUE"] == "R"
    assert operator.do("queue.ActiveMQ.DLQ", "retryMessage", letter["messageID"]) is True
    assert operator.do("queue.ActiveMQ.DLQ", "retryMessages") == 2
    assert sorted(rig.bodies("R"), key=int) == [str(number) for number in (0, 1, 2, 3, 4, 6, 7, 8, 9)]


def test_a_long_request_does_not_hold_up_a_short_one(rig: Rig) -> None:
    operator = Operator(rig)
    other = Operator(rig)
    rig.send_all("Q", range(3000))
    fields = {"destination": ADDRESS, "reply-to": "/temp-queue/answers", "_AMQ_ResourceName": "queue.Q"}
    operator.client.say("SEND", {**fields, "_AMQ_OperationName": "moveMessages"}, b'["", "R"]')
    assert other.get("queue.Q", "messageCount") >= 1500
    rig.wait(0)
    (frame,) = operator.client.hear()
    assert json.loads(frame.body) == [3000]


def test_a_target_that_is_deleted_meanwhile_takes_nothing_with_it(rig: Rig) -> None:
    from entrepot.base.errors import InvalidDestination

    rig.send_all("Q", range(700))
    rig.broker.queues.need(parse_one("R"))
    move = upkeep.Move(rig.broker, "Q", "R")
    assert not move.step().done
    upkeep.delete(rig.broker, "R")
    with pytest.raises(InvalidDestination, match="after 500"):
        move.step()
    assert rig.queue("Q").count == 200
    move = upkeep.Move(rig.broker, "Q", "R")
    upkeep.delete(rig.broker, "Q")
    assert move.step().done
    rig.turn()


def test_queues_come_and_go(rig: Rig) -> None:
    operator = Operator(rig)
    operator.do("broker", "createQueue", '{"name": "c", "address": "A", "routing-type": "ANYCAST"}')
    assert (rig.queue("c").address, rig.queue("c").durable, rig.queue("c").definition.auto_created) == (
        "A",
        True,
        False,
    )
    operator.do("broker", "createQueue", '{"name": "c", "address": "A"}', True)
    assert "already" in operator.fail("broker", "createQueue", "A", "c", "ANYCAST")
    operator.do("broker", "createQueue", "T", "MULTICAST", "sub", "n > 1", False)
    made = rig.queue("sub")
    assert made.filter is not None
    assert (made.routing, made.filter.text, made.durable) == (MULTICAST, "n > 1", False)
    operator.do("broker", "createQueue", "B", "b", False, "ANYCAST")
    assert not rig.queue("b").durable
    assert "routing type" in operator.fail("broker", "createQueue", "B", "bb", "SIDEWAYS")
    rig.send_all("A::c", range(1100))
    reader = rig.reader("A::c", 1)
    assert "consumers" in operator.fail("broker", "destroyQueue", "c")
    assert "it has 1100 messages" in operator.fail("broker", "destroyQueue", "c", True, False, True)
    assert operator.do("broker", "destroyQueue", "c", True) == 1100
    assert len(reader.endings) == 1
    assert "c" not in rig.broker.table.queues
    assert operator.do("broker", "getQueueNames", "MULTICAST") == ["sub"]


def test_lists_in_the_form_of_the_consoles(rig: Rig) -> None:
    operator = Operator(rig)
    for name, count in (("lamp", 3), ("box.1", 20), ("box.2", 1)):
        rig.send_all(name, range(count))
    options = json.dumps({"field": "name", "operation": "CONTAINS", "value": "box", "sortColumn": "messageCount"})
    found = json.loads(operator.do("broker", "listQueues", options, 1, 10))
    assert found["count"] == 2
    assert [(row["name"], row["messageCount"], row["durable"]) for row in found["data"]] == [
        ("box.2", "1", "true"),
        ("box.1", "20", "true"),
    ]
    options = json.dumps({"field": "messageCount", "operation": "GREATER_THAN", "value": "2", "sortField": "name"})
    found = json.loads(operator.do("broker", "listQueues", options, 2, 1))
    assert (found["count"], [row["name"] for row in found["data"]]) == (2, ["lamp"])
    assert "no field" in operator.fail("broker", "listQueues", '{"field": "smell", "value": "1"}', 1, 1)
    assert "no operation" in operator.fail("broker", "listQueues", '{"field":"name","value":"1","operation":"X"}')
    rig.reader("lamp", connection="c9")
    found = json.loads(operator.do("broker", "listConsumers", '{"field": "connection", "value": "c9"}', 1, 10))
    assert [row["queue"] for row in found["data"]] == ["lamp"]


def test_what_the_command_line_asks(rig: Rig) -> None:
    operator = Operator(rig)
    for name in ("a", "b.1", "b.2", "b.3"):
        rig.send(name)
    assert [row["name"] for row in operator.do("broker", "describeQueues", "b.*", "b.1", 1)] == ["b.2"]
    assert operator.do("queue.a", "describe")["messages"] == 1
    rig.reader("a", connection="c9")
    assert [row["connection"] for row in operator.do("broker", "describeConsumers", "a")] == ["c9"]
    assert operator.do("broker", "describeLeases") == []
    rig.send("a", annotations={"AMQ_SCHEDULED_DELAY": 9000})
    (row,) = operator.do("broker", "describeScheduled")
    assert (row["target"], row["deliver_at"]) == ("queue://a", rig.wall + 9000)
    assert operator.do("broker", "cancelScheduled", row["number"]) is True
    assert operator.do("broker", "cancelScheduled", row["number"]) is False
    assert operator.do("broker", "describeConnections")[1]["peer"] == "b"
    assert [row["peer"] for row in operator.do("broker", "describeConnections", 1, 10**15)] == ["b"]
    assert operator.do("broker", "describeQueues", "", "", -1) == []
    assert operator.do("broker", "describeScheduled", -1) == []
    assert operator.do("queue.b.1", "purge", -1) == 1  # all, as Artemis says it
    assert operator.do("broker", "closeConnectionWithID", "1") is True
    assert operator.do("broker", "closeConnectionWithID", "7") is False
    assert operator.office.closed == ["1", "7"]
    assert operator.get("broker", "connectionCount") == 2


def test_the_limits_of_the_disk_are_told_with_what_is_taken_of_them() -> None:
    rig = Rig()
    operator = Operator(rig)
    limits = rig.journal.space.limits
    names = ("diskStoreLimit", "diskStoreUsage", "diskTempLimit", "diskTempUsage")
    limits.capacity, limits.temp_now = 0, NO_LIMIT // SHARE
    assert [operator.get("broker", name) for name in names] == [0, 0.0, 0, 0.0]
    limits.capacity, limits.stored, limits.temp_now = 4000, 1000, 500
    assert [operator.get("broker", name) for name in names] == [4000, 0.25, 500, 0.0]
    limits.store = 2000
    assert [operator.get("broker", name) for name in names[:2]] == [2000, 0.5]


def test_an_address_is_paused_and_purged_whole(rig: Rig) -> None:
    operator = Operator(rig)
    for name in ("s1", "s2"):
        rig.reader("topic://T", client_id="c", durable_name=name).close()
    rig.send_all("topic://T", range(700))
    operator.do("address.T", "pause")
    assert operator.get("address.T", "paused") is True
    assert operator.do("address.T", "purge") == 1400
    operator.do("address.T", "resume")
    assert operator.get("queue.c.s1", "paused") is False


@pytest.mark.parametrize(
    ("resource", "name", "values", "told"),
    [
        ("queue.none", "pause", [], "no queue 'none'"),
        ("queue.topic://T", "pause", [], "is a topic"),
        ("address.none", "pause", [], "Address Does Not Exist: none"),
        ("divert.d", "x", [], "AMQ229012: No binding for divert d"),
        ("acceptor.d", "x", [], "AMQ229067: Cannot find resource with name acceptor.d"),
        ("thing.d", "x", [], "AMQ229067: Cannot find resource with name thing.d"),
        ("", "x", [], "AMQ229067: Cannot find resource"),
        ("broker", "explode", [], "no operation explode/0"),
        ("broker", "cancelScheduled", ["soon"], "argument 1 of cancelScheduled is 'soon'"),
        ("broker", "cancelScheduled", [True], "argument 1"),
        ("broker", "destroyQueue", [], "argument 1 of destroyQueue is missing"),
        ("queue.Q", "countMessages", ["a = = b"], "selector, character 5"),
        ("queue.Q", "moveMessages", ["", "topic://T"], "is a topic"),
        ("queue.Q", "moveMessages", ["", "Q"], "source and target"),
        ("queue.Q", "moveMessages", [""], "argument 2"),
        ("broker", "createQueue", ["{not json"], "argument 1"),
        ("broker", "createQueue", ['{"a": ' * 5000], "argument 1"),
        ("broker", "createQueue", ["a.*", "q", "ANYCAST"], "is a wildcard"),
        ("broker", "createQueue", ["a", "q\nr", "ANYCAST"], "control character"),
        ("broker", "describeQueues", [[["nested"]]], "plain values"),
        ("queue.Q", "removeMessage", [1.5], "argument 1"),
    ],
)
def test_wrong_requests_are_told_what_is_wrong(
    rig: Rig, resource: str, name: str, values: list[Any], told: str
) -> None:
    operator = Operator(rig)
    rig.send("Q")
    assert told in operator.fail(resource, name, *values)


def test_requests_that_cannot_be_read(rig: Rig) -> None:
    operator = Operator(rig)
    fields = {"destination": ADDRESS, "reply-to": "/temp-queue/answers", "_AMQ_ResourceName": "broker"}
    for body, told in (
        (b"{}", "JSON array"),
        (b"[1", "JSON array"),
        (b"\xff", "JSON array"),
        (b"[" * 100_000, "JSON array"),
        (rb'["\ud800"]', ""),
        (b"[" + b" " * management.BODY_OCTETS_MAX + b"]", "longer than"),
    ):
        operator.client.got.clear()
        operator.client.say(
            "SEND", {**fields, "_AMQ_OperationName": "listQueues", "content-length": str(len(body))}, body
        )
        rig.wait(0)
        rig.turn()
        rig.wait(0)
        (frame,) = operator.client.hear()
        assert told in frame.body.decode(), body[:9]
        assert frame.headers["_AMQ_OperationSucceeded"] == "false"
    assert "names nothing" in operator.fail("broker", "")


def test_requests_without_an_answer_are_done_all_the_same(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send("Q")
    for reply in ({}, {"reply-to": f"/queue/{ADDRESS}"}, {"reply-to": "/remote-temp-queue/gone"}):
        operator.client.say(
            "SEND", {"destination": ADDRESS, "_AMQ_ResourceName": "queue.Q", "_AMQ_OperationName": "pause", **reply}
        )
        rig.wait(0)
        assert rig.queue("Q").gate.paused
        operator.do("queue.Q", "resume")


def test_an_answer_makes_no_queue_for_who_has_left(rig: Rig) -> None:
    operator = Operator(rig)
    for where in (f"{ADDRESS}.gone", "mine"):
        fields = {"destination": ADDRESS, "reply-to": f"/queue/{where}", "_AMQ_ResourceName": "broker"}
        operator.client.say("SEND", {**fields, "_AMQ_Attribute": "NodeID"})
        rig.wait(0)
    assert f"{ADDRESS}.gone" not in rig.broker.table.queues
    assert rig.queue("mine").count == 1


def test_a_request_of_a_transaction_is_done_when_it_commits(rig: Rig) -> None:
    management.install(rig.broker)
    rig.send("Q")
    transaction = Transaction("t")
    request = rig.message("", ADDRESS, annotations={"_AMQ_ResourceName": "queue.Q", "_AMQ_OperationName": "pause"})
    transaction.send(request, rig.broker.target([parse_one(ADDRESS)]))
    rig.wait(0)
    assert not rig.queue("Q").gate.paused
    request.language = management.ANSWER_LANGUAGE
    request.raw = b'{"body": "", "properties": {}, "correlation_id": null}'
    rig.commit(transaction)
    rig.wait(0)
    assert rig.queue("Q").gate.paused


def test_a_composite_cannot_hide_a_request(rig: Rig) -> None:
    operator = Operator(rig)
    (frame,) = operator.client.ask("SEND", destination=f"/queue/Q,/queue/{ADDRESS}", receipt="r")
    assert frame.command == "ERROR"
    assert "cannot be one of several" in frame.headers["message"]


def test_a_flood_of_requests_is_refused(rig: Rig) -> None:
    service = management.install(rig.broker)
    assert isinstance(service, Management)
    reader: Reader = rig.reader("queue://answers", 1 << 20)
    heard: list[str] = []
    for _ in range(REQUESTS_MAX + 5):
        message = rig.message("", ADDRESS)
        message.language = management.ANSWER_LANGUAGE
        message.raw = b'{"body": "", "properties": {"JMSReplyTo": "queue://answers"}, "correlation_id": "c"}'
        rig.broker.send(message, rig.broker.target([parse_one(ADDRESS)]))
    assert len(service.ready) == 5
    reader.closed = True
    rig.broker.unsubscribe(reader)
    rig.wait(0)
    bodies = [row.raw.decode() for row in rig.broker.browse(parse_one("answers"), None).next(2000)]
    heard = [body for body in bodies if "under way" in body]
    assert (len(heard), len(bodies)) == (5, REQUESTS_MAX + 5)
    assert not service.open
    assert service.storing == 0


def test_answers_can_be_selected(rig: Rig) -> None:
    operator = Operator(rig)
    operator.client.say(
        "SEND",
        {
            "destination": ADDRESS,
            "reply-to": "/queue/kept",
            "_AMQ_ResourceName": "broker",
            "_AMQ_Attribute": "name",
            "correlation-id": "c",
        },
    )
    rig.wait(0)
    selector = "_AMQ_OperationSucceeded = TRUE AND JMSCorrelationID = 'c'"
    operator.client.ask("SUBSCRIBE", id="2", destination="/queue/kept", selector=selector)
    (frame,) = [frame for frame in operator.client.got if frame.command == "MESSAGE"]
    assert (frame.body, frame.headers["content-type"]) == (b'["test"]', "application/json")


def test_near_names_are_few_and_cheap(rig: Rig) -> None:
    for number in range(5):
        rig.broker.queues.create(QueueDefinition(name=f"orders{number}", address=f"orders{number}"))
    near = views.near_names(rig.broker, "order1")
    assert near[0] == "orders1"
    assert len(near) == 3
    assert views.near_names(rig.broker, "x" * 1000) == []
    assert views.near_names(rig.broker, "") == []


def test_requests_are_taken_at_the_address_that_is_set_and_the_rights_of_that_one_count() -> None:
    rig = Rig()
    install(rig.broker, address="ops.manage")
    access = rig.broker.access
    access.protect(
        Directory([User("boss", "plain:b", ["bosses"]), User("app", "plain:a", ["apps"])]),
        [Rule("#", UNTYPED, {"apps": EVERYTHING}), Rule("ops.#", UNTYPED, {"bosses": EVERYTHING})],
        narrowest=True,
    )
    boss, app = admitted(access, "boss", "b"), admitted(access, "app", "a")
    for name in ("ops.manage", "activemq.management"):
        place = [Destination(name, ANYCAST)]
        access.send(boss, place)
        with pytest.raises(AccessDenied):
            access.send(app, place)
        assert rig.broker.addresses.service_at(name) is not None
    assert control(rig.broker, Census(), "broker").get("managementAddress") == "ops.manage"


def test_a_queue_of_a_type_that_its_address_was_not_made_for_is_refused_or_changes_the_address(rig: Rig) -> None:
    operator = Operator(rig)
    operator.do("broker", "createAddress", "one", "ANYCAST")
    said = {"name": "q", "address": "one", "routing-type": "MULTICAST", "auto-create-address": False}
    told = operator.fail("broker", "createQueue", json.dumps(said))
    assert told.startswith("AMQ229207: Can not create queue with routing type: MULTICAST")
    operator.do("broker", "createQueue", json.dumps({**said, "auto-create-address": True}))
    assert operator.do("address.one", "getRoutingTypes") == ["MULTICAST", "ANYCAST"]


def test_a_queue_with_messages_is_not_deleted_where_it_is_to_be_empty(rig: Rig) -> None:
    rig.send("Q")
    told = Operator(rig).fail("broker", "destroyQueue", "Q", False, False, True)
    assert told.startswith("AMQ229215: Cannot delete queue Q on binding Q - it has 1 messages")


def test_requests_take_the_right_of_their_operation_where_that_is_asked_for(rig: Rig) -> None:
    operator = Operator(rig)
    viewer = Subject("viewer", ["viewers"])
    rig.broker.access.protect(None, [Rule("#", UNTYPED, {"*": EVERYTHING}), Rule("mops.#", UNTYPED, {"viewers": VIEW})])
    operator.management.guard = Guard(rig.broker, "mops", VIEWS)
    operator.office.subjects = lambda connection: [viewer]  # type: ignore[method-assign]
    rig.send("Q")
    assert operator.do("queue.Q", "getMessageCount") == 1
    assert operator.get("queue.Q", "paused") is False
    assert "permission='EDIT' on address mops.queue.Q.pause" in operator.fail("queue.Q", "pause")
    operator.office.subjects = lambda connection: []  # type: ignore[method-assign]
    assert "nobody is known" in operator.fail("queue.Q", "getMessageCount")
    assert not rig.queue("Q").gate.paused


def test_a_divert_is_changed_where_artemis_lets_it(rig: Rig) -> None:
    operator = Operator(rig)
    operator.do("broker", "createDivert", "d", "d", "a", "b", True, "x = 1", None, "PASS")
    operator.do("broker", "updateDivert", "d", "c", None, None, None, "STRIP")
    shown = [operator.get("divert.d", name) for name in ("address", "forwardingAddress", "filter", "exclusive")]
    assert shown == ["a", "c", "x = 1", True]
    assert operator.get("divert.d", "routingType") == "STRIP"
    operator.do("broker", "updateDivert", json.dumps({"name": "d", "filter-string": "x = 2"}))
    assert (operator.get("divert.d", "filter"), operator.get("divert.d", "forwardingAddress")) == ("x = 2", "c")
    assert operator.do("broker", "listDivertNames") == ["d"]
    assert "AMQ229012" in operator.fail("broker", "updateDivert", "none", "c", None, None, None, None)
    assert "transformer" in operator.fail("broker", "updateDivert", "d", "c", None, "com.example.T", None, None)
    operator.do("broker", "updateDivert", "d", None, None, ADD_HEADERS, {"colour": "red"}, None)
    operator.do("broker", "updateDivert", "d", "e", None, None, None, None)
    rig.restart()
    after = control(rig.broker, Census(), "divert.d")
    assert after.get("filter") == "x = 2"
    assert (after.get("transformerClassName"), after.get("transformerProperties")) == (ADD_HEADERS, {"colour": "red"})
    assert after.get("transformerPropertiesAsJSON") == '{"colour": "red"}'


def test_duplicate_ids_of_an_address_are_counted_and_forgotten(rig: Rig) -> None:
    operator = Operator(rig)
    for number in range(600):
        rig.send("Q", "x", duplicate=str(number).encode())
    assert operator.get("address.Q", "currentDuplicateIdCacheSize") == 600
    rig.send("Q", "again", duplicate=b"1")
    assert rig.queue("Q").count == 600
    assert operator.do("address.Q", "clearDuplicateIdCache") is True
    assert operator.get("address.Q", "currentDuplicateIdCacheSize") == 0
    rig.send("Q", "again", duplicate=b"1")
    assert rig.queue("Q").count == 601


def test_sums_are_read_message_by_message(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send_all("Q", range(3))
    rig.send("Q", "lost", durable=False)
    reader = rig.reader("Q", 1)
    assert operator.get("queue.Q", "durableMessageCount") == 3
    assert operator.get("queue.Q", "durableDeliveringCount") == 1
    size = operator.get("queue.Q", "durablePersistentSize")
    assert 0 < operator.get("queue.Q", "deliveringSize") < size
    assert operator.do("queue.Q", "getScheduledSize") == 0
    reader.close()
    rig.send("Q", "red", properties={"color": "red"})
    assert json.loads(operator.do("queue.Q", "countMessages", "", "color")) == {"null": 4, "red": 1}
    assert operator.do("queue.Q", "countDeliveringMessages", "") == 0
    assert operator.get("queue.Q", "preparedTransactionMessageCount") == 0


def test_what_waits_for_its_time_is_delivered_when_an_operator_says_so(rig: Rig) -> None:
    rig = Rig(redelivery_delay="60000")
    operator = Operator(rig)
    rig.send_all("Q", ["a", "b"])
    reader = rig.reader("Q", 2)
    reader.give_back()
    reader.close()
    assert operator.get("queue.Q", "scheduledCount") == 2
    first = json.loads(operator.do("queue.Q", "peekFirstScheduledMessageAsJSON"))
    assert operator.do("queue.Q", "deliverScheduledMessage", first["messageID"]) is None
    assert operator.get("queue.Q", "scheduledCount") == 1
    assert len(operator.do("queue.Q", "listScheduledMessages")) == 1
    operator.do("queue.Q", "deliverScheduledMessages", "")
    assert operator.get("queue.Q", "scheduledCount") == 0
    assert sorted(rig.bodies("Q")) == ["a", "b"]


def test_one_message_is_copied_and_counts_begin_anew(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send_all("Q", ["a", "b"])
    row = operator.do("queue.Q", "listMessages")[1]
    operator.do("broker", "createQueue", "R", "R", "ANYCAST")
    assert operator.do("queue.Q", "copyMessage", row["messageID"], "R") is True
    assert operator.do("queue.Q", "copyMessage", 999_999, "R") is False
    assert (operator.get("queue.Q", "messageCount"), rig.bodies("R")) == (2, ["b"])
    assert operator.get("queue.Q", "messagesAdded") == 2
    for name in ("Added", "Acknowledged", "Expired", "Killed"):
        operator.do("queue.Q", f"resetMessages{name}")
        assert operator.get("queue.Q", f"messages{name}") == 0


def test_an_operator_sends_a_message_that_outlives_a_restart(rig: Rig) -> None:
    operator = Operator(rig)
    number = operator.do("broker", "createQueue", "Q", "Q", "ANYCAST")
    number = operator.do("queue.Q", "sendMessage", {"color": "red"}, 3, "hello", True, None, None)
    assert int(number) > 0
    assert operator.do("address.Q", "sendMessage", {}, 4, "AAEC", True, None, None, False)
    assert "base64" in operator.fail("queue.Q", "sendMessage", {}, 4, "!", True, None, None)
    assert "argument 4" in operator.fail("queue.Q", "sendMessage", {}, 3, "x")
    rig.restart("kill")
    first, second = (delivery.message for delivery in rig.drain("Q"))
    said = first.common()
    assert (said.body, said.properties, said.content_type) == ("hello", {"color": "red"}, None)
    assert second.common().body == bytes(range(3))


def test_answers_that_are_ready_are_given_in_turns_that_are_short(rig: Rig) -> None:
    operator = Operator(rig)
    told: list[int] = []
    requests = [
        management._Request(Question("broker", "name", "", [], []), lambda *_: told.append(1)) for _ in range(50)
    ]
    operator.management.ready.extend(requests)
    operator.management.turn()
    assert len(told) == management.ANSWERS_A_TURN
    assert operator.management.has_turn
    operator.management.ready.clear()
    told.clear()
    large = [management._Request(Question("broker", "name", "", [], [])) for _ in range(3)]
    for request in large:
        request.reply_to, request.outcome = "answers", "x" * management.ANSWER_OCTETS_A_TURN
    operator.management.ready.extend(large)
    operator.management.turn()
    assert len(operator.management.ready) == 2
    rig.wait(0)
    assert rig.queue("answers").count == 3


def test_an_operator_sends_by_his_own_rights(rig: Rig) -> None:
    operator = Operator(rig)
    rig.broker.queues.create(QueueDefinition(name="Q", address="Q", routing=ANYCAST))
    asked = ("sendMessage", {}, 3, "x", True, None, None)
    rig.broker.access.protect(
        Directory([]),
        [Rule("activemq.management", UNTYPED, {"*": EVERYTHING}), Rule("ID:#", UNTYPED, {"*": EVERYTHING})],
    )
    operator.office.who = [Subject("bob")]
    assert "bob" in operator.fail("queue.Q", *asked)
    rig.broker.access.protect(Directory([]), [Rule("#", UNTYPED, {"*": EVERYTHING})])
    assert operator.do("queue.Q", *asked)
    assert "as 'bob', not as 'eve'" in operator.fail("queue.Q", "sendMessage", {}, 3, "x", True, "eve", "secret")
    operator.office.who = []
    assert "nobody is known" in operator.fail("queue.Q", *asked)


def test_roles_are_told_in_the_words_of_artemis(rig: Rig) -> None:
    operator = Operator(rig)
    rig.send("Q")
    assert operator.do("broker", "getRolesAsJSON", "Q") == "[]"
    rig.broker.access.protect(
        Directory([]), [Rule("#", UNTYPED, {"all": EVERYTHING}), Rule("Q", UNTYPED, {"all": VIEW})], narrowest=True
    )
    access = rig.broker.access
    assert grants(access, "Q", ANYCAST) == {"all": VIEW}
    assert grants(access, "R", ANYCAST) == {"all": EVERYTHING}
