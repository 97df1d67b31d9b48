"""Unmodified clients of AMQP: Qpid JMS beside a real Artemis, transcripts compared; Qpid Proton; other languages.

The program is that of CORE's clients (`java/core/`), as far as it is JMS alone, with Qpid JMS (`qpid_clients.py`). Both
brokers run the same ``broker.xml``. What a real Artemis shows is recorded (`recorded.py`).
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import artemis
import core_clients
import go_clients
import java_clients
import maven
import ours
import pytest
import qpid_clients
import recorded

WHY_NOT: Final = artemis.unavailable()
VECTORS: Final = Path(__file__).parents[1] / "vectors" / "amqp-proton-j-0.34.1.tsv"

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"clients of AMQP: {WHY_NOT}")

EVERYTHING: Final = os.environ.get("ENTREPOT_AMQP_CLIENTS") == "all"
SLOW: Final = (
    "fullAddresses", "redeliveryDelay", "delay", "windows", "waiting", "recover", "listeners", "clientIds",
    "requestReply",
)  # fmt: skip
"""Features that wait for time to pass: with ENTREPOT_AMQP_CLIENTS=all alone (`make amqp-clients`)."""
OTHERWISE: Final[dict[str, dict[str, str | None]]] = {
    "texts": {  # half of a surrogate pair breaks what the client writes: Artemis takes the octets and loses the message
        "text: none": None,
        (
            'THREW java.lang.NullPointerException: Cannot invoke "javax.jms.Message.getJMSDeliveryMode()" '
            'because "<local6>" is null'
        ): "THREW javax.jms.JMSException: 8 octets are wanted, 6 are left [condition = amqp:decode-error]",
    },
    "largeHandling": {  # Artemis does not count the deliveries of large messages of AMQP
        "again [the quick brown fox ... of 150000, small x2 again, the quick brown fox ... of 160000]": (
            "again [the quick brown fox ... of 150000 x2 again, small x2 again, "
            "the quick brown fox ... of 160000 x2 again]"
        ),
    },
    "temporary": {  # there Artemis makes a queue anew for its reader, and detaches its sender without a word
        "read what was deleted: done": "read what was deleted: javax.jms.InvalidDestinationException",
        "send to what was deleted: javax.jms.IllegalStateException":
        "send to what was deleted: javax.jms.InvalidDestinationException",
    },
}  # fmt: skip
"""Lines of Artemis in whose place we show another, or none (None), and why. All else is the same."""
UNORDERED: Final = ("selectors", "sharedDurable")
"""Features in which it is chance which of two messages, or readers, comes first."""
TURNS: Final = ("shared",)
"""Features in which it is chance which of several readers has the first turn; what one of them gets is not."""
FEATURES: Final = [name for name in qpid_clients.features() if EVERYTHING or name not in SLOW]


def _seen(
    program: qpid_clients.Program, broker: artemis.Artemis | ours.Entrepot, features: list[str]
) -> dict[str, str]:
    broker.start().await_ready()
    try:
        text = program.run("Features", qpid_clients.amqp_url(broker), *features)
    finally:
        broker.kill()
    text = re.sub(r"ID:[0-9a-z-]+:[0-9a-f]+-[0-9]+:amqp", "UUID", text)
    text = re.sub(r"ID:[0-9a-f-]{36}", "ID:UUID", text)
    text = re.sub(r"InputStream@[0-9a-f]+", "InputStream", text)
    return recorded.parts(text)


@pytest.fixture(scope="module")
def program() -> qpid_clients.Program:
    try:
        return qpid_clients.Program()
    except maven.Unavailable as why:
        pytest.skip(str(why))


class Transcripts(NamedTuple):
    """What was seen, by feature."""

    artemis: dict[str, str]
    ours: dict[str, str]
    recorded: dict[str, str] | None
    """What Artemis showed when it was recorded; None when that is not current."""


@pytest.fixture(scope="module")
def transcripts(program: qpid_clients.Program, tmp_path_factory: pytest.TempPathFactory) -> Transcripts:
    """Some features each, each with a broker of its own, all at once: the client waits most of the time."""
    home = tmp_path_factory.mktemp("amqp")
    recording = recorded.Recording(
        "amqp" if not EVERYTHING else "amqp-all", core_clients.MADE_OF, program.made_of, FEATURES
    )
    dealt = core_clients.spread(FEATURES)
    with ThreadPoolExecutor(1 + len(dealt)) as pool:
        theirs = pool.submit(recording.shown, lambda: _seen(program, core_clients.theirs(home / "artemis"), FEATURES))
        own = [pool.submit(_seen, program, core_clients.own(home / str(at)), some) for at, some in enumerate(dealt)]
        seen = {name: lines for run in own for name, lines in run.result().items()}
        return Transcripts(theirs.result(), seen, recording.held())


def test_artemis_shows_every_feature(transcripts: Transcripts) -> None:
    """The program itself is right: it does all of it at the broker that it is compared at."""
    assert list(transcripts.artemis) == [*FEATURES, "end"]
    if transcripts.recorded is not None:
        shown = {name: _normal(name, lines) for name, lines in transcripts.artemis.items()}
        held = {name: _normal(name, lines) for name, lines in transcripts.recorded.items()}
        assert shown == held, "Artemis shows something else than when it was recorded"


@pytest.mark.parametrize("feature", FEATURES)
def test_a_client_sees_what_artemis_shows(feature: str, transcripts: Transcripts) -> None:
    wanted = _otherwise(feature, _normal(feature, transcripts.artemis[feature]))
    seen = _normal(feature, transcripts.ours.get(feature, "(not reached)"))
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "Artemis", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)


IN_JAKARTA: Final = ("texts", "selectors", "transactions", "browsers", "largeHandling", "sharedDurable")
"""The client is the same program twice; all features of both with ENTREPOT_AMQP_CLIENTS=all."""


def test_the_client_of_jakarta_sees_the_same(transcripts: Transcripts, tmp_path: Path) -> None:
    try:
        program = qpid_clients.Program(qpid_clients.JAKARTA)
    except maven.Unavailable as why:
        pytest.skip(str(why))
    chosen = FEATURES if EVERYTHING else [name for name in FEATURES if name in IN_JAKARTA]
    assert chosen
    seen = _seen(program, core_clients.own(tmp_path), chosen)
    for name in chosen:
        wanted = _otherwise(name, _normal(name, transcripts.artemis[name])).replace("javax.jms", "jakarta.jms")
        assert _normal(name, seen[name]) == wanted, name


def _otherwise(feature: str, text: str) -> str:
    """Return what Artemis shows with what is shown here on purpose; each such line must be there."""
    for line, here in OTHERWISE.get(feature, {}).items():
        assert text.count(line) == 1, f"Artemis does not show {line!r} any more"
        text = text.replace(line + "\n", "") if here is None else text.replace(line, here)
    return text


def _normal(feature: str, text: str) -> str:
    """Return what was seen without what is chance in it."""
    if feature in UNORDERED:
        return _sorted(text)
    return recorded.turned(text) if feature in TURNS else text


def _sorted(text: str) -> str:
    """Return ``text`` with its words in order, line by line."""
    return "\n".join(" ".join(sorted(re.findall(r"[^\s\[\],]+", line))) for line in text.splitlines())


def test_the_vectors_are_what_proton_j_writes(program: qpid_clients.Program) -> None:
    assert program.run("Vectors") == VECTORS.read_text()


# -- other languages, other clients ------------------------------------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ours.Entrepot]:
    made = core_clients.own(tmp_path).start().await_ready()
    yield made
    made.kill()


def _brief(text: str) -> list[str]:
    """Return what a message is and holds, without who it is."""
    kept = (
        "text ", "octets ", "entry ", "item ", "end of stream", "object ", "aString", "anInt", "aBoolean", "aDouble",
    )  # fmt: skip
    return [line.strip() for line in text.splitlines() if line.strip().startswith(kept)]


@pytest.mark.skipif(not EVERYTHING, reason="`make amqp-clients` asks for it: three programs are compiled")
def test_messages_cross_to_openwire_and_core_and_back(program: qpid_clients.Program, broker: ours.Entrepot) -> None:
    """Each kind of body and property that Qpid JMS sends, as the clients of the other two read it, and back."""
    others = {
        "org.apache.activemq.ActiveMQConnectionFactory": java_clients.Program(),
        "org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory": core_clients.Program(
            core_clients.SAME, java_clients.SOURCES / "Mapped.java"
        ),
    }
    url = qpid_clients.amqp_url(broker)
    program.run("Mapped", qpid_clients.FACTORY, url, "say", "own", "to0", "to1")
    own = _brief(program.run("Mapped", qpid_clients.FACTORY, url, "hear", "own"))
    assert len(own) > 30
    for number, (factory, other) in enumerate(others.items()):
        heard = _brief(other.run("Mapped", factory, broker.url, "hear", f"to{number}"))
        assert _alike(heard) == _alike(own), factory
        other.run("Mapped", factory, broker.url, "say", f"from{number}")
        back = _brief(program.run("Mapped", qpid_clients.FACTORY, url, "hear", f"from{number}"))
        assert len(_alike(back)) == len(_alike(own)), factory


def _alike(lines: list[str]) -> list[str]:
    """Return ``lines`` without the widths of numbers, and with a null text or object as an empty one."""
    plain = [re.sub(r"\b(Byte|Short|Integer|Long|Float|Double|Character|String) '", "'", line) for line in lines]
    return [line for line in plain if line not in ("text null", "text ", "object null", "object ''", "text ''")]


PROTON: Final = """
import sys
from proton import Message
from proton.reactor import Copy, Selector
from proton.utils import BlockingConnection
link = BlockingConnection(sys.argv[1], timeout=20, allowed_mechs="PLAIN ANONYMOUS", user="app", password="secret")
sender = link.create_sender("orders")
for number in range(5):
    sender.send(Message(body=f"hello {number}", properties={"n": number}, durable=True))
picked = link.create_receiver("orders", options=Selector("n > 2"))
for number in (3, 4):
    assert picked.receive(20).body == f"hello {number}"
    picked.accept()
picked.close()
look = link.create_receiver("orders", options=Copy())
assert [look.receive(20).body for _ in range(3)] == ["hello 0", "hello 1", "hello 2"]
look.close()
reader = link.create_receiver("orders", credit=1)
assert reader.receive(20).body == "hello 0"
reader.release(delivered=False)
seen = {}
for _ in range(3):
    again = reader.receive(20)
    seen[again.body] = again.delivery_count
    reader.accept()
assert seen == {"hello 0": 0, "hello 1": 0, "hello 2": 0}, seen
large = link.create_sender("large")
large.send(Message(body=b"x" * 3_000_000, durable=True))
large.send(Message(body="y" * 1_000_000))
whole = link.create_receiver("large")
heard = whole.receive(20)
body = bytes(heard.body)  # of a name: it is a view of what the message owns, and Proton 0.40 frees that with it
assert body == b"x" * 3_000_000, len(body)
whole.accept()
assert whole.receive(20).body == "y" * 1_000_000
whole.accept()
link.close()
print("done")
"""


GO: Final = """\
first order 0 id-0 all 0 true true
released order 1 0
failed order 1 1
selected order 5
large 700000 true
dynamic true an answer
rejected order 2, order 3, order 4
bad selector amqp:invalid-field
drained true
end
"""
"""What a real Artemis 2.42 shows as well, but for the line before the last: it answers no drain of an empty queue."""


def test_go_amqp_does_all_of_it(broker: ours.Entrepot) -> None:
    try:
        program = go_clients.program()
    except go_clients.Unavailable as why:
        pytest.skip(str(why))
    url = qpid_clients.amqp_url(broker)
    done = subprocess.run([program, url], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, GO), done.stdout + done.stderr


@pytest.mark.skipif(importlib.util.find_spec("cproton_ffi") is None, reason="Qpid Proton for Python is not here")
def test_qpid_proton_for_python_does_all_of_it(broker: ours.Entrepot) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROTON, qpid_clients.amqp_url(broker)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stdout + done.stderr
