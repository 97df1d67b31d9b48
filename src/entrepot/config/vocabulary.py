"""How a reader of XML declares what it knows: every element, every attribute, and what becomes of it here.

A declaration is the one source of three things: what the reader does with an attribute, the finding that it makes, and
the row in the documentation. Attributes are declared in short texts, ``name:unit`` with blanks between them, in groups
that share one reason::

    Kind("kahaDB", obeyed("directory:text journalMaxFileLength:size"),
         no_effect("the index is in memory", "indexDirectory:text indexCacheSize:number"))

``name:unit=value`` says that ``value`` asks for what happens here anyway: it makes no finding.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from entrepot.base.errors import Fault
from entrepot.base.settings import I64_MAX, Dialect, Options, Setting, Unit
from entrepot.config.findings import Severity


class Does(Enum):
    """What becomes of an element or attribute in this broker."""

    OBEYED = "obeyed"
    NO_EFFECT = "no effect"
    OTHERWISE = "behaves otherwise"
    REFUSED = "refused"


SEVERITY: Final[Mapping[Does, Severity]] = {
    Does.NO_EFFECT: Severity.NOTE,
    Does.OTHERWISE: Severity.WARNING,
    Does.REFUSED: Severity.ERROR,
}

UNITS: Final[Mapping[str, Unit]] = {
    "text": Unit.TEXT,
    "flag": Unit.FLAG,
    "number": Unit.COUNT,
    "decimal": Unit.FACTOR,
    "size": Unit.OCTETS,
    "ms": Unit.MILLISECONDS,
}
_DECLARED: Final = re.compile(r"([\w.\-]+):(\w+)(?:=(\S*))?")


def _loose(unit: Unit) -> Setting:
    """Return the setting that reads any value of ``unit``, in the range that Java's long has."""
    whole = unit in (Unit.COUNT, Unit.OCTETS, Unit.MILLISECONDS)
    default: Any = {Unit.FLAG: False, Unit.FACTOR: 0.0, Unit.TEXT: ""}.get(unit, 0)
    low = -float(I64_MAX) if whole else None
    return Setting(
        name="value",
        default=default,
        unit=unit,
        about=unit.value,
        low=low,
        high=float(I64_MAX) if whole else None,
        unlimited=False,
        live=False,
        secret=False,
        spellings={},
    )


LOOSE: Final[Mapping[Unit, Setting]] = {unit: _loose(unit) for unit in UNITS.values()}


class Attribute(Struct, frozen=True):
    """One attribute. ``same``: the value, as text, that asks for what happens anyway.

    ``setting`` reads it in the notation of ``dialect`` and checks the range; without one any value of ``unit`` will do.
    """

    name: str
    unit: Unit
    does: Does = Does.OBEYED
    why: str = ""
    remedy: str = ""
    same: str | None = None
    setting: Setting | None = None
    dialect: Dialect = Dialect.CLASSIC

    def parse(self, text: str) -> Any:
        """Return the value of ``text``. Raises InvalidOption."""
        reader = LOOSE[self.unit] if self.setting is None else self.setting
        return reader.parse(text, self.dialect)

    def asks_for_the_same(self, value: Any) -> bool:
        """Return whether ``value`` is what happens here anyway."""
        return self.same is not None and self.parse(self.same) == value


class Slot(Struct, frozen=True):
    """A child element that is a property: it holds beans of ``kinds``, or has one fate whatever it holds.

    ``pairs``: it is a map, ``<entry key="" value=""/>`` each, in a ``<map>`` or not.
    """

    name: str
    kinds: tuple[str, ...] = ()
    does: Does = Does.OBEYED
    why: str = ""
    remedy: str = ""
    many: bool = False
    pairs: bool = False


def _attributes(does: Does, why: str, texts: tuple[str, ...], remedy: str) -> list[Attribute]:
    found: list[Attribute] = []
    for text in " ".join(texts).split():
        declared = _DECLARED.fullmatch(text)
        if declared is None or declared[2] not in UNITS:
            raise Fault(f"{text!r} is no declaration of an attribute")
        found.append(Attribute(declared[1], UNITS[declared[2]], does, why, remedy, declared[3]))
    return found


def obeyed(*texts: str) -> list[Attribute]:
    """Declare attributes that this broker obeys."""
    return _attributes(Does.OBEYED, "", texts, "")


def no_effect(why: str, *texts: str) -> list[Attribute]:
    """Declare attributes that have no effect here and cost nothing."""
    return _attributes(Does.NO_EFFECT, why, texts, "")


def otherwise(why: str, *texts: str, remedy: str = "") -> list[Attribute]:
    """Declare attributes on whose account this broker behaves otherwise than Classic."""
    return _attributes(Does.OTHERWISE, why, texts, remedy)


def refused(why: str, *texts: str, remedy: str = "") -> list[Attribute]:
    """Declare attributes with which this broker does not start."""
    return _attributes(Does.REFUSED, why, texts, remedy)


def of_options(
    options: type[Options],
    without: Collection[str] = (),
    *,
    only: Collection[str] = (),
    dialect: Dialect = Dialect.CLASSIC,
) -> list[Attribute]:
    """Declare what ``options`` knows by names of ``dialect`` as obeyed: ``only`` some, or all but ``without``."""
    names = options.names(dialect)
    return [
        Attribute(name, names[name].unit, setting=names[name], dialect=dialect)
        for name in only or names
        if name not in without
    ]


class Kind:
    """One element that is a bean. ``why`` and ``remedy`` are for one that is not obeyed: then nothing in it is read."""

    def __init__(
        self,
        name: str,
        *parts: list[Attribute] | Slot,
        does: Does = Does.OBEYED,
        why: str = "",
        remedy: str = "",
        about: str = "",
    ) -> None:
        """``about``: what an obeyed element does, for the documentation. Raises Fault for a name declared twice."""
        self.name = name
        self.does = does
        self.why = why
        self.remedy = remedy
        self.about = about
        self.attributes: dict[str, Attribute] = {}
        self.slots: dict[str, Slot] = {}
        for part in parts:
            if isinstance(part, Slot):
                self.slots[part.name] = part
                continue
            for attribute in part:
                if attribute.name in self.attributes:
                    raise Fault(f"{name}: {attribute.name} is declared twice")
                self.attributes[attribute.name] = attribute

    def check(self) -> None:
        """Raise Fault for what is not obeyed and has no reason."""
        if self.does is not Does.OBEYED and not self.why:
            raise Fault(f"{self.name} is not obeyed, and nobody says why")
        for attribute in self.attributes.values():
            if attribute.does is not Does.OBEYED and not attribute.why:
                raise Fault(f"{self.name}/@{attribute.name} is not obeyed, and nobody says why")
            if attribute.same is not None:
                attribute.parse(attribute.same)
        for slot in self.slots.values():
            if slot.does is not Does.OBEYED and not slot.why:
                raise Fault(f"{self.name}/{slot.name} is not obeyed, and nobody says why")


def unobeyed(does: Does, why: str, *names: str, remedy: str = "") -> list[Kind]:
    """Declare elements that share one fate; nothing in them is read."""
    return [Kind(name, does=does, why=why, remedy=remedy) for name in names]


def registry(*groups: list[Kind]) -> dict[str, Kind]:
    """Return the elements by name. Raises Fault for one declared twice, or named by a slot and declared nowhere."""
    found: dict[str, Kind] = {}
    for group in groups:
        for kind in group:
            if kind.name in found:
                raise Fault(f"{kind.name} is declared twice")
            kind.check()
            found[kind.name] = kind
    for kind in found.values():
        for slot in kind.slots.values():
            for name in slot.kinds:
                if name not in found:
                    raise Fault(f"{kind.name}/{slot.name} may hold {name}, which nobody declares")
    return found


__all__ = [
    "Dialect",
    "LOOSE",
    "SEVERITY",
    "Attribute",
    "Does",
    "Kind",
    "Slot",
    "Unit",
    "no_effect",
    "obeyed",
    "of_options",
    "otherwise",
    "refused",
    "registry",
    "unobeyed",
]
