"""What a message is over a cluster link: its id, whether and how often it was delivered, beside two real Artemis.

The same program at two nodes of a cluster, both Artemis, then with ours; what it sees is compared. Of ids it is whether
the other node shows the one that the first showed, and for what was sent over OpenWire alone: a message of CORE without
a user id has none that Artemis keeps (`docs/decided.md`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import artemis
import pytest
from test_clusters import pair

from entrepot import Acknowledge, Message, blocking

LANGUAGES: Final = ("core", "tcp")
COUNT: Final = 3
PATIENCE_S: Final = 60.0

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")


def shown(message: Message) -> tuple[object, ...]:
    """Return what is compared; an id is one where the message was sent."""
    said = {name: value for name, value in sorted(message.properties.items()) if not name.startswith("__")}
    told = (message.redelivered, int(message.delivery_count), str(message.destination))
    return (message.body, bool(message.message_id), *told, said)


def moved(urls: list[str], sends: str, reads: str) -> list[tuple[object, ...]]:
    """Send at the first node in one language, fail once there, and read what moves to the second in another one."""
    name = f"moved.{sends}.{reads}"
    ids: set[str] = set()
    near, far = (url.replace("core://", f"{language}://") for url, language in zip(urls, (sends, reads), strict=True))
    seen: list[tuple[object, ...]] = []
    with blocking.connect(near) as connection:
        producer = connection.session().producer(f"queue://{name}")
        for number in range(COUNT):
            producer.send(str(number), properties={"number": number})
        with connection.session(Acknowledge.TRANSACTED) as session:
            consumer = session.consumer(f"queue://{name}")
            first = consumer.receive(timeout=PATIENCE_S)
            assert first is not None
            seen.append(("near", *shown(first)))
            ids.add(first.message_id)
            session.rollback()
            again = consumer.receive(timeout=PATIENCE_S)
            assert again is not None
            seen.append(("near", *shown(again)))
            session.rollback()
    with blocking.connect(far) as connection:
        consumer = connection.session().consumer(f"queue://{name}")
        until = time.monotonic() + PATIENCE_S
        found: list[tuple[object, ...]] = []
        while len(found) < COUNT and time.monotonic() < until:
            message = consumer.receive(timeout=1)
            if message is not None:
                kept = sends == reads == "tcp" and message.body == "0" and message.message_id in ids
                found.append(("far", kept, *shown(message)))
    return seen + sorted(found, key=str)


def told(home: Path, kinds: tuple[str, str]) -> list[str]:
    with pair(home, kinds) as (_, urls):
        return [
            f"{sends} to {reads}: {one}"
            for sends in LANGUAGES
            for reads in LANGUAGES
            for one in moved(urls, sends, reads)
        ]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what the program says between two Artemis."""
    return told(tmp_path_factory.mktemp("real"), ("artemis", "artemis"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", [("ours", "ours"), ("ours", "artemis"), ("artemis", "ours")], ids="-".join)
def test_a_message_is_over_a_link_what_it_is_between_two_artemis(
    tmp_path: Path, kinds: tuple[str, str], real: list[str]
) -> None:
    mine = told(tmp_path / "mine", kinds)
    print("artemis", *real, "", "-".join(kinds), *mine, sep="\n")
    assert mine == real
