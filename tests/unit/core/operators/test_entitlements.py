"""Who may do what, and why: what is told is what `Access` decides, and never what is kept of a password."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from entrepot.base.errors import AccessDenied, InvalidDestination, Refused
from entrepot.base.provenance import Spot
from entrepot.config.security import RuleEntry, Security, SubjectEntry, UserEntry, protect
from entrepot.config.users import parse
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.security.access import Access, Place
from entrepot.core.security.directory import User
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from kit import Rig
from steps import stepped, usual

USERS = """
user boss ops plain:manager
user app shop plain:sesame-open
user odd - plain:sesame-shut
anonymous guests
allow ops all >
allow shop send,create queue://orders.>
allow shop,guests read topic://prices.>
allow * browse queue://open
"""


def rig_of(security: Security) -> Rig:
    rig = Rig()
    protect(security, rig.broker.access)
    return rig


def guarded(text: str = USERS) -> Rig:
    return rig_of(parse(text, "etc/users.conf"))


def ask(rig: Rig, operation: str, *values: object) -> Any:
    found = control(rig.broker, Census(), "broker").call(operation, list(values))
    if not hasattr(found, "step"):
        return found
    while not found.step():
        pass
    return found.result()


def may(rig: Rig, user: str, destination: str) -> dict[tuple[str, str], dict[str, Any]]:
    rows = ask(rig, "describeRights", user, destination)["verdicts"]
    return {(row["kind"], row["right"]): row for row in rows}


def test_the_rule_that_decides_is_named_with_file_and_line() -> None:
    found = may(guarded(), "app", "queue://orders.eu")
    sends = found["queue", "send"]
    assert (sends["allowed"], sends["pattern"], sends["file"], sends["line"]) == (True, "orders.>", "etc/users.conf", 7)
    assert sends["why"] == "the rule for orders.> gives it to shop"
    reads = found["queue", "consume"]
    assert not reads["allowed"]
    assert "it is given to ops, and he is none of them" in reads["why"]
    assert not found["broker", "manage"]["allowed"]


def test_what_does_not_exist_takes_the_right_to_make_it() -> None:
    rig = guarded("user a g plain:xyzzy\nallow g send queue://orders\n")
    told = may(rig, "a", "queue://orders")["queue", "send"]
    assert not told["allowed"]
    assert told["why"].startswith("it does not exist, and he may not make it")
    rig.broker.target([Destination("orders", ANYCAST)])
    assert may(rig, "a", "queue://orders")["queue", "send"]["allowed"]


def test_where_a_name_says_no_kind_it_is_what_it_is() -> None:
    rig = guarded()
    assert {kind for kind, _ in may(rig, "app", "orders.eu")} == {"queue", "topic", "broker"}
    rig.broker.target([Destination("orders.eu", ANYCAST)])
    assert {kind for kind, _ in may(rig, "app", "orders.eu")} == {"queue", "broker"}


def test_without_rules_everybody_may_and_is_told_so() -> None:
    told = ask(Rig(), "describeRights", "anybody", "queue://a")
    assert (told["known"], told["asks"], told["guarded"]) == (False, False, False)
    assert all(row["allowed"] for row in told["verdicts"])
    assert told["verdicts"][0]["why"].startswith("there are no rules")


def test_who_is_not_known_has_what_everybody_has() -> None:
    told = ask(guarded(), "describeRights", "nobody-here", "queue://open")
    assert not told["known"]
    (browses,) = [row for row in told["verdicts"] if row["right"] == "browse"]
    assert "it does not exist" in browses["why"]
    assert not browses["allowed"]


def test_users_are_told_with_groups_and_lines_and_no_secret() -> None:
    rig = guarded()
    rig.broker.access.trust(User("node", "plain:cluster-secret", peer=True))
    told = ask(rig, "describeUsers", {})
    rows = {row["user"]: row for row in told["rows"]}
    assert list(rows) == ["boss", "app", "odd", "anonymous", "node"]
    assert (rows["app"]["groups"], rows["app"]["line"]) == (["shop"], 3)
    text = json.dumps([told, ask(rig, "describeRules", {}), ask(rig, "describeRights", "app", "a")])
    for secret in ("manager", "sesame", "plain:", "cluster-secret"):
        assert secret not in text


def test_rules_are_told_by_pattern_and_group() -> None:
    told = ask(guarded(), "describeRules", {"search": ["prices", "guests"]})
    (row,) = told["rows"]
    assert row == {
        "pattern": "prices.>", "kind": "topic", "group": "guests", "rights": ["consume", "browse", "subscribe"],
        "file": "etc/users.conf", "line": 8,
    }  # fmt: skip


def test_rules_about_temporary_destinations_are_among_them() -> None:
    temporary = RuleEntry(">", (("clerks", 16),), at=Spot("activemq.xml", 9))
    told = ask(rig_of(Security(users=(), rules=(), temporary=temporary)), "describeRules", {})
    assert [(row["pattern"], row["rights"], row["line"]) for row in told["rows"]] == [
        ("temporary destinations", ["create"], 9)
    ]
    with pytest.raises(Refused, match="rules of their own"):
        ask(Rig(), "describeRights", "a", "temp-queue://x")
    with pytest.raises(InvalidDestination):
        ask(Rig(), "describeRights", "a", "")


def test_ten_thousand_users_are_pages_in_bounded_steps() -> None:
    many = tuple(UserEntry(f"u{number:05}", "plain:x", ("g",)) for number in range(10_000))
    work = control(rig_of(Security(users=many)).broker, Census(), "broker").call("describeUsers", [{"skip": 9_990}])
    told, times = stepped(work)
    assert usual(times) < 1
    assert told["count"] == 10_000
    assert [row["user"] for row in told["rows"]][::9] == ["u09990", "u09999"]


@pytest.mark.parametrize("narrowest", [False, True])
def test_what_is_told_is_what_is_decided(narrowest: bool) -> None:
    rules = (
        RuleEntry(">", (("ops", 127),)),
        RuleEntry("a.>", (("x", 1 | 16), ("y", 2 | 4))),
        RuleEntry("a.b", (("x", 2 | 16), ("y", 1 | 2 | 8 | 16)), ANYCAST),
        RuleEntry("a.b", (("x", 1 | 2 | 8 | 16 | 32), ("*", 2)), MULTICAST),
        RuleEntry("there", (("x", 1 | 2 | 4 | 32), ("y", 4))),
    )
    people = tuple(UserEntry(name, "plain:p", (name,)) for name in ("ops", "x", "y", "z"))
    rig = rig_of(Security(users=people, rules=rules, narrowest=narrowest, anonymous=SubjectEntry("anon", ("x",))))
    rig.broker.target([Destination("there", ANYCAST)])
    seen = 0
    for name in ("a", "a.b", "a.b.c", "a.*", "a.>", "b", "there", "there::q", "ID:x"):
        for routing, word in ((ANYCAST, "queue"), (MULTICAST, "topic")):
            for user in ("ops", "x", "y", "z", "anon", "who"):
                where, _, queue = name.partition("::")
                place = Destination(where, routing, queue=queue)
                text = f"{word}://{name}"
                for (kind, right), row in may(rig, user, text).items():
                    if kind == word:
                        assert row["allowed"] == decided(rig.broker.access, user, right, place), (user, right, text)
                        seen += 1
    assert seen == 9 * 2 * 6 * 5


def decided(access: Access, user: str, right: str, place: Destination) -> bool:
    subject = access.named(user)
    topics = dict(access._topics)
    try:
        if right == "send":
            access.send(subject, [place])
        elif right in ("consume", "subscribe"):
            access.consume(subject, [place], durable=right == "subscribe")
        elif right == "browse":
            access.browse(subject, place)
        elif right == "delete":
            access.delete(subject, place)
        else:
            for name, routing in Place(access, place).made:
                access._need(subject, 16, Destination(name, routing))
            if Place(access, place).private:
                access._need(subject, 64, place)
    except AccessDenied:
        return False
    finally:
        access._topics = topics
    return True


def test_a_spot_is_no_difference() -> None:
    assert parse("user a - plain:x", "one") == parse("\n\nuser a - plain:x", str(Path("two")))
    assert hash(Spot("a", 1)) == hash(Spot("b", 2))
    assert repr(Spot("a", 1)) == repr(Spot())
