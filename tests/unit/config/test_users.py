"""The users file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.config.security import RuleEntry, SubjectEntry, UserEntry
from entrepot.config.users import added, parse, removed
from entrepot.core.security.access import CONSUME, EVERYTHING, READ, SEND
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED

EXAMPLE = """\
# who may come in
user       alice   ops,shop  plain:a:b#c     # the boss
user       bob     -         plain:secret
anonymous  guests

allow      ops        all           >
allow      shop,ops   send,consume  queue://orders.>
allow      *          read          topic://news.>
"""


def test_every_line_says_one_thing() -> None:
    found = parse(EXAMPLE)
    assert found.users == (UserEntry("alice", "plain:a:b#c", ("ops", "shop")), UserEntry("bob", "plain:secret"))
    assert found.anonymous == SubjectEntry("anonymous", ("guests",))
    assert found.stranger is None
    assert found.rules is not None
    assert found.rules[:3] == (
        RuleEntry(">", (("ops", EVERYTHING),), UNTYPED),
        RuleEntry("orders.>", (("shop", SEND | CONSUME), ("ops", SEND | CONSUME)), ANYCAST),
        RuleEntry("news.>", (("*", READ),), MULTICAST),
    )
    assert [rule.pattern for rule in found.rules[3:]] == ["ActiveMQ.Advisory.TempQueue", "ActiveMQ.Advisory.TempTopic"]


def test_without_rules_who_is_in_may_do_everything_and_without_users_nobody_is() -> None:
    assert parse("user a - plain:x\n").rules is None
    assert parse("# nobody\n\n").users == ()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("usr alice - plain:x", "begins with 'usr'"),
        ("user alice plain:x", "has 3 words"),
        ("user alice ops plain:hidden words", "has 5 words"),
        ("user alice - hidden", "form that is not known"),
        ("user bob - plain:x", "is there already"),
        ("user * - plain:x", "cannot be the name"),
        ("user a,b - plain:x", "cannot be the name"),
        ("user carol a,,b plain:x", "cannot be the name of a group"),
        ("anonymous a\nanonymous b", "two lines"),
        ("allow ops fly >", "there is no right 'fly'"),
        ("allow ops all temp-queue://a", "rights cannot be given on"),
        ("allow ops all a::b", "rights cannot be given on"),
        ("allow ops all a,b", "names several destinations"),
        ("allow ops all queue://", "empty name"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(line: str, says: str) -> None:
    with pytest.raises(InvalidConfiguration, match=says) as caught:
        parse("user bob - plain:x\n\n" + line, "users.conf")
    assert (caught.value.file, caught.value.line) == ("users.conf", 4 if "\n" in line else 3)
    assert "hidden" not in str(caught.value)


NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=8)


@given(name=NAMES, group=NAMES)
def test_what_is_added_is_there_and_what_is_removed_is_gone(name: str, group: str) -> None:
    try:
        text = added(EXAMPLE, name, (group,), "plain:new")
    except InvalidOption:
        assert set(name + group) & set(",#*-") or name.split() != [name] or group.split() != [group]
        return
    users = parse(text).users or ()
    assert UserEntry(name, "plain:new", (group,)) in users
    assert len(users) == 3 - (name in ("alice", "bob"))
    less = removed(text, name)
    assert name not in [one.name for one in parse(less).users or ()]
    if name not in ("alice", "bob"):
        assert less == EXAMPLE


def test_a_new_password_takes_the_place_of_the_old_one_and_comments_stay() -> None:
    text = added(EXAMPLE, "bob", ("x", "y"), "plain:new")
    assert text.splitlines()[2] == "user bob x,y plain:new"
    assert text.splitlines()[1] == EXAMPLE.splitlines()[1]
    assert len(text.splitlines()) == len(EXAMPLE.splitlines())
    with pytest.raises(InvalidOption, match="there is no user"):
        removed(EXAMPLE, "carol")
