"""Standing orders: what is sent to one address also, or only, goes to others (classic.md 4.8, artemis.md 4.4). [C]

One `Divert` says what a divert of Artemis, a ``compositeQueue`` or ``compositeTopic`` of Classic say; the makers below
give each family's rules. The journal keeps those of Artemis (`core/addressing/standing.py`).

A copy that Classic makes is the same message in another queue, one record for all. A copy that Artemis makes is a
message of its own, with an id of its own, under the new address, and says where it came from.
"""

from __future__ import annotations

from typing import Final

from entrepot.core.addressing.routing import Divert, Forward, Target
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.headers import Headers
from entrepot.model.predicate import Predicate

MIRROR_PREFIX: Final = "VirtualTopic.Mirror."


def divert(
    name: str,
    address: str,
    forwards: list[Destination],
    exclusive: bool = False,
    condition: Predicate | None = None,
    *,
    passes: bool = False,
    headers: Headers = (),
) -> Divert:
    """Return a divert of Artemis: what matches is copied, or, ``exclusive``, goes only there; the rest is untouched.

    Copies go by the routing type of their destination; UNTYPED has them lose theirs and go to queues of both (STRIP),
    ``passes`` has them keep it (PASS). ``headers``: what a transformer sets on them.
    """
    made = Divert(name, address, UNTYPED)
    made.forwards = [Forward(target_of(one), condition) for one in forwards]
    if passes:
        for forward in made.forwards:
            forward.passing = [Target(forward.target.name, routing) for routing in (ANYCAST, MULTICAST, UNTYPED)]
    made.exclusive = exclusive
    made.keeps_unmatched = True
    made.marks = True
    made.headers = headers
    return made


def composite(
    address: str,
    topic: bool,
    forwards: list[tuple[Destination, Predicate | None]],
    forward_only: bool = True,
    send_when_not_matched: bool = False,
) -> Divert:
    """Return a compositeQueue or compositeTopic of Classic; each forward may have a filter (filteredDestination)."""
    made = Divert(("topic://" if topic else "queue://") + address, address, MULTICAST if topic else ANYCAST)
    made.forwards = [Forward(target_of(one), condition) for one, condition in forwards]
    made.exclusive = forward_only
    made.keeps_unmatched = send_when_not_matched
    return made


def target_of(destination: Destination) -> Target:
    """Return an unresolved target; the first message resolves it, and makes its queue if that is allowed."""
    return Target(destination.name, destination.routing, destination.queue)
