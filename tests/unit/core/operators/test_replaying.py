"""`replay`: what was sent is sent again, from the files of the journal; here from those that it still has."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError, StorageError, StorageFull
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.replaying import NEVER, Replay, moment
from entrepot.core.transactions.transaction import Transaction
from entrepot.journal.keeping import is_written
from entrepot.journal.overflow import STRETCH
from entrepot.journal.retained import Archive, Extent
from entrepot.model import address as names
from entrepot.model.message import Message
from kit import START, Rig
from staging import publish, write

SLOW = 3  # looks until octets are there


class Octets:
    """Octets that take their time, or cannot be read."""

    def __init__(self, read: Callable[[], bytes]) -> None:
        self.read = read
        self.looks = 0

    def done(self) -> bool:
        self.looks += 1
        return self.looks > SLOW

    def octets(self) -> bytes:
        assert self.looks > SLOW
        return self.read()


class Files(Archive):
    """What the simulated disk of a rig has. ``gone``: names that cannot be read any more."""

    def __init__(self, rig: Rig) -> None:
        assert rig.disk is not None
        self.disk = rig.disk
        self.rig = rig
        self.gone: list[str] = []
        self.bodies: dict[str, bytes] = {}

    def extents(self) -> list[Extent]:
        return [Extent(name, int(self.rig.wall)) for name in self.disk.names() if is_written(name)]

    def fetch(self, name: str, offset: int, length: int) -> Octets:
        def read() -> bytes:
            if name in self.gone:
                raise StorageError(f"{name} is gone")
            if name in self.bodies:
                return self.bodies[name][offset : offset + length]
            return self.disk.read(name, offset, length)

        return Octets(read)

    def report(self) -> dict[str, object]:
        return {"directory": "somewhere"}


class Shop:
    """A broker that keeps what was, and who asks it to send it again."""

    def __init__(self, **more: Any) -> None:
        self.rig = Rig(**more)
        self.census = Census()
        self.files = Files(self.rig)
        self.census.archive = self.files

    def call(self, resource: str, *given: object) -> Replay:
        work = control(self.rig.broker, self.census, resource).call("replay", list(given))
        assert isinstance(work, Replay)
        return work

    def replay(self, resource: str, *given: object) -> Replay:
        work = self.call(resource, *given)
        for _ in range(10_000):
            if work.step():
                assert work.result() is None
                self.rig.turn()
                return work
            self.rig.turn()
        raise AssertionError("it does not end")

    def taken(self, name: str) -> list[str]:
        """Return what waits in a queue, and settle it."""
        reader = self.rig.reader(name)
        found = reader.ack()
        reader.close()
        return found


def test_what_was_settled_is_sent_again_in_its_order() -> None:
    shop = Shop()
    shop.rig.send_all("orders", range(700))
    shop.rig.send("other", "no order")
    assert shop.taken("orders") == [str(number) for number in range(700)]
    work = shop.replay("broker", "orders", None, None)
    assert work.sent == 700
    assert work.report()["over"] is True
    assert shop.taken("orders") == [str(number) for number in range(700)]
    assert shop.taken("other") == ["no order"]


def test_it_is_sent_to_the_target_and_what_waits_stays() -> None:
    shop = Shop()
    shop.rig.send_all("orders", range(3))
    assert shop.replay("address.orders", "again", "").sent == 3
    assert shop.taken("again") == ["0", "1", "2"]
    assert shop.taken("orders") == ["0", "1", "2"]


def test_what_comes_while_it_runs_is_not_sent_again_and_an_earlier_replay_is() -> None:
    shop = Shop()
    shop.rig.send_all("orders", range(500))
    work = shop.call("broker", "orders", "orders", "")
    assert not work.step()
    shop.rig.send("orders", "late")
    while not work.step():
        shop.rig.turn()
    assert work.sent == 500
    assert len(shop.taken("orders")) == 1001
    assert shop.replay("broker", "orders", "orders", "").sent == 1001


def test_a_filter_and_a_time_say_what_is_meant() -> None:
    shop = Shop()
    for number in range(4):
        shop.rig.send("orders", str(number), properties={"odd": number % 2})
        shop.rig.wait(60_000)
    assert shop.replay("broker", "orders", "odd", "odd = 1").sent == 2
    assert shop.taken("odd") == ["1", "3"]
    since = moment("2023-11-14T22:14:00Z", 0)  # 40 s after the first one
    assert START < since < START + 60_000
    assert shop.replay("broker", "2023-11-14T22:14:00Z", "2023-11-14T22:15:30+00:00", "orders", "mid", "").sent == 2
    assert shop.taken("mid") == ["1", "2"]
    assert shop.replay("address.orders", "2023-11-14T22:14:00Z", None, "late", "odd = 1").sent == 2
    assert shop.replay("broker", None, "20231114000000", "orders", "none", "").sent == 0


def test_what_waits_for_its_time_is_sent_again_only_once_it_was_sent() -> None:
    shop = Shop()
    shop.rig.broker.options.scheduler = True
    shop.rig.send("orders", "fleeting", durable=False)
    shop.rig.send("orders", "planned", annotations={"AMQ_SCHEDULED_DELAY": "60000"})
    shop.rig.send("orders", "sent")
    assert shop.replay("broker", "orders", "first", "").sent == 1
    assert shop.taken("first") == ["sent"]
    shop.rig.wait(61_000)
    assert shop.replay("broker", "orders", "second", "").sent == 2
    assert shop.taken("second") == ["sent", "planned"]


def test_what_a_branch_promises_is_sent_again_only_once_it_was_sent() -> None:
    shop = Shop()
    transaction = Transaction("t")
    transaction.send(shop.rig.message("promised", "orders"), shop.rig.broker.target(names.parse("orders")))
    shop.rig.broker.branches.prepare(transaction, b"xid")
    shop.rig.turn()
    assert shop.replay("broker", "orders", "first", "").sent == 0
    shop.rig.broker.branches.commit(b"xid")
    shop.rig.turn()
    assert shop.replay("broker", "orders", "second", "").sent == 1


def test_a_dead_letter_that_was_retried_is_sent_again_once() -> None:
    shop = Shop(policies={"#": {"max_deliveries": "1"}})
    rig = shop.rig
    rig.send("Q", "x")
    reader = rig.reader("Q")
    reader.reject()
    reader.close()
    [letters] = [queue.name for queue in rig.broker.table.queues.values() if queue.count]
    assert letters != "Q"
    retry = control(rig.broker, shop.census, f"queue.{letters}").call("retryMessages", [])
    while not retry.step():  # type: ignore[attr-defined]
        pass
    rig.turn()
    assert rig.queue("Q").count == 1
    shop.replay("address.Q", "", "")
    assert sorted(rig.reader("Q").take()) == ["x", "x"], "what waits, and what was sent, once"


def test_a_copy_keeps_its_identity_and_no_duplicate_id() -> None:
    shop = Shop()
    shop.rig.send("orders", "x", identity="ID:known", duplicate=b"once")
    shop.taken("orders")
    assert shop.replay("broker", "orders", "orders", "").sent == 1
    reader = shop.rig.reader("orders")
    message: Message = reader.deliveries[0].message
    assert message.need_rare().identity == "ID:known"
    assert message.need_rare().duplicate_id == b""


def test_one_is_under_way_at_a_time() -> None:
    shop = Shop()
    shop.rig.send_all("orders", range(500))
    work = shop.call("broker", "orders", "again", "")
    work.step()
    with pytest.raises(EntrepotError, match="a replay of 'orders' is under way"):
        shop.call("address.orders", "again", "")
    while not work.step():
        shop.rig.turn()
    assert shop.call("broker", "orders", "again", "") is not work


def test_what_is_asked_for_must_make_sense() -> None:
    shop = Shop()
    shop.rig.send("orders")
    asked: list[tuple[tuple[object, ...], str]] = [
        (("orders",), "1 arguments"),
        (("yesterday", "", "orders", "", ""), "'yesterday' is no time"),
        (("orders", "again", "a b c"), "selector, character 3"),
        (("orders", "/dev\0null", ""), "null"),
        ((None, "again", ""), "give a text"),
    ]
    for given, why in asked:
        with pytest.raises(EntrepotError, match=why):
            shop.call("broker", *given)
    assert moment("", NEVER) == NEVER
    shop.census.archive = None
    for resource, values in (("broker", ["orders", "", ""]), ("address.orders", ["", ""])):
        with pytest.raises(EntrepotError, match="AMQ229239: There is no retention configured"):
            shop.call(resource, *values)


def test_a_full_disk_ends_it_and_says_how_far_it_was() -> None:
    shop = Shop()
    shop.rig.send_all("orders", range(500))
    work = shop.call("broker", "orders", "again", "")
    while work.sent == 0:
        assert not work.step()
    shop.rig.journal.tight(StorageFull("no space"))
    with pytest.raises(StorageFull, match="no space; 200 messages had been sent again"):
        any(iter(work.step, True))
    assert work.over
    assert work.report()["failure"] == "no space"
    shop.rig.journal.relieved()
    assert shop.replay("broker", "orders", "again", "").sent == 500


def test_what_cannot_be_read_is_passed_over_and_counted() -> None:
    shop = Shop(segment_bytes=1 << 14)
    for number in range(600):
        shop.rig.send("orders", str(number))
    files = [one.name for one in shop.files.extents()]
    assert len(files) > 3
    shop.files.gone.append(files[1])
    work = shop.replay("broker", "orders", "again", "")
    assert 0 < work.sent < 600
    assert work.report()["passed_over"] == [f"{files[1]} is gone"]


def send(shop: Shop, message: Message, **rare: object) -> None:
    for name, value in rare.items():
        setattr(message.need_rare(), name, value)
    target = shop.rig.broker.target(names.parse("orders"))
    message.address = target.name
    shop.rig.broker.send(message, target)


def send_large(shop: Shop, octets: bytes) -> int:
    overflow = shop.rig.journal.overflow
    blob = int(shop.rig.broker.ids.next_number())
    overflow.create(blob)
    overflow.write(blob, octets)
    length = int(overflow.seal(blob))
    send(shop, shop.rig.message("large"), large_id=blob, large_length=length, large_checked=True)
    overflow.release(blob)
    shop.rig.turn()
    return blob


def test_a_large_body_is_shared_while_it_is_there_and_copied_when_it_is_kept() -> None:
    shop = Shop()
    octets = bytes(range(256)) * 3000
    assert len(octets) > 2 * STRETCH
    blob = send_large(shop, octets)
    disk, overflow = shop.files.disk, shop.rig.journal.overflow
    assert shop.replay("broker", "orders", "again", "").sent == 1
    reader = shop.rig.reader("again")
    assert reader.deliveries[0].message.need_rare().large_id == blob
    shop.files.bodies[f"{blob}.blob"] = disk.blob_read(blob, 0, int(disk.blob_size(blob)))
    reader.ack()
    shop.taken("orders")
    assert blob not in overflow.sizes
    assert shop.replay("broker", "orders", "copied", "").sent == 1
    copied = shop.rig.reader("copied").deliveries[0].message
    assert copied.need_rare().large_id != blob
    assert overflow.whole(copied) == octets
    shop.rig.broker.check()


def test_one_that_is_left_in_the_middle_of_a_body_does_nothing_when_it_is_collected() -> None:
    """Its broker has ended, and the next one has the disk: who left it there cannot say when that is."""
    shop = Shop()
    octets = bytes(range(256)) * 3000
    blob = send_large(shop, octets)
    disk, overflow = shop.files.disk, shop.rig.journal.overflow
    shop.files.bodies[f"{blob}.blob"] = disk.blob_read(blob, 0, int(disk.blob_size(blob)))
    shop.taken("orders")
    before = dict(overflow.sizes)
    work = shop.call("broker", "orders", "again", "")
    for _ in range(1_000):
        assert not work.step()
        if overflow.sizes != before:
            break
    held = dict(overflow.sizes)
    assert held != before, "it has begun to copy"
    shop.census.replaying = None
    del work
    gc.collect()
    assert overflow.sizes == held


def test_a_body_that_is_damaged_or_gone_is_counted() -> None:
    shop = Shop()
    blob = send_large(shop, b"x" * 1000)
    shop.taken("orders")
    shop.files.gone.append(f"{blob}.blob")
    work = shop.replay("broker", "orders", "again", "")
    assert (work.sent, work.lost) == (0, 1)
    shop.files.gone.clear()
    shop.files.bodies[f"{blob}.blob"] = b"x" * 999 + b"y" + b"1234"
    work = shop.replay("broker", "orders", "again", "")
    assert (work.sent, work.lost) == (0, 1)
    assert not shop.rig.journal.overflow.sizes


def test_what_was_sent_in_a_time_and_published_behind_it_is_sent_again() -> None:
    """The files behind a time are read for publications alone, and only where something waits for one."""
    shop = Shop(segment_bytes=1 << 12)
    rig = shop.rig
    ends: dict[str, int] = {}

    def note() -> None:
        for name in shop.files.disk.names():
            ends.setdefault(name, int(rig.wall))

    rig.broker.stages.publishing.refer_least = 1
    write(rig, "a", [f"{number}" for number in range(5)], to="orders")
    staged_until = int(rig.wall)
    for number in range(60):
        rig.wait(60_000)
        note()
        rig.send("orders", f"late {number}", properties={"x": "." * 200})
    publish(rig, "a")
    rig.wait(60_000)
    note()
    assert len(ends) > 3
    shop.files.extents = lambda: [  # type: ignore[method-assign]
        Extent(name, ends.get(name, int(rig.wall))) for name in shop.files.disk.names() if is_written(name)
    ]
    until = datetime.fromtimestamp(staged_until / 1000, UTC).isoformat()
    work = shop.replay("broker", None, until, "orders", "again", "")
    assert work.sent == 5
    assert shop.taken("again") == [f"{number}" for number in range(5)]
    read = work.scan.octets
    assert shop.replay("broker", None, until, "nothing", "none", "").scan.octets < read // 2
