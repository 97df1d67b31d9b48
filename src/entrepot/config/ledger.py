"""What of a configuration is obeyed, setting by setting, and where each is said: for who asks a broker why it is so.

`config/lines.py` makes the lines of a file. Options of the command line go before some of them. Secrets are hidden when
a line is made, so that nothing that shows one can show a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from entrepot.base.provenance import DEFAULT, PROGRAM, Said
from entrepot.base.settings import Dialect, Setting
from entrepot.config.findings import MASK, SECRET_NAME, Findings
from entrepot.core.addressing.address_settings import AddressSettings

BY_DEFAULT: Final = "addresses by default"
SHOWN_MOST: Final = 1_000  # characters of a value

_IN_OPTIONS: Final = re.compile(
    r"([\w.\-]{0,64}(?:password|passphrase|passwd|secret|token|credential)[\w.\-]{0,64}=)[^&;,)\s]+", re.IGNORECASE
)
_IN_USERINFO: Final = re.compile(r"(//[^/@:\s,()]{0,256}):[^?\s,()]{1,1024}@")

OVER: Final[Mapping[str, re.Pattern[str]]] = {
    "--name": re.compile(r"broker/brokerName|core/name"),
    "--listen": re.compile(r"broker/transportConnectors/.*|core/acceptors/.*"),
    "--memory-limit": re.compile(r".*/memoryUsage(/.*)?|core/global-max-size"),
    "--data": re.compile(r"broker/dataDirectory|broker/persistenceAdapter/[^/]+/directory|core/journal-directory"),
    "--ephemeral": re.compile(r"broker/persist.*|core/(persistence-enabled|journal-.*)"),
    "--users": re.compile(
        r"broker/plugins/(simpleAuthentication|jaas|authorization)\w*(/.*)?|core/security-(settings|enabled).*"
    ),
}
"""Option of the command line -> the settings of a file that it goes before."""


class Ledger:
    """All lines of one configuration. ``pending``: what was changed in its files and takes a restart.

    It says where things are said, so it is no difference between two configurations.
    """

    def __init__(self, lines: Sequence[Said] = (), files: Sequence[str] = ()) -> None:
        self.lines: Final = tuple(lines)
        self.files: Final = tuple(files)
        self.pending: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        """Return nothing that differs."""
        return "Ledger()"


EMPTY: Final = Ledger()


def effective(options: Sequence[Said], ledger: Ledger) -> Iterator[Said]:
    """Yield what holds: the lines of a file but those that an option goes before, then the options, which say so."""
    given = {one.place: OVER[one.place] for one in options if one.place in OVER and one.source != DEFAULT}
    before: dict[str, str] = {}
    for line in ledger.lines:
        option = next((name for name, covered in given.items() if covered.fullmatch(line.setting)), "")
        if not option:
            yield line
        elif option not in before and line.source != DEFAULT:
            before[option] = f"{line.file}:{line.line}" if line.line else line.file
    for one in options:
        if not (ledger.lines and one.source == DEFAULT and one.place in OVER):  # the file decides there
            yield _over(one, before[one.place]) if one.place in before else one
    if not ledger.lines:
        yield from by_default(Dialect.URI)


def _over(one: Said, place: str) -> Said:
    return Said(one.place, one.name, one.value, one.means, one.source, one.file, one.line, place)


def of_program(name: str, data: object, listen: Iterable[str], memory_limit: int) -> list[Said]:
    """Return what the program that embeds a broker has said."""
    return [
        Said("name", "", name, source=PROGRAM),
        Said("data", "", "" if data is None else str(data), source=PROGRAM),
        Said("memory limit", "", str(memory_limit), source=PROGRAM),
        *(Said(f"listen[{number}]", "", hidden("", uri), source=PROGRAM) for number, uri in enumerate(listen, 1)),
    ]


def by_default(dialect: Dialect) -> Iterator[Said]:
    """Yield what holds for an address that nothing is set for, by our own names."""
    for declared in AddressSettings.settings():
        yield unsaid(BY_DEFAULT, declared.name, declared, dialect)


def hidden(name: str, text: str, findings: Findings | None = None) -> str:
    """Return ``text``, the value of ``name``, without secrets: what ``findings`` knows, and what is called one."""
    if SECRET_NAME.search(name) and text:
        return MASK
    known = text if findings is None else findings.masked(text)
    shown = _IN_USERINFO.sub(rf"\1:{MASK}@", _IN_OPTIONS.sub(rf"\1{MASK}", known))
    return shown if len(shown) <= SHOWN_MOST else shown[:SHOWN_MOST] + "..."


def meaning(value: Any) -> str:
    """Return a value in the one notation in which equal values are equal texts; "" for a text, which is one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return ",".join(str(one) for one in value)
    return str(value) if isinstance(value, int | float) else ""


def unsaid(place: str, name: str, declared: Setting, dialect: Dialect) -> Said:
    """Return the line of a setting that nobody gave a value."""
    value = declared.default_in(dialect)
    shown = "" if value is None else declared.show(value)
    means = meaning(value)
    return Said(place, name, shown, "" if means == shown else means, DEFAULT)
