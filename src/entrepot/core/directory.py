"""Who a connection speaks for: users, their passwords and their groups.

A broker without a directory takes everybody for whom he says he is. With one, a user and his password must be in it;
who says nothing may be let in as ``anonymous``, and who says something wrong as ``stranger`` (JAAS' guest).

A hashed password costs some ms to look at, and one thread does all the work of a broker. So a password that was right
is recognised the next time without its hash, and only so many looks at hashes a second may end in a refusal: somebody
who tries passwords slows down himself, not those who are in, nor those who were.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import AccessDenied, InvalidOption, UserUnknown
from entrepot.core.passwords import Kept, same

FAILURES_A_SECOND: Final = 10  # at 20 ms each a fifth of the thread


class Subject:
    """Whom a connection speaks for. ``groups`` are what rights are given to."""

    def __init__(self, name: str, groups: Iterable[str] = ()) -> None:
        self.name: Final = name
        self.groups: Final = dict.fromkeys(groups)

    def __repr__(self) -> str:
        return f"Subject({self.name!r}, {list(self.groups)})"


class User:
    """Somebody who may come in."""

    def __init__(self, name: str, password: str, groups: Iterable[str] = ()) -> None:
        """``password`` as it is kept, see `core/passwords.py`. Raises InvalidOption."""
        self.subject: Final = Subject(name, groups)
        self.kept: Final = Kept(password)
        self._mark = b""  # of the password that was right last

    def recognises(self, password: str) -> bool:
        """Return whether ``password`` is right, as far as that can be told at once."""
        if not self.kept.hashed:
            return self.kept.matches(password)
        return bool(self._mark) and same(self.kept.mark(password), self._mark)

    def learns(self, password: str) -> bool:
        """Return whether ``password`` is right, by its hash; from then on it is recognised."""
        if not self.kept.matches(password):
            return False
        self._mark = self.kept.mark(password)
        return True


class Certified:
    """Somebody who shows a certificate. ``written``: its subject as Java writes it, or a pattern of it: ``/.../``."""

    def __init__(self, name: str, written: str, groups: Iterable[str] = ()) -> None:
        """Raises InvalidOption for a pattern that is none."""
        self.groups: Final = tuple(groups)
        self.written: Final = written
        self._pattern: re.Pattern[str] | None = None
        if len(written) > 1 and written.startswith("/") and written.endswith("/"):
            try:
                self._pattern = re.compile(written[1:-1])
            except re.error as error:
                raise InvalidOption(f"{written!r} of the user {name!r} is no pattern: {error}") from None

    @property
    def exact(self) -> bool:
        """Return whether one name is meant."""
        return self._pattern is None

    def is_of(self, name: str) -> bool:
        """Return whether ``name`` is the subject of a certificate of his."""
        return name == self.written if self._pattern is None else self._pattern.fullmatch(name) is not None


class Directory:
    """All users of one broker."""

    def __init__(
        self,
        users: Iterable[User] = (),
        *,
        anonymous: Subject | None = None,
        stranger: Subject | None = None,
        names_suffice: bool = False,
        certified: Iterable[Certified] | None = None,
        passwords: bool = True,
    ) -> None:
        """``anonymous``: who gives neither name nor password. ``stranger``: who gives wrong ones. None: not let in.

        ``names_suffice``: who gives a name and no password is anonymous too (JAAS' guest, classic.md 7.1).
        ``certified``: who comes over TLS is known by his certificate, and by it alone; None: by his password, as all.
        ``passwords`` False: nobody comes in without TLS.
        """
        self.users: Final = {user.subject.name: user for user in users}
        self.anonymous: Final = anonymous
        self.stranger: Final = stranger
        self.names_suffice: Final = names_suffice
        self.passwords: Final = passwords
        self.certified: Final = None if certified is None else sorted(certified, key=lambda one: not one.exact)
        self._costly: Final = any(user.kept.hashed for user in self.users.values())
        self._second: Instant = 0
        self._failures = 0

    def admit(self, name: str | None, password: str | None, now: Instant, certificate: str | None = None) -> Subject:
        """Return who that is. Raises UserUnknown, in the words of ActiveMQ; it does not say what of both is wrong.

        ``certificate``: the subject of the one that was shown, "" when none was; None: this is no TLS.

        Raises AccessDenied, to be tried again, when too many wrong passwords came within a second.
        """
        if self.certified is not None and (certificate is not None or not self.passwords):
            return self._by_certificate(name, certificate or "")
        if self.anonymous is not None and password is None and (name is None or self.names_suffice):
            return self.anonymous
        user = None if name is None else self.users.get(name)
        if user is not None and password is not None and user.recognises(password):
            return user.subject
        if self._costly and self._is_right_at_last(user, password, now):
            assert user is not None
            return user.subject
        if self.stranger is not None:
            return self.stranger
        raise UserUnknown(f"User name [{'null' if name is None else name}] or password is invalid.")

    def _by_certificate(self, name: str | None, certificate: str) -> Subject:
        assert self.certified is not None
        if not certificate:
            raise UserUnknown("Unable to authenticate transport without SSL certificate.")
        for one in self.certified:
            if one.is_of(certificate):
                return Subject(certificate, one.groups)  # ActiveMQ calls him by his certificate, too
        said = "null" if name is None else name
        raise UserUnknown(f"User name [{said}] or password is invalid. No user for client certificate: {certificate}")

    def _is_right_at_last(self, user: User | None, password: str | None, now: Instant) -> bool:
        """Look at a hash: the user's, or any, or names could be found out by the time that a refusal takes."""
        if now - self._second >= SECOND:
            self._second = now
            self._failures = 0
        if self._failures >= FAILURES_A_SECOND:
            raise AccessDenied("too many wrong passwords came in the last second", remedy="try again")
        if user is not None and user.kept.hashed and password is not None:
            if user.learns(password):
                return True
        else:
            next(one for one in self.users.values() if one.kept.hashed).kept.matches(password or "")
        self._failures += 1
        return False
