"""The frame QUEUES: which queues a reader of ranges may have a lease on, by wildcards (docs/leases.md).

Looks through all queues of the broker once for each frame, so it costs by their number; the answer is bounded, and asks
nothing of anybody else. What a user may not read he is not told of.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import KIB
from entrepot.base.errors import Refused
from entrepot.base.patterns import MIXED, is_pattern, matches
from entrepot.core.queue.queue import Queue
from entrepot.core.security.access import CONSUME
from entrepot.model.address import ANYCAST
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp.headers import whole_number

MATCHES_MAX: Final = 100  # names and wildcards in one frame
WILDCARDS_MAX: Final = 10  # among them: each is compared word by word, which is 2 us for each queue
KNOWN_MAX: Final = 1_000  # queues that are asked after
LISTED_MAX: Final = 1_000  # queues in one answer
LISTED_OCTETS_MAX: Final = 128 * KIB  # of their names: half of the longest head that is read


def listed(session: ServerSession, headers: dict[str, str]) -> dict[str, str]:
    """Return the answer: ``queues``, ``count`` of all that match, and which of the ``known`` are ``gone``.

    Raises Refused for too many, or too long ones.
    """
    separator = session.broker.options.separator
    wanted = [_name(one, separator) for one in _words(headers.get("match", ""), MATCHES_MAX, "match")]
    known = dict.fromkeys(_words(headers.get("known", ""), KNOWN_MAX, "known"))
    most = whole_number(headers.get("max", str(LISTED_MAX)), "max")
    if not 1 <= most <= LISTED_MAX:
        raise Refused(f"max is {most}", remedy=f"a number of queues from 1 to {LISTED_MAX}")
    exact = {name for name in wanted if not is_pattern(name, MIXED)}
    wild = [name for name in wanted if name not in exact]
    if len(wild) > WILDCARDS_MAX:
        raise Refused(f"match has {len(wild)} wildcards", remedy=f"at most {WILDCARDS_MAX} in one frame")
    found: list[str] = []
    count = 0
    for queue in session.broker.table.queues.values():
        known.pop(token_of(queue), None)
        if not (queue.name in exact or any(matches(one, queue.name, MIXED) for one in wild)):
            continue
        if _lends(queue) and _may_consume(session, queue):
            count += 1
            if count <= most:
                found.append(f"{token_of(queue)}={_escaped(queue.name)}")
    text = ",".join(found)
    if len(text.encode()) > LISTED_OCTETS_MAX:
        raise Refused(f"the names of {len(found)} queues are too long for one answer", remedy="match fewer")
    return {"queues": text, "count": str(count), "gone": ",".join(known)}


def token_of(queue: Queue) -> str:
    """Return which queue this is: another one of the same name, made later, has another."""
    return f"{int(queue.identity)}.{int(queue.began)}"


def _lends(queue: Queue) -> bool:
    """Return whether a lease on it is to be had: on no topic's, nobody's own, and none that keeps what is read."""
    traits = queue.traits
    return queue.routing == ANYCAST and not (queue.temporary or traits.non_destructive or traits.last_value_key)


def _may_consume(session: ServerSession, queue: Queue) -> bool:
    """Return what ATTACH would find: it asks for the name, and for where the queue really belongs."""
    access = session.broker.access
    return all(access.has_right(session.subject, one, CONSUME) for one in (queue.name, queue.address))


def _words(text: str, most: int, name: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    if len(found) > most:
        raise Refused(f"{name} has {len(found)} entries", remedy=f"at most {most} in one frame")
    return found


def _name(text: str, separator: str) -> str:
    name = text.removeprefix("/queue/")
    return name.replace(separator, ".") if separator else name


def _escaped(name: str) -> str:
    return name.replace("%", "%25").replace(",", "%2C")
