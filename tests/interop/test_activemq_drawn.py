"""Messages of a real ActiveMQ come to a broker of ours because somebody reads there by lease.

Cut cables, and kill -9 of either broker, while messages flow: nothing is lost, and nothing comes twice. Debian's
ActiveMQ, and one of 6.1.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import classic
import java_clients
import pytest
from classic import NEWER, VERSION, Classic, free_port
from drawings import PATIENCE_S, QUIET_S, Beside, Theirs, fresh

import entrepot
from entrepot.client.message import Message
from promises import never
from shell.certificates import Certificates

pytestmark = pytest.mark.skipif(bool(classic.unavailable()), reason=f"ActiveMQ: {classic.unavailable()}")

ROUNDS: Final = int(os.environ.get("ENTREPOT_ROUNDS", "6"))
SEED: Final = int(os.environ.get("ENTREPOT_SEED", "1"))
FLOW: Final = 1_000  # messages of a round
FORMS: Final = 82  # messages of `java/Forms.java`
LARGE: Final = 300_000
VERY_LARGE: Final = 5_000_000


@pytest.fixture(scope="module", params=[VERSION, NEWER], ids=["shipped", NEWER])
def far(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classic]:
    """An ActiveMQ for all tests that have no wishes; each has queues of its own."""
    why = classic.unavailable(request.param)
    if why:
        pytest.skip(why)
    started = Classic(tmp_path_factory.mktemp("far") / "far", name="far", version=request.param)
    started.start().await_ready()
    try:
        yield started
    finally:
        started.kill()


@pytest.fixture
def theirs(far: Classic) -> Theirs:
    return Theirs(far)


@pytest.fixture
def beside(far: Classic, tmp_path: Path) -> Iterator[Beside]:
    made = Beside(tmp_path, far.port)
    try:
        yield made
    finally:
        made.close()


def test_what_is_there_and_what_comes_in_order(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    sent = [f"{number}" for number in range(3_000)]
    theirs.send(sent[:1_500], queue, wait=False)
    beside.hold(queue)
    beside.await_count(queue, 1_500)
    theirs.send(sent[1_500:], queue, wait=False)
    beside.await_count(queue, 3_000)
    row = beside.explained(queue)
    assert (row["code"], row["source"], row["received"]) == ("reading", queue, 3_000)
    bridge = beside.bridge()
    assert (bridge["kind"], bridge["peer_id"], bridge["duplicates"]) == ("activemq", "far", 0)
    beside.release(queue)
    assert beside.took(f"/queue/{queue}") == sent
    assert theirs.take(queue) == []


def test_large_ones_texts_of_all_letters_and_octets(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    sent = ["a", "x" * LARGE, b"\0\xff", "Grüße, 東京, 𝄞 \0", "y" * VERY_LARGE, bytes(range(256)) * 8_000, "", "z"]
    beside.hold(queue)
    theirs.send(sent, queue)
    beside.await_count(queue, len(sent))
    beside.release(queue)
    assert beside.octets(f"/queue/{queue}") == [body.encode() if isinstance(body, str) else body for body in sent]
    assert theirs.take(queue) == []


@pytest.mark.skipif(bool(java_clients.unavailable()), reason=f"Java clients: {java_clients.unavailable()}")
@pytest.mark.parametrize("options", ["", "?jms.useCompression=true"])
def test_what_java_says_is_heard_as_it_was_said(far: Classic, beside: Beside, options: str) -> None:
    """Maps, objects, texts and octets, not persistent; a Java client reads them here as it does there."""
    program = java_clients.Program()
    here, there = fresh(), fresh()
    for name in (here, there):
        program.run("Forms", far.url + options, "say", name)
    beside.hold(here)
    beside.await_count(here, FORMS)
    beside.release(here)
    time.sleep(0.3)
    urls = {here: f"tcp://127.0.0.1:{beside.openwire}", there: far.url}
    heard = [program.run("Forms", url, "hear", name, str(FORMS)) for name, url in urls.items()]
    mine, wanted = (re.sub(r"\[B@\w+", "octets", text) for text in heard)  # the place of an array in their memory
    assert mine == wanted
    assert mine.count("heard ") == FORMS


def test_what_is_not_persistent_is_on_our_disk_and_survives_a_kill(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    sent = [f"{number}" for number in range(200)]
    theirs.send(sent, queue, persistent=False)
    beside.hold(queue)
    beside.await_count(queue, 200)
    time.sleep(QUIET_S)
    beside.daemon.kill()
    beside.daemon.start()
    assert beside.took(f"/queue/{queue}") == sent
    assert theirs.take(queue) == []


def test_headers_and_properties_come_with_it(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    beside.hold(queue)
    properties: dict[str, object] = {"n": 7, "text": "ä", "flag": True}
    theirs.send([Message("a", properties=properties, correlation_id="c", type="t", group="g")], queue, priority=8)
    beside.await_count(queue, 1)
    beside.release(queue)

    async def play() -> entrepot.Received | None:
        url = f"tcp://127.0.0.1:{beside.openwire}"
        async with (
            asyncio.timeout(PATIENCE_S),
            entrepot.connect(url) as link,
            link.session() as session,
            session.consumer(queue) as consumer,
        ):
            return await consumer.receive(PATIENCE_S)

    came = asyncio.run(play())
    assert came is not None
    assert {name: came.properties[name] for name in properties} == properties
    assert (came.body, came.correlation_id, came.type, came.group, came.priority) == ("a", "c", "t", "g", 8)


def test_nobody_reads_and_nothing_comes(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    theirs.send(["a"], queue)
    beside.hold(queue)
    beside.await_count(queue, 1)
    beside.release(queue)
    time.sleep(0.5)
    theirs.send(["b"], queue)
    assert theirs.take(queue, most=1) == ["b"]


def test_demand_ends_while_they_flow_and_the_rest_stays_there_in_order(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    sent = [f"{number}" for number in range(6_000)]
    theirs.send(sent, queue, wait=False)
    beside.hold(queue)
    beside.await_count(queue, 1)
    beside.release(queue)
    beside.stop_drawing()
    here = beside.took(f"/queue/{queue}")
    there = theirs.take(queue, most=6_000 - len(here))
    with never():
        assert here + there == sent


def test_a_topic_is_kept_there_while_nobody_reads(theirs: Theirs, beside: Beside) -> None:
    topic = fresh()
    place = {"topic": f"/topic/{topic}", "subscription": "mine"}
    beside.hold(topic, **place)
    beside.until(lambda: beside.bridge()["demands"] == 1)
    time.sleep(0.5)
    theirs.send(["a"], f"topic://{topic}")
    beside.await_count(f"{topic}::mine", 1)
    beside.release(topic)
    time.sleep(0.5)
    theirs.send(["b"], f"topic://{topic}")
    beside.daemon.kill()
    theirs.send(["c"], f"topic://{topic}")
    beside.daemon.start()
    beside.hold(topic, **place)
    beside.await_count(f"{topic}::mine", 3)
    beside.release(topic)
    assert beside.took(f"{topic}::mine") == ["a", "b", "c"]


def test_another_consumer_there_takes_its_share(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    sent = [f"{number}" for number in range(2_000)]
    beside.hold(queue)
    beside.until(lambda: beside.explained(queue)["code"] == "reading")
    with ThreadPoolExecutor(1) as elsewhere:
        taking = elsewhere.submit(theirs.take, queue, 1, 3.0)
        time.sleep(1)
        theirs.send(sent, queue)
        there = taking.result()
    here = beside.drawn(queue, len(sent) - len(there))
    assert there
    assert here
    with never():
        assert sorted([*here, *there]) == sorted(sent)


def test_who_reads_exclusively_there_gets_all_until_he_goes(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    beside.hold(queue)
    beside.until(lambda: beside.explained(queue)["code"] == "reading")

    async def play() -> list[object]:
        where = f"queue://{queue}?consumer.exclusive=true"
        async with theirs.connected() as link, link.session() as session, session.consumer(where) as consumer:
            await asyncio.to_thread(theirs.send, ["a", "b"], queue)
            found = [await consumer.receive(PATIENCE_S) for _ in range(2)]
            assert all(found)
            return [one.body for one in found if one is not None]

    assert asyncio.run(play()) == ["a", "b"]
    theirs.send(["c"], queue)
    assert beside.drawn(queue, 1) == ["c"]


def test_a_group_stays_together(theirs: Theirs, beside: Beside) -> None:
    """Of two consumers each gets whole groups."""
    queue = fresh()
    groups = [f"{number}" for number in range(20)]
    beside.hold(queue)
    beside.until(lambda: beside.explained(queue)["code"] == "reading")
    with ThreadPoolExecutor(1) as elsewhere:
        taking = elsewhere.submit(theirs.take, queue, 1, 3.0)
        time.sleep(1)
        for _ in range(3):
            theirs.send([Message(group, group=group) for group in groups], queue)
        there = taking.result()
    here = beside.drawn(queue, 60 - len(there))
    assert here
    assert there
    assert sorted([*here, *there]) == sorted(groups * 3)
    assert not set(here) & set(there)


def test_a_queue_of_a_virtual_topic_is_read_by_its_name(theirs: Theirs, beside: Beside) -> None:
    topic = f"VirtualTopic.{fresh()}"
    queue = f"Consumer.A.{topic}"
    beside.hold(queue)
    beside.until(lambda: beside.explained(queue)["code"] == "reading")
    theirs.send(["a", "b"], f"topic://{topic}")
    assert beside.drawn(queue, 2) == ["a", "b"]


def test_what_is_sent_to_two_at_once_comes_to_both(theirs: Theirs, beside: Beside) -> None:
    """The two copies have one id: what is known is known of one queue."""
    one, two = fresh(), fresh()
    for name in (one, two):
        beside.hold(name)
    theirs.send(["a", "b"], f"queue://{one},queue://{two}")
    for name in (one, two):
        assert beside.drawn(name, 2) == ["a", "b"]


def test_the_second_place_answers(far: Classic, theirs: Theirs, tmp_path: Path) -> None:
    queue = fresh()
    theirs.send(["a"], queue)
    place = f"tcp://127.0.0.1:{free_port()},tcp://127.0.0.1:{{port}}"
    made = Beside(tmp_path, far.port, place=place)
    try:
        made.hold(queue)
        assert made.drawn(queue, 1) == ["a"]
    finally:
        made.close()


def test_cut_and_killed_nothing_is_lost_and_nothing_comes_twice(far: Classic, theirs: Theirs, beside: Beside) -> None:
    """Each round kills, cuts or deafens at a moment of its own, while messages flow."""
    lots = random.Random(SEED)
    queue = fresh()
    beside.hold(queue)
    sent: list[str] = []
    for turn in range(ROUNDS):
        what = ("beside", "far", "deaf", "stopped beside", "cut", "both", "stopped far")[turn % 7]
        beside.release(queue)
        time.sleep(0.2)
        bodies = [f"{turn}-{number}" for number in range(FLOW)]
        theirs.send(bodies, queue, wait=False)  # it waits there: then it flows, and somebody dies in the midst of it
        sent += bodies
        beside.hold(queue)
        time.sleep(lots.uniform(0, 0.3))
        if what == "deaf":
            beside.cable.deaf = True
            time.sleep(0.3)
        if what in ("deaf", "cut"):
            beside.cable.cut()
            beside.cable.heal()
        if what in ("far", "both"):
            far.kill()
        if what == "stopped far":
            far.stop()
        if what in ("beside", "both"):
            beside.daemon.kill()
        if what == "stopped beside":
            beside.daemon.stop()
        if what in ("far", "both", "stopped far"):
            far.start().await_ready()
        if what in ("beside", "both", "stopped beside"):
            beside.daemon.start()
            beside.hold(queue)
        beside.await_count(queue, len(sent))
    theirs.send(["end"], queue)  # behind what comes again, which is acknowledged while somebody wants it
    sent.append("end")
    beside.await_count(queue, len(sent))
    beside.release(queue)
    time.sleep(0.5)
    came = beside.took(f"/queue/{queue}")
    with never():
        twice = sorted(text for text in set(came) if came.count(text) > 1)
        assert set(came) == set(sent), f"lost {sorted(set(sent) - set(came))[:20]}"
        assert twice == []
        assert theirs.take(queue) == []
        assert theirs.take("ActiveMQ.DLQ") == []


def test_a_topic_that_is_cut_and_killed_loses_nothing(far: Classic, theirs: Theirs, beside: Beside) -> None:
    lots = random.Random(SEED)
    topic = fresh()
    place = {"topic": f"/topic/{topic}", "subscription": "mine"}
    beside.hold(topic, **place)
    beside.until(lambda: beside.bridge()["demands"] == 1)
    time.sleep(0.5)
    sent: list[str] = []
    for turn in range(max(3, ROUNDS // 2)):
        what = ("beside", "far", "cut")[turn % 3]
        beside.release(topic)
        time.sleep(0.2)
        bodies = [f"{turn}-{number}" for number in range(FLOW)]
        theirs.send(bodies, f"topic://{topic}", wait=False)
        sent += bodies
        beside.hold(topic, **place)
        time.sleep(lots.uniform(0, 0.3))
        if what == "cut":
            beside.cable.cut()
            beside.cable.heal()
        if what == "far":
            far.kill()
            far.start().await_ready()
        if what == "beside":
            beside.daemon.kill()
            beside.daemon.start()
            beside.hold(topic, **place)
        beside.await_count(f"{topic}::mine", len(sent))
    beside.release(topic)
    time.sleep(0.5)
    came = beside.took(f"{topic}::mine")
    with never():
        assert sorted(came) == sorted(sent)


def test_a_user_and_tls(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    far = Classic(tmp_path / "far", authenticated=True, key_store=files.store)
    far.start()
    place = f"ssl://localhost:{{port}}?trustStorePath={files.authority}"
    made = Beside(tmp_path, far.port, "&userName=app&password=secret", place=place)
    try:
        made.hold("Q")

        async def play() -> None:
            url = f"ssl://localhost:{far.port}?transport.trustStorePath={files.authority}"
            async with (
                asyncio.timeout(PATIENCE_S),
                entrepot.connect(url, user="app", password="secret") as connection,
                connection.session() as session,
                session.producer("Q") as producer,
            ):
                await producer.send("a")

        made.until(lambda: made.explained("Q")["code"] == "reading")
        asyncio.run(play())
        assert made.drawn("Q", 1) == ["a"]
    finally:
        made.close()
        far.kill()
