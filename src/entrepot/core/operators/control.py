"""What the resources have in common that an operator addresses by name: attributes, operations, and work in steps.

Names of attributes and operations are those of Artemis' management (artemis.md 7.2), so that what was written for it
finds them; those without a counterpart there begin with ``describe``, or are named like their neighbours. Arguments
and results are values of JSON. What may take long returns a `Work`, which the caller steps through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from entrepot.base.errors import Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments, Askers
from entrepot.core.operators.upkeep import Progress
from entrepot.core.operators.views import UNBOUNDED

READ: Final = "describeAttributes"  # what every resource can be asked, beside its own operations
DESCRIBED_MOST: Final = 500  # queues, consumers or schedules in one answer: each may cost a read from disk
DESCRIBED_A_STEP: Final = 50  # of them in one step: half a millisecond of plain Python, when nothing is on disk
LISTED_MOST: Final = 1_000  # messages in one answer
PAGE: Final = 200  # messages of a page when the caller does not say: Artemis' management-browse-page-size


class Work(Protocol):
    """An operation that goes on in steps: call `step` until it says True, then `result`.

    Work that others do, a thread say, has an attribute ``pause``: ns from one look at it to the next.
    """

    def step(self) -> bool:
        """Do a bounded part; return whether that was the last one. Raises EntrepotError: it is over then."""

    def result(self) -> object:
        """Return what is answered."""


class _Steps(Protocol):
    progress: Progress

    def step(self) -> Progress: ...


class Counted:
    """Work whose answer is how many messages it was about."""

    def __init__(self, steps: _Steps, conclude: Callable[[], None] | None = None) -> None:
        self.steps = steps
        self.conclude = conclude

    def step(self) -> bool:
        """Do a part."""
        done = self.steps.step().done
        if done and self.conclude is not None:
            self.conclude()
        return done

    def result(self) -> object:
        """Return the count."""
        return self.steps.progress.messages


class Found(Counted):
    """Work on one message, whose answer is whether it was there."""

    def result(self) -> object:
        """Return whether it was."""
        return self.steps.progress.messages == 1


class Several:
    """Works one after the other; the answer is the sum of their counts."""

    def __init__(self, works: list[Counted]) -> None:
        self.works = works
        self.at = 0

    def step(self) -> bool:
        """Do a part of the next one."""
        if self.at < len(self.works) and self.works[self.at].step():
            self.at += 1
        return self.at >= len(self.works)

    def result(self) -> object:
        """Return the sum."""
        return sum(work.steps.progress.messages for work in self.works)


class Described:
    """Work that describes one thing after the other, `DESCRIBED_A_STEP` in a step; what is gone by then is left out."""

    def __init__(self, names: list[str], describe: Callable[[str], dict[str, Any] | None]) -> None:
        self.names = names
        self.describe = describe
        self.at = 0
        self.rows: list[dict[str, Any]] = []

    def step(self) -> bool:
        """Describe some."""
        end = min(len(self.names), self.at + DESCRIBED_A_STEP)
        for name in self.names[self.at : end]:
            row = self.describe(name)
            if row is not None:
                self.rows.append(row)
        self.at = end
        return end >= len(self.names)

    def result(self) -> object:
        """Return the rows."""
        return self.rows


class Control:
    """One resource. ``attributes`` and ``operations`` by name; `get` and `call` use them."""

    kind = ""

    def __init__(self, broker: BrokerCore, census: Census) -> None:
        self.broker = broker
        self.census = census

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        raise NotImplementedError

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done."""
        raise NotImplementedError

    def figures(self) -> Mapping[str, Callable[[], object]]:
        """Return attributes that take steps: what reads one is a `Work`. They are not among those of `READ`."""
        return {}

    def get(self, name: str) -> object:
        """Return an attribute, or the `Work` that finds it; the case of letters does not matter.

        Raises Refused for one that is not.
        """
        known = {**self.attributes(), **self.figures()}
        read = known.get(name) or known.get(name[:1].lower() + name[1:])
        if read is None:
            read = next((one for word, one in known.items() if word.lower() == name.lower()), None)
        if read is None:
            raise Refused(f"{self.kind} has no attribute {name!r}", remedy="it has " + ", ".join(known))
        return read()

    def read(self, names: str) -> dict[str, object]:
        """Return the attributes in ``names``, with commas between, "" for all; those that are not are left out."""
        known = self.attributes()
        wanted = names.split(",") if names else known
        return {name: known[name]() for name in wanted if name in known}

    def _has(self, attribute: str) -> bool:
        word = attribute.lower()
        return any(name.lower() == word for known in (self.attributes(), self.figures()) for name in known)

    def call(self, name: str, values: list[Any], askers: Askers = lambda: []) -> object:
        """Begin an operation, ``getX`` and ``isX`` for attributes included; return its result or a `Work`.

        ``askers``: returns for whom it is asked, for what he must be allowed to do himself.

        Raises EntrepotError.
        """
        known = self.operations()
        operation = known.get(name)
        if operation is not None:
            return operation(Arguments(name, values, askers))
        if name == READ:
            return self.read(Arguments(name, values).text(0, ""))
        for prefix in ("get", "is"):
            attribute = name.removeprefix(prefix)
            if attribute != name and not values and self._has(attribute):
                return self.get(attribute)
        told = f"AMQ229069: no operation {name}/{len(values)}"  # the words of Artemis, which its tools print
        raise Refused(told, remedy=f"{self.kind} has " + ", ".join(known))


def most_of(given: Arguments, at: int) -> int:
    """Return how many messages at most; -1, as Artemis says it, is all."""
    most = given.number(at, -1)
    return UNBOUNDED if most < 0 else most


def rows_of(given: Arguments, at: int) -> int:
    """Return how many rows at most."""
    return max(0, min(given.number(at, DESCRIBED_MOST), DESCRIBED_MOST))


def fields_of(view: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of ``view`` by name."""
    return msgspec.structs.asdict(view)


def json_of(value: object) -> str:
    """Return ``value`` as JSON."""
    return msgspec.json.encode(value).decode()
