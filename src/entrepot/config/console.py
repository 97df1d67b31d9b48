"""Where the web console is and who comes in, as ``jetty.xml`` of Classic or ``bootstrap.xml`` of Artemis says it.

Both families serve HTTP by Jetty, and both are read into this. What a file says and nobody here obeys closes the
console rather than opening it wider than written: `Doubts` keeps count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from entrepot.base.errors import InvalidOption
from entrepot.config.findings import Findings, Severity
from entrepot.config.security import Security

if TYPE_CHECKING:
    from entrepot.config.xml import Element  # loads a parser, which few brokers need

SPOKEN: Final = ("TLSv1.2", "TLSv1.3")
OLDER: Final = ("SSL", "SSLV2", "SSLV2HELLO", "SSLV3", "TLSV1", "TLSV1.0", "TLSV1.1")
PORT_MAX: Final = 65_535
ANY_ROLE: Final = ("*", "**")
CLOSED: Final = "no console is started by this file"


def otherwise(remedy: str) -> str:
    """Return what to do about something that closes the console."""
    return f"{remedy}, or start one by --console HOST:PORT" if remedy else "start one by --console HOST:PORT"


class ConsoleTls(Struct, frozen=True, kw_only=True):
    """What a place of the console shows and asks for, as `io/tls.py` takes it."""

    certificate: str = ""
    key: str = ""
    password: str = ""
    trust: str = ""
    trust_password: str = ""
    need_client: bool = False
    want_client: bool = False
    protocols: str = ""
    ciphers: str = ""

    def __repr__(self) -> str:
        return f"ConsoleTls({self.certificate!r})"  # a configuration is printed; a password is not


class ConsolePlace(Struct, frozen=True, kw_only=True):
    """One place where browsers find it; ``tls`` None: by http. ``file``, ``line``, ``path``: where that is said."""

    host: str
    port: int
    tls: ConsoleTls | None = None
    file: str = ""
    line: int = 0
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"


class ConsoleUser(Struct, frozen=True):
    """Somebody of a realm. ``password``: ``md5:...``, or as `core/security/passwords.py` keeps it."""

    name: str
    password: str
    roles: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"ConsoleUser({self.name!r}, roles={self.roles})"  # as above


class ConsoleRealm(Struct, frozen=True, kw_only=True):
    """Who comes in, before the broker is asked as him.

    Of each group of roles in ``enters`` he needs one, and to change something of each in ``changes`` too.
    """

    users: tuple[ConsoleUser, ...]
    enters: tuple[tuple[str, ...], ...] = ()
    changes: tuple[tuple[str, ...], ...] = ()


class ConsoleSettings(Struct, frozen=True, kw_only=True):
    """The console of a broker. ``realm`` None: its users are the broker's. ``reports``: their directory, if any."""

    places: tuple[ConsolePlace, ...]
    realm: ConsoleRealm | None = None
    reports: str = ""
    file: str = ""
    line: int = 0
    path: str = ""


class Doubts:
    """Findings about one file that describes a console. ``closed``: something was not understood that may guard it."""

    def __init__(self, findings: Findings, file: str) -> None:
        self.findings: Final = findings
        self.file: Final = file
        self.closed = False

    def warn(self, element: Element, what: str, remedy: str = "") -> None:
        """Say what is done otherwise."""
        self.findings.add(Severity.WARNING, self.file, element.line, element.path, what, remedy)

    def note(self, element: Element, what: str, remedy: str = "") -> None:
        """Say what has no effect."""
        self.findings.add(Severity.NOTE, self.file, element.line, element.path, what, remedy)

    def close(self, element: Element, what: str, remedy: str) -> None:
        """Say what could keep somebody out and is not understood: without it the console must not open."""
        self.closed = True
        self.warn(element, f"{what}: {CLOSED}", otherwise(remedy))


def versions(included: str, excluded: str) -> str:
    """Return the versions of TLS that remain, "" for those that are spoken anyway. Raises InvalidOption.

    Names have commas or blanks between them. Those that are too old to be spoken make no difference.
    """
    wanted = [name for name in _words(included) if name.upper() not in OLDER] or list(SPOKEN)
    unwanted = [name.upper() for name in _words(excluded)]
    left = [name for name in wanted if name.upper() not in unwanted]
    if not left or (_words(included) and all(name.upper() in OLDER for name in _words(included))):
        raise InvalidOption("no version of TLS that is spoken here remains", remedy="allow TLSv1.2, TLSv1.3 or both")
    return "" if left == list(SPOKEN) else ",".join(left)


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[,\s]+", text) if word]


def port_of(text: str) -> int:
    """Return a port. Raises InvalidOption."""
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit() or int(digits[:6]) > PORT_MAX or len(digits) > 5:
        raise InvalidOption(f"{text!r} is no port", remedy=f"write a number from 0 to {PORT_MAX}")
    return int(digits)


def strangers(realm: ConsoleRealm, security: Security) -> list[str]:
    """Return who of a realm is unknown to the broker, or known to it by another password."""
    if security.users is None:
        return []
    known = {user.name: user.password for user in security.users}
    found: list[str] = []
    for user in realm.users:
        kept = known.get(user.name)
        both_plain = kept is not None and kept.startswith("plain:") and user.password.startswith("plain:")
        if kept is None or (both_plain and kept != user.password):
            found.append(user.name)
    return found


def holds(roles: Sequence[str], demands: Sequence[Sequence[str]]) -> bool:
    """Return whether who has ``roles`` has one of each group in ``demands``."""
    return all(any(one in ANY_ROLE or one in roles for one in group) for group in demands)
