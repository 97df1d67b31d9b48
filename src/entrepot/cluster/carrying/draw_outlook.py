"""What a connection that draws does for one queue or topic, for `entrepot explain`: what is drawn, or why not."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.carrying.demand import key_for
from entrepot.cluster.carrying.drawing import DrawConnector, DrawnBridge
from entrepot.cluster.flow import NO_CREDIT
from entrepot.cluster.link import State
from entrepot.protocols.drawing import CLOSING, ENDING, OPEN, OPENING, Draw

WORDS: Final = {
    OPENING: "is being opened",
    OPEN: "is drawn",
    ENDING: "is drawn no more, what came is still to be acknowledged",
    CLOSING: "is being closed",
}
LOOK_THERE: Final = "look at the queue there: is it made, may the user consume, does another consumer hold what it has?"


def outlook(connector: DrawConnector, name: str, *, topic: bool, now: Instant) -> list[dict[str, object]]:
    """Return what ``connector`` does for the queue, or the topic, ``name``; ``text``: that in words, ``remedy``.

    Nothing where it may not draw that at all (``only``, ``back``).
    """
    options = connector.entry.options
    if name in options.back or (options.only and not any(matches(name, each, MIXED) for each in options.only)):
        return []
    bridge = connector.bridge
    who = f"the {options.WHAT} {connector.name} ({connector.place})"
    if bridge is None:
        text, remedy = f"{who} is not asked: the connector is stopped", f"entrepot bridge start {connector.name}"
        return [_told(connector, "stopped", "stopped", text, remedy)]
    key = key_for(name, topic=topic)
    state = bridge.link.state.value
    wanted = bridge.demand.wanted.get(key)
    draw = bridge.drawing.get(key)
    if wanted is None and draw is None:
        text = f"{who} is asked for nothing: nobody here reads it who is demand, no client and no lease with demand"
        return [_told(connector, state, "unwanted", text, "start a consumer here, or a query with demand=true")]
    readers = 0 if wanted is None else len(wanted.readers)
    if bridge.link.state is not State.OPEN:
        why = f": {bridge.link.why}" if bridge.link.why else ""
        text = f"{who} is not there, it is {state}{why}; {_count(readers)} here wait for it"
        return [_told(connector, state, "down", text, "start that broker, or see entrepot bridge list")]
    if draw is None:
        text, why = _waits(bridge, key, now)
        return [_told(connector, state, "not-drawn", f"{who}: {text}", LOOK_THERE if why else "")]
    code, remedy = "reading", ""
    text = f"{who}: its queue {draw.source} {WORDS.get(int(draw.state), 'is gone')}, for {_count(readers)} here; "
    text += f"{int(draw.received):,} came, {int(draw.waiting):,} batches wait for our disk"
    if bridge.link.flow.reasons & NO_CREDIT:
        code = "full"
        text += "; there is no room here, so no more comes than is on its way"
        remedy = "consumers here, or more room: max_octets of the address, the memory limit"
    return [_told(connector, state, code, text, remedy, draw)]


def _waits(bridge: DrawnBridge, key: str, now: Instant) -> tuple[str, str]:
    """Return why a queue that is wanted is not drawn: in words, and as the other broker or this one said it."""
    due, why = bridge.refusal(key)
    if not why:
        return "it is asked for at once", ""
    return f"{why}; it is asked for again in {max(0, due - now) // MILLISECOND} ms", why


def _count(readers: int) -> str:
    return f"{readers:,} reader{'' if readers == 1 else 's'}"


def _told(
    connector: DrawConnector, state: str, code: str, text: str, remedy: str, draw: Draw | None = None
) -> dict[str, object]:
    """Return one row. ``source``: the queue there; ``unacknowledged``: batches of messages that are not on disk yet."""
    return {
        "connector": connector.name,
        "state": state,
        "code": code,
        "text": text,
        "remedy": remedy,
        "source": "" if draw is None else draw.source,
        "received": 0 if draw is None else int(draw.received),
        "unacknowledged": 0 if draw is None else int(draw.waiting),
    }
