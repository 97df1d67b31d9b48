"""Every frame of STOMP, to every kind of destination, without the right: refused, and nothing has happened.

A frame that is new to the protocol fails `test_every_frame_is_here` until there is a row for it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.protocols.serving.life import OPENING
from entrepot.protocols.stomp import commands
from entrepot.protocols.stomp.frames import Frame

from ..guarded import KINDS, PASSWORD, REPLYING, STRANGERS, Scene, written
from .test_server import LARGE, Client

Steps = list[tuple[str, dict[str, str], bytes]]

READING = tuple(KINDS)
SENDING = tuple(kind for kind in KINDS if kind not in REPLYING)
WILDCARDS = tuple(kind for kind in KINDS if "wildcard" in kind)
UNREAD = ("advisory", "queue of a durable subscription")  # nobody reads there; the name of a queue is no address
SERVED = (
    "management",
    "management as a topic",
    "scheduler",
    "scheduler as a queue",
    "statistics",
    "statistics of all",
)


class Row:
    """One way of using a frame. ``kinds``: of destinations; ``useless``: those where it is of no use to boss."""

    def __init__(
        self,
        steps: Callable[[Scene, str], Steps],
        kinds: tuple[str, ...] = ("",),
        useless: tuple[str, ...] = (),
        **connect: str,
    ) -> None:
        self.steps = steps
        self.kinds = kinds
        self.useless = useless
        self.connect = connect


def frame(command: str, body: bytes = b"", **headers: str) -> tuple[str, dict[str, str], bytes]:
    if body:
        headers["content_length"] = str(len(body))
    fields = {name if name.startswith("AMQ_") else name.replace("_", "-"): text for name, text in headers.items()}
    return command, {"receipt": "r", **fields}, body


def sending(body: bytes = b"x", **headers: str) -> Callable[[Scene, str], Steps]:
    def steps(scene: Scene, where: str) -> Steps:
        reply = {"reply_to": "/queue/open"}
        return [frame("SEND", body, destination=where, persistent="true", **reply, **headers)]

    return steps


def in_a_transaction(scene: Scene, where: str) -> Steps:
    return [
        frame("BEGIN", transaction="t"),
        frame("SEND", b"good", destination="/queue/open", transaction="t"),
        frame("SEND", b"bad", destination=where, transaction="t"),
        frame("COMMIT", transaction="t"),
    ]


def in_a_stage(scene: Scene, where: str) -> Steps:
    return [
        frame("STAGE", sink="mine", batch="0", part="a"),
        frame("SEND", b"bad", destination=where, stage="a"),
        frame("STAGED", sink="mine", batch="0", part="a"),
        frame("ABANDON", sink="mine", batch="0", forget="true"),
    ]


def typed(kind: str) -> Callable[[Scene, str], Steps]:
    def steps(scene: Scene, where: str) -> Steps:
        return [frame("SEND", b"x", destination="secret", destination_type=kind)]

    return steps


def subscribing(command: str = "SUBSCRIBE", **headers: str) -> Callable[[Scene, str], Steps]:
    return lambda scene, where: [frame(command, id="x", destination=where, **headers)]


def leasing(command: str, **headers: str) -> Callable[[Scene, str], Steps]:
    return lambda scene, where: [frame(command, queue=where, group="g", **headers)]


def leasing_topic(command: str, **headers: str) -> Callable[[Scene, str], Steps]:
    def steps(scene: Scene, where: str) -> Steps:
        epoch = scene.rig.broker.leases.held["t.secret", "t"].epoch
        return [frame(command, topic="secret", group="t", **{"epoch": str(epoch), **headers})]

    return steps


def leasing_subscription(command: str, **headers: str) -> Callable[[Scene, str], Steps]:
    return lambda scene, where: [
        frame(command, topic="open", subscription="s", client_id="me", group="g", **headers),
        frame(command, topic="secret", subscription="s", client_id="me", group="g", **headers),
    ]


def staging(command: str, **headers: str) -> Callable[[Scene, str], Steps]:
    return lambda scene, where: [frame(command, sink="orders", batch="0", **headers)]


def settling(command: str) -> Callable[[Scene, str], Steps]:
    return lambda scene, where: [frame(command, id=scene.delivered)]


NO_QUEUES = (  # what has no queue that can be looked through or leased
    *WILDCARDS,
    "topic",
    "new topic",
    "temporary topic",
    "temporary topic by its plain name",
    "Java's temporary queue",  # another connection's than boss's
    "Java's temporary topic",
    "composite",
    "composite of kinds",
    "virtual topic",
    "advisory",
    "management as a topic",
    "scheduler",
    "statistics of all",
)
ROWS: dict[str, Row] = {
    "SEND": Row(sending(), SENDING, (*WILDCARDS, *UNREAD)),
    "SEND of a large body": Row(sending(b"x" * 3 * LARGE), SENDING, (*WILDCARDS, *SERVED, *UNREAD)),
    "SEND in a transaction": Row(in_a_transaction, SENDING, (*WILDCARDS, *UNREAD)),
    "SEND into a stage": Row(in_a_stage, SENDING, (*WILDCARDS, *SERVED, *UNREAD)),
    "SEND for later": Row(sending(AMQ_SCHEDULED_DELAY="1000"), SENDING, (*WILDCARDS, *UNREAD)),
    "SEND, ANYCAST": Row(typed("ANYCAST")),
    "SEND, MULTICAST": Row(typed("MULTICAST")),
    "SUBSCRIBE": Row(subscribing(), READING, ("Java's temporary queue", "Java's temporary topic")),
    "SUB": Row(subscribing("SUB"), READING, ("Java's temporary queue", "Java's temporary topic")),
    "SUBSCRIBE, client": Row(subscribing(ack="client"), READING, ("Java's temporary queue", "Java's temporary topic")),
    "SUBSCRIBE to browse": Row(subscribing(browser="true"), READING, NO_QUEUES),
    "SUBSCRIBE durably": Row(
        subscribing(durable_subscription_name="mine"),
        READING,
        REPLYING,
        client_id="mine",
    ),
    "SUBSCRIBE to another's durable subscription": Row(
        lambda scene, where: [
            frame("SUBSCRIBE", id="x", destination="/topic/secret", durable_subscription_name="s"),
            frame("SUBSCRIBE", id="y", destination="/topic/open", durable_subscription_name="s"),
        ],
        client_id="me",
    ),
    "UNSUBSCRIBE": Row(
        lambda scene, where: [frame("UNSUBSCRIBE", id="x", durable_subscription_name="s")], client_id="me"
    ),
    "UNSUB": Row(lambda scene, where: [frame("UNSUB", id="x", durable_subscription_name="s")], client_id="me"),
    "ACK": Row(settling("ACK")),
    "NACK": Row(settling("NACK")),
    "ACK in a transaction": Row(
        lambda scene, where: [
            frame("BEGIN", transaction="t"),
            frame("ACK", id=scene.delivered, transaction="t"),
            frame("COMMIT", transaction="t"),
        ]
    ),
    "COMMIT of a transaction of another connection": Row(
        lambda scene, where: [frame("COMMIT", transaction="boss"), frame("ABORT", transaction="boss")]
    ),
    "ATTACH": Row(leasing("ATTACH"), READING, NO_QUEUES),
    "ATTACH from the end": Row(leasing("ATTACH", **{"from": "latest"}), READING, NO_QUEUES),
    "ATTACH to a topic": Row(leasing_topic("ATTACH")),
    "ATTACH to a subscription": Row(leasing_subscription("ATTACH")),
    "STAGE": Row(staging("STAGE", part="p3")),
    "STAGED": Row(staging("STAGED", part="p2")),
    "DECIDE": Row(staging("DECIDE", parts="p1")),
    "PUBLISH": Row(staging("PUBLISH", parts="p1")),
    "ABANDON": Row(staging("ABANDON")),
    "ABANDON a part": Row(staging("ABANDON", parts="p1")),
    "ABANDON for ever": Row(staging("ABANDON", forget="true")),
}
for command in ("CLAIM", "READ", "SETTLE", "RELEASE"):
    fields = {"epoch": "1"} if command != "SETTLE" else {"epoch": "1", "end": "1"}
    others = tuple(kind for kind in READING if kind != "dead letters")
    ROWS[command] = Row(leasing(command, **fields), READING, others)
    ROWS[f"{command} of a topic"] = Row(leasing_topic(command, **({"end": "1"} if command == "SETTLE" else {})))
    ROWS[f"{command} of a subscription"] = Row(leasing_subscription(command), ("",), ("",))

HARMLESS = {"CONNECT", "STOMP", "BEGIN", "DISCONNECT", "BROKERS", "QUEUES"}
"""Frames that name nothing of anybody else's; of these `test_who_may_not_come_in` and `test_what_is_harmless` tell."""


def say(scene: Scene, client: Client, steps: Steps) -> list[Frame]:
    heard = len(client.got)
    for command, headers, body in steps:
        client.say(command, headers, body)
        scene.settle()
        client.hear()
    return client.got[heard:]


def test_every_frame_is_here() -> None:
    words = {name.partition(" ")[0].rstrip(",") for name in ROWS} | HARMLESS
    missing = {word.decode() for word in commands.COMMANDS} - words - {"ABORT"}
    assert not missing, f"no row of this test is about {missing}"


@pytest.mark.parametrize("verb", ROWS)
def test_without_the_right_nothing_happens(verb: str) -> None:
    row = ROWS[verb]
    scene = Scene()
    before = scene.picture()
    for user in STRANGERS:
        for kind in row.kinds:
            client = scene.stomp(user, **row.connect)
            found = say(scene, client, row.steps(scene, written(scene, kind) if kind else ""))
            codes = [each.headers["code"] for each in found if each.command == "ERROR"]
            context = f"{user}: {verb} {kind}: {[(each.command, each.headers) for each in found]}"
            assert codes, context
            if verb not in STRANGE and not ("composite" in kind and verb.partition(" ")[0] in LEASING):
                assert "ENT-3003" in codes, context
            assert not [each for each in found if each.command == "MESSAGE"], context
            assert not client.session.closing, context
            client.cut()
            scene.settle()
            assert scene.picture() == before, context


LEASING = ("ATTACH", "CLAIM", "READ", "SETTLE", "RELEASE")  # of one queue: a composite is none
STRANGE = {  # refused because it is nothing of this connection's, whatever the rights
    "ACK": "a delivery is its connection's",
    "NACK": "a delivery is its connection's",
    "ACK in a transaction": "a delivery is its connection's",
    "COMMIT of a transaction of another connection": "a transaction is its connection's",
}


@pytest.mark.parametrize(
    ("verb", "kind"), [(verb, kind) for verb, row in ROWS.items() for kind in row.kinds if kind not in row.useless]
)
def test_with_the_right_it_happens(verb: str, kind: str) -> None:
    """Else a refusal proves nothing: the frame might be wrong."""
    row = ROWS[verb]
    scene = Scene()
    client = scene.boss
    if row.connect:
        client = scene.stomp("boss", **row.connect)
    if verb.startswith("COMMIT"):
        client.ask("BEGIN", transaction="boss")
        client.send(b"x", "/queue/secret", transaction="boss")
    before = scene.picture()
    found = say(scene, client, row.steps(scene, written(scene, kind) if kind else ""))
    told = [each for each in found if each.command == "ERROR"]
    assert not [each for each in told if each.headers["code"] == "ENT-3003"], [each.headers for each in told]
    if verb.startswith(("COMMIT", "SUBSCRIBE to another's", "ATTACH to a subscription")):
        assert len(told) == 1  # the second of two is about what the first has changed, or of another topic
    else:
        assert not told, [each.headers for each in told]
    shown = [each for each in found if each.command == "MESSAGE"]
    alike = ("SEND into a stage", "READ", "SUBSCRIBE to browse")
    if not shown and not verb.startswith(alike) and not (kind in SERVED and verb.startswith("SEND")):
        assert scene.picture() != before, "nothing has happened"


def test_who_may_not_come_in() -> None:
    scene = Scene()
    before = scene.picture()
    for headers in (
        {"login": "boss", "passcode": "wrong"},
        {"login": "nobody", "passcode": PASSWORD},
        {"login": "boss"},
        {"passcode": PASSWORD},
        {},
        {"login": "boss ", "passcode": PASSWORD},
        {"login": "app", "passcode": PASSWORD, "client_id": "taken"},
    ):
        holder = scene.stomp("boss", client_id="taken")
        client = Client(scene.rig, **headers)
        assert client.connected.command == "ERROR", headers
        for command in commands.COMMANDS:
            client.session.receive(command + b"\ndestination:/queue/secret\nid:1\nreceipt:r\n\nx\0", scene.rig.now)
        scene.settle()
        assert client.hear() == []
        holder.cut()
        assert scene.picture() == before


def test_nothing_is_done_before_connect() -> None:
    scene = Scene()
    before = scene.picture()
    for word, number in commands.COMMANDS.items():
        if number != commands.CONNECT:
            client = scene.stomp("none")
            client.session.life, client.session.reader.connected = OPENING, False
            client.session.subject = type(client.session.subject)("")
            client.session.receive(
                word + b"\ndestination:/queue/secret\nid:1\nsink:x\nbatch:0\nqueue:secret\ngroup:g\n\nx\0",
                scene.rig.now,
            )
            assert client.session.closing
            scene.settle()
            assert scene.picture() == before


def test_who_may_not_read_a_queue_is_not_told_of_it() -> None:
    scene = Scene()
    told = {user: scene.stomp(user).ask("QUEUES", match=">", receipt="r")[-1].headers for user in (*STRANGERS, "boss")}
    assert "secret" in told["boss"]["queues"]
    assert all("secret" not in told[user]["queues"] for user in STRANGERS)


@pytest.mark.parametrize("word", ["BEGIN", "BROKERS", "QUEUES", "DISCONNECT"])
def test_what_is_harmless(word: str) -> None:
    scene = Scene()
    before = scene.picture()
    client = scene.stomp("none")
    found = say(scene, client, [frame(word, transaction="t", destination="/queue/secret", id="held")])
    assert [each.command for each in found] == ["RECEIPT"]
    client.cut()
    assert scene.picture() == before
