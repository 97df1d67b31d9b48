"""MQTT clients in Java against the real process: one conversation each, and it must be as on Mosquitto.

The conversation is `java/mqtt/Conversation.java`. What is not as on Mosquitto stands in `DIFFERENT`, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import maven
import mqtt_java_clients
import pytest
from mqtt_java_clients import CLIENTS, Mosquitto, Program
from ours import Entrepot

FIVE = ("paho5", "hive5")
ADVISORY = "ActiveMQ/Advisory/"  # `#` reaches the advisories here as in ActiveMQ Classic; Mosquitto has none
DIFFERENT = {
    "takeover": (
        # Whoever is sent away is told why with MQTT 5 (3.1.4); Mosquitto 2.0.11 only closes.
        # The will of a connection that the broker closes is due (3.1.2-8); Mosquitto drops it when the session goes on.
        {"paho5": ["lost"], "hive5": ["lost"]},
        {
            **{client: ["takeover/will 'will' q1"] for client in CLIENTS},
            **{client: ["sent away 142", "takeover/will 'will' q1"] for client in FIVE},
        },
    ),
    # A wrong password has a code of its own (3.2.2); Mosquitto's plugin says "not authorised".
    "refused": (
        {client: ["password refused 135" if client in FIVE else "password refused 5"] for client in CLIENTS},
        {client: ["password refused 134" if client in FIVE else "password refused 4"] for client in CLIENTS},
    ),
    # A new subscription replaces the old one (3.8.4-3); in Mosquitto 2.0.11 no-local stays.
    "options": ({}, {client: ["options/own 'for me' q1"] for client in FIVE}),
    # Whether to tell that nobody reads is the server's choice (3.4.2.1); Mosquitto does so of QoS 1, not of QoS 2.
    "reason codes": (
        {client: ["read by nobody 16"] for client in FIVE},
        {client: ["read by nobody 0"] for client in FIVE},
    ),
}
"""Of a feature: by client, the lines that only Mosquitto gives, and those that only this broker gives."""


@pytest.fixture(scope="module")
def program() -> Program:
    if why := mqtt_java_clients.unavailable():
        pytest.skip(why)
    try:
        return Program()
    except maven.Unavailable as why_not:
        pytest.skip(str(why_not))


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """The ports of this broker and of Mosquitto."""
    if why := mqtt_java_clients.unavailable_mosquitto():
        pytest.skip(why)
    mosquitto = Mosquitto(tmp_path_factory.mktemp("mosquitto")).up()
    broker: Entrepot | None = None
    try:
        broker, port = mqtt_java_clients.ours(tmp_path_factory.mktemp("ours"))
        yield port, mosquitto.port
    finally:
        mosquitto.kill()
        if broker is not None:
            broker.kill()


@pytest.mark.parametrize("client", CLIENTS)
def test_the_conversation_is_as_on_mosquitto(program: Program, brokers: tuple[int, int], client: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        here, there = (features(lines) for lines in pool.map(lambda port: program.transcript(client, port), brokers))
    assert list(here) == list(there)
    assert len(here) == (17 if client in FIVE else 10)
    for name, lines in here.items():
        theirs, own = (of.get(client, []) for of in DIFFERENT.get(name, ({}, {})))
        assert left_out(lines, own) == left_out(there[name], theirs), name


def features(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of each feature."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("-- "):
            found[line[3:]] = []
        elif not line.startswith(ADVISORY):
            found[list(found)[-1]].append(line)
    return found


def left_out(lines: list[str], known: list[str]) -> list[str]:
    """Return ``lines`` without those that are known to differ, each once; each must be there."""
    rest = list(lines)
    for line in known:
        rest.remove(line)
    return rest
