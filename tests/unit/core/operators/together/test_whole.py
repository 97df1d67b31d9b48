"""Several processes asked as one broker: sums, lists, what is done everywhere, and what when one is away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Refused, Unreachable
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.together import joining
from entrepot.core.operators.together.whole import Whole
from kit import Rig


def row(name: str, messages: int, **more: object) -> dict[str, Any]:
    plain = {"name": name, "messages": messages, "consumers": 0, "leased": 0, "oldest_ms": 0, "paused": False}
    return {**plain, "temporary": False, "routing": "ANYCAST", **more}


class Process:
    """One process with queues. ``wrong``: what it answers to everything."""

    def __init__(self, *rows: dict[str, Any], wrong: EntrepotError | None = None) -> None:
        self.queues = {one["name"]: one for one in rows}
        self.wrong = wrong
        self.connections = 0
        self.done: list[tuple[str, str, tuple[object, ...]]] = []

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        await asyncio.sleep(0)
        if self.wrong is not None:
            raise self.wrong
        if operation == "describeQueues":
            _, last, most = values
            return [self.queues[name] for name in sorted(self.queues) if name > str(last)][: int(str(most))]
        if operation == "describeConnections":
            begin, most = values
            ids = range(1, self.connections + 1)[int(str(begin)) : int(str(begin)) + int(str(most))]
            return [{"id": str(number)} for number in ids]
        if operation == "describeAttributes":
            return {"name": "mq-0", "connectionCount": 3, "uptimeMillis": len(self.queues), "active": True}
        name = resource.removeprefix("queue.")
        if resource.startswith("queue.") and name not in self.queues:
            raise InvalidDestination(f"there is no queue {name}")
        if operation == "describe":
            return self.queues[name]
        if operation == "listStatus":
            return json.dumps({"count": len(self.queues)})
        self.done.append((resource, operation, values))
        if operation in ("purge", "moveMessages"):
            some = min(self.queues[name]["messages"], int(str(values[-1])) if values else 1 << 30)
            self.queues[name]["messages"] -= some
            return some
        return None


def ask(whole: Whole, resource: str, operation: str, *values: object) -> Any:
    return asyncio.run(whole.ask(resource, operation, *values))


def whole(*parts: Process, **failures: str) -> Whole:
    return Whole("mq", dict(enumerate(parts)), {int(name[1:]): why for name, why in failures.items()}, "at {}".format)


def test_a_queue_is_its_parts_together_and_says_where_they_are() -> None:
    made = whole(
        Process(row("a", 3, oldest_ms=5), row("c", 1)), Process(row("a", 4, oldest_ms=9, paused=True), row("b", 2))
    )
    found = ask(made, "broker", "describeQueues", "", "", 500)
    assert [(one["name"], one["messages"], one["process"]) for one in found] == [
        ("a", 7, "0 1"),
        ("b", 2, "1"),
        ("c", 1, "0"),
    ]
    assert (found[0]["oldest_ms"], found[0]["paused"]) == (9, True)
    assert ask(made, "queue.a", "describe") == found[0]
    assert ask(made, "queue.b", "describe")["messages"] == 2
    with pytest.raises(InvalidDestination):
        ask(made, "queue.x", "describe")


def test_pages_of_queues_leave_none_out_and_have_none_twice() -> None:
    names = [f"q{number:02}" for number in range(40)]
    made = whole(Process(*(row(name, 1) for name in names[::2])), Process(*(row(name, 1) for name in names[1:30])))
    found: list[str] = []
    while page := ask(made, "broker", "describeQueues", "", found[-1] if found else "", 7):
        found += [one["name"] for one in page]
    assert found == sorted({*names[::2], *names[1:30]})


def test_connections_are_listed_page_by_page_and_closed_where_they_are() -> None:
    parts = Process(), Process()
    parts[0].connections, parts[1].connections = 502, 3
    made = whole(*parts)
    pages = [ask(made, "broker", "describeConnections", skip, 500) for skip in (0, 500)]
    ids = [one["id"] for page in pages for one in page]
    assert ids == [*(f"0:{number}" for number in range(1, 503)), "1:1", "1:2", "1:3"]
    ask(made, "broker", "closeConnectionWithID", "1:2")
    assert (parts[0].done, parts[1].done) == ([], [("broker", "closeConnectionWithID", ("2",))])
    for name in ("2", "7:2", "x:2"):
        with pytest.raises(Refused, match="which process"):
            ask(made, "broker", "closeConnectionWithID", name)


def test_facts_are_sums_or_the_largest_and_the_name_is_that_of_all() -> None:
    facts = ask(whole(Process(row("a", 1)), Process()), "broker", "describeAttributes", "")
    assert facts == {"name": "mq", "connectionCount": 6, "uptimeMillis": 1, "active": True}


def test_so_many_messages_are_purged_in_all_and_no_more() -> None:
    parts = Process(row("a", 5)), Process(), Process(row("a", 5))
    assert ask(whole(*parts), "queue.a", "purge", 7) == 7
    assert [one.queues["a"]["messages"] for one in (parts[0], parts[2])] == [0, 3]
    assert ask(whole(*parts), "queue.a", "purge") == 3
    assert ask(whole(Process(row("a", 5)), Process(row("a", 5))), "queue.a", "moveMessages", "", "b", 5) == 5
    with pytest.raises(InvalidDestination):
        ask(whole(*parts), "queue.x", "purge", 7)


def test_a_queue_is_paused_at_each_process_that_has_it() -> None:
    parts = Process(row("a", 1)), Process(), Process(row("a", 1))
    ask(whole(*parts), "queue.a", "pause")
    assert [len(one.done) for one in parts] == [1, 0, 1]


def test_while_one_is_away_the_others_are_looked_at_and_nothing_is_changed() -> None:
    process = Process(row("a", 2))
    made = whole(process, p1="it is gone")
    assert ask(made, "queue.a", "describe")["messages"] == 2
    assert ask(made, "broker", "describeAttributes", "")["active"] is False
    with pytest.raises(Unreachable, match="process 1: it is gone") as refused:
        ask(made, "queue.a", "pause")
    assert "at 0" in refused.value.remedy
    assert process.done == []


def test_one_that_goes_meanwhile_is_left_out_and_named() -> None:
    made = whole(Process(row("a", 2)), Process(wrong=Unreachable("the connection is lost")))
    assert ask(made, "queue.a", "describe")["messages"] == 2
    assert "lost" in made.failures[1]


def listed(*mine: str) -> Any:
    """Return what answers a list in pages, as Artemis has it."""
    return lambda options, page, size: json.dumps(
        {"data": [{"connectionID": one} for one in mine] if page == 1 else [], "count": len(mine)}
    )


def test_lists_of_all_leave_out_one_that_goes_meanwhile_and_name_it() -> None:
    gone = Unreachable("the connection is lost")
    made = told(Told(describeConnections=gone), Told(describeConnections=[{"id": "1"}]))
    assert [one["id"] for one in ask(made, "broker", "describeConnections", 0, 500)] == ["1:1"]
    assert "lost" in made.failures[0]
    made = told(Told(listConnections=listed("1")), Told(listConnections=TimeoutError("it is slow")))
    assert json.loads(ask(made, "broker", "listConnections", "", 1, 2))["count"] == 1
    assert "slow" in made.failures[1]
    with pytest.raises(Unreachable, match="no process answers"):
        ask(told(Told(describeConnections=gone), Told(describeConnections=gone)), "broker", "describeConnections", 0, 5)


def test_what_all_answer_alike_is_asked_of_the_first_that_answers() -> None:
    made = told(Told(describeUsers=Unreachable("it is gone")), Told(describeUsers=["u"]))
    assert ask(made, "broker", "describeUsers") == ["u"]
    assert "gone" in made.failures[0]


def test_a_message_is_sent_at_one_process_which_its_number_names() -> None:
    parts = Told(sendMessage=InvalidDestination("no queue")), Told(sendMessage="7"), Told(sendMessage="8")
    assert ask(told(*parts), "queue.a", "sendMessage", {}, 3, "text") == "1:7"
    assert not parts[2].asked


def test_what_may_have_been_sent_is_not_sent_by_another_process() -> None:
    parts = Told(sendMessage=Unreachable("the connection is lost")), Told(sendMessage="8")
    with pytest.raises(Unreachable, match="lost"):
        ask(told(*parts), "queue.a", "sendMessage", {}, 3, "text")
    assert not parts[1].asked


def test_a_prepared_transaction_is_ended_where_it_was_prepared() -> None:
    parts = Told(commitPreparedTransaction=False), Told(commitPreparedTransaction=True)
    assert ask(told(*parts), "broker", "commitPreparedTransaction", "x") is True
    assert all(one.asked for one in parts)


def test_who_may_not_at_one_process_is_told_so() -> None:
    made = whole(Process(row("a", 2)), Process(wrong=AccessDenied("he may not")))
    with pytest.raises(AccessDenied):
        ask(made, "queue.a", "describe")
    with pytest.raises(AccessDenied, match=r"process 1: .*done at process 0"):
        ask(made, "queue.a", "purge", 9)


@pytest.mark.parametrize("operation", ["cancelScheduled", "drain", "forceFailover", "cleanStore", "newAndUnknown"])
def test_what_is_about_one_process_is_refused_with_the_way_to_it(operation: str) -> None:
    parts = Process(), Process()
    with pytest.raises(Refused, match="about one process") as refused:
        ask(whole(*parts), "broker", operation, 5)
    assert "at 0" in refused.value.remedy
    assert not any(one.done for one in parts)


def test_an_answer_that_nobody_can_put_together_is_refused() -> None:
    with pytest.raises(Refused, match="about one process"):
        ask(whole(Process(row("a", 1)), Process()), "broker", "listStatus")


class Told:
    """One process that answers what a test says. ``asked``: what it was asked for."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, tuple[object, ...]]] = []

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked.append((resource, operation, values))
        answer = self.answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return answer(*values) if callable(answer) else answer


def told(*parts: Told) -> Whole:
    return Whole("mq", dict(enumerate(parts)), {}, "at {}".format)


def test_attributes_that_count_are_added_and_others_are_those_of_each() -> None:
    near = {"messageCount": 3, "maxConsumers": -1, "paused": False, "name": "a", "firstMessageAge": 5}
    far = {"messageCount": 4, "maxConsumers": -1, "paused": True, "name": "a", "firstMessageAge": 9}
    made = told(Told(describeAttributes=near), Told(describeAttributes=far))
    assert ask(made, "queue.a", "describeAttributes", "") == {**far, "messageCount": 7}


def test_names_are_told_once_and_rows_all() -> None:
    assert joining.union([["a", "b"], ["b"]]) == ["a", "b"]
    assert joining.union([[{"id": 1}], [{"id": 1}]]) == [{"id": 1}, {"id": 1}]


def test_one_attribute_is_told_as_among_all() -> None:
    made = told(Told(getMessageCount=3, getMaxConsumers=-1), Told(getMessageCount=4, getMaxConsumers=-1))
    assert ask(made, "queue.a", "getMessageCount") == 7
    assert ask(told(Told(getMessagecount=3), Told(getMessagecount=4)), "queue.a", "getMessagecount") == 7
    assert ask(made, "queue.a", "getMaxConsumers") == -1


def test_a_queue_of_two_processes_is_counted_once() -> None:
    def attributes(mine: list[str]) -> Any:
        return lambda names: {"queueCount": len(mine)} | ({"queueNames": mine} if "queueNames" in names else {})

    made = told(Told(describeAttributes=attributes(["a", "b"])), Told(describeAttributes=attributes(["b", "c"])))
    assert ask(made, "broker", "describeAttributes", "queueCount") == {"queueCount": 3}
    assert ask(made, "broker", "getQueueCount") == 3


def test_resources_are_told_in_pages_each_once() -> None:
    def rows(**mine: int) -> Any:
        def page(kind: str, pattern: str, last: str, most: int) -> list[dict[str, Any]]:
            return [{"name": one, "messageCount": mine[one]} for one in sorted(mine) if one > last][:most]

        return page

    made = told(Told(describeResources=rows(a=1, c=2, d=1)), Told(describeResources=rows(b=1, c=3)))
    first = ask(made, "broker", "describeResources", "queue", "", "", 2)
    rest = ask(made, "broker", "describeResources", "queue", "", "b", 2)
    assert [(one["name"], one["messageCount"], one["process"]) for one in [*first, *rest]] == [
        ("a", 1, "0"),
        ("b", 1, "1"),
        ("c", 5, "0 1"),
        ("d", 1, "0"),
    ]


def test_pages_of_artemis_are_joined_and_name_the_process_of_a_connection() -> None:
    made = told(Told(listConnections=listed("1", "2")), Told(listConnections=listed("1")))
    assert json.loads(ask(made, "broker", "listConnections", "", 1, 2)) == {
        "data": [{"connectionID": "0:1", "process": 0}, {"connectionID": "0:2", "process": 0}],
        "count": 3,
    }
    assert json.loads(ask(made, "broker", "listConnections", "", 2, 2))["data"] == [
        {"connectionID": "1:1", "process": 1}
    ]


def test_queues_that_artemis_lists_are_each_one_with_their_counts_together() -> None:
    def rows(count: str) -> Any:
        return lambda options, page, size: json.dumps({"data": [{"name": "a", "messageCount": count}], "count": 1})

    made = told(Told(listQueues=rows("3")), Told(listQueues=rows("4")))
    found = json.loads(ask(made, "broker", "listQueues", "", 1, 100))
    assert found == {"data": [{"name": "a", "messageCount": "7", "process": "0 1"}], "count": 1}


def test_a_number_says_which_message_only_with_its_process() -> None:
    parts = Told(removeMessage=False), Told(removeMessage=True)
    with pytest.raises(Refused, match="each process has a message 5") as refused:
        ask(told(*parts), "queue.a", "removeMessage", 5)
    assert "PROCESS:5" in refused.value.remedy
    assert not parts[0].asked
    assert ask(told(*parts), "queue.a", "removeMessage", "1:5") is True
    assert parts[1].asked == [("queue.a", "removeMessage", (5,))]


def test_a_message_is_found_by_its_id_wherever_it_is_and_nothing_is_done_twice() -> None:
    parts = Told(moveMessage=InvalidDestination("no queue")), Told(moveMessage=True), Told(moveMessage=True)
    assert ask(told(*parts), "queue.a", "moveMessage", "ID:x", "b") is True
    assert not parts[2].asked


def test_users_are_changed_once_and_read_again_by_the_others() -> None:
    parts = Process(), Process(), Process()
    ask(whole(*parts), "broker", "addUser", "u", "p", "r", True)
    assert [[operation for _, operation, _ in one.done] for one in parts] == [
        ["addUser"],
        ["reloadConfigurationFile"],
        ["reloadConfigurationFile"],
    ]


def test_a_page_by_address_ends_where_all_processes_told_everything() -> None:
    def rows(*names: str) -> list[dict[str, object]]:
        return [{"address": name} for name in names]

    page = joining.by_address({0: rows("a", "d"), 1: rows("a", "b")}, 2)
    assert [(row["address"], row["process"]) for row in page] == [("a", 0), ("a", 1), ("b", 1)]
    assert [row["address"] for row in joining.by_address({0: rows("d"), 1: rows("e")}, 2)] == ["d", "e"]


def test_arguments_that_a_program_leaves_out_or_says_wrong_are_taken_as_by_one_process() -> None:
    made = whole(Process(row("a", 1)), Process(row("b", 2)))
    made.parts[0].connections = 2  # type: ignore[attr-defined]
    assert [one["id"] for one in ask(made, "broker", "describeConnections")] == ["0:1", "0:2"]
    assert ask(made, "broker", "describeConnections", -5, -1) == []
    with pytest.raises(Refused, match="argument 1 is no whole number"):
        ask(made, "broker", "describeConnections", "many")
    assert len(ask(made, "broker", "describeQueues", "", "", 100_000)) == 2


def test_what_each_process_says_of_a_destination_or_a_message_says_whose_it_is() -> None:
    one = {
        "broker": "p-0",
        "url": "a",
        "queues": [{"queue": "Q", "waiting": 1}],
        "more": 1,
        "near": [],
        "elsewhere": {},
    }
    two = {"broker": "p-1", "url": "b", "queues": [], "more": 0, "near": ["QQ"], "elsewhere": {"rows": [{"node": "x"}]}}
    assert joining.looked_at({0: one, 1: two}, "p") == {
        "broker": "p",
        "url": "a",
        "queues": [{"queue": "Q", "waiting": 1, "process": 0}],
        "more": 1,
        "near": [],
        "elsewhere": {"rows": [{"node": "x", "process": 1}]},
    }
    places = {
        0: {"broker": "p-0", "places": [], "had": True},
        1: {"broker": "p-1", "places": [{"queue": "Q"}], "had": False},
    }
    assert joining.looked_at(places, "p") == {"broker": "p", "places": [{"queue": "Q", "process": 1}], "had": False}


class Real(Process):
    """A process with a broker."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(disk=False)
        self.office: Census = Census()

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        await asyncio.sleep(0)
        if self.wrong is not None:
            raise self.wrong
        outcome: Any = control(self.rig.broker, self.office, resource).call(operation, list(values))
        if hasattr(outcome, "step"):
            while not outcome.step():
                pass
            outcome = outcome.result()
        return outcome

    def does(self, operation: str, *values: object) -> Any:
        """Return what this one alone answers the broker's ``operation``."""
        return self.says("broker", operation, *values)

    def says(self, resource: str, operation: str, *values: object) -> Any:
        """Return what this one alone answers."""
        return asyncio.run(self.ask(resource, operation, *values))

    @property
    def addresses(self) -> list[str]:
        """Those that it has."""
        return list(self.rig.broker.table.addresses)

    def most(self, name: str) -> int | None:
        """Return how many readers a queue may have; -2 where there is none."""
        queue = self.rig.broker.table.queues.get(name)
        return -2 if queue is None else queue.definition.max_consumers


def wanted(**more: object) -> str:
    return json.dumps({"name": "q", "address": "q", "routing-type": "ANYCAST", **more})


def test_a_queue_that_one_process_has_is_made_nowhere() -> None:
    parts = [Real(), Real(), Real()]
    asyncio.run(parts[1].ask("broker", "createQueue", wanted(**{"max-consumers": 5})))
    for values in ([wanted()], [wanted(**{"max-consumers": 5})], ["q", "q", "ANYCAST"]):
        with pytest.raises(InvalidDestination, match="AMQ229019: Queue q already exists on address q"):
            ask(whole(*parts), "broker", "createQueue", *values)
        with pytest.raises(InvalidDestination, match="AMQ229019"):
            ask(whole(*parts), "broker", "deployQueue", *values)
    assert [each.most("q") for each in parts] == [-2, 5, -2]


def test_a_queue_that_may_be_there_is_made_alike_or_left_alone() -> None:
    parts = [Real(), Real(), Real()]
    asyncio.run(parts[1].ask("broker", "createQueue", wanted(**{"max-consumers": 5, "filter-string": "a  = 1"})))
    had = ask(whole(*parts), "broker", "createQueue", wanted(), True)
    assert json.loads(had)["max-consumers"] == 5
    assert [each.most("q") for each in parts] == [-2, 5, -2]
    alike = wanted(**{"max-consumers": 5, "filter-string": "a = 1"})
    assert json.loads(ask(whole(*parts), "broker", "createQueue", alike, True))["max-consumers"] == 5
    assert [each.most("q") for each in parts] == [5, 5, 5]
    assert ask(whole(*parts), "broker", "createQueue", alike, True)


def test_an_address_that_one_process_has_for_other_types_refuses_a_queue_for_all() -> None:
    parts = [Real(), Real()]
    asyncio.run(parts[0].ask("broker", "createAddress", "q", "ANYCAST"))
    asyncio.run(parts[1].ask("broker", "createAddress", "q", "MULTICAST"))
    with pytest.raises(InvalidDestination, match="AMQ229207"):
        ask(whole(*parts), "broker", "createQueue", wanted(**{"auto-create-address": False, "address": "q"}))
    assert [each.most("q") for each in parts] == [-2, -2]


def test_nothing_is_made_when_a_process_goes_before_it_has_said_that_it_would() -> None:
    parts = [Real(), Real()]
    parts[1].wrong = Unreachable("it does not answer")
    with pytest.raises(Unreachable, match="nothing was changed"):
        ask(whole(*parts), "broker", "createQueue", wanted())
    assert parts[0].most("q") == -2


def test_an_address_that_one_process_has_is_made_nowhere() -> None:
    parts = [Real(), Real(), Real()]
    parts[1].does("createAddress", "one", "ANYCAST")
    with pytest.raises(InvalidDestination, match="AMQ229204: Address already exists: one"):
        ask(whole(*parts), "broker", "createAddress", "one", "ANYCAST")
    assert ["one" in each.addresses for each in parts] == [False, True, False]
    with pytest.raises(Refused, match="no routing type"):
        ask(whole(*parts), "broker", "createAddress", "two", "SIDEWAYS")
    made = ask(whole(*parts), "broker", "createAddress", "two", "ANYCAST,MULTICAST")
    assert made == "Address [name=two, routingTypes={MULTICAST,ANYCAST}, autoCreated=false]"
    assert all("two" in each.addresses for each in parts)


def test_an_address_that_one_process_would_not_change_or_delete_stays_as_it_is() -> None:
    parts = [Real(), Real(), Real()]
    for each in parts[:2]:
        each.does("createAddress", "one", "ANYCAST")
    parts[1].does("createQueue", "one", "q", "ANYCAST")
    with pytest.raises(InvalidDestination, match="AMQ229209"):
        ask(whole(*parts), "broker", "updateAddress", "one", "MULTICAST")
    with pytest.raises(InvalidDestination, match="AMQ229205: Address one has bindings"):
        ask(whole(*parts), "broker", "deleteAddress", "one")
    assert ["one" in each.addresses for each in parts] == [True, True, False]
    assert [each.rig.broker.table.declared.get("one", 0) for each in parts] == [2, 2, 0]
    changed = ask(whole(*parts), "broker", "updateAddress", "one", "ANYCAST,MULTICAST")
    assert "routingTypes={MULTICAST,ANYCAST}" in changed
    assert [each.rig.broker.table.declared.get("one", 0) for each in parts] == [3, 3, 0]  # none is made by a change
    assert ask(whole(*parts), "broker", "deleteAddress", "one", True) is None
    assert not any("one" in each.addresses for each in parts)
    for verb in (["deleteAddress", "one"], ["updateAddress", "one", "ANYCAST"]):
        with pytest.raises(InvalidDestination, match="AMQ229203: Address Does Not Exist: one"):
            ask(whole(*parts), "broker", *verb)


def test_a_queue_that_is_read_or_filled_at_one_process_is_deleted_at_none() -> None:
    parts = [Real(), Real(), Real()]
    for each in parts[:2]:
        each.does("createQueue", "q", "q", "ANYCAST")
    reader = parts[1].rig.reader("q")
    with pytest.raises(InvalidDestination, match="AMQ229025"):
        ask(whole(*parts), "broker", "destroyQueue", "q")
    reader.close()
    parts[1].rig.send_all("q", range(2))
    with pytest.raises(InvalidDestination, match=r"AMQ229215: Cannot delete queue q .* it has 2 messages"):
        ask(whole(*parts), "broker", "destroyQueue", "q", False, False, True)
    assert [each.most("q") for each in parts] == [None, None, -2]
    assert ask(whole(*parts), "broker", "destroyQueue", "q") == 2
    assert [each.most("q") for each in parts] == [-2, -2, -2]
    with pytest.raises(InvalidDestination, match="AMQ229017: Queue q does not exist"):
        ask(whole(*parts), "broker", "destroyQueue", "q")


def test_a_divert_that_one_process_has_is_made_nowhere_and_one_that_none_has_is_no_change() -> None:
    parts = [Real(), Real()]
    said = json.dumps({"name": "d", "address": "a", "forwarding-address": "b"})
    parts[1].does("createDivert", said)
    with pytest.raises(InvalidDestination, match="there is a divert 'd' already"):
        ask(whole(*parts), "broker", "createDivert", said)
    assert [each.does("listDivertNames") for each in parts] == [[], ["d"]]
    ask(whole(*parts), "broker", "updateDivert", json.dumps({"name": "d", "forwarding-address": "c"}))
    assert [each.does("listDivertNames") for each in parts] == [[], ["d"]]
    ask(whole(*parts), "broker", "destroyDivert", "d")
    assert [each.does("listDivertNames") for each in parts] == [[], []]
    for verb in (["destroyDivert", "d"], ["updateDivert", json.dumps({"name": "d"})]):
        with pytest.raises(InvalidDestination, match="AMQ229012"):
            ask(whole(*parts), "broker", *verb)


def test_a_queue_is_changed_at_all_that_have_it_or_at_none() -> None:
    parts = [Real(), Real(), Real()]
    for each in parts[:2]:
        each.does("createQueue", "q", "q", "ANYCAST")
    for said in ({"max-consumers": 5, "routing-type": "MULTICAST"}, {"filter-string": "a ="}):
        with pytest.raises(EntrepotError):
            ask(whole(*parts), "broker", "updateQueue", json.dumps({"name": "q", **said}))
    assert [each.most("q") for each in parts] == [None, None, -2]
    ask(whole(*parts), "broker", "updateQueue", json.dumps({"name": "q", "max-consumers": 5}))
    assert [each.most("q") for each in parts] == [5, 5, -2]
