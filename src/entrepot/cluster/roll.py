"""Which brokers the clients of one broker are told of, and in which order. Decides; tells nobody.

A list never leaves its reader without a place to go: a broker that stops hands out the others it knew last, and itself
only where all of them are gone already, behind them: then whoever comes back first is found. From that moment its
lists do not change any more, though its bridges close one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.census import UNKNOWN, Census, Facts


class Roll:
    """The brokers of a `Census`, as clients know them. ``retired``: this broker stops."""

    def __init__(self, census: Census) -> None:
        self.census: Final = census
        self.lost: dict[str, Facts] = {}  # brokers that are gone and that some lists still hold
        self.retired = False
        self._last: dict[str, Facts] = {}  # of a broker that stops: whom it hands its clients to
        self._forsaken = False  # and there is nobody but those who are gone

    def named(self) -> dict[str, Facts]:
        """Return the brokers that clients hear of: neighbours, and those further away that share clients out, too."""
        return {
            key: one.facts
            for key, one in sorted(self.census.members.items())
            if one.links or one.facts.clients != UNKNOWN
        }

    def forget(self, before: dict[str, Facts]) -> None:
        """Those of ``before`` (`named`) that are not there any more are gone."""
        for one in self.census.brokers():
            before.pop(one.id, None)
        self.lost.update(before)

    def found(self) -> None:
        """Whoever is there is not gone."""
        for one in self.census.brokers():
            self.lost.pop(one.id, None)

    def retire(self) -> None:
        """This broker stops: what it knows now is the last that its clients learn of it."""
        if not self.retired:
            named = self.named()
            self._forsaken = not named
            self._last = named or dict(self.lost)
            self.retired = True

    def others(self, *, removes: bool, fits: Callable[[Facts], bool]) -> list[Facts]:
        """Return the other brokers that ``fits`` lets through. ``removes``: without those that are gone."""
        if self.retired:
            known = self._last
        elif removes:
            known = self.named()
        else:
            known = {**self.lost, **self.named()}
        urls: dict[str, Facts] = {}
        for key in sorted(known):  # a broker that lost its store comes back with another identity
            urls.setdefault(known[key].url, known[key])
        return [one for one in urls.values() if fits(one)]

    def in_order(self, others: list[Facts], url: str, zone: str, turn: int) -> list[str]:
        """Return the URLs for a client of ``zone``, ``turn`` of which tells it from the next one; [] for no news.

        Those of its zone come first. This broker, at ``url``, comes before others of its zone: the client is here.
        """
        here = self.census.here.zone
        near = rotated([one.url for one in others if one.zone == zone], turn)
        far = rotated([one.url for one in others if one.zone != zone], turn)
        lists = [near, far]
        if not self.retired:
            lists.insert(0 if here == zone or not near else 1, [url])
        elif self._forsaken and others:
            lists.append([url])
        return list(dict.fromkeys(each for urls in lists for each in urls))


def rotated(urls: list[str], turn: int) -> list[str]:
    """Return ``urls``, beginning with another one for each ``turn``."""
    at = turn % len(urls) if urls else 0
    return urls[at:] + urls[:at]
