"""Every resource, attribute and operation of management, by who may not manage: refused, on every way to its address.

What the operations are is read off their tables, so that a new one is here as soon as it is made; that the command line
asks for nothing else, too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from entrepot.core.operators.census import Census
from entrepot.core.operators.control import READ
from entrepot.core.operators.controls import Control, control
from entrepot.core.operators.management import ADDRESS
from entrepot.protocols.openwire.commands import ActiveMQQueue, ActiveMQTopic, ExceptionResponse
from entrepot.protocols.stomp.frames import Frame

from ...protocols.guarded import KINDS, STRANGERS, Scene
from ...protocols.stomp.test_server import Client

RESOURCES = ("broker", "queue.secret", "queue.me.s", "address.secret", "queue.open")
ARGUMENTS: tuple[list[object], ...] = (
    [],
    ["secret"],
    ["", "open"],
    ["secret", True],
    ["fresh", "fresh", True, "ANYCAST"],
)
CLI = Path(__file__).parents[4] / "src" / "entrepot"


def controls(scene: Scene) -> list[tuple[str, Control]]:
    return [(name, control(scene.rig.broker, Census(), name)) for name in RESOURCES]


def asked(scene: Scene) -> list[tuple[str, str, str]]:
    """Return (resource, header, name) of all that can be asked for."""
    found = []
    for resource, each in controls(scene):
        found += [(resource, "_AMQ_OperationName", name) for name in each.operations()]
        found += [(resource, "_AMQ_Attribute", name) for name in each.attributes()]
    return found


def ask(client: Client, scene: Scene, address: str, headers: dict[str, str], body: bytes) -> list[Frame]:
    heard = len(client.got)
    client.say("SEND", {"destination": address, "receipt": "r", **headers}, body)
    for _ in range(3):
        scene.settle()
    client.hear()
    return client.got[heard:]


@pytest.mark.parametrize("user", STRANGERS)
def test_nothing_is_told_and_nothing_is_done(user: str) -> None:
    scene = Scene()
    client = scene.stomp(user)
    client.ask("SUBSCRIBE", id="a", destination="/temp-queue/answers")
    before = scene.picture()
    questions = asked(scene)
    assert len(questions) > 100
    for resource, header, name in questions:
        for values in ARGUMENTS:
            body = json.dumps(values).encode()
            headers = {"_AMQ_ResourceName": resource, header: name, "reply-to": "/temp-queue/answers"}
            (answer,) = ask(client, scene, ADDRESS, headers, body)
            assert answer.headers.get("code") == "ENT-3003", f"{user}: {resource} {name}: {answer}"
    assert scene.picture() == before


WAYS = (
    ADDRESS,
    f"/queue/{ADDRESS}",
    f"queue://{ADDRESS}",
    f"/topic/{ADDRESS}",
    f"/queue/{ADDRESS}::{ADDRESS}",
    f"/queue/{ADDRESS}::open",
    f"/queue/open::{ADDRESS}",
    f"/queue/open,/queue/{ADDRESS}",
    f"/queue/{ADDRESS},/queue/open",
    f"/queue/{ADDRESS}?consumer.priority=1",
    f"/remote-temp-queue/{ADDRESS}",
    f"/temp-queue/{ADDRESS}",
)


OWN = (f"/temp-queue/{ADDRESS}", f"/remote-temp-queue/{ADDRESS}")  # his own temporary queue, which he calls so


@pytest.mark.parametrize("user", STRANGERS)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_to_it(user: str, way: str) -> None:
    scene = Scene()
    client = scene.stomp(user)
    client.ask("SUBSCRIBE", id="a", destination="/temp-queue/answers")
    client.ask("BEGIN", transaction="t")
    destroy = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "destroyQueue", "reply-to": "/temp-queue/answers"}
    before = scene.rig.broker.table.queues["secret"]
    more: tuple[dict[str, str], ...] = ({}, {"transaction": "t"}, {"AMQ_SCHEDULED_DELAY": "10"}, {"persistent": "true"})
    for headers in more:
        found = ask(client, scene, way, {**destroy, **headers}, b'["secret", true]')
        assert not [each for each in found if each.command == "MESSAGE"]
        if way not in OWN:
            assert [each for each in found if each.command == "ERROR"], way
    client.ask("COMMIT", transaction="t", receipt="c")
    scene.rig.wait(100)
    assert scene.rig.broker.table.queues.get("secret") is before


@pytest.mark.parametrize("user", STRANGERS)
def test_nor_over_openwire(user: str) -> None:
    scene = Scene()
    before = scene.picture()
    client = scene.java(user)
    for where in (ActiveMQQueue(ADDRESS), ActiveMQTopic(ADDRESS), ActiveMQQueue(f"open,{ADDRESS}")):
        message = client.text(where, "[]")
        assert isinstance(client.ask(message), ExceptionResponse), where
    client.session.detach("gone", scene.rig.now)
    assert scene.picture() == before


def test_who_may_manage_is_answered() -> None:
    """Else the refusals above would prove nothing."""
    for number, (resource, header, name) in enumerate(asked(Scene())):
        if number % 7 and name != "describeSinks":
            continue
        scene = Scene()
        scene.boss.ask("SUBSCRIBE", id="a", destination="/temp-queue/answers")
        headers = {"_AMQ_ResourceName": resource, header: name, "reply-to": "/temp-queue/answers"}
        found = ask(scene.boss, scene, ADDRESS, headers, b"")
        (answer,) = [each for each in found if each.command == "MESSAGE" and each.headers.get("subscription") == "a"]
        assert answer.headers.get("entrepot_code") != "ENT-3003"


def test_the_command_line_asks_for_operations_that_are_in_the_tables() -> None:
    scene = Scene()
    known = {READ} | {name for _, each in controls(scene) for name in each.operations()}
    known |= {"get" + name[:1].upper() + name[1:] for _, each in controls(scene) for name in each.attributes()}
    places = [*CLI.glob("cli/**/*.py"), *CLI.glob("management/*.py"), *CLI.glob("console/**/*.py")]
    text = "\n".join(path.read_text() for path in places)
    asked_for = set(re.findall(r"\.ask\(\s*(?:\"broker\"|f\"queue\.\{\w+\}\"),\s*\"(\w+)\"", text))
    assert len(asked_for) > 12
    assert asked_for <= known


# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_service_does_not_answer_where_its_asker_may_not_send() -> None:
    """Who may ask for statistics had the broker write into any queue, and make any."""
    scene = Scene()
    rules = scene.rig.broker.access._rules
    assert rules is not None
    (ours,) = [rule for _, rule in rules.items() if "app" in rule.grants]
    rules.insert(
        "ActiveMQ.Statistics.>", type(ours)("ActiveMQ.Statistics.>", ours.routing, {"app": ours.grants["app"]})
    )
    before = scene.picture()
    client = scene.stomp("app")
    java = scene.java("app")
    question = "/queue/ActiveMQ.Statistics.Broker"
    for place in ("/queue/secret", "/topic/secret", "queue://fresh", "/queue/open,/queue/secret", f"/queue/{ADDRESS}"):
        found = ask(client, scene, question, {"reply-to": place}, b"")
        assert [each.headers.get("code") for each in found] == ["ENT-3003"], place
    for where in (ActiveMQQueue("secret"), ActiveMQTopic("secret"), ActiveMQQueue("fresh")):
        message = java.text(ActiveMQQueue("ActiveMQ.Statistics.Broker"), "")
        message.reply_to = where
        assert isinstance(java.ask(message), ExceptionResponse), where
    scene.settle()
    java.session.detach("gone", scene.rig.now)
    assert scene.picture() == before
    client.ask("SUBSCRIBE", id="a", destination="/temp-queue/answers")
    for place in ("/temp-queue/answers", "/queue/open.answers"):
        ask(client, scene, question, {"reply-to": place}, b"")
    assert len([each for each in client.got if each.headers.get("subscription") == "a"]) == 1
    assert scene.rig.broker.table.queues["open.answers"].count == 1


def test_every_service_of_a_broker_is_a_kind_of_destination() -> None:
    """One that is new belongs into the scene, and among the kinds that every verb is tried on."""
    scene = Scene()
    offered = [*scene.rig.broker.addresses.services, *scene.rig.broker.addresses.families]
    for address in offered:
        assert [kind for kind, text in KINDS.items() if address in text], address
    sources = "\n".join(path.read_text() for path in CLI.glob("**/*.py"))
    assert len(re.findall(r"\.offer(?:_family)?\(", sources)) == len(offered)


@pytest.mark.parametrize("user", STRANGERS)
@pytest.mark.parametrize("action", ["BROWSE", "REMOVE", "REMOVEALL"])
def test_scheduled_messages_of_others_are_neither_shown_nor_removed(user: str, action: str) -> None:
    scene = Scene()
    before = scene.picture()
    assert before["schedules"]
    client = scene.stomp(user)
    client.ask("SUBSCRIBE", id="a", destination="/temp-queue/answers")
    job = str(next(iter(scene.rig.broker.scheduled.schedules)))
    headers = {"AMQ_SCHEDULER_ACTION": action, "scheduledJobId": job, "reply-to": "/temp-queue/answers"}
    for way in ("/topic/", "/queue/", "", "/queue/open,/topic/"):
        found = ask(client, scene, way + "ActiveMQ.Scheduler.Management", headers, b"")
        assert [each.headers.get("code") for each in found] == ["ENT-3003"], way
    client.cut()
    assert scene.picture() == before
