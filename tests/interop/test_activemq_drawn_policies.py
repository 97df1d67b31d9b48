"""A broker of ours draws from a real ActiveMQ whose operator has policies and rights of his own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import classic
import pytest
from classic import NEWER, VERSION, Classic
from drawings import QUIET_S, Beside, Theirs, fresh

from entrepot import Acknowledge
from entrepot.client.message import Message
from promises import never
from shell.daemon import Wire

pytestmark = pytest.mark.skipif(bool(classic.unavailable()), reason=f"ActiveMQ: {classic.unavailable()}")

POLICIES: Final = """\
<destinationPolicy><policyMap><policyEntries>
  <policyEntry queue="MANY.>" queuePrefetch="5000"/>
  <policyEntry queue="ONE.>" queuePrefetch="1"/>
  <policyEntry queue="NONE.>" queuePrefetch="0"/>
  <policyEntry queue="HUGE.>" queuePrefetch="30000"/>
  <policyEntry topic="NONE.>" durableTopicPrefetch="0"/>
  <policyEntry queue="SHORT.>" expireMessagesPeriod="100"/>
  <policyEntry queue="SMALL.>" memoryLimit="200 kb" producerFlowControl="true"/>
  <policyEntry queue="SLOW.>">
    <slowConsumerStrategy>
      <abortSlowAckConsumerStrategy maxTimeSinceLastAck="500" maxSlowDuration="300" checkPeriod="100"
                                    ignoreIdleConsumers="false"/>
    </slowConsumerStrategy>
  </policyEntry>
</policyEntries></policyMap></destinationPolicy>
"""
RIGHTS: Final = """\
<plugins>
<simpleAuthenticationPlugin><users>
  <authenticationUser username="boss" password="manager" groups="admins"/>
  <authenticationUser username="app" password="secret" groups="readers"/>
</users></simpleAuthenticationPlugin>
<authorizationPlugin><map><authorizationMap><authorizationEntries>
  <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
  <authorizationEntry topic=">" read="admins" write="admins" admin="admins"/>
  <authorizationEntry queue="OPEN.>" read="readers" write="admins" admin="admins"/>
  <authorizationEntry topic="OPEN.>" read="readers" write="admins" admin="admins"/>
  <authorizationEntry topic="ActiveMQ.Advisory.>" read="admins" write="admins" admin="{makers}"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin>
</plugins>
"""
ROOM: Final = 200_000  # octets of a queue of ours that is full soon
SHORTEST_S: Final = 0.05  # of what expires
LONGEST_S: Final = 0.5
FULL_S: Final = 10.0  # more comes, if it is not bounded


# Both were seen; the long runs, which say how many rounds there are, try both again.
VERSIONS: Final = [VERSION, NEWER] if "ENTREPOT_ROUNDS" in os.environ else [VERSION]


@pytest.fixture(scope="module", params=VERSIONS)
def far(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classic]:
    why = classic.unavailable(request.param)
    if why:
        pytest.skip(why)
    scheduler = 'schedulerSupport="true"'
    home = tmp_path_factory.mktemp("far") / "far"
    started = Classic(home, name="far", version=request.param, policies=POLICIES, attributes=scheduler)
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
    made = Beside(tmp_path, far.port, arguments=("--set", f"HUGE.>:full=BLOCK,max_octets={ROOM}"))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("policy", ["MANY", "ONE", "NONE"])
def test_their_prefetch_is_theirs_to_say(theirs: Theirs, beside: Beside, policy: str) -> None:
    queue = f"{policy}.{fresh()}"
    sent = [f"{number}" for number in range(500 if policy == "NONE" else 6_000)]
    theirs.send(sent, queue, wait=False)
    beside.hold(queue)
    beside.await_count(queue, len(sent) // 2)
    theirs.send(["last"], queue)
    assert beside.drawn(queue, len(sent) + 1) == [*sent, "last"]
    assert theirs.take(queue) == []


def test_a_topic_whose_readers_have_to_pull(theirs: Theirs, beside: Beside) -> None:
    topic = f"NONE.{fresh()}"
    beside.hold(topic, topic=f"/topic/{topic}", subscription="mine")
    beside.until(lambda: beside.bridge()["demands"] == 1)
    time.sleep(0.5)
    theirs.send(["a", "b"], f"topic://{topic}")
    beside.await_count(f"{topic}::mine", 2)


def test_a_queue_that_is_full_here_is_drawn_on_when_there_is_room(theirs: Theirs, beside: Beside) -> None:
    """Though a policy there has more on its way than was asked for."""
    queue = f"HUGE.{fresh()}"
    sent = [f"{number}" for number in range(25_000)]
    beside.hold(queue)
    theirs.send(sent, queue, wait=False)
    beside.until(lambda: beside.explained(queue)["code"] == "full", lambda: str(beside.explained(queue)))
    time.sleep(FULL_S)
    assert beside.daemon.told().count("the connection ended") <= 1
    assert beside.waits(queue) < 15_000, "more came than what was on its way"
    beside.release(queue)
    wire = Wire(beside.listen)
    wire.subscribe(f"/queue/{queue}", ack="auto")
    found = [wire.message().body.decode() for _ in sent]
    wire.leave()
    with never():
        assert sorted(found) == sorted(sent)
        assert theirs.take(queue) == []


def test_what_expires_while_it_is_drawn_is_no_reason_to_break(theirs: Theirs, beside: Beside) -> None:
    """Nothing is lost: it is here, or expired here or there; no acknowledgement fails."""
    lots = random.Random(1)
    queue = f"SHORT.{fresh()}"
    count = 3_000

    async def play() -> None:
        async with theirs.connected() as link, link.session() as session, session.producer(queue) as producer:
            for number in range(count):
                shortly = lots.uniform(SHORTEST_S, LONGEST_S) if number % 3 else None
                await producer.send(f"{number}", time_to_live=shortly, wait=number == count - 1)
                if number == count // 2:
                    beside.hold(queue)
                if number % 100 == 0:
                    await asyncio.sleep(0.02)
                    beside.cable.hold()
                    await asyncio.sleep(lots.uniform(0, 0.1))
                    beside.cable.heal()

    asyncio.run(play())
    lasting = {f"{number}" for number in range(0, count, 3)}
    time.sleep(2 * LONGEST_S)
    beside.release(queue)
    assert "the connection ended" not in beside.daemon.told(), beside.daemon.told()
    beside.stop_drawing()
    here = beside.took(f"/queue/{queue}")
    put_away = [*beside.took("/queue/ActiveMQ.DLQ"), *beside.took("/queue/DLQ")]
    there = theirs.take("ActiveMQ.DLQ")
    rest = theirs.take(queue)
    with never():
        assert sorted([*here, *put_away, *there, *rest], key=int) == [f"{number}" for number in range(count)]
        assert lasting <= {*here, *rest}


def test_a_consumer_that_is_closed_for_being_slow_is_opened_again(theirs: Theirs, beside: Beside) -> None:
    queue = f"SLOW.{fresh()}"
    sent = [f"{number}" for number in range(300)]
    beside.hold(queue)
    for turn in range(3):
        beside.until(lambda: beside.explained(queue)["code"] == "reading")
        beside.cable.hold(said=True, answers=turn % 2 == 0)
        theirs.send(sent[turn * 100 : turn * 100 + 100], queue)
        time.sleep(1.5)
        beside.cable.heal()
        beside.await_count(queue, turn * 100 + 100)
    assert "closed the consumer" in beside.daemon.told()
    time.sleep(QUIET_S)
    with never():
        assert sorted(beside.drawn(queue, 300), key=int) == sent
        assert theirs.take(queue) == []


def test_a_producer_there_that_waits_for_room_goes_on(theirs: Theirs, beside: Beside) -> None:
    queue = f"SMALL.{fresh()}"
    sent = [f"{number} {'x' * 10_000}" for number in range(500)]
    beside.hold(queue)
    theirs.send(sent, queue, wait=False)
    assert sorted(beside.drawn(queue, 500)) == sorted(sent)  # ActiveMQ itself keeps no order where memory is short


def test_what_was_scheduled_comes_when_it_is_due_and_once(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    beside.hold(queue)
    delayed: dict[str, object] = {"AMQ_SCHEDULED_DELAY": 1_000}
    repeated: dict[str, object] = {**delayed, "AMQ_SCHEDULED_REPEAT": 2, "AMQ_SCHEDULED_PERIOD": 200}
    theirs.send([Message("later", properties=delayed), Message("thrice", properties=repeated), "now"], queue)
    beside.await_count(queue, 1)
    assert beside.waits(queue) == 1
    assert sorted(beside.drawn(queue, 5)) == ["later", "now", "thrice", "thrice", "thrice"]


def test_what_came_and_was_cut_often_is_no_dead_letter_there(theirs: Theirs, beside: Beside) -> None:
    queue = fresh()
    sent = [f"{number}" for number in range(10)]
    for turn in range(8):
        beside.hold(queue)
        beside.until(lambda: beside.explained(queue)["code"] == "reading")
        beside.cable.hold(said=True, answers=False)
        if turn == 0:
            theirs.send(sent, queue)
        time.sleep(0.2)
        beside.release(queue)
        beside.cable.cut()
        beside.cable.heal()
    beside.await_count(queue, 10)
    beside.stop_drawing()
    here = beside.took(f"/queue/{queue}")

    async def play() -> list[object]:
        found: list[object] = []
        async with (
            theirs.connected() as link,
            link.session(Acknowledge.TRANSACTED) as session,
            session.consumer(queue) as consumer,
        ):
            while (message := await consumer.receive(QUIET_S)) is not None:
                found.append(message.body)
            await session.commit()
        return found

    there = asyncio.run(play())
    with never():
        assert here == sent
        assert set(there) <= set(sent)  # what we had, and could not say
        assert theirs.take("ActiveMQ.DLQ") == []


@contextlib.contextmanager
def one(
    tmp_path: Path, more: str = "", place: str = "tcp://127.0.0.1:{port}", **how: str
) -> Iterator[tuple[Classic, Beside]]:
    """Have an ActiveMQ of its own, and ours beside it. ``how``: as of `Classic`."""
    far = Classic(tmp_path / "far", name="far", **how)  # type: ignore[arg-type]
    far.start().await_ready()
    made = Beside(tmp_path, far.port, more, place=place)
    try:
        yield far, made
    finally:
        made.close()
        far.kill()


@pytest.mark.parametrize("silence_ms", [0, 2_000] if len(VERSIONS) > 1 else [2_000])
def test_a_broker_that_stands_still_for_longer_than_is_agreed_goes_on(tmp_path: Path, silence_ms: int) -> None:
    place = f"tcp://127.0.0.1:{{port}}?wireFormat.maxInactivityDuration={silence_ms}"
    with one(tmp_path, "&checkPeriod=3000", place=place) as (far, made):
        theirs = Theirs(far)
        sent = [f"{number}" for number in range(5_000)]
        theirs.send(sent, "Q", wait=False)
        made.hold("Q")
        made.await_count("Q", 1)
        os.kill(made.daemon.pid, signal.SIGSTOP)
        time.sleep(5)
        os.kill(made.daemon.pid, signal.SIGCONT)
        made.await_count("Q", 5_000)
        made.cable.hold()  # and the other one, as it seems
        time.sleep(5)
        made.cable.heal()
        theirs.send(["last"], "Q")
        made.await_count("Q", 5_001)
        time.sleep(QUIET_S)
        with never():
            assert sorted(made.drawn("Q", 5_001)) == sorted([*sent, "last"])


@contextlib.contextmanager
def guarded(
    tmp_path: Path, password: str = "secret", makers: str = "admins,readers"
) -> Iterator[tuple[Theirs, Beside]]:
    """Have an ActiveMQ with rights, at which an administrator was before, and ours beside it.

    ``makers``: groups whose clients have ActiveMQ make the topics on which it tells of them. It asks for that right of
    whoever connects or consumes first, in whatever language.
    """
    far = Classic(tmp_path / "far", name="far", plugins=RIGHTS.format(makers=makers))
    far.start().await_ready()
    boss = Theirs(far, user="boss", password="manager")
    for where in ("OPEN.Q", "LOCKED.Q", "topic://OPEN.T"):
        boss.send(["a"], where)
    made = Beside(tmp_path, far.port, f"&userName=app&password={password}")
    try:
        yield boss, made
    finally:
        made.close()
        far.kill()


def test_the_right_to_read_is_enough(tmp_path: Path) -> None:
    with guarded(tmp_path) as (boss, made):
        made.hold("OPEN.Q")
        made.hold("LOCKED.Q")
        made.hold("OPEN.T", topic="/topic/OPEN.T", subscription="mine")
        made.await_count("OPEN.Q", 1)
        made.until(lambda: made.explained("LOCKED.Q")["code"] == "not-drawn")
        words = "not authorized to read from: queue://LOCKED.Q"
        assert words in made.explained("LOCKED.Q")["text"]
        assert words in made.daemon.told()
        time.sleep(0.5)
        boss.send(["b"], "topic://OPEN.T")
        made.await_count("OPEN.T::mine", 1)
        assert made.bridge()["state"] == "open"


def test_the_right_that_activemq_asks_of_who_consumes_first_is_named(tmp_path: Path) -> None:
    with guarded(tmp_path, makers="admins") as (boss, made):
        made.hold("OPEN.Q")
        words = "not authorized to create: topic://ActiveMQ.Advisory.Consumer.Queue.OPEN.Q"
        made.until(lambda: words in made.explained("OPEN.Q")["text"])
        assert words in made.daemon.told()
        assert boss.take("OPEN.Q") == ["a"]  # who may makes it, for all
        boss.send(["b"], "OPEN.Q")
        made.await_count("OPEN.Q", 1)


def test_a_wrong_password_is_said(tmp_path: Path) -> None:
    with guarded(tmp_path, password="mistaken") as (_, made):
        made.hold("OPEN.Q")
        made.until(lambda: "password is invalid" in made.explained("OPEN.Q")["text"])
        assert made.explained("OPEN.Q")["code"] == "down"
        assert "password is invalid" in made.daemon.told()
        assert "mistaken" not in made.daemon.told()
