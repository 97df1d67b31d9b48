"""Users of Jetty's ``HashLoginService``: ``jetty-realm.properties``, a line ``name: password, role, role`` each.

A password is written as it is, or ``OBF:`` (hidden from a glance), ``MD5:`` (a digest) or ``CRYPT:`` (of Unix; refused,
for no Python of today can compute it).
"""

from __future__ import annotations

import re
from typing import Final

from entrepot.base.errors import InvalidOption
from entrepot.config import properties
from entrepot.config.console import ConsoleUser
from entrepot.config.jaas import plain

OBFUSCATED: Final = "OBF:"
DIGESTED: Final = "MD5:"
CRYPTED: Final = "CRYPT:"
MD5_KEPT: Final = "md5"
BASE: Final = 36
STEP: Final = 4  # letters for one octet; a "U" before them is about one that is no ASCII
_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{32}")
_LETTERS: Final = re.compile(r"(?:U?[0-9a-z]{4})*")


def read(text: str) -> tuple[list[ConsoleUser], list[tuple[int, str, str]]]:
    """Return the users of a file, and for who cannot be one: line, what is wrong, what to do."""
    users: list[ConsoleUser] = []
    wrong: list[tuple[int, str, str]] = []
    for name, (value, line) in properties.parse(text).items():
        password, _, roles = value.partition(",")
        try:
            kept = _kept(password.strip())
        except InvalidOption as error:
            wrong.append((line, f"the user {name!r} does not come in: {error.message}", error.remedy))
            continue
        users.append(ConsoleUser(name, kept, tuple(role.strip() for role in roles.split(",") if role.strip())))
    return users, wrong


def _kept(written: str) -> str:
    if written.startswith(CRYPTED):
        raise InvalidOption(
            "his password is hashed by CRYPT:, which is not computed here", remedy="write it as MD5: or as it is"
        )
    if written.startswith(DIGESTED):
        digest = written.removeprefix(DIGESTED).strip()
        if _DIGEST.fullmatch(digest) is None:
            raise InvalidOption("what stands behind MD5: is no digest", remedy="write 32 hexadecimal digits")
        return f"{MD5_KEPT}:{digest.lower()}"
    if not written:
        raise InvalidOption("he has no password", remedy="write one behind his name")
    return plain(revealed(written))


def revealed(text: str) -> str:
    """Return the password that ``OBF:...`` hides; any other text is itself. Raises InvalidOption.

    Of an octet and the one at the same place from the end both sums are written, in base 36; half of what the sums come
    to is the octet (`org.eclipse.jetty.util.security.Password`).
    """
    if not text.startswith(OBFUSCATED):
        return text
    letters = text.removeprefix(OBFUSCATED)
    if _LETTERS.fullmatch(letters) is None:
        raise InvalidOption("what stands behind OBF: is not what Jetty writes", remedy="write the password anew")
    octets = bytearray()
    at = 0
    while at < len(letters):
        wide = letters[at] == "U"
        at += wide
        number = int(letters[at : at + STEP], BASE)
        octets.append((number >> 8 if wide else (number // 256 + number % 256 - 254) // 2) & 0xFF)
        at += STEP
    return octets.decode("utf-8", "replace")
