"""How an option is declared once: default, unit, range, a line of explanation, its name in every dialect, live or not.

A core declares what steers it beside itself; readers of configuration, ``--help``, the generated documentation and live
reload all read that one declaration::

    class RedeliveryOptions(Options, frozen=True):
        \"\"\"When a message that was not settled comes again.\"\"\"

        delay: Duration = setting(
            1 * SECOND, unit=Unit.DURATION, classic="initialRedeliveryDelay", artemis="redelivery-delay", live=True,
            about="wait before the second delivery",
        )

    options, rest = RedeliveryOptions.take({"initialRedeliveryDelay": "500"}, Dialect.CLASSIC)   # rest: not ours
    options.delay                                                                                # 500_000_000

The table is our own, not that of msgspec: a Struct keeps the default of a field and forgets what else was said about it
unless that moves into the annotation, which would then say everything twice. So `setting` returns a `Setting`, typed as
its default; `Options.__init_subclass__` moves it into ``__settings__`` and leaves the default. An instance keeps plain
attributes and cannot be changed; reading one costs what reading any attribute costs.

A class of Options lives in a module that is not compiled, since mypyc holds `setting` to the type that it claims.
Compiled cores import the class and keep what their hot path reads in typed attributes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from inspect import get_annotations
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Self, TypeVar, cast, dataclass_transform

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import Fault, InvalidOption
from entrepot.base.values import NO_UNITS, SIZES, TIMES, boolean, measured, words

T = TypeVar("T")

UNLIMITED: Final = -1
I64_MAX: Final = 2**63 - 1  # compiled code keeps numbers in 64 bits


class Dialect(Enum):
    """Who spells an option: the query of a URI, either family's XML, or our own command line."""

    URI = "uri"
    CLASSIC = "classic"
    ARTEMIS = "artemis"
    CLI = "cli"


class Unit(Enum):
    """What a value is and how it is kept. A plain number in a text is in milliseconds, octets, or just a number."""

    FLAG = "true or false"
    COUNT = "number"
    FACTOR = "decimal number"
    TEXT = "text"
    NAMES = "comma-separated names"
    CHOICE = "one of several words"
    DURATION = "time"  # kept in nanoseconds
    MILLISECONDS = "time in milliseconds"  # kept in milliseconds: what is compared with wall time
    OCTETS = "size"  # kept in octets


class Spelling(Struct, frozen=True):
    """The name of a setting in one dialect where a plain number is not in the unit's own measure.

    ``plain``: what a plain number is multiplied with to get what is kept, so ``SECOND`` for Artemis'
    ``slow-consumer-check-period``.
    """

    name: str
    plain: int


_PLAIN: Final[Mapping[Unit, int]] = {Unit.DURATION: MILLISECOND, Unit.MILLISECONDS: 1, Unit.OCTETS: 1, Unit.COUNT: 1}
_UNITS: Final[Mapping[Unit, Mapping[str, int]]] = {Unit.DURATION: TIMES, Unit.OCTETS: SIZES}
_SHOWN_TIMES: Final = ("d", "h", "m", "s", "ms", "us", "ns")
_SHOWN_SIZES: Final = ("tb", "gb", "mb", "kb", "b")


class Setting(Struct, frozen=True, kw_only=True):
    """One declaration. ``low`` and ``high`` are inclusive, in the measure that is kept; ``unlimited`` admits -1 too."""

    name: str = ""  # that of the attribute
    default: Any
    unit: Unit
    about: str
    low: float | None
    high: float | None
    unlimited: bool
    live: bool  # a change takes effect in a running broker
    secret: bool
    spellings: dict[Dialect, Spelling]
    defaults: dict[Dialect, Any] = {}  # where a dialect's files mean another one

    def spelling(self, dialect: Dialect) -> str:
        """Return the name in ``dialect``, or "" where it has none. On the command line it is the attribute's own."""
        known = self.spellings.get(dialect)
        if known is not None:
            return known.name
        return self.name.replace("_", "-") if dialect is Dialect.CLI else ""

    def default_in(self, dialect: Dialect) -> Any:
        """Return the value that a file of ``dialect`` means when it does not name this setting."""
        return self.defaults.get(dialect, self.default)

    def parse(self, text: str, dialect: Dialect) -> Any:
        """Return the value that ``text`` means in ``dialect``, checked.

        Raises InvalidOption, which has the name and the value as they are written.
        """
        try:
            return self._parsed(text.strip(), dialect)
        except InvalidOption as error:
            self._refuse(text.strip(), error.remedy, self.spelling(dialect))

    def _parsed(self, text: str, dialect: Dialect) -> Any:
        match self.unit:
            case Unit.TEXT:
                return self.checked(text)
            case Unit.NAMES:
                return self.checked(words(text))
            case Unit.CHOICE:
                for choice in self.choices():
                    if text.lower().replace("-", "_") in (choice.name.lower(), str(choice.value).lower()):
                        return choice
                self._refuse(text, f"use one of {', '.join(choice.name for choice in self.choices())}")
        try:
            if self.unit is Unit.FLAG:
                return boolean(text)
            return self.checked(float(text) if self.unit is Unit.FACTOR else self._number(text, dialect))
        except ValueError as error:
            self._refuse(text, "use a decimal number" if self.unit is Unit.FACTOR else str(error))

    def choices(self) -> list[Enum]:
        """Return what a CHOICE may be."""
        return list(type(self.default)) if isinstance(self.default, Enum) else []

    def checked(self, value: object) -> Any:
        """Return ``value``, in the measure that is kept, if it may be; raises InvalidOption if not."""
        if value is None and self.default is None:
            return value
        kinds = _KINDS[self.unit]
        if not isinstance(value, kinds) or (isinstance(value, bool) and self.unit is not Unit.FLAG):
            self._refuse(value, f"give a value that is a {self.unit.value}")
        if isinstance(value, Enum) and value not in self.choices():
            self._refuse(value, f"use one of {', '.join(choice.name for choice in self.choices())}")
        if isinstance(value, int | float) and not isinstance(value, bool):
            within = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
            if not within and not (self.unlimited and value == UNLIMITED):  # a NaN is not within either
                self._refuse(self.show(value), f"use {self.range_text()}")
        return value

    def show(self, value: Any) -> str:
        """Return ``value`` as text, with a unit where it has one; `parse` reads it back in every dialect."""
        match self.unit:
            case Unit.FLAG:
                return "true" if value else "false"
            case Unit.CHOICE:
                return cast(Enum, value).name
            case Unit.NAMES:
                return ",".join(value)
            case Unit.DURATION:
                return _with_suffix(value, _SHOWN_TIMES, TIMES)
            case Unit.MILLISECONDS:
                return _with_suffix(value * MILLISECOND if value > 0 else value, _SHOWN_TIMES, TIMES)
            case Unit.OCTETS:
                return _with_suffix(value, _SHOWN_SIZES, SIZES)
            case _:
                return str(value)

    def range_text(self) -> str:
        """Return the permitted range in words, or "" where everything of the unit is permitted."""
        low = "" if self.low is None else self.show(self._kept(self.low))
        high = "" if self.high is None or self.high == I64_MAX else self.show(self._kept(self.high))
        text = f"{low} to {high}" if low and high else f"{low} or more" if low else f"at most {high}" if high else ""
        return f"{text}, or -1 for no limit" if self.unlimited else text

    def _kept(self, bound: float) -> float | int:
        return bound if self.unit is Unit.FACTOR else int(bound)

    def _number(self, text: str, dialect: Dialect) -> int:
        if self.unlimited and text.lower() in ("-1", "unlimited"):
            return UNLIMITED
        known = self.spellings.get(dialect)
        if self.unit is Unit.MILLISECONDS:
            plain = (1 if known is None else known.plain) * MILLISECOND
            scaled = measured(text, TIMES, plain)
            if scaled % MILLISECOND:
                raise ValueError("use whole milliseconds")
            return scaled // MILLISECOND
        return measured(text, _UNITS.get(self.unit, NO_UNITS), _PLAIN[self.unit] if known is None else known.plain)

    def _refuse(self, value: object, remedy: str, name: str = "") -> NoReturn:
        shown = "this value" if self.secret else repr(value)
        raise InvalidOption(f"{shown} does not fit the option {name or self.name} ({self.about})", remedy=remedy)


_KINDS: Final[Mapping[Unit, tuple[type, ...]]] = {
    Unit.FLAG: (bool,),
    Unit.COUNT: (int,),
    Unit.FACTOR: (float, int),
    Unit.TEXT: (str,),
    Unit.NAMES: (tuple,),
    Unit.CHOICE: (Enum,),
    Unit.DURATION: (int,),
    Unit.MILLISECONDS: (int,),
    Unit.OCTETS: (int,),
}
_WHOLE: Final = (Unit.COUNT, Unit.DURATION, Unit.MILLISECONDS, Unit.OCTETS)


def setting(
    default: T,
    *,
    about: str,
    unit: Unit | None = None,
    low: float | None = None,
    high: float | None = None,
    unlimited: bool = False,
    uri: str | Spelling = "",
    classic: str | Spelling = "",
    artemis: str | Spelling = "",
    cli: str | Spelling = "",
    live: bool = False,
    secret: bool = False,
    classic_default: T | None = None,
    artemis_default: T | None = None,
) -> T:
    """Declare a setting in the body of an `Options` class; what comes back is a `Setting`, whatever its type says.

    ``unit`` follows from the default where that is a bool, int, float, str, tuple or Enum; name it for times and sizes,
    and where the default is None, which means "not given". ``low`` and ``high`` are in the measure that is kept; whole
    numbers are 0 to 2^63-1 unless they say otherwise. ``classic_default`` and ``artemis_default``: what a file of that
    family means when it does not name the setting, where that is not ``default``. Raises Fault for a declaration that
    contradicts itself.
    """
    kept = unit if unit is not None else _unit_of(default)
    if kept in _WHOLE:
        low = 0 if low is None else low
        high = I64_MAX if high is None else high
    spellings: dict[Dialect, Spelling] = {}
    for dialect, name in (
        (Dialect.URI, uri),
        (Dialect.CLASSIC, classic),
        (Dialect.ARTEMIS, artemis),
        (Dialect.CLI, cli),
    ):
        if isinstance(name, Spelling):
            spellings[dialect] = name
        elif name:
            spellings[dialect] = Spelling(name, _PLAIN.get(kept, 1))
    defaults = {Dialect.CLASSIC: classic_default, Dialect.ARTEMIS: artemis_default}
    declared = Setting(
        default=default,
        unit=kept,
        about=about,
        low=low,
        high=high,
        unlimited=unlimited,
        live=live,
        secret=secret,
        spellings=spellings,
        defaults={dialect: value for dialect, value in defaults.items() if value is not None},
    )
    return cast(T, declared)


def _unit_of(default: object) -> Unit:
    if isinstance(default, bool):
        return Unit.FLAG
    if isinstance(default, Enum):  # before int: an IntEnum is both
        return Unit.CHOICE
    for kind, unit in ((int, Unit.COUNT), (float, Unit.FACTOR), (str, Unit.TEXT), (tuple, Unit.NAMES)):
        if isinstance(default, kind):
            return unit
    raise Fault(f"the unit of a setting with the default {default!r} must be named")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """Base of a group of settings. Built from keywords; what is not given has its default; never changes after that.

    A subclass inherits the settings of its parent; assigning it a plain value (``delay: Duration = 0``) changes the
    default. Two are equal when they are of one class and have equal values.
    """

    __settings__: ClassVar[dict[str, Setting]] = {}

    def __init_subclass__(cls, *, frozen: bool = True) -> None:
        """Move the declarations of the class body into ``__settings__``. Raises Fault for one that cannot hold."""
        if not frozen:
            raise Fault(f"{cls.__name__}: options never change, a new value makes new options")
        known = dict(cls.__settings__)
        for name, value in dict(cls.__dict__).items():
            if isinstance(value, Setting):
                if name in Options.__dict__:
                    raise Fault(f"{cls.__name__}.{name}: all options have a method of this name")
                known[name] = replace(value, name=name)
                setattr(cls, name, value.default)
            elif name in known:
                known[name] = replace(known[name], default=value)
        for name, annotation in get_annotations(cls).items():
            if name not in known and "ClassVar" not in str(annotation):
                raise Fault(f"{cls.__name__}.{name} is not declared with setting()")
        cls.__settings__ = known
        _check_declarations(cls.__name__, known.values())

    def __init__(self, **values: object) -> None:
        """Take ``values``, checked. Raises InvalidOption for one out of range, Fault for a name of no setting."""
        kept = self.__dict__
        for name, declared in self.__settings__.items():
            kept[name] = declared.default
        for name, value in values.items():
            if name not in self.__settings__:
                raise Fault(f"{type(self).__name__} has no setting {name!r}")
            kept[name] = self.__settings__[name].checked(value)

    @classmethod
    def settings(cls) -> tuple[Setting, ...]:
        """Return every setting in the order of declaration, for documentation and ``--help``."""
        return tuple(cls.__settings__.values())

    @classmethod
    def defaults_in(cls, dialect: Dialect) -> dict[str, Any]:
        """Return every value of a file of ``dialect`` that names no setting."""
        return {declared.name: declared.default_in(dialect) for declared in cls.settings()}

    @classmethod
    def names(cls, dialect: Dialect) -> dict[str, Setting]:
        """Return the settings that ``dialect`` can spell, by their name there."""
        return {name: declared for declared in cls.settings() if (name := declared.spelling(dialect))}

    @classmethod
    def take(
        cls, texts: Mapping[str, str], dialect: Dialect, *, base: Self | None = None
    ) -> tuple[Self, dict[str, str]]:
        """Return ``base`` (or the defaults) with what ``texts`` says in ``dialect``, and the texts that are not ours.

        Hand the rest to the next group, and what is left at the end to `refuse_unknown`. Raises InvalidOption.
        """
        known = cls.names(dialect)
        values: dict[str, object] = {} if base is None else dict(base.__dict__)
        rest: dict[str, str] = {}
        for name, text in texts.items():
            declared = known.get(name)
            if declared is None:
                rest[name] = text
            else:
                values[declared.name] = declared.parse(text, dialect)
        return cls(**values), rest

    @classmethod
    def read(cls, texts: Mapping[str, str], dialect: Dialect, *, base: Self | None = None) -> Self:
        """Return ``base`` (or the defaults) with all that ``texts`` says. Raises InvalidOption, for other names too."""
        options, rest = cls.take(texts, dialect, base=base)
        refuse_unknown(rest, cls.names(dialect))
        return options

    def replaced(self, **values: object) -> Self:
        """Return a copy with ``values`` changed. Raises as the constructor."""
        return type(self)(**{**self.__dict__, **values})

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise Fault(f"{type(self).__name__}.{name} cannot be changed: use replaced()")

    def __delattr__(self, name: str) -> NoReturn:
        raise Fault(f"{type(self).__name__}.{name} cannot be changed: use replaced()")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        """Return what differs from the defaults, secrets hidden."""
        parts = [
            f"{name}={'****' if declared.secret else repr(self.__dict__[name])}"
            for name, declared in self.__settings__.items()
            if self.__dict__[name] != declared.default
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


class Change(NamedTuple):
    """One setting that differs between two models. ``live``: a running broker can follow without a restart."""

    setting: Setting
    old: Any
    new: Any
    live: bool


def changes(a: Options, b: Options) -> list[Change]:
    """Return what must change to come from ``a`` to ``b``, in the order of declaration. Both are of one class."""
    if type(a) is not type(b):
        raise Fault(f"{type(a).__name__} and {type(b).__name__} cannot be compared")
    return [
        Change(declared, a.__dict__[name], b.__dict__[name], declared.live)
        for name, declared in a.__settings__.items()
        if a.__dict__[name] != b.__dict__[name]
    ]


def refuse_unknown(
    names: Iterable[str], known: Iterable[str], elsewhere: Iterable[str] = (), *, what: str = "option"
) -> None:
    """Do nothing if there are no ``names``; else raise InvalidOption with the nearest of ``known``, and all of them.

    ``elsewhere``: names that may have been meant too, and are not listed. ``what``: what the names should be.
    """
    unknown = list(names)
    if not unknown:
        return
    from difflib import get_close_matches  # noqa: PLC0415 - nobody needs it who makes no mistake

    by_folded = {name.lower(): name for name in known}
    near: dict[str, None] = {}
    candidates = {name.lower(): name for name in elsewhere} | by_folded
    for name in unknown:
        for match in get_close_matches(name.lower(), candidates, n=3, cutoff=0.6):
            near[candidates[match]] = None
    listing = ", ".join(sorted(by_folded.values()))
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    verb = f"is no {what}" if len(unknown) == 1 else f"are no {what}s"
    raise InvalidOption(f"{', '.join(map(repr, unknown))} {verb} here", remedy=f"{guess}known: {listing or 'none'}")


def _check_declarations(owner: str, declared: Iterable[Setting]) -> None:
    """Raise Fault for a default outside its own range, or a name that means two settings in one dialect."""
    seen: dict[tuple[Dialect, str], str] = {}
    for each in declared:
        try:
            for value in (each.default, *each.defaults.values()):
                each.checked(value)
        except InvalidOption as error:
            raise Fault(f"the default of {owner}.{each.name} is refused by itself: {error}") from None
        for dialect in Dialect:
            name = each.spelling(dialect)
            other = seen.setdefault((dialect, name), each.name) if name else each.name
            if other != each.name:
                raise Fault(f"{owner}: {name!r} means both {other} and {each.name} ({dialect.value})")


def _with_suffix(value: int, suffixes: Iterable[str], measures: Mapping[str, int]) -> str:
    """Return ``value`` in the largest measure that expresses it exactly; nothing and no limit have none."""
    if value <= 0:
        return str(value)
    for suffix in suffixes:
        if value % measures[suffix] == 0:
            return f"{value // measures[suffix]}{suffix}"
    return str(value)
