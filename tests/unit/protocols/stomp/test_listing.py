"""QUEUES: what wildcards find, what is gone, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.driver.scope import read_list
from kit import Rig

from .test_server import Client


def asked(client: Client, **headers: Any) -> Any:
    return client.ask("QUEUES", **headers, receipt="l")[-1].headers


@pytest.fixture
def client() -> Client:
    rig = Rig()
    made = Client(rig)
    for name in ("orders.eu", "orders.us", "orders", "bills", "odd%2C"):
        made.say("SEND", {"destination": f"/queue/{name}"}, b"x")
    made.ask("ATTACH", topic="/topic/orders.eu", group="g", receipt="t")
    rig.turn()
    return made


def test_wildcards_and_names_find_queues_and_nothing_of_topics(client: Client) -> None:
    found = read_list(asked(client, match="/queue/orders.>,bills,nobody"))
    assert sorted(found) == ["/queue/bills", "/queue/orders", "/queue/orders.eu", "/queue/orders.us"]
    assert sorted(read_list(asked(client, match="orders.*"))) == ["/queue/orders.eu", "/queue/orders.us"]
    assert "/queue/odd%2C" in read_list(asked(client, match="*"))


def test_more_than_are_wanted_are_counted(client: Client) -> None:
    answer = asked(client, match="orders.>", max="2")
    assert (len(read_list(answer)), answer["count"]) == (2, "3")


def test_a_queue_that_is_made_again_is_another_one(client: Client) -> None:
    token = read_list(asked(client, match="bills"))["/queue/bills"]
    answer = client.ask("ATTACH", queue="bills", group="g", receipt="a")[-1].headers
    assert answer["token"] == token
    broker = client.session.broker
    broker.queues.delete(broker.table.queues["bills"], "a test")
    assert asked(client, match="bills", known=token)["gone"] == token
    client.say("SEND", {"destination": "/queue/bills"}, b"x")
    answer = asked(client, match="bills", known=token)
    assert answer["gone"] == token
    assert read_list(answer)["/queue/bills"] != token


@pytest.mark.parametrize(
    "headers",
    [
        {"max": "0"},
        {"max": "1001"},
        {"max": "x"},
        {"match": ",".join(f"q{n}" for n in range(101))},
        {"match": ",".join(f"q{n}.>" for n in range(11))},
        {"known": "1," * 1001},
    ],
)
def test_what_is_too_much_is_refused(client: Client, headers: dict[str, Any]) -> None:
    assert client.ask("QUEUES", **headers, receipt="l")[-1].command == "ERROR"
