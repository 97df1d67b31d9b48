"""What a subject may do to which destination."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import AccessDenied, UserUnknown
from entrepot.base.patterns import MIXED, matches
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.management import install
from entrepot.core.security.access import (
    ADMIN,
    CONSUME,
    CREATE,
    EVERYBODY,
    EVERYTHING,
    MANAGE,
    READ,
    RIGHTS,
    SEND,
    SUBSCRIBE,
    WRITE,
    Access,
    Rule,
)
from entrepot.core.security.directory import Directory, Subject, User
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination, parse, parse_one
from kit import Rig, admitted

SHOP = Subject("app", ["shop"])
BOSS = Subject("boss", ["admins"])


def guarded(*rules: Rule, temporary: Rule | None = None, rig: Rig | None = None) -> Access:
    rig = rig or Rig(disk=False)
    install(rig.broker)
    rig.broker.access.protect(None, [Rule(">", UNTYPED, {"admins": EVERYTHING}), *rules], temporary)
    return rig.broker.access


def rule(pattern: str, rights: int, group: str = "shop") -> Rule:
    place = parse_one(pattern)
    return Rule(place.name, place.routing, {group: rights})


def may(access: Access, verb: str, where: str, subject: Subject = SHOP, durable: bool = False) -> str:
    """Return "" or what the refusal says behind the user's name."""
    places = parse(where)
    try:
        if verb == "consume":
            access.consume(subject, places, durable)
        elif verb == "send":
            access.send(subject, places)
        else:
            getattr(access, verb)(subject, places[0])
    except AccessDenied as refusal:
        return refusal.message.removeprefix(f"User {subject.name} is not authorized to ")
    return ""


def test_without_rules_everybody_may_do_everything() -> None:
    access = Rig(disk=False).broker.access
    assert admitted(access, "whoever", "whatever").name == "whoever"
    assert admitted(access, None, None).name == ""
    for verb in ("send", "consume", "browse", "create", "delete"):
        assert may(access, verb, "queue://a") == ""
    assert not access.guarded


def test_users_without_rules_may_do_everything_once_they_are_in() -> None:
    access = Rig(disk=False).broker.access
    access.protect(Directory([User("app", "plain:secret")]))
    with pytest.raises(UserUnknown):
        admitted(access, "app", "wrong")
    assert may(access, "send", "queue://a", admitted(access, "app", "secret")) == ""


@pytest.mark.parametrize(
    ("verb", "right", "says"),
    [
        ("send", SEND, "write to: queue://a.b"),
        ("consume", CONSUME, "read from: queue://a.b"),
        ("browse", RIGHTS["browse"], "read from: queue://a.b"),
        ("delete", RIGHTS["delete"], "remove: queue://a.b"),
    ],
)
def test_each_verb_takes_its_right(verb: str, right: int, says: str) -> None:
    rig = Rig(disk=False)
    rig.broker.queues.create(QueueDefinition(name="a.b", address="a.b"))
    assert may(guarded(rule("queue://a.*", right), rig=rig), verb, "queue://a.b") == ""
    assert may(guarded(rule("queue://a.*", EVERYTHING & ~right), rig=rig), verb, "queue://a.b") == says
    assert may(guarded(rule("topic://a.*", EVERYTHING), rig=rig), verb, "queue://a.b") == says
    assert may(guarded(rig=rig), verb, "queue://a.b", BOSS) == ""


def test_what_is_not_there_yet_takes_the_right_to_make_it() -> None:
    rig = Rig(disk=False)
    access = guarded(rule("queue://a.>", READ | WRITE), rule("topic://a.>", READ | WRITE), rig=rig)
    for where in ("queue://a.b", "topic://a.b"):
        assert may(access, "send", where) == f"create: {where}"
        assert may(access, "consume", where) == f"create: {where}"
        assert may(access, "send", where, BOSS) == ""  # a topic exists from then on
    assert may(access, "send", "topic://a.b") == ""
    rig.broker.queues.create(QueueDefinition(name="a.b", address="a.b"))
    assert may(access, "send", "queue://a.b") == ""


def test_advisory_topics_are_there_without_being_made() -> None:
    access = guarded(rule("topic://ActiveMQ.Advisory.>", READ))
    assert may(access, "consume", "topic://ActiveMQ.Advisory.Queue") == ""
    assert may(access, "send", "topic://ActiveMQ.Advisory.Queue") == "write to: topic://ActiveMQ.Advisory.Queue"


def test_rules_add_up_and_a_star_is_everybody() -> None:
    access = guarded(rule("queue://a.>", READ), rule("queue://a.b", WRITE, EVERYBODY), rule("queue://>", CREATE))
    assert may(access, "consume", "queue://a.b") == ""
    assert may(access, "send", "queue://a.b") == ""
    assert may(access, "send", "queue://a.c") == "write to: queue://a.c"
    assert may(access, "consume", "queue://a.b", Subject("x")) == "read from: queue://a.b"


def test_every_part_of_a_composite_must_be_permitted() -> None:
    access = guarded(rule("queue://a", EVERYTHING))
    with pytest.raises(AccessDenied, match=r"write to: a,b$"):
        access.send(SHOP, parse("queue://a,queue://b"), "a,b")
    access.send(SHOP, parse("queue://a"))


def test_a_wildcard_needs_a_rule_as_wide() -> None:
    access = guarded(rule("queue://a.b", READ), rule("queue://c.>", READ), rule("topic://d.*", READ))
    assert may(access, "consume", "queue://a.*") == "read from: queue://a.*"
    assert may(access, "consume", "queue://>") == "read from: queue://>"
    assert may(access, "consume", "queue://c.*") == ""
    assert may(access, "consume", "queue://c.>") == ""
    assert may(access, "consume", "topic://d.*") == ""
    assert may(access, "consume", "topic://d.>") == "read from: topic://d.>"
    assert may(access, "consume", "queue://>", BOSS) == ""


def test_a_queue_by_another_name_is_still_the_same_queue() -> None:
    rig = Rig(disk=False)
    rig.broker.queues.create(QueueDefinition(name="hidden", address="secret"))
    rig.broker.queues.create(QueueDefinition(name="news#1", address="news", routing=MULTICAST, durable=False))
    access = guarded(rule("queue://mine", EVERYTHING), rule("queue://news#1", EVERYTHING), rig=rig)
    assert may(access, "consume", "queue://mine::hidden").startswith("read from")
    assert may(access, "send", "queue://mine::hidden").startswith("write to")
    assert may(access, "consume", "queue://hidden").startswith("read from")
    assert may(access, "consume", "queue://news#1").startswith("read from")
    both = guarded(rule("queue://mine", EVERYTHING), rule("queue://secret", EVERYTHING), rig=rig)
    assert may(both, "consume", "queue://mine::hidden") == ""


def test_somebody_elses_temporary_queue_is_for_managers() -> None:
    rig = Rig(disk=False)
    rig.broker.queues.create(QueueDefinition(name="ID:h-1:1", address="ID:h-1:1", durable=False, temporary=True))
    access = guarded(rule("queue://>", EVERYTHING & ~MANAGE), rule("topic://>", EVERYTHING & ~MANAGE), rig=rig)
    assert may(access, "consume", "queue://ID:h-1:1") == "manage: queue://ID:h-1:1"
    assert may(access, "consume", "topic://ID:h-1:1") == "manage: topic://ID:h-1:1"
    assert may(access, "browse", "queue://ID:h-1:1", BOSS) == ""


def test_temporary_destinations_are_for_all_unless_a_rule_says_for_whom() -> None:
    place = "temp-queue://ID:mine"
    assert may(guarded(), "create", place) == ""
    limited = guarded(temporary=Rule(">", UNTYPED, {"shop": READ | ADMIN}))
    assert may(limited, "create", place) == ""
    assert may(limited, "consume", place) == ""
    assert may(limited, "send", place) == "write to: temp-queue://ID:mine"
    assert may(limited, "create", place, Subject("x")) == "create: temp-queue://ID:mine"


def test_calling_a_destination_temporary_does_not_make_it_so() -> None:
    rig = Rig(disk=False)
    rig.broker.queues.create(QueueDefinition(name="secret", address="secret"))
    rig.broker.queues.create(QueueDefinition(name="ID:kept", address="ID:kept"))
    access = guarded(rig=rig)
    for place in (
        Destination("secret", ANYCAST, True),
        Destination("ID:mine", ANYCAST, True, "secret"),
        Destination("ID:kept", ANYCAST, True),
        Destination("secret:news", MULTICAST, True),
    ):
        with pytest.raises(AccessDenied):
            access.send(SHOP, [place])
        with pytest.raises(AccessDenied):
            access.consume(SHOP, [place], False)


def test_managing_takes_the_right_to_manage() -> None:
    where = "queue://activemq.management"
    assert may(guarded(rule("queue://>", READ | WRITE | CREATE)), "send", where) == f"manage: {where}"
    assert may(guarded(rule("queue://>", ADMIN)), "send", where) == ""
    assert may(guarded(rule(where, MANAGE)), "send", where) == ""


def test_durable_subscriptions_take_a_right_of_their_own() -> None:
    rig = Rig(disk=False)
    rig.broker.table.address("news").created_by_operator = True
    assert may(guarded(rule("topic://news", CONSUME), rig=rig), "consume", "topic://news") == ""
    assert may(guarded(rule("topic://news", CONSUME), rig=rig), "consume", "topic://news", durable=True) != ""
    access = guarded(rule("topic://news", CONSUME | SUBSCRIBE), rig=rig)
    assert may(access, "consume", "topic://news", durable=True) == ""
    queue = rig.broker.queues.create(QueueDefinition(name="me.sub", address="other", routing=MULTICAST))
    with pytest.raises(AccessDenied):
        access.forget(SHOP, queue)
    access.forget(BOSS, queue)
    access.forget(SHOP, None)


NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "*", ">"]), min_size=1, max_size=3).map(".".join)


@given(
    rules=st.lists(st.tuples(PATTERNS, st.sampled_from([ANYCAST, MULTICAST, UNTYPED]), st.booleans()), max_size=4),
    pattern=PATTERNS,
    name=NAMES,
    routing=st.sampled_from([ANYCAST, MULTICAST]),
)
def test_who_may_read_a_wildcard_may_read_all_that_it_covers(
    rules: list[tuple[str, int, bool]], pattern: str, name: str, routing: int
) -> None:
    rig = Rig(disk=False)
    given_rules = [Rule(text, kind, {"shop" if ours else "others": EVERYTHING}) for text, kind, ours in rules]
    rig.broker.access.protect(None, given_rules)

    def reads(text: str) -> bool:
        try:
            rig.broker.access.consume(SHOP, [Destination(text, routing)], False)
        except AccessDenied:
            return False
        return True

    expected = any(ours and kind in (UNTYPED, routing) and matches(text, name, MIXED) for text, kind, ours in rules)
    assert reads(name) == expected
    if reads(pattern) and matches(pattern, name, MIXED):
        assert reads(name)


def test_the_nodes_of_a_cluster_may_do_everything_and_nobody_else_comes_in_under_their_name() -> None:
    rig = Rig(disk=False)
    access = rig.broker.access
    access.protect(Directory([User("app", "plain:secret", ["shop"])]), [rule("queue://a", SEND)])
    access.trust(User("cluster", "plain:right", peer=True))
    node = admitted(access, "cluster", "right")
    for verb in ("send", "consume", "create", "delete"):
        assert may(access, verb, "queue://b", node) == ""
    for password in ("wrong", "", None):
        with pytest.raises(UserUnknown):
            admitted(access, "cluster", password)
    assert may(access, "consume", "queue://a", admitted(access, "app", "secret")) != ""


def test_answers_about_rights_are_counted() -> None:
    access = guarded(rule("queue://mine", SEND | CREATE))
    access.send(SHOP, parse("queue://mine"))
    access.send(BOSS, parse("queue://mine,queue://other"))
    with pytest.raises(AccessDenied):
        access.send(SHOP, parse("queue://other"))
    assert (access.counts.allowed, access.counts.denied) == (6, 1), "to send, and to make it"


def test_who_comes_in_is_counted_where_somebody_is_asked_who_he_is() -> None:
    access = guarded()
    access.counts.login(True)
    assert (access.counts.admitted, access.counts.turned_away) == (0, 0), "everybody comes in"
    access.protect(Directory([]))
    access.counts.login(True)
    access.counts.login(False)
    access.counts.login(False)
    assert (access.counts.admitted, access.counts.turned_away) == (1, 2)
