"""Whether replicas in sync have what their primary has: `ha/comparison.py`, begun, carried on and judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.ha.comparison import DAMAGED, DIFFERS, SAME, Comparison, Verdict
from entrepot.ha.follower import Follower
from entrepot.ha.pieces import Pieces


class Verifying:
    """The comparisons of one primary. ``verdicts``: what they came to, by copy; of each the last one.

    ``advance``: goes on with a replica at an instant; ``drop``: counts on it no longer, and says why.
    """

    def __init__(
        self,
        name: str,
        pieces: Pieces,
        advance: Callable[[Follower, Instant], None],
        drop: Callable[[Follower, str], None],
    ) -> None:
        self.name: Final = name
        self.pieces: Final = pieces
        self.advance: Final = advance
        self.drop: Final = drop
        self.verdicts: Final[dict[str, Verdict]] = {}

    def begin(self, now: Instant, bandwidth: int = 0) -> int:
        """Begin to compare what every replica in sync has with what is here; return how many there are.

        ``bandwidth``: octets a second, 0 for that of catch-ups. Who is being compared already goes on with that.
        """
        every = self.pieces.in_sync
        for gone in set(self.verdicts).difference(each.copy for each in every):
            if self.verdicts[gone].state != DAMAGED:  # which says something of this store
                del self.verdicts[gone]  # else one that is removed would be said to differ for ever
        for each in every:
            if not isinstance(each.catch_up, Comparison) or each.catch_up.verdict.ended >= 0:
                comparison = Comparison(self.pieces.mirror.ends, each.name, now, bandwidth)
                comparison.sent = each.catch_up.sent
                each.catch_up = comparison
                self.verdicts[each.copy] = comparison.verdict
                self.advance(each, now)
        return len(every)

    def joined(self, name: str) -> None:
        """The replica ``name``, also as a new copy, has what is here: nothing damaged keeps it away any more."""
        for copy, verdict in list(self.verdicts.items()):
            if verdict.name == name and verdict.state == DAMAGED:
                del self.verdicts[copy]

    def go_on(self, follower: Follower, comparison: Comparison, now: Instant) -> None:
        """Ask for more, look at what is in doubt, and say what it came to."""
        if comparison.verdict.ended >= 0:
            return
        self.pieces.ask(follower, now)
        if comparison.done():
            self._judge(follower, comparison, now)

    def spare(self, follower: Follower, now: Instant) -> None:
        """Do not make a replica anew that has otherwise what is damaged here: it may be the last sound copy."""
        flaw = follower.catch_up.flaw
        last = self.verdicts.get(follower.copy)
        if last is None or last.found != flaw:  # else it is back, and nothing has changed
            verdict = self.verdicts[follower.copy] = Verdict(follower.name, follower.catch_up.left(), now)
            verdict.end(DAMAGED, flaw, now)
            self.pieces.host.say(
                f"the store of {self.name} is damaged: {flaw}; {follower.name} has that place otherwise, perhaps "
                f"whole, and is not made the same: look at both with `entrepot data check`. What {self.name} has "
                f"is copied, damage and all, once the directory of {follower.name} is empty",
                loud=True,
            )
        self.drop(follower, f"what it has otherwise is damaged here: {flaw}")

    def _judge(self, follower: Follower, comparison: Comparison, now: Instant) -> None:
        host, name, verdict = self.pieces.host, self.name, comparison.verdict
        if comparison.flaw:
            verdict.end(DAMAGED, comparison.flaw, now)
            host.say(
                f"the store of {name} is damaged: {comparison.flaw}; {follower.name} may have it whole: let it serve "
                "(`entrepot ha demote`), and make no copy anew before that",
                loud=True,
            )
        elif comparison.differs:
            verdict.end(DIFFERS, comparison.differs, now)
            why = f"it is not the same: {comparison.differs}; what stands here is sound, and is copied"
            self.drop(follower, why)
        else:
            verdict.end(SAME, "", now)
            host.say(f"{follower.name} has the same {verdict.octets} octets as {name}", loud=False)
