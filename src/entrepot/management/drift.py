"""Where brokers that should be alike are not: their configurations side by side, setting by setting.

Two values are equal when they mean the same: 1 kb is 1024, and what one broker writes down is what another has by
default. What has to differ, a name, a place to listen, a directory, is told apart from what should not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, convert

from entrepot.base.provenance import DEFAULT
from entrepot.core.operators.together.asker import Asker
from entrepot.management.sifting import sifted

SETTINGS_MOST: Final = 20_000  # of one broker that are compared: some 10 MB, and half a second of its time

ABSENT: Final = "not set"

OWN: Final = re.compile(
    r"broker/brokerName|core/name|--name|name|zone|--zone|CONFIGURATION|console/\d+|--console|--status"
    r"|.*/(\w*[dD]irectory|[\w-]*-directory)|--data|data|--trace|--users|--listen/\d+|listen\[\d+\]|core/connectors/.*"
)
"""Settings that each broker has for itself."""
_PLACE: Final = re.compile(r"//(?:[^/?&,;()\s@]*@)?[^/?&,;()\s@]+")


class Setting(Struct, frozen=True):
    """One line of `describeConfiguration`."""

    setting: str
    value: str
    means: str = ""
    source: str = DEFAULT
    file: str = ""
    line: int = 0
    over: str = ""

    @property
    def where(self) -> str:
        """Return where it is said, for people."""
        return where(self.source, self.file, self.line, self.over)


class Settings(Struct, frozen=True):
    """What one broker obeys. ``count``: how many settings it has, of which ``rows`` may be the first."""

    rows: list[Setting]
    count: int
    files: list[str]
    family: str
    pending: list[str]


class Difference(Struct, frozen=True):
    """One setting that is not the same everywhere. ``said``: by broker, None where it has none; ``own``: has to be."""

    setting: str
    said: dict[str, Setting | None]
    own: bool

    def shown(self, broker: str) -> str:
        """Return what a broker has there, and where that is said."""
        one = self.said[broker]
        return ABSENT if one is None else f"{one.value}  ({one.where})"

    @property
    def lacks(self) -> list[str]:
        """Return the brokers that have no such setting."""
        return [broker for broker, one in self.said.items() if one is None]


async def settings_of(
    asker: Asker, search: Iterable[str] = (), source: str = "", most: int = SETTINGS_MOST
) -> Settings:
    """Ask a broker for its configuration, page by page. Raises EntrepotError."""
    return convert(await sifted(asker, "describeConfiguration", most, search=list(search), source=source), Settings)


def differences(brokers: Mapping[str, Settings]) -> list[Difference]:
    """Return what differs, in the order of the first broker that has it. A name for each broker, as it is shown."""
    known = {name: {one.setting: one for one in told.rows} for name, told in brokers.items()}
    names = {name: _own_name(told) for name, told in brokers.items()}
    found: list[Difference] = []
    for setting in dict.fromkeys(setting for rows in known.values() for setting in rows):
        said = {name: rows.get(setting) for name, rows in known.items()}
        if len({_meaning(one) for one in said.values()}) > 1:
            found.append(Difference(setting, said, _is_own(setting, said, names)))
    return found


def where(source: str, file: str, line: int, over: str = "") -> str:
    """Return where something is said, for people."""
    place = f"{file}:{line}" if line else file or source
    return f"{place}, in place of {over}" if over else place


def _meaning(one: Setting | None) -> str | None:
    return None if one is None else one.means or one.value


def _is_own(setting: str, said: Mapping[str, Setting | None], names: Mapping[str, str]) -> bool:
    """Say whether a setting has to differ: it is each broker's own, or the same but for names and places."""
    if OWN.fullmatch(setting):
        return True
    if None in said.values():
        return False
    return len({_leveled(_meaning(one) or "", names[broker]) for broker, one in said.items()}) == 1


def _leveled(text: str, name: str) -> str:
    """Return a value without the places and the name in it."""
    placed = _PLACE.sub("//PLACE", text)
    return re.sub(rf"\b{re.escape(name)}\b", "NAME", placed) if name else placed


def _own_name(told: Settings) -> str:
    named = ("--name", "broker/brokerName", "core/name", "name")
    found = {one.setting: one.value for one in told.rows if one.setting in named}
    return next((found[one] for one in named if one in found), "")
