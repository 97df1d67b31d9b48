"""Large bodies that are lost on disk: their messages die with the cause, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.core.operators.upkeep import Move, Retry
from entrepot.journal.overflow import STRETCH
from kit import Rig

from .test_server import Client, bodies, kinds

BODY = bytes(range(256)) * 20
LONG = bytes(range(256)) * (STRETCH // 128)  # two stretches

Harm = Callable[[Rig, str], None]


def flip(rig: Rig, name: str) -> None:
    assert rig.disk is not None
    rig.disk.medium.damage(name, 100)


def flip_the_end(rig: Rig, name: str) -> None:
    assert rig.disk is not None
    rig.disk.medium.damage(name, len(rig.disk.medium.view[name]) - 10)


def shorten(rig: Rig, name: str) -> None:
    assert rig.disk is not None
    rig.disk.medium.shorten(name, 1234)


def lose(rig: Rig, name: str) -> None:
    assert rig.disk is not None
    rig.disk.medium.lose(name)


def harmed(rig: Rig, harm: Harm, body: bytes = BODY, **headers: str) -> Client:
    """Send a large message between two small ones, and harm the first one's body on disk."""
    producer = Client(rig)
    producer.send(b"before", persistent="true")
    producer.send(body, persistent="true", colour="red", **headers)
    producer.send(b"behind", persistent="true")
    rig.turn()
    assert rig.disk is not None
    (blob,) = rig.disk.blobs()
    harm(rig, f"{blob}.blob")
    return producer


def letter_of(rig: Rig, name: str = "ActiveMQ.DLQ") -> tuple[bytes, dict[str, str]]:
    """Take the one dead letter, and see that it says that its body is lost."""
    client = Client(rig)
    (letter,) = client.subscribe(f"/queue/{name}", id="dead", ack="client-individual")
    assert letter.body == b""
    assert letter.headers["colour"] == "red"
    assert "is damaged" in letter.headers["dlqDeliveryFailureCause"]
    client.ask("ACK", id=letter.headers["ack"])
    client.cut()
    return letter.body, letter.headers


HARMS = [flip, shorten, lose]


@pytest.mark.parametrize("harm", [shorten, lose])
@pytest.mark.parametrize("ack", ["auto", "client-individual"])
@pytest.mark.parametrize("restart", ["", "crash"])
def test_a_body_of_the_wrong_length_never_begins(harm: Harm, ack: str, restart: str) -> None:
    rig = Rig()
    harmed(rig, harm)
    if restart:
        rig.restart(restart)
    consumer = Client(rig)
    assert bodies(consumer.subscribe(ack=ack)) == [b"before", b"behind"]
    assert not consumer.session.closing
    rig.wait(1)
    assert letter_of(rig)[1]["entrepotBodyLost"] == str(len(BODY))


@pytest.mark.parametrize("harm", [flip, flip_the_end])
@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
@pytest.mark.parametrize("body", [BODY, LONG])
def test_a_flip_is_found_before_the_octets_are_passed_on(harm: Harm, ack: str, body: bytes) -> None:
    rig = Rig()
    harmed(rig, harm, body)
    consumer = Client(rig)
    found = consumer.subscribe(ack=ack)
    assert bodies(found) == [b"before"]
    assert consumer.session.closing, "what was begun cannot be ended well"
    assert "fail their checksum" in consumer.session.refused
    begun = consumer.raw.rpartition(b"\n\n")[2]
    assert len(begun) < len(body)
    assert body.startswith(begun), "no octet that is not the sender's"
    consumer.cut()
    rig.wait(1)
    other = Client(rig)
    rest = bodies(other.subscribe(ack="auto"))
    assert rest[-1] == b"behind"
    assert body not in rest
    rig.wait(1)
    letter_of(rig)
    assert rig.queue("q").count == 0


@pytest.mark.parametrize("harm", HARMS)
def test_other_consumers_go_on(harm: Harm) -> None:
    rig = Rig()
    harmed(rig, harm)
    first, second = Client(rig), Client(rig)
    first.subscribe(ack="client-individual")
    first.cut()
    found = bodies(second.subscribe(ack="auto"))
    rig.wait(1)
    assert found == [b"before", b"behind"]
    letter_of(rig)


@pytest.mark.parametrize("harm", HARMS)
def test_a_browser_shows_what_is_left(harm: Harm) -> None:
    rig = Rig()
    harmed(rig, harm)
    if harm is flip:
        first = Client(rig)
        first.subscribe(browser="true")
        assert first.session.closing
        first.cut()
    looker = Client(rig)
    found = looker.subscribe(browser="true")
    assert bodies(found) == [b"before", b"", b"behind", b""]
    assert found[1].headers["entrepotBodyLost"] == str(len(BODY))
    assert rig.queue("q").count == 3, "looking changes nothing"


@pytest.mark.parametrize("restart", ["", "kill", "crash"])
@pytest.mark.parametrize("form", ["message", "batch"])
@pytest.mark.parametrize("harm", HARMS)
def test_a_range_has_every_position_and_a_dead_letter_of_the_lost_one(harm: Harm, form: str, restart: str) -> None:
    """After a restart too, which forgets what was found out; its reader settles without another look."""
    rig = Rig()
    client = Client(rig)
    harmed(rig, lambda rig, name: None)
    client.ask("ATTACH", queue="/queue/q", group="g", receipt="a")
    client.ask("CLAIM", queue="/queue/q", group="g", epoch="1", receipt="b")
    assert rig.disk is not None
    (blob,) = rig.disk.blobs()
    harm(rig, f"{blob}.blob")
    found = client.ask("READ", queue="/queue/q", group="g", epoch="1", form=form, receipt="c")
    if harm is flip:
        assert client.session.closing
        client.cut()
        client = Client(rig)
        client.ask("ATTACH", queue="/queue/q", group="g", receipt="a")
        found = client.ask("READ", queue="/queue/q", group="g", epoch="2", form=form, receipt="c")
    assert found[-1].command == "RECEIPT"
    (shown,) = [frame for frame in found if frame.headers.get("entrepotBodyLost") == str(len(BODY))]
    assert (shown.headers["position"], shown.body) == ("1", b"")
    if form == "message":
        assert bodies(found) == [b"before", b"", b"behind"]
    epoch = "2" if harm is flip else "1"
    if restart:
        rig.restart(restart)
        client = Client(rig)
    settled = client.ask("SETTLE", queue="/queue/q", group="g", epoch=epoch, end="3", receipt="d")
    assert settled[0].headers["settled"] == "3"
    if restart and harm is flip:
        first = Client(rig)
        first.subscribe("/queue/ActiveMQ.DLQ", ack="client-individual")
        assert first.session.closing, "who asks for the letter finds out that its body is still damaged"
        first.cut()
        other = Client(rig)
        assert bodies(other.subscribe("/queue/ActiveMQ.DLQ", ack="client-individual")) == []
        rig.wait(1)
        other.cut()
    letter_of(rig)
    assert rig.disk.blobs() == []


@pytest.mark.parametrize("harm", [shorten, lose])
def test_a_claim_passes_over_what_is_known_to_be_lost(harm: Harm) -> None:
    rig = Rig()
    client = Client(rig)
    harmed(rig, harm)
    client.ask("ATTACH", queue="/queue/q", group="g", receipt="a")
    client.ask("CLAIM", queue="/queue/q", group="g", epoch="1", receipt="b")
    found = client.ask("READ", queue="/queue/q", group="g", epoch="1", receipt="c")
    assert bodies(found) == [b"before", b"behind"]
    rig.wait(1)
    letter_of(rig)


def test_a_lost_body_among_the_dead_letters_stays_there_as_one() -> None:
    rig = Rig()
    client = Client(rig)
    client.send(BODY, persistent="true", colour="red")
    (message,) = client.subscribe(ack="client-individual")
    client.ask("NACK", id=message.headers["ack"])
    client.cut()
    assert rig.disk is not None
    (blob,) = rig.disk.blobs()
    rig.disk.medium.lose(f"{blob}.blob")
    reader = Client(rig)
    assert reader.subscribe("/queue/ActiveMQ.DLQ", ack="client-individual") == []
    rig.wait(1)
    (letter,) = reader.hear()
    assert (letter.body, letter.headers["entrepotBodyLost"]) == (b"", str(len(BODY)))
    assert letter.headers["_AMQ_ORIG_QUEUE"] == "q"


def test_an_empty_letter_is_not_sent_back_as_if_it_were_what_was_sent() -> None:
    rig = Rig()
    harmed(rig, lose)
    consumer = Client(rig)
    consumer.subscribe()
    rig.wait(1)
    retry = Retry(rig.broker, "ActiveMQ.DLQ")
    while not retry.step().done:
        rig.turn()
    assert (retry.progress.messages, retry.homeless) == (0, 1)
    assert rig.queue("ActiveMQ.DLQ").count == 1


@pytest.mark.parametrize("harm", [shorten, lose])
def test_moving_a_queue_leaves_the_lost_one_to_the_dead_letters(harm: Harm) -> None:
    rig = Rig()
    harmed(rig, harm)
    Client(rig).subscribe("/queue/other", id="2", selector="1 = 2")
    move = Move(rig.broker, "q", "other")
    while not move.step().done:
        rig.turn()
    rig.wait(1)
    assert (rig.queue("q").count, rig.queue("other").count) == (0, 2)
    letter_of(rig)


def test_a_message_in_two_queues_dies_in_each() -> None:
    rig = Rig()
    client = Client(rig)
    client.send(BODY, "/queue/a,/queue/b", persistent="true", colour="red")
    assert rig.disk is not None
    for blob in rig.disk.blobs():
        rig.disk.medium.lose(f"{blob}.blob")
    for name in "ab":
        assert client.subscribe(f"/queue/{name}", id=name) == []
        rig.wait(1)
        letter_of(rig)


def test_a_disk_that_is_full_puts_the_burial_off() -> None:
    rig = Rig()
    harmed(rig, lose)
    assert rig.disk is not None
    rig.disk.room.make(rig.disk.used())
    filler = Client(rig)
    assert kinds(filler.send(b"x" * 900, "/queue/fill", persistent="true")) == ["ERROR"]
    consumer = Client(rig)
    assert bodies(consumer.subscribe()) == [b"before", b"behind"]
    rig.wait(10)
    assert rig.queue("q").count == 1
    rig.disk.room.make()
    rig.turn()
    rig.wait(2000)
    assert rig.queue("q").count == 0
    letter_of(rig)


def test_a_topic_subscriber_of_a_lost_body_goes_on() -> None:
    rig = Rig()
    reader = Client(rig, "1.2", client_id="c")
    reader.subscribe("/topic/t", **{"activemq.subscriptionName": "d"})
    reader.cut()
    producer = Client(rig)
    producer.send(BODY, "/topic/t", persistent="true", colour="red")
    producer.send(b"small", "/topic/t", persistent="true")
    assert rig.disk is not None
    (blob,) = rig.disk.blobs()
    rig.disk.medium.lose(f"{blob}.blob")
    reader = Client(rig, "1.2", client_id="c")
    assert bodies(reader.subscribe("/topic/t", **{"activemq.subscriptionName": "d"})) == [b"small"]
    rig.wait(1)
    letter_of(rig)
