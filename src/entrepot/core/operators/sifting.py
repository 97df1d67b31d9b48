"""A page of a long list that is searched: of users, of rules, of settings. Bounded steps, whatever its length.

The argument is a JSON object: ``search``, a part of what a row says, whatever its case, or a list of parts, all of
which it has; ``skip`` and ``most``, at most `DESCRIBED_MOST`. The answer: ``rows`` in the order of the list, ``count``,
how many there are in all, and facts about the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from entrepot.core.operators.control import DESCRIBED_MOST
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.overlook import number_of, words_of
from entrepot.core.operators.pace import Pace

LOOKED_A_STEP: Final = 640  # rows: 2 ms of plain Python, 4 where they are searched; between messages a `Pace` of it
SKIPPED_MOST: Final = 10**9

T = TypeVar("T")


class Sifted(Generic[T]):
    """A `Work` that makes the page. ``text``: what is searched; ``row``: what is shown; ``wanted`` chooses beside."""

    def __init__(
        self,
        given: Arguments,
        of: str,
        every: Iterable[T],
        pace: Pace,
        text: Callable[[T], str],
        row: Callable[[T], dict[str, Any]],
        *,
        facts: Mapping[str, object],
        wanted: Callable[[T], bool] = lambda one: True,
    ) -> None:
        """``every``: is not changed while it is looked at; ``of``: what it is, for refusals. Raises Refused."""
        options = given.mapping(0)
        self.words: Final = words_of(options.get("search", ""), of)
        self.skip: Final = number_of(options, "skip", 0, SKIPPED_MOST, of)
        self.most: Final = number_of(options, "most", DESCRIBED_MOST, DESCRIBED_MOST, of)
        self.left: Final = iter(every)
        self.count = 0
        self.rows: list[dict[str, Any]] = []
        self._text: Final = text
        self._row: Final = row
        self._wanted: Final = wanted
        self._facts: Final = facts
        self._pace: Final = pace

    def step(self) -> bool:
        """Look at some."""
        some = list(islice(self.left, self._pace.of(LOOKED_A_STEP)))
        for one in some:
            if self._is_meant(one):
                if self.skip <= self.count < self.skip + self.most:
                    self.rows.append(self._row(one))
                self.count += 1
        return not some

    def result(self) -> object:
        """Return the page."""
        return {**self._facts, "count": self.count, "rows": self.rows}

    def _is_meant(self, one: T) -> bool:
        if not self._wanted(one):
            return False
        if not self.words:
            return True
        text = self._text(one).lower()
        return all(word in text for word in self.words)
