"""Which broker of several a new connection goes to: Artemis' load-balancing policies (artemis.md 3.3).

The unit of balancing is a connection. What the connections of one program to one URL know together is its `Locator`:
the policy, which may count, and the members of the cluster that the brokers told last. A policy of a program's own has
`select`, and is an argument of `entrepot.connect`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, Protocol

from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint

LOCATORS_MAX: Final = 1_000  # URLs that are remembered; the oldest is forgotten


class Balancing(Protocol):
    """Chooses among brokers. One object serves all connections that are to be balanced together."""

    def select(self, count: int) -> int:
        """Return whom to try first, 0 to ``count`` - 1; the others follow in their order."""


class RoundRobin:
    """At random for the first connection, then one after the other."""

    def __init__(self) -> None:
        self._next = -1

    def select(self, count: int) -> int:
        """Return the next one."""
        self._next = random.randrange(count) if self._next < 0 else self._next + 1
        return self._next % count


class Random:
    """Anybody, each time."""

    def select(self, count: int) -> int:
        """Return anybody."""
        return random.randrange(count)


class RandomSticky:
    """Anybody for the first connection, and the same one for all others."""

    def __init__(self) -> None:
        self._chosen = -1

    def select(self, count: int) -> int:
        """Return the one that was chosen."""
        if self._chosen < 0:
            self._chosen = random.randrange(count)
        return self._chosen % count


class FirstElement:
    """The first one, as long as it answers."""

    def select(self, count: int) -> int:
        """Return the first."""
        return 0


POLICIES: Final[dict[str, type[RoundRobin | Random | RandomSticky | FirstElement]]] = {
    "RoundRobinConnectionLoadBalancingPolicy": RoundRobin,
    "RandomConnectionLoadBalancingPolicy": Random,
    "RandomStickyConnectionLoadBalancingPolicy": RandomSticky,
    "FirstElementConnectionLoadBalancingPolicy": FirstElement,
}
"""By the last part of the name of Artemis' class."""


def policy_of(name: str) -> Balancing:
    """Return the policy that a URL names, by Artemis' class or by its name here. Raises InvalidOption."""
    last = name.rpartition(".")[2]
    for known, made in POLICIES.items():
        if last in (known, made.__name__):
            return made()
    raise InvalidOption(
        f"connectionLoadBalancingPolicyClassName={name} is no policy",
        remedy=f"name one of {', '.join(POLICIES)}, or give your own to connect(balancing=...)",
    )


class Locator:
    """What connections to one URL know together. ``members``: of the cluster, as they were told last."""

    def __init__(self, policy: Balancing, *, topology: bool = True) -> None:
        """``topology``: choose among the members, once they are known, and not among the places of the URL."""
        self.policy: Final = policy
        self.topology: Final = topology
        self.members: tuple[Endpoint, ...] = ()

    def learn(self, members: Sequence[Endpoint]) -> None:
        """Brokers tell who is in their cluster."""
        if members:
            self.members = tuple(members)

    def order(self, listed: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
        """Return in which order a new connection tries: whom the policy chose, and those behind it.

        The places of the URL come last where members are known: when none of these answers. Raises InvalidOption for
        a policy that chooses nobody.
        """
        first = self.members if self.topology and self.members else tuple(listed)
        if len(first) > 1:
            at = self.policy.select(len(first))
            if not 0 <= at < len(first):
                raise InvalidOption(f"the policy chose {at} of {len(first)} brokers", remedy="return 0 to count - 1")
            first = first[at:] + first[:at]
        known = {(place.host, place.port) for place in first}
        return first + tuple(place for place in listed if (place.host, place.port) not in known)


_locators: dict[tuple[str, int], Locator] = {}


def locator_of(url: str, policy: Balancing | str, *, topology: bool) -> Locator:
    """Return what the connections of this process to ``url`` know together. Raises InvalidOption.

    ``policy``: by its name, or a program's own, which has a locator to itself.
    """
    key = (url, 0 if isinstance(policy, str) else id(policy))  # its locator holds it, so the id is its own
    found = _locators.get(key)
    if found is None:
        found = Locator(policy_of(policy) if isinstance(policy, str) else policy, topology=topology)
        while len(_locators) >= LOCATORS_MAX:
            del _locators[next(iter(_locators))]
        _locators[key] = found
    return found
