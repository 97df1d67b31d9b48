"""Data directories of older versions (``tests/vectors/journals``): how they are made, and what a recovery must find.

In a checkout of a version, this writes the directory of that version::

    PYTHONPATH=src:tests python tests/older_journals.py tests/vectors/journals/NAME

It gets the data directory, as ``data``, with one of everything that a journal keeps, and ``expected.json``, which says
what that version's own recovery finds in it. The broker is killed, not stopped: the journal has no seal at its end.
The words of ``expected.json`` stay the same from version to version; `described` says them in this one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.effort import Rest
from entrepot.core.owners import ConnectionOwner, ReaderOwner, SubscriptionOwner
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.copies import Sender, hash_of, mark_of
from entrepot.core.transactions.transaction import Transaction
from entrepot.model import address as names
from entrepot.model.address import MULTICAST
from entrepot.simulation.disk import SimulatedDisk
from kit import Rig

HOUR = 3_600_000
PROPERTIES = ("name", "address", "routing", "durable", "temporary", "auto_created", "no_local")


def queues(rig: Rig) -> None:
    """Make every kind of queue, each with two messages or none."""
    broker = rig.broker
    broker.queues.create(QueueDefinition(name="made", address="made"))
    broker.queues.create(QueueDefinition(name="filtered", address="shared.address", selector="n > 1"))
    broker.queues.create(QueueDefinition(name="other", address="shared.address", routing=MULTICAST))
    broker.queues.create(QueueDefinition(name="memory", address="memory", durable=False))
    broker.queues.create(
        QueueDefinition(name="ID:t:1", address="ID:t:1", durable=False, temporary=True, owner=ConnectionOwner("c-1"))
    )
    rig.send("auto", "a1", priority=7)
    rig.send("auto", "a2", ttl=10 * HOUR, properties={"n": 2}, group="g", seq=3)
    rig.send("made", "m1", annotations={"JMSXUserID": "somebody"}, identity="ID:elsewhere-1:2")
    rig.send("queue://shared.address", "f1", properties={"n": 1})
    rig.send("queue://shared.address", "f2", properties={"n": 2})
    rig.send("topic://shared.address", "o1")
    rig.send("queue://halted", "h1")
    rig.queue("halted").gate.pause()
    broker.queues.keep(rig.queue("halted"))
    gone = rig.send("queue://gone", "gone")
    assert gone == 0
    broker.queues.delete(rig.queue("gone"), "the fixture wants it so")
    rig.turn()


def subscriptions(rig: Rig) -> None:
    """Make durable subscriptions: plain, with selector and no-local, shared, without client id, to a wildcard."""
    rig.reader("topic://news", client_id="me", durable_name="plain").close()
    mine = rig.reader("topic://news", client_id="me", durable_name="mine", selector="n = 1", no_local=True, origin=5)
    mine.close()
    rig.reader("topic://news", client_id="a.b\\c", durable_name="x.y", shared=True).close()
    rig.reader("topic://news", durable_name="global", shared=True).close()
    rig.reader("topic://news.>", client_id="me", durable_name="wild").close()
    rig.send("topic://news", "n1", properties={"n": 1})
    rig.send("topic://news", "n2", properties={"n": 2})
    reader = rig.reader("topic://news", client_id="me", durable_name="plain", prefetch=1)
    reader.give_back()  # a redelivery count in the journal
    reader.close()


def leases(rig: Rig) -> None:
    """Make a lease on a queue, one on a named subscription, one on a subscription made for its reader."""
    found = rig.broker.leases
    rig.send_all("leased", ["l1", "l2", "l3", "l4"])
    lease = found.need(names.parse_one("leased"), "spark", create=True)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 3)
    lease.settle(rig.journal, epoch, 1)
    named = found.subscribe("news", "export", "spark", "", selector_or_none("n = 2"))
    found.need(named, "exporters", create=True).attach(rig.journal, None)
    own = found.subscribe("news", "", "", "loners", None)
    lease = found.need(own, "loners", create=True)
    epoch = lease.attach(rig.journal, selector_or_none("n > 0"))
    rig.send("topic://news", "n3", properties={"n": 3})
    lease.claim(rig.journal, epoch, 0, 1)
    rig.turn()


def transactions(rig: Rig) -> None:
    """Prepare a branch that sends and settles; leave one that does neither."""
    broker = rig.broker
    rig.send_all("paid", ["p1", "p2", "p3"])
    reader = rig.reader("paid", 2)
    transaction = Transaction("xa-1")
    transaction.send(rig.message("sent by the branch", "sent"), broker.target(names.parse("sent")))
    transaction.settle(reader.open[0].consumer, reader.open[0].number)
    reader.open.pop(0)
    broker.branches.prepare(transaction, b"\x01\x02branch", "banker")
    broker.branches.prepare(Transaction("xa-2"), b"\x01\x03empty")
    rig.turn()
    reader.close()


def memories(rig: Rig) -> None:
    """Leave duplicate ids, sequences of producers, marks of copies, and what is scheduled."""
    rig.send("dup", "d1", duplicate=b"id-1")
    rig.send("dup", "d2", duplicate=b"id-2")
    rig.broker.sequences.note("ID:producer:1", 41, durable=True)
    rig.broker.sequences.note("ID:producer:1", 42, durable=True)
    rig.journal.begin()
    stream = rig.broker.copies.stream("west-1", "auto")
    for number in (7, 8):
        mark = mark_of(stream.queue, hash_of(f"ID:x:{number}"), number, number - 6)
        rig.broker.copies.note(stream, number, mark, durable=True)
    rig.journal.end()
    rig.send("later", "s1", annotations={"AMQ_SCHEDULED_DELAY": 5 * HOUR})
    rig.send("topic://news", "s2", annotations={"AMQ_SCHEDULED_CRON": "0 * * * *", "AMQ_SCHEDULED_REPEAT": 2})
    rig.broker.queues.need(names.parse_one("later"))


def stages(rig: Rig) -> None:
    """Publish one batch, decide another, close parts of a third."""
    found = rig.broker.stages

    def close(batch: int, part: str, bodies: list[str]) -> None:
        stage = found.open("sink", batch, part)
        target = rig.broker.target(names.parse("staged"))
        for body in bodies:
            found.send(stage, rig.message(body, target.name), target)
        found.close(stage)
        rig.turn()

    found.publishing.refer_least = 1  # by one record, which says what number and queue it has
    found.admit("sink", "spark")
    close(0, "a", ["b0"])
    found.publish("sink", 0, ["a"])
    rig.sync()
    close(1, "a", ["b1a1", "b1a2"])
    close(1, "b", ["b1b1"])
    found.decide("sink", 1, ["a"])
    rig.sync()


def large(rig: Rig) -> None:
    """Store a message whose body is a file of its own."""
    blob = int(rig.broker.ids.next_number())
    overflow = rig.journal.overflow
    overflow.create(blob)
    overflow.write(blob, b"a large body " * 100)
    overflow.seal(blob)
    message = rig.message("", "bulky")
    rare = message.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = blob, 1300, True
    rig.broker.send(message, rig.broker.target(names.parse("bulky")))
    overflow.release(blob)
    rig.turn()


class Nobody(Rest):
    """Who asks for a commit, and does not wait for it."""

    def resume(self) -> None:
        pass


def commits(rig: Rig) -> None:
    """Commit in parts: once to the end, and once until the machine stops, with somebody else's message between."""
    effort = rig.broker.effort
    units, stride = effort.units, effort.stride
    effort.units, effort.stride = 10, 5
    for name in ("whole", "half"):
        transaction = Transaction(name)
        target = rig.broker.target(names.parse(name))
        for number in range(12):
            transaction.send(rig.message(f"{name}{number}", name), target)
        rig.broker.tick(rig.now, rig.wall)
        rig.broker.transactions.commit(transaction, Nobody())
        rig.send(name, f"beside {name}")
        rig.sync()
        for _ in range(20 if name == "whole" else 2):
            rig.now += 1000
            rig.broker.tick(rig.now, rig.wall)
            effort.go_on()
            rig.sync()
    effort.units, effort.stride = units, stride


def described(rig: Rig) -> dict[str, Any]:
    """Say all that a broker has after its recovery, in the words of this version."""
    broker = rig.broker
    return {
        "node": broker.ids.node_id,
        "queues": [_queue(rig, name) for name in sorted(broker.table.queues)],
        "leases": sorted(_lease(broker, queue, group) for queue, group in broker.leases.held),
        "branches": [
            {
                "key": key.hex(),
                "name": branch.transaction.name,
                "user": branch.user,
                "sends": [[number, text] for number, text in branch.recovered],
                "holds": [[hold.queue.name, hold.number] for hold in branch.holds],
            }
            for key, branch in sorted(broker.branches.prepared.items())
        ],
        "duplicates": {
            name: [each.hex() for each in one.ids] for name, one in broker.sending.duplicates.addresses.items()
        },
        "sequences": {name: int(last) for name, last in broker.sequences.last.items()},
        "copies": {name: _marks(one) for name, one in broker.copies.senders.items()},
        "scheduled": sorted(int(number) for number in broker.scheduled.schedules),
        "stages": sorted([one.sink, one.batch, one.part, int(one.count)] for one in broker.stages.of("sink")),
        "decided": broker.stages.decide("sink", 1, ["b"]),
        "sinks": {name: sink.owner for name, sink in broker.stages.ledger.sinks.items()},
    }


def _marks(sender: Sender) -> list[int]:
    sender.has(0)  # makes them known
    return sorted([*sender.known, *sender.former])


def _queue(rig: Rig, name: str) -> dict[str, Any]:
    queue = rig.queue(name)
    made: dict[str, Any] = {each: getattr(queue.definition, each) for each in PROPERTIES}
    made["paused"] = queue.gate.paused
    made["identity"] = int(queue.identity)
    made["owner"] = _owner(queue)
    made["filter"] = queue.definition.selector
    assert made["filter"] == ("" if queue.filter is None else queue.filter.text)
    made["began"] = int(queue.began)
    made["attempts"] = {str(number): int(count) for number, count in queue.stock.attempts.items()}
    made["messages"] = [
        {
            "number": int(message.number),
            "raw": message.raw.decode(),
            "address": message.address,
            "priority": int(message.priority),
            "expiration": int(message.expiration),
            "rare": None if message.rare is None else _rare(message.rare),
        }
        for message in (rig.journal.reading.load(reference.message.number) for reference in _walked(queue))
    ]
    made["count"] = int(queue.count)
    return made


def _walked(queue: Queue) -> list[Reference]:
    walk = queue.stock.walk()
    found: list[Reference] = []
    while not walk.done:
        found += walk.step(100)
    return found


def _owner(queue: Queue) -> list[str]:
    owner = queue.definition.owner
    if isinstance(owner, SubscriptionOwner):
        return ["subscription", owner.client_id, owner.name]
    if isinstance(owner, ReaderOwner):
        return ["reader", owner.group, owner.topic]
    return [] if owner is None else ["connection", owner.connection]


def _rare(rare: Any) -> dict[str, Any]:
    return {
        "group": rare.group,
        "group_sequence": int(rare.group_sequence),
        "duplicate_id": rare.duplicate_id.hex(),
        "identity": rare.identity,
        "large_length": int(rare.large_length),
        "annotations": dict(rare.annotations),
    }


def _lease(broker: BrokerCore, queue: str, group: str) -> list[Any]:
    lease = broker.leases.held[(queue, group)]
    selector = "" if lease.selector is None else lease.selector.text
    numbers = [lease.numbers[position] for position in range(lease.base, lease.tail)]
    return [queue, group, lease.epoch, lease.base, lease.tail, selector, numbers]


def write(disk: SimulatedDisk, directory: Path) -> None:
    """Write what the simulated disk has into real files."""
    (directory / "journal").mkdir(parents=True)
    (directory / "blobs").mkdir()
    for name, content in disk.medium.durable.items():
        folder = "journal" if name.endswith(".seg") else "blobs"
        (directory / folder / name).write_bytes(bytes(content))


def main(directory: Path) -> None:
    rig = Rig()
    for make in (queues, subscriptions, leases, transactions, memories, stages, large, commits):
        make(rig)
        rig.sync()
    assert rig.disk is not None
    rig.journal.flush()
    rig.disk.stop()
    write(rig.disk, directory / "data")
    rig.restart("kill")
    (directory / "expected.json").write_text(json.dumps(described(rig), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
