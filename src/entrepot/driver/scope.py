"""Which queues or topics a query reads, when it reads several: what a list names, and what its wildcards match.

A shard of such a query is one queue on one broker, and its key says so: ``<broker> <token> /queue/<name>``. The token
is the broker's, of that very queue: one that is deleted and made again under the same name has another, so positions of
the two are never taken for one another. A query of one queue has the broker alone for a key, as it always had.
Pure; `shards.py` asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from entrepot.base.errors import InvalidOption, ProtocolViolation
from entrepot.base.patterns import MIXED, is_pattern

TOPIC: Final = "/topic/"
WILDCARDS_MAX: Final = 10  # what a broker compares its queues with for one question (docs/leases.md)
QUEUES_MAX: Final = 1_000  # what one broker lists, and the claims that may wait on one connection (docs/leases.md)


class Scope(msgspec.Struct, frozen=True):
    """``names``: destinations that are read in any case. ``patterns``: wildcards of queues. ``most``: of both."""

    names: tuple[str, ...]
    patterns: tuple[str, ...] = ()
    most: int = QUEUES_MAX

    @property
    def is_of_topics(self) -> bool:
        """Whether there is nothing to be found: a subscription holds what a wildcard of topics matches."""
        return any(name.startswith(TOPIC) for name in self.names)

    def question(self, known: Iterable[str]) -> dict[str, str]:
        """Return the headers of QUEUES; ``known``: the tokens of queues that may be gone."""
        wanted = ",".join((*self.names, *self.patterns))
        return {"match": wanted, "max": str(self.most), "known": ",".join(known)}

    def check(self, destinations: Iterable[str], more: int = 0) -> None:
        """Raise InvalidOption when these, and ``more`` that were not listed, are more than the query may read."""
        count = len(set(destinations)) + more
        if count > self.most:
            shown = ",".join((*self.names, *self.patterns))
            raise InvalidOption(
                f"{shown[:200]} are {count} queues, and maxQueues is {self.most}",
                remedy=f"match fewer, share them among several queries, or raise maxQueues ({QUEUES_MAX} at most)",
            )


def divide(destination: str, most: int) -> Scope | None:
    """Return what ``/queue/a,b,orders.>`` is about; None for a name alone, which `Subject` has. Raises InvalidOption.

    A wildcard of topics is a name: the broker's subscription matches it.
    """
    kind, _, text = destination.lstrip("/").partition("/")
    prefix = f"/{kind}/"
    words = [word.strip() for word in text.split(",")]
    if not all(words) or len(set(words)) < len(words):
        raise InvalidOption(
            f"{text[:200]!r} has an empty name, or one twice", remedy="write each once, with commas between them"
        )
    named = tuple(prefix + word for word in words if prefix == TOPIC or not is_pattern(word, MIXED))
    wild = tuple(prefix + word for word in words if prefix + word not in named)
    if len(wild) > WILDCARDS_MAX:
        raise InvalidOption(
            f"{len(wild)} wildcards in {text[:200]!r}, and one query may have {WILDCARDS_MAX}",
            remedy="write wider ones, or share them among several queries",
        )
    if len(named) == 1 and not wild:
        return None
    scope = Scope(named, wild, most)
    scope.check(named)
    return scope


def key_of(broker: str, token: str, destination: str) -> str:
    """Return the key of a shard of several queues."""
    return f"{broker} {token} {destination}"


def parts_of(key: str) -> tuple[str, str, str]:
    """Return broker, token and destination of a key; of a query of one queue the broker, and nothing else."""
    broker, _, rest = key.partition(" ")
    token, _, destination = rest.partition(" ")
    return broker, token, destination


def read_list(answer: Mapping[str, str]) -> dict[str, str]:
    """Return what QUEUES answered: destination -> token. Raises ProtocolViolation."""
    found: dict[str, str] = {}
    for entry in filter(None, answer.get("queues", "").split(",")):
        token, mark, name = entry.partition("=")
        if not mark or not name:
            raise ProtocolViolation(f"the broker lists the queue {entry[:60]!r}", remedy="it is too new, or too old")
        found["/queue/" + name.replace("%2C", ",").replace("%25", "%")] = token
    return found
