"""Who a connection speaks for: users, their passwords and their groups.

A broker without a directory takes everybody for whom he says he is. With one, a user and his password must be in it;
who says nothing may be let in as ``anonymous``, and who says something wrong as ``stranger`` (JAAS' guest).

A hashed password costs some ms to look at, and one thread does all the work of a broker. So a password that was right
is recognised the next time without its hash; whose password has to wait for a look is decided in
`core/security/logins.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from entrepot.base.errors import InvalidOption, UserUnknown
from entrepot.base.provenance import NOWHERE, Spot
from entrepot.base.scram import DIGESTS, ROUNDS, Keys, mac, same
from entrepot.core.security.passwords import Kept

SECRET_OCTETS: Final = 32


class Subject:
    """Whom a connection speaks for. ``groups`` are what rights are given to; a ``peer`` of the cluster has all."""

    def __init__(self, name: str, groups: Iterable[str] = (), *, peer: bool = False) -> None:
        self.name: Final = name
        self.peer: Final = peer
        self.groups: Final = dict.fromkeys(groups)

    def __repr__(self) -> str:
        return f"Subject({self.name!r}, {list(self.groups)})"


class User:
    """Somebody who may come in."""

    def __init__(
        self, name: str, password: str, groups: Iterable[str] = (), *, peer: bool = False, at: Spot = NOWHERE
    ) -> None:
        """``password`` as it is kept, see `core/security/passwords.py`. ``at``: where he is. Raises InvalidOption."""
        self.subject = Subject(name, groups, peer=peer)
        self.at: Final = at
        self.kept: Final = Kept(password)
        self._mark = b""  # of the password that was right last

    def follow(self, former: User) -> None:
        """Be the same person as ``former``, whose connections are open."""
        self.subject = former.subject

    def recognises(self, password: str) -> bool:
        """Return whether ``password`` is right, as far as that can be told at once."""
        if not self.kept.hashed:
            return self.kept.matches(password)
        return bool(self._mark) and same(self.kept.mark(password), self._mark)

    def proved(self, password: str | None) -> Subject:
        """Return whom ``password`` proves, which is kept as it is. Raises UserUnknown."""
        if password is None or not self.kept.matches(password):
            raise UserUnknown(f"User name [{self.subject.name}] or password is invalid.")
        return self.subject

    def learn(self, password: str) -> None:
        """``password`` is right, by its hash; from now on it is recognised."""
        self._mark = self.kept.mark(password)


class Certified:
    """Somebody who shows a certificate. ``written``: its subject as Java writes it, or a pattern of it: ``/.../``."""

    def __init__(self, name: str, written: str, groups: Iterable[str] = (), at: Spot = NOWHERE) -> None:
        """``at``: where he is written. Raises InvalidOption for a pattern that is none."""
        self.name: Final = name
        self.at: Final = at
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
        self._secret = b""  # of which salts are made for who has none
        self._costly: Final = next((user.kept for user in self.users.values() if user.kept.hashed), None)

    def succeed(self, former: Directory) -> None:
        """Stand in the place of ``former``: who came in by that has the groups that this one gives him, at once.

        Who is not known any more keeps the rights of everybody alone.
        """
        if former is self:
            return
        for name, user in former.users.items():
            subject, now = user.subject, self.users.get(name)
            subject.groups.clear()
            if now is not None:
                subject.groups.update(now.subject.groups)
                now.follow(user)

    def recognise(self, name: str | None, password: str | None, certificate: str | None = None) -> Subject | None:
        """Return who that is, as far as that can be told at once; None: a hash has to be looked at, that of `kept`.

        ``certificate``: the subject of the one that was shown, "" when none was; None: this is no TLS.

        Raises UserUnknown, in the words of ActiveMQ; it does not say what of name and password is wrong.
        """
        if self.certified is not None and (certificate is not None or not self.passwords):
            return self._by_certificate(name, certificate or "")
        if self.anonymous is not None and password is None and (name is None or self.names_suffice):
            return self.anonymous
        user = None if name is None else self.users.get(name)
        if user is not None and password is not None and user.recognises(password):
            return user.subject
        return None if self._costly is not None else self.concluded(name, False)

    def keys(self, name: str, digest: str, draw: Callable[[int], bytes]) -> tuple[Keys, Subject | None]:
        """Return what SCRAM asks of ``name``, and who proves it; None: nobody, and no proof is right.

        Who is not known, and who is kept by another hash, has keys as well, the same each time: names cannot be found
        out. ``draw`` returns octets of chance.
        """
        if not self._secret:
            self._secret = draw(SECRET_OCTETS)
        salt = mac("SHA-256", self._secret, name.encode("utf-8", "surrogatepass"))
        user = self.users.get(name)
        keys = None if user is None else user.kept.keys(digest, salt)
        if user is not None and keys is not None:
            return keys, user.subject
        size = DIGESTS[digest][1]
        return Keys(digest, ROUNDS, salt, draw(size), draw(size)), None

    def kept(self, name: str | None) -> Kept:
        """Return the hash to look at: the user's, or any, or names could be found out by the time a refusal takes."""
        assert self._costly is not None
        user = None if name is None else self.users.get(name)
        return user.kept if user is not None and user.kept.hashed else self._costly

    def learn(self, name: str | None, password: str | None, right: bool) -> bool:
        """Return whether the user came in, ``right`` being what `kept` said; if so, he is recognised from now on."""
        user = None if name is None else self.users.get(name)
        if not right or user is None or password is None or not user.kept.hashed:
            return False
        user.learn(password)
        return True

    def concluded(self, name: str | None, right: bool) -> Subject:
        """Return who came in: the user ``name`` if he was ``right``, or a stranger. Raises UserUnknown."""
        if right and name is not None:
            return self.users[name].subject
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
