"""What a broker of ActiveMQ lets anybody see of one destination: whether it is there, what is in it, who reads.

It does not know our questions, and would keep them in a queue. Which destinations and consumers it has, it tells again
in advisories to each new reader of their topics; what is in a queue a browser shows. Nothing is left behind there: a
queue that it does not have is not looked into, because a look would make it.
"""

from __future__ import annotations

from typing import Any, Final

from entrepot.base.patterns import CLASSIC, matches
from entrepot.client.consumer import Consumer
from entrepot.client.session import Session
from entrepot.protocols.openwire.commands import ConsumerInfo, DestinationInfo

PROGRAM: Final = "ActiveMQ"
"""What it calls itself, with its version behind."""
ADVISORY: Final = "topic://ActiveMQ.Advisory"
QUIET_S: Final = 0.3  # it tells all it has at once; a pause means that this was all
DESTINATIONS_MOST: Final = 10_000
CONSUMERS_MOST: Final = 10_000
MESSAGES_MOST: Final = 10_000  # a browser of ActiveMQ shows 400 as it is configured at first


async def standing(session: Session, name: str, broker: str, place: str, program: str) -> dict[str, Any]:
    """Return what `explain` of a broker of ours returns for the queue ``name``, as far as it can be seen from outside.

    ``broker``: what others call it. Raises AccessDenied, Unreachable.
    """
    told: dict[str, Any] = {
        "broker": broker,
        "node": "",
        "url": place,
        "destination": name,
        "topic": False,
        "queues": [],
        "more": 0,
        "bridges": [],
        "program": program,
    }
    if not await _has(session, name):
        return told
    readers = await _readers(session, name)
    messages = 0
    async with session.browser(f"queue://{name}") as browser:
        async for _ in browser:
            messages += 1
            if messages >= MESSAGES_MOST:
                break
    told["queues"] = [
        {
            "queue": name,
            "address": name,
            "routing": "ANYCAST",
            "waiting": messages,
            "in_flight": 0,
            "delayed": 0,
            "leased": 0,
            "scheduled": 0,
            "looked_at": 0,
            "head": "",
            "head_age_ms": 0,
            "head_path": [],
            "reasons": [],
            "consumers": readers,
            "next": {"who": "", "peer": "", "message": "", "sample": False},
        }
    ]
    return told


async def _has(session: Session, name: str) -> bool:
    async with session.consumer(f"{ADVISORY}.Queue") as advisories:
        return any(
            isinstance(said, DestinationInfo)
            and said.destination is not None
            and said.destination.physical_name == name
            for said in await _all(advisories, DESTINATIONS_MOST)
        )


async def _readers(session: Session, name: str) -> list[dict[str, Any]]:
    """Return the consumers of a queue; a bridge has the name of no broker, since an advisory does not say it."""
    async with session.consumer(f"{ADVISORY}.Consumer.Queue.>") as advisories:
        return [
            {
                "who": f"consumer {said.consumer_id}",
                "peer": "another broker" if said.network_subscription else "",
                "takes": True,
                "in_flight": 0,
                "prefetch": int(said.prefetch_size),
                "idle_ms": 0,
                "selector": said.selector or "",
                "priority": int(said.priority),
                "groups": 0,
                "exclusive": bool(said.exclusive),
            }
            for said in await _all(advisories, CONSUMERS_MOST)
            if isinstance(said, ConsumerInfo)
            and not said.browser
            and said.destination is not None
            and matches(said.destination.physical_name or "", name, CLASSIC)
        ]


async def _all(advisories: Consumer, most: int) -> list[object]:
    found: list[object] = []
    while len(found) < most and (one := await advisories.receive(QUIET_S)) is not None:
        found.append(one.advice)
    return found
