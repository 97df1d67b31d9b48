"""The definition of a queue: what of it may be said, and what the journal keeps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import CorruptJournal, InvalidDestination, InvalidSelector, Refused
from entrepot.core.addressing.definition import (
    NOT_OBEYED,
    QueueDefinition,
    QueueRecord,
    decode,
    durable_subscription,
    encode,
    is_older,
    subscriber,
    temporary,
)
from entrepot.core.owners import ConnectionOwner, ReaderOwner, SubscriptionOwner
from entrepot.model.address import ANYCAST, MULTICAST
from kit import Rig

TEXT = st.text(max_size=20)
OWNERS = (
    st.none()
    | st.builds(SubscriptionOwner, TEXT, TEXT, st.booleans())
    | st.builds(ConnectionOwner, TEXT)
    | st.builds(ReaderOwner, TEXT, TEXT)
)
DEFINITIONS = st.builds(
    QueueDefinition,
    name=TEXT,
    address=TEXT,
    routing=st.sampled_from([ANYCAST, MULTICAST]),
    selector=TEXT,
    durable=st.booleans(),
    temporary=st.booleans(),
    auto_created=st.booleans(),
    no_local=st.booleans(),
    owner=OWNERS,
    max_consumers=st.integers(-1, 9),
    last_value_key=TEXT,
    ring_size=st.integers(-1, 9),
)
ANOTHER: dict[type, Any] = {bool: True, int: 7, str: "x"}
FIRST = {"name": "q", "address": "a", "routing": "1", "filter": "n = 1", "owner": "", "auto": "", "paused": "1"}


@given(st.builds(QueueRecord, DEFINITIONS, st.booleans(), st.integers(-1, 1 << 62)))
def test_what_the_journal_keeps_is_read_as_it_was_written(record):
    assert decode(encode(record)) == record
    assert not is_older(encode(record))


def test_every_field_that_is_not_obeyed_is_refused_and_no_other():
    rig = Rig()
    plain = QueueDefinition(name="q", address="q")
    for field in msgspec.structs.fields(QueueDefinition):
        if field.name in NOT_OBEYED:
            other = not field.default if isinstance(field.default, bool) else ANOTHER[type(field.default)]
            with pytest.raises(Refused, match=field.name.replace("_", "-")):
                rig.broker.queues.create(msgspec.structs.replace(plain, **{field.name: other}))
    assert "q" not in rig.broker.table.queues
    assert frozenset(QueueDefinition.__struct_fields__) > NOT_OBEYED
    rig.broker.queues.create(plain)
    with pytest.raises(InvalidDestination, match="already"):
        rig.broker.queues.create(plain)


def test_a_definition_does_not_change():
    with pytest.raises(AttributeError):
        QueueDefinition(name="q", address="q").durable = False  # type: ignore[misc]


@pytest.mark.parametrize("stop", ["close", "kill", "crash"])
def test_a_definition_outlives_a_restart(stop):
    rig = Rig()
    given = QueueDefinition(
        name="q",
        address="a",
        routing=MULTICAST,
        selector="n  >  1",
        no_local=True,
        owner=SubscriptionOwner("me", "s", shared=True),
    )
    queue = rig.broker.queues.create(given)
    queue.gate.pause()
    rig.broker.queues.keep(queue)
    began = queue.began
    rig.send("elsewhere", "x")
    rig.restart(stop) if stop != "crash" else _sync_and_crash(rig)
    found = rig.queue("q")
    assert found.definition == msgspec.structs.replace(given, selector="n > 1")
    assert (found.gate.paused, found.began) == (True, began)
    assert found.filter is not None
    assert found.filter.text == "n > 1"


def _sync_and_crash(rig: Rig) -> None:
    rig.broker.ids.secure()
    rig.turn()
    rig.restart("crash")


def test_a_selector_that_is_none_makes_no_queue():
    rig = Rig()
    with pytest.raises(InvalidSelector):
        rig.broker.queues.create(QueueDefinition(name="q", address="q", selector="n >"))
    assert rig.broker.table.queues == {}


@pytest.mark.parametrize(
    ("row", "owner"),
    [
        ({}, None),
        ({"owner": "me\tsub"}, SubscriptionOwner("me", "sub")),
        ({"owner": "\tglobal"}, SubscriptionOwner("", "global")),
        ({"owner": "group\ttopic", "auto": "1"}, ReaderOwner("group", "topic")),
        ({"owner": "c-1", "routing": "0"}, ConnectionOwner("c-1")),
    ],
)
def test_the_first_layout_is_read(row, owner):
    value = msgspec.msgpack.encode({**FIRST, "no-local": "1", **row})
    assert is_older(value)
    record = decode(value)
    assert record.definition.owner == owner
    assert (record.definition.name, record.definition.address, record.definition.selector) == ("q", "a", "n = 1")
    assert (record.paused, record.began, record.definition.no_local, record.definition.durable) == (
        True,
        -1,
        True,
        True,
    )


def test_a_later_layout_is_refused():
    with pytest.raises(CorruptJournal, match="layout 3"):
        decode(b"\x03" + msgspec.msgpack.encode({}))


def test_the_kinds_of_queues_that_clients_make():
    mine = temporary("t", "c-1")
    assert (mine.durable, mine.temporary, mine.connection, mine.routing) == (False, True, "c-1", ANYCAST)
    plain = subscriber("q", "t", "n = 1")
    assert (plain.durable, plain.temporary, plain.routing, plain.subscription) == (False, True, MULTICAST, None)
    durable = durable_subscription("q", "t", "", SubscriptionOwner("me", "s"), no_local=True)
    assert (durable.durable, durable.auto_created, durable.no_local, durable.routing) == (True, False, True, MULTICAST)
    assert durable_subscription("q", "t", "", ReaderOwner("g", "t")).auto_created


def test_who_a_queue_belongs_to():
    plain = QueueDefinition(name="q", address="q")
    assert (plain.connection, plain.subscription, plain.made_for_reader) == ("", None, False)
    mine = QueueDefinition(name="q", address="q", owner=ConnectionOwner("c-1"))
    assert (mine.connection, mine.subscription) == ("c-1", None)
    durable = QueueDefinition(name="q", address="q", owner=SubscriptionOwner("me", "s"))
    assert (durable.connection, durable.subscription, durable.made_for_reader) == ("", ("me", "s"), False)
    reader = QueueDefinition(name="q", address="q", owner=ReaderOwner("g", "t"))
    assert (reader.subscription, reader.made_for_reader) == (("g", "t"), True)
