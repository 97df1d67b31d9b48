"""What the resources have in common that an operator addresses by name: attributes, operations, and work in steps.

Names of attributes and operations are those of Artemis' management (artemis.md 7.2), so that what was written for it
finds them; those without a counterpart there begin with ``describe``, or are named like their neighbours. Arguments
and results are values of JSON. What may take long returns a `Work`, which the caller steps through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from entrepot.base.errors import Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments, Askers
from entrepot.core.operators.pace import Pace
from entrepot.core.operators.upkeep import Progress
from entrepot.core.operators.views import UNBOUNDED

READ: Final = "describeAttributes"  # what every resource can be asked, beside its own operations
DESCRIBED_MOST: Final = 500  # queues, consumers or schedules in one answer: each may cost a read from disk
NAMES_A_STEP: Final = 500  # that are compared: 0.05 ms
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
    """Work that describes up to ``most`` things behind ``after``, by name; what is gone by then is left out.

    ``names``: of all of them, in any order.
    """

    def __init__(
        self,
        broker: BrokerCore,
        names: Iterable[str],
        describe: Callable[[str], dict[str, Any] | None],
        *,
        after: str,
        most: int,
    ) -> None:
        self.describe = describe
        self.after = after
        self.most = most
        self.rows: list[dict[str, Any]] = []
        self._pace: Final = Pace(broker)
        self._left: Iterator[str] | None = iter(list(names))
        self._names: list[str] = []
        self._at = 0

    def step(self) -> bool:
        """Look for their names, or describe some."""
        if self._left is not None:
            self._look(self._left)
            return False
        end = min(len(self._names), self._at + self._pace.of(DESCRIBED_A_STEP))
        for name in self._names[self._at : end]:
            row = self.describe(name)
            if row is not None:
                self.rows.append(row)
        self._at = end
        return end >= len(self._names)

    def result(self) -> object:
        """Return the rows."""
        return self.rows

    def _look(self, left: Iterator[str]) -> None:
        some = list(islice(left, NAMES_A_STEP))
        if not some:
            self._left = None
        found = [name for name in some if name > self.after]
        self._names = sorted(self._names + found)[: self.most]


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
