"""What the journal let go of, kept and sent again, beside a real Artemis with the same file: `replay`.

The same deeds at both; what arrives, and which refusals, is compared.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import artemis
import pytest
from managing import Broker, Manager
from ours import like_artemis

from entrepot import Message

RETAINED: Final = (
    '<journal-retention-directory unit="DAYS" period="7" storage-limit="1G">{home}/retained'
    "</journal-retention-directory>"
)
ADDRESSES: Final = (
    '<address name="orders"><anycast><queue name="orders"/></anycast></address>'
    '<address name="other"><anycast><queue name="other"/></anycast></address>'
    '<address name="news"><multicast><queue name="first"/><queue name="second"/></multicast></address>'
)
FILLS: Final = 40  # messages of 100 KB: segments of 1 MiB have to go
LARGE: Final = 700_000
PATIENCE_S: Final = 15.0

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=artemis.unavailable())


class Deeds:
    """What is done at one broker. ``seen``: what came of it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.seen: list[Any] = []
        self.start()

    def start(self) -> None:
        self.broker.start().await_ready()
        self.manager = Manager(self.broker)

    def send(self, address: str, body: str, *, persistent: bool = True, topic: bool = False, **named: Any) -> None:
        kind = "topic" if topic else "queue"
        producer = self.manager.session.producer(f"{kind}://{address}")
        producer.send(body, persistent=persistent, properties=named)
        producer.close()

    def take(self, queue: str, *, address: str = "") -> list[tuple[str, object, object]]:
        """Take all that a queue has: what each says, how long it is, its property, and what it is called."""
        where = f"topic://{address}::{queue}" if address else f"queue://{queue}"
        consumer = self.manager.session.consumer(where)
        found: list[tuple[str, object, object]] = []
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            message: Message | None = consumer.receive(timeout=1)
            if message is None:
                break
            body = str(message.body)
            found.append((f"{body[:12]}+{len(body)}", message.properties.get("kind"), bool(message.message_id)))
        consumer.close()
        return found

    def take_one(self, queue: str) -> None:
        consumer = self.manager.session.consumer(f"queue://{queue}")
        assert consumer.receive(timeout=PATIENCE_S) is not None
        consumer.close()

    def replay(self, resource: str, *given: object) -> None:
        try:
            self.seen.append(("answer", self.manager.ask(resource, "replay", *given)))
        except RuntimeError as refusal:
            self.seen.append(("refused", str(refusal)[:9]))

    def comes(self, queue: str, *, address: str = "") -> None:
        self.seen.append((queue, sorted(self.take(queue, address=address), key=str)))


def both(tmp_path: Path, deeds: Any, core: str = RETAINED) -> list[Any]:
    """Return what comes of ``deeds`` at this broker, which is what comes of them at a real Artemis."""
    home = tmp_path / "real"
    real = artemis.Artemis(home, name="ref", core=core.format(home=home), addresses=ADDRESSES)
    mine = like_artemis(tmp_path / "ours", real)
    seen: list[Any] = []
    for broker in (real, mine):
        try:
            one = Deeds(broker)
            deeds(one)
            one.manager.close()
            seen.append(one.seen)
        finally:
            broker.kill()
    assert seen[1] == seen[0]
    return list(seen[1])


def settled_ones(one: Deeds) -> None:
    for number in range(4):
        one.send("orders", f"order {number}", kind="even" if number % 2 == 0 else "odd")
    one.send("orders", "fleeting", persistent=False)
    one.send("orders", "L" * LARGE, kind="large")
    one.send("other", "nobody's")
    one.send("news", "said to all", topic=True)
    one.comes("orders")
    one.comes("other")
    one.comes("first", address="news")
    one.comes("second", address="news")
    for _ in range(FILLS):  # until no segment that had any of it is left
        one.send("other", "F" * 99_000)
        one.take_one("other")
    one.replay("broker", "orders", "orders", "kind = 'odd'")
    one.comes("orders")
    one.replay("broker", "orders", "other", None)
    one.comes("other")
    one.comes("orders")
    one.replay("address.news", None, None)
    one.comes("first", address="news")
    one.comes("second", address="news")


def test_what_was_settled_is_sent_again_as_an_artemis_does_it(tmp_path: Path) -> None:
    seen = both(tmp_path, settled_ones)
    print(*seen, sep="\n")
    assert ("orders", [("order 1+7", "odd", True), ("order 3+7", "odd", True)]) in seen
    whole = [one for one in seen if one[0] == "other"][-1][1]
    assert ("LLLLLLLLLLLL+700000", "large", True) in whole
    assert not any("fleeting" in str(one[0]) for one in whole)
