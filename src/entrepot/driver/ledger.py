"""What the driver knows of its lease on one shard, and which verbs that allows. No sockets: `leases.py` asks.

Decides whether a checkpoint fits the broker's ledger. The ledger itself is the broker's (docs/leases.md); positions
below ``base`` are settled and gone, those from ``tail`` on are not claimed yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from entrepot.base.errors import LeaseError, ProtocolViolation


class Ledger:
    """One lease as the last answer of the broker described it."""

    def __init__(self, shard: str, name: str) -> None:
        self.shard = shard
        self.name = name  # for people: queue and broker
        self.epoch = 0
        self.base = 0
        self.first = 0  # the base when we attached: where a query begins that knows nothing of this shard
        self.tail = 0
        self.more = 0  # messages that could be claimed at the last answer, about
        self.away = ""  # connectors whose other broker was not reached then, of a reader that is demand
        self.octets = 0  # of what was claimed since `take_octets`; a broker of before `octets` does not say
        self.settled = 0  # what we asked to settle

    def attached(self, answer: Mapping[str, str]) -> None:
        """Take the answer to ATTACH."""
        self.base = self.tail = 0
        self._take(answer)
        self.epoch = number(answer, "epoch")
        self.first = self.settled = self.base

    def answered(self, answer: Mapping[str, str]) -> None:
        """Take the answer to any other verb."""
        self._take(answer)

    def _take(self, answer: Mapping[str, str]) -> None:
        # The answer to a claim that waited comes behind younger ones; under one epoch neither end ever goes back.
        self.base = max(self.base, number(answer, "base"))
        self.tail = max(self.tail, number(answer, "tail"))
        if "more" in answer:
            self.more = number(answer, "more")
            self.away = answer.get("away", "")
        if "octets" in answer:
            self.octets += number(answer, "octets")

    def take_octets(self) -> int:
        """Return how many octets were claimed since the last call."""
        octets, self.octets = self.octets, 0
        return octets

    def begin(self, position: int | None) -> int:
        """Return where reading begins: ``position`` of the checkpoint, or the base for a shard that it does not know.

        Raises LeaseError when the checkpoint and the broker do not belong together.
        """
        if position is None:
            return self.first
        if position < self.base:
            raise LeaseError(
                f"the checkpoint stands at {position} on {self.name}, where everything below {self.base} is settled",
                remedy="another query with this subscription has gone further; give each its own, "
                "or begin with a new checkpoint",
            )
        if position > self.tail:
            raise LeaseError(
                f"the checkpoint stands at {position} on {self.name}, which has given out only {self.tail} positions",
                remedy="the checkpoint is of another broker or queue, or the broker lost its data; "
                "begin with a new checkpoint",
            )
        return position


def number(answer: Mapping[str, str], name: str) -> int:
    """Return a number that a broker answered. Raises ProtocolViolation."""
    text = answer.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise ProtocolViolation(
            f"the broker answered {name}={text[:40]!r}, not a number",
            remedy="it is too old for this version of entrepot, or no entrepot; upgrade the broker first",
        )
    return int(text)
