"""Each verb of queues and addresses over several processes with real brokers: as one broker would answer it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from entrepot.base.errors import Refused
from entrepot.core.operators.census import Census
from entrepot.core.operators.together import joining
from entrepot.model.connected import ConnectionView, SessionView

from .test_whole import Real, Told, ask, told, whole


def filled(*counts: int, **fields: Any) -> list[Real]:
    """Return processes with so many messages each in the queue q; a negative number: it has none."""
    parts = [Real() for _ in counts]
    sent = 0
    for part, count in zip(parts, counts, strict=True):
        if count >= 0:
            part.does("createQueue", "q", "q", "ANYCAST")
            part.rig.send_all("q", [str(number) for number in range(sent, sent + count)], **fields)
            sent += count
            part.rig.wait(1)
    return parts


def left(parts: list[Real], name: str = "q") -> list[int]:
    queues = [part.rig.broker.table.queues.get(name) for part in parts]
    return [0 if queue is None else int(queue.count) for queue in queues]


@pytest.mark.parametrize(
    ("operation", "values"),
    [
        ("removeMessages", ["", 4]),
        ("removeMessages", [100, "", 4]),
        ("purge", [4]),
        ("moveMessages", ["", "to", 4]),
        ("moveMessages", ["", "to", False, 4]),
        ("moveMessages", [100, "", "to", True, 4]),
        ("copyMessages", [100, "", "to", False, 4]),
        ("expireMessages", ["", 4]),
        ("sendMessagesToDeadLetterAddress", ["", 4]),
    ],
)
def test_so_many_messages_are_meant_of_all_together(operation: str, values: list[Any]) -> None:
    parts = filled(3, -1, 5)
    before = sum(left(parts))
    assert ask(whole(*parts), "queue.q", operation, *values) == 4
    assert before - sum(left(parts)) == (0 if operation == "copyMessages" else 4)


@pytest.mark.parametrize(
    ("operation", "values"),
    [
        ("removeMessages", [""]),
        ("removeMessages", [3]),
        ("removeMessages", [3, ""]),
        ("removeMessages", ["", -1]),
        ("removeMessages", [None]),
        ("purge", []),
        ("moveMessages", ["", "to"]),
        ("moveMessages", ["", "to", True]),
        ("moveMessages", [3, "", "to", False]),
        ("moveMessages", [3, "", "to", False, -1]),
        ("copyMessages", ["", "to", True]),
        ("expireMessages", [""]),
        ("sendMessagesToDeadLetterAddress", []),
        ("removeAllMessages", []),
    ],
)
def test_all_messages_are_meant_where_no_number_is_said(operation: str, values: list[Any]) -> None:
    parts = filled(3, -1, 5)
    assert ask(whole(*parts), "queue.q", operation, *values) == 8
    assert sum(left(parts)) == (8 if operation == "copyMessages" else 0)


def test_what_is_no_number_is_refused_and_nothing_is_done() -> None:
    parts = filled(3, 5)
    for values in (["", "four"], ["", True]):
        with pytest.raises(Refused, match="argument 2 of removeMessages"):
            ask(whole(*parts), "queue.q", "removeMessages", *values)
    assert left(parts) == [3, 5]


def test_pages_of_messages_are_those_of_one_queue() -> None:
    parts = filled(5, -1, 0, 9)

    def page(*values: object) -> list[tuple[str, int]]:
        rows = ask(whole(*parts), "queue.q", "browse", *values)
        return [(json.loads(row["text"])["body"] if "text" in row else "", row["process"]) for row in rows]

    every = page()
    assert [process for _, process in every] == [0] * 5 + [3] * 9
    for size in (1, 3, 5, 7, 14, 20):
        pages = [page(at, size) for at in range(1, 16)]
        assert [len(one) for one in pages] == [max(0, min(size, 14 - size * at)) for at in range(15)]
        assert [row for one in pages for row in one] == every
    assert page(1, 4, "n = 1") == []


def test_the_first_message_is_the_first_of_all() -> None:
    parts = filled(0, -1, 2, 2)
    parts[2].rig.wait(5)
    first = json.loads(ask(whole(*parts), "queue.q", "peekFirstMessageAsJSON"))
    assert (first["process"], first["messageID"]) == (2, int(next(iter(messages(parts[2])))))
    [row] = json.loads(ask(whole(*parts), "queue.q", "getFirstMessageAsJSON"))
    assert row["messageID"] == first["messageID"]
    assert ask(whole(*filled(0, 0)), "queue.q", "peekFirstMessageAsJSON") == "null"
    assert ask(whole(*filled(0, 0)), "queue.q", "getFirstMessageAsJSON") == "[]"


def messages(part: Real) -> list[int]:
    found = part.rig.queue("q").stock.walk().step(10)
    return [int(one.message.number) for one in found]


def test_counts_by_a_property_are_added() -> None:
    parts = filled(2, -1, 3)
    for part, colours in ((parts[0], ["red", "blue"]), (parts[2], ["red"])):
        for colour in colours:
            part.rig.send("q", properties={"colour": colour})
    found = json.loads(ask(whole(*parts), "queue.q", "countMessages", "", "colour"))
    assert found == {"null": 5, "red": 2, "blue": 1}
    assert ask(whole(*parts), "queue.q", "countMessages", "") == 8


def test_an_address_is_told_as_one_of_all_types() -> None:
    parts = [Real(), Real(), Real()]
    parts[0].does("createAddress", "one", "MULTICAST")
    parts[2].does("createAddress", "one", "ANYCAST")
    told = ask(whole(*parts), "broker", "getAddressInfo", "one")
    assert told == "Address [name=one, routingTypes={MULTICAST,ANYCAST}, autoCreated=false]"


def test_bindings_of_all_are_listed() -> None:
    parts = filled(0, -1, 0)
    parts[2].does("createQueue", "q", "more", "ANYCAST")
    told = ask(whole(*parts), "broker", "listBindingsForAddress", "q").split("\n")
    assert [line.partition("queue=")[2].partition(",")[0] for line in told] == ["q", "more"]
    assert ask(whole(*parts), "broker", "listBindingsForAddress", "other") == ""


def test_names_of_addresses_are_told_with_what_is_to_stand_between() -> None:
    parts = [Real(), Real()]
    for part, names in zip(parts, (("b", "a"), ("C", "b")), strict=True):
        for name in names:
            part.does("createAddress", name, "ANYCAST")
    assert ask(whole(*parts), "broker", "listAddresses", "|") == "a|b|C"


def test_rights_are_told_once() -> None:
    parts = [Real(), Real()]
    for resource in ("address.q", "broker"):
        values = [] if resource != "broker" else ["q"]
        for part in parts:
            part.does("createQueue", json.dumps({"name": "q", "address": "q"}), True)
        for verb in ("getRoles", "getRolesAsJSON"):
            alone = [part.says(resource, verb, *values) for part in parts]
            assert ask(whole(*parts), resource, verb, *values) == alone[0]


class Connected(Census):
    """A process with two connections, ``1`` and ``2``; ``1`` has two sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.closed: list[tuple[str, ...]] = []

    def views(self) -> Iterable[ConnectionView]:
        sessions = [SessionView(name, "1", "ann", "", 1, {}, 0) for name in ("s1", "s2")]
        other = SessionView("2", "2", "bob", "", 0, {}, 0)
        return iter(
            [
                ConnectionView("1", "10.0.0.1:1", "", "CORE", "", "ann", 0, sessions),
                ConnectionView("2", "10.0.0.2:1", "", "STOMP", "", "bob", 0, [other]),
            ]
        )

    def close(self, connection: str, why: str) -> bool:
        self.closed.append((connection,))
        return True

    def close_session(self, connection: str, session: str, why: str) -> bool:
        self.closed.append((connection, session))
        return True

    def connections(self, skip: int, most: int) -> list[dict[str, Any]]:
        return []


def connected() -> list[Real]:
    parts = [Real(), Real()]
    for part in parts:
        part.office = Connected()
    return parts


def test_connections_are_named_with_their_process_wherever_they_are_listed_and_asked_for() -> None:
    parts = connected()
    ids = ask(whole(*parts), "broker", "listConnectionIDs")
    assert ids == ["0:1", "0:2", "1:1", "1:2"]
    for name, process in (("0:1", 0), ("1:1", 1)):
        assert ask(whole(*parts), "broker", "listSessions", name) == ["s1", "s2"]
        rows = json.loads(ask(whole(*parts), "broker", "listSessionsAsJSON", name))
        assert [(row["sessionID"], row["process"]) for row in rows] == [("s1", process), ("s2", process)]
        assert ask(whole(*parts), "broker", "listConsumersAsJSON", name) == "[]"
    with pytest.raises(Refused, match="does not say which process"):
        ask(whole(*parts), "broker", "listSessionsAsJSON", "1")


def test_a_sorted_list_is_sorted_over_all() -> None:
    parts = [Real(), Real()]
    for part, counts in zip(parts, ((3, 1), (5, 2)), strict=True):
        for at, count in enumerate(counts):
            name = f"q{at}" if part is parts[0] else f"r{at}"
            part.does("createQueue", name, name, "ANYCAST")
            part.rig.send_all(name, range(count))
    for order, wanted in (("asc", ["1", "2", "3", "5"]), ("desc", ["5", "3", "2", "1"])):
        options = json.dumps({"sortColumn": "messageCount", "sortOrder": order})
        told = json.loads(ask(whole(*parts), "broker", "listQueues", options, 1, 100))
        assert [row["messageCount"] for row in told["data"]] == wanted


def test_a_consumer_is_closed_by_the_name_of_its_session_or_with_its_process() -> None:
    parts = [Told(closeConsumerWithID=False), Told(closeConsumerWithID=True)]
    assert ask(told(*parts), "broker", "closeConsumerWithID", "3f2a-77", "5") is True
    assert ask(told(*parts), "broker", "closeConsumerWithID", "ID:host-1:1", "5") is True
    assert [len(part.asked) for part in parts] == [2, 2]
    assert ask(told(*parts), "broker", "closeConsumerWithID", "1:7", "5") is True
    assert parts[1].asked[-1] == ("broker", "closeConsumerWithID", ("7", "5"))
    assert len(parts[0].asked) == 2
    with pytest.raises(Refused, match="does not say which process"):
        ask(told(*parts), "broker", "closeConsumerWithID", "7", "5")


def test_lists_of_names_are_told_once_and_numbers_of_several_parts_added() -> None:
    assert joining.union([[["tcp", "a"]], [["tcp", "a"], ["ssl", "b"]]]) == [["tcp", "a"], ["ssl", "b"]]
    told_of_one = "LocalQueueBinding [address=a, queue=a, routingName=a, distance=0, consumers="
    assert joining.bindings([told_of_one + "1]", told_of_one + "2]\nother", ""]) == told_of_one + "3]\nother"
    assert joining.address_info(["what another version says", "x"]) == "what another version says"
    assert joining.ordered([{"a": 1}], "no JSON") == [{"a": 1}]
