"""The users file of a broker that has no ``activemq.xml``: a line for each user and each right (docs/security.md).

    # who may come in, his groups, and his password as `entrepot user add` writes it
    user       alice    ops,shop   scrypt:8192:8:1:...
    anonymous  guests
    # what a group may do, and where
    allow      ops      all               >
    allow      shop     send,consume      orders.>
    allow      *        read              topic://news.>

Words are separated by blanks; what stands behind ``#`` at the start of a word is a comment. Names hold no blanks and no
commas. Without any ``allow`` who is in may do everything.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidConfiguration, InvalidDestination, InvalidOption
from entrepot.base.patterns import MIXED
from entrepot.base.provenance import NOWHERE, Spot
from entrepot.config.security import RuleEntry, Security, SubjectEntry, UserEntry
from entrepot.core.security.access import CONSUME, EVERYBODY, RIGHTS
from entrepot.core.security.passwords import Kept
from entrepot.model.address import MULTICAST, parse_one

NOBODY: Final = "-"  # instead of groups
ANONYMOUS: Final = "anonymous"
FORMS: Final = {
    "user": "user NAME GROUPS PASSWORD",
    "anonymous": "anonymous GROUPS",
    "allow": "allow GROUPS RIGHTS DESTINATION",
}
WATCHED: Final = ("ActiveMQ.Advisory.TempQueue", "ActiveMQ.Advisory.TempTopic")
"""Topics that every Java client reads as soon as it is in: without them it could not even open a session."""


def parse(text: str, file: str = "") -> Security:
    """Return what a users file says. Raises InvalidConfiguration, with its line; never repeats a password."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            reader.take(words(line), Spot(file, number))
        except (InvalidOption, InvalidDestination, InvalidConfiguration) as error:
            raise InvalidConfiguration(error.message, remedy=error.remedy, file=file, line=number) from None
    return reader.security()


def words(line: str) -> list[str]:
    """Return the words of a line, without its comment."""
    found: list[str] = []
    for word in line.split():
        if word.startswith("#"):
            break
        found.append(word)
    return found


def check_name(name: str, what: str) -> str:
    """Return a name of a user or group. Raises InvalidOption for one that a users file cannot hold."""
    if not name or name.split() != [name] or "," in name or name.startswith("#") or name in (NOBODY, EVERYBODY):
        raise InvalidOption(
            f"{name!r} cannot be the name of a {what}", remedy="use no blank, no comma and no # at first"
        )
    return name


def groups_of(text: str) -> tuple[str, ...]:
    """Return the groups of ``a,b`` or ``-``. Raises InvalidOption."""
    if text == NOBODY:
        return ()
    return tuple(check_name(name, "group") for name in text.split(","))


class _Reader:
    def __init__(self) -> None:
        self.users: dict[str, UserEntry] = {}
        self.anonymous: SubjectEntry | None = None
        self.rules: list[RuleEntry] = []
        self.at = NOWHERE

    def take(self, found: list[str], at: Spot) -> None:
        """Obey the words of one line, which is ``at``."""
        if not found:
            return
        self.at = at
        form = FORMS.get(found[0])
        if form is None:
            raise InvalidConfiguration(
                f"a line begins with {found[0][:40]!r}", remedy="lines are: " + "; ".join(FORMS.values())
            )
        if len(found) != len(form.split()):
            raise InvalidConfiguration(f"a line has {len(found)} words and should be {form!r}")
        getattr(self, f"_{found[0]}")(*found[1:])

    def _user(self, name: str, groups: str, password: str) -> None:
        check_name(name, "user")
        if name in self.users:
            raise InvalidConfiguration(f"the user {name!r} is there already", remedy="take one of the lines out")
        Kept(password)
        self.users[name] = UserEntry(name, password, groups_of(groups), self.at)

    def _anonymous(self, groups: str) -> None:
        if self.anonymous is not None:
            raise InvalidConfiguration("there are two lines for who gives no name", remedy="take one of them out")
        self.anonymous = SubjectEntry(ANONYMOUS, groups_of(groups))

    def _allow(self, groups: str, rights: str, written: str) -> None:
        granted = 0
        for right in rights.split(","):
            if right not in RIGHTS:
                raise InvalidConfiguration(f"there is no right {right!r}", remedy="there are " + ", ".join(RIGHTS))
            granted |= RIGHTS[right]
        place = parse_one(written)
        MIXED.words(place.name)
        if place.temporary or place.queue or place.options:
            raise InvalidConfiguration(
                f"rights cannot be given on {written!r}", remedy="name a queue or topic, or a pattern of some"
            )
        names = [one if one == EVERYBODY else check_name(one, "group") for one in groups.split(",")]
        grants = tuple((name, granted) for name in names)
        self.rules.append(RuleEntry(place.name, grants, place.routing, at=self.at))

    def security(self) -> Security:
        """Return the whole."""
        rules: tuple[RuleEntry, ...] | None = None
        if self.rules:
            watched = [RuleEntry(name, ((EVERYBODY, CONSUME),), MULTICAST) for name in WATCHED]
            rules = (*self.rules, *watched)
        return Security(users=tuple(self.users.values()), anonymous=self.anonymous, rules=rules)


def added(text: str, name: str, groups: tuple[str, ...], password: str) -> str:
    """Return the text of a users file with one user more, or with another password and groups for one who is there.

    All other lines, comments too, stay as they are. Raises InvalidOption.
    """
    check_name(name, "user")
    for group in groups:
        check_name(group, "group")
    line = f"user {name} {','.join(groups) or NOBODY} {password}"
    lines = text.splitlines()
    for at, known in enumerate(lines):
        if words(known)[:2] == ["user", name]:
            lines[at] = line
            return "\n".join(lines) + "\n"
    return "\n".join([*lines, line]) + "\n"


def removed(text: str, name: str) -> str:
    """Return the text of a users file without a user. Raises InvalidOption when he is not in it."""
    lines = text.splitlines()
    kept = [line for line in lines if words(line)[:2] != ["user", name]]
    if len(kept) == len(lines):
        raise InvalidOption(f"there is no user {name!r}", remedy="see `entrepot user list`")
    return "\n".join(kept) + "\n" if kept else ""
