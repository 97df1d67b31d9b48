"""What a policy says of one queue or address, and what is asked of the upstream on that account (artemis.md 4.12)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.carrying.demand import is_own
from entrepot.cluster.federation.options import ANY_HOPS, AddressPolicy, Match, QueuePolicy
from entrepot.model.address import MULTICAST
from entrepot.model.headers import Headers
from entrepot.protocols.artemis.convert import HOPS

PREFIX: Final = "federated"
AMQP_HOPS: Final = "x-opt-amq-fed-hops"  # the annotation that counts them over AMQP
_LIMIT: Final = re.compile(rf'(?:{re.escape(HOPS)}|"m\.{re.escape(AMQP_HOPS)}")\s*<\s*(\d+)')


class Wish(Struct, frozen=True, kw_only=True):
    """A consumer to have at the upstream. ``queue``: what it reads there; ``address``, ``local``: where that goes here.

    ``local`` "": to the address, not to one queue. ``policy``: of an address, whose queue is made there if need be.
    ``headers``: properties that are set on what comes.
    """

    queue: str
    address: str
    routing: int = MULTICAST
    local: str = ""
    selector: str = ""
    priority: int = 0
    policy: AddressPolicy | None = None
    headers: Headers = ()

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from others of one upstream: two policies that want one thing get it once."""
        return (self.queue, self.selector, self.priority)


def takes_queue(policy: QueuePolicy, address: str, queue: str) -> bool:
    """Return whether ``policy`` means ``queue`` of ``address``."""
    return _takes(policy.includes, policy.excludes, address, queue)


def takes_address(policy: AddressPolicy, address: str) -> bool:
    """Return whether ``policy`` means ``address``."""
    return _takes(policy.includes, policy.excludes, address, "")


def may_share(first: QueuePolicy, second: QueuePolicy) -> bool:
    """Return whether a queue may be meant by both, as far as their patterns tell: a pattern is tried as a name."""
    alike = [
        one for one in first.includes or (Match(),) for other in second.includes or (Match(),) if _overlap(one, other)
    ]
    excludes = (*first.excludes, *second.excludes)
    return any(not _one_of(excludes, one.address, one.queue) for one in alike)


def _overlap(one: Match, other: Match) -> bool:
    pairs = ((one.address, other.address), (one.queue, other.queue))
    return all(not a or not b or matches(a, b, MIXED) or matches(b, a, MIXED) for a, b in pairs)


def _takes(includes: tuple[Match, ...], excludes: tuple[Match, ...], address: str, queue: str) -> bool:
    if is_own(address) or _one_of(excludes, address, queue):
        return False
    return not includes or _one_of(includes, address, queue)


def _one_of(rules: Iterable[Match], address: str, queue: str) -> bool:
    return any(
        (not rule.address or matches(rule.address, address, MIXED))
        and (not rule.queue or matches(rule.queue, queue, MIXED))
        for rule in rules
    )


def can_pass_on(condition: str) -> bool:
    """Return whether a queue with this filter takes messages that a federation fetched.

    The queue that another broker's federation has here lets in what came fewer hops than it says. Where that is less
    than the one hop that fetching is, fetching for it would bring what it does not take; and two brokers that are each
    other's upstream would want things from one another because the other one does, for ever.
    """
    found = _LIMIT.search(condition)
    return found is None or int(found[1]) > 1


def filter_for(policy: AddressPolicy) -> str:
    """Return what the queue at the upstream lets in."""
    return "" if policy.max_hops == ANY_HOPS else f"{HOPS} IS NULL OR {HOPS}<{policy.max_hops}"


def queue_for(federation: str, upstream: str, address: str) -> str:
    """Return the name of the queue at the upstream; an address that is multicast here is read as such there."""
    return f"{PREFIX}.{federation}.{upstream}.{address}.MULTICAST"
