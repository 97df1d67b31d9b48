"""What a connection over AMQP does to fill an address, for `entrepot explain`: what comes, or why nothing does.

Of what it sends from a queue its consumer there tells (`QueueFeed.halted`); here is what of that was parked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.base.environment import Instant
from entrepot.cluster.address_filter import AddressFilter
from entrepot.cluster.broker_connections.connection import BrokerConnection
from entrepot.cluster.broker_connections.connector import AmqpConnector
from entrepot.cluster.broker_connections.wanted import FetchWish
from entrepot.cluster.carrying.demand import is_own
from entrepot.cluster.carrying.parking import PARKED
from entrepot.cluster.link import State
from entrepot.core.mirrors.identity import MIRROR
from entrepot.protocols.amqp.calling.federating import Pulling

MOVE_BACK: Final = f"let the other side take it, then entrepot queue move {PARKED} QUEUE; or purge it"
NO_ROOM: Final = "there is no room here, so it gets no credit"
MORE_ROOM: Final = "consumers here, or more room: max-size-bytes of the address, the memory limit"
CONSUME: Final = "consumers here that keep up, or amqpCredits of 1 at least"
FROM_ADDRESS: Final = "fills it from the address of that name there"
LOOK_THERE: Final = "look at the address there: is it made, and may the user consume?"


def outlook(connector: AmqpConnector, name: str, *, now: Instant) -> list[dict[str, object]]:
    """Return what ``connector`` does for the address ``name``, and what of it is parked; or nothing."""
    who = f"the AMQP connection {connector.name} ({connector.place})"
    connection = connector.connection
    mirrored = [_telling(connector, connection, who)] if _is_mirrored(connector, name) else []
    return [*mirrored, *_carried(connector, connection, name, who), *_fetched(connector, connection, name, who)]


def _carried(
    connector: AmqpConnector, connection: BrokerConnection | None, name: str, who: str
) -> list[dict[str, object]]:
    if connection is None:
        if not any(one.way.value != "sender" and one.means(name, name) for one in connector.entry.elements):
            return []
        text = f"{who} brings nothing: it is stopped"
        return [_told(connector, "stopped", "stopped", text, f"entrepot bridge start {connector.name}")]
    rows = _parked(connector, connection, name, who)
    key = f"from {name}"
    if key not in connection.wanted.wishes:
        return rows
    state = connection.link.state
    if state is not State.OPEN:
        why = f": {connection.link.why}" if connection.link.why else ""
        text = f"{who} is not there, it is {state.value}{why}"
        return [*rows, _told(connector, state.value, "down", text, "start the other side, or see entrepot bridge list")]
    why = connection.refusals.why(key)
    if why:
        return [*rows, _told(connector, state.value, "not-drawn", f"{who}: {why}", LOOK_THERE)]
    return [*rows, _reading(connector, connection, key, who)]


def _fetched(
    connector: AmqpConnector, connection: BrokerConnection | None, name: str, who: str
) -> list[dict[str, object]]:
    """Return a row for each link of a federation that fetches into the address, or the queue, ``name``."""
    if connection is None or connector.entry.federation is None:
        return []
    rows: list[dict[str, object]] = []
    state = connection.link.state
    for key, wish in connection.wanted.wishes.items():
        if not isinstance(wish, FetchWish) or name not in (wish.fetch.where.name, wish.fetch.where.queue):
            continue
        queue = wish.fetch.where.queue
        what = f"{who} fetches {queue or wish.fetch.where.name} by its policy {wish.fetch.policy}"
        why = connection.refusals.why(key) or connection.refusals.why(f"federation {connector.entry.federation.name}")
        if state is not State.OPEN:
            lost = f": {connection.link.why}" if connection.link.why else ""
            text = f"{what}, and is not there, it is {state.value}{lost}"
            rows.append(
                _told(connector, state.value, "down", text, "start the other side, or see entrepot bridge list")
            )
        elif why:
            rows.append(_told(connector, state.value, "not-drawn", f"{what}: {why}", LOOK_THERE))
        else:
            source = f"from the {'queue' if queue else 'address'} of that name there"
            rows.append(_reading(connector, connection, key, what, source))
    return rows


def obeyed(row: Mapping[str, Any], name: str) -> list[dict[str, object]]:
    """Return what the federation of another broker, which ``row`` is about, fetches from there for ``name``."""
    rows: list[dict[str, object]] = []
    for one in row["fetches"]:
        if name not in (one["address"], one["queue"]):
            continue
        what = one["queue"] or one["address"]
        text = f"a policy of the broker {row['peer_id']}, {one['policy']}, fetches {what} from it"
        code, remedy = "reading", ""
        if one["why"]:
            code, remedy, text = "not-drawn", LOOK_THERE, f"{text}: {one['why']}"
        else:
            text += f"; {one['received']:,} came"
        if one["held_back"]:
            code, remedy, text = "full", CONSUME, f"{text}; {_held_back(one['held_back'])}"
        if one["full"]:
            code, remedy, text = "full", MORE_ROOM, f"{text}; {NO_ROOM}"
        rows.append(
            {
                "connector": row["connector"],
                "state": row["state"],
                "code": code,
                "text": text,
                "remedy": remedy,
                "source": "",
                "received": one["received"],
                "unacknowledged": 0,
            }
        )
    return rows


def _is_mirrored(connector: AmqpConnector, name: str) -> bool:
    mirror = connector.entry.mirror
    return mirror is not None and not is_own(name) and AddressFilter(mirror.address_filter).covers(name)


def _telling(connector: AmqpConnector, connection: BrokerConnection | None, who: str) -> dict[str, object]:
    """Return how far the other side is told what happens at an address."""
    if connection is None:
        text, remedy = f"{who} mirrors it, and is stopped", f"entrepot bridge start {connector.name}"
        return _told(connector, "stopped", "mirrored", text, remedy)
    queue = connection.broker.table.queues.get(MIRROR + connector.name)
    waiting = 0 if queue is None else int(queue.count)
    state = connection.link.state
    text = f"{who} mirrors it; the other side was not told yet of {waiting:,} events, of whatever address"
    mirrors = connection.broker.mirrors
    if mirrors is not None and connection.entry.mirror is not None and connection.entry.mirror.sync:
        text += f"; {mirrors.waiting():,} answers to clients wait for that (sync)"
    if state is State.OPEN:
        return _told(connector, state.value, "mirrored", text, "")
    why = f": {connection.link.why}" if connection.link.why else ""
    return _told(connector, state.value, "mirrored", f"{text}; it is {state.value}{why}", "start the other side")


def _parked(connector: AmqpConnector, connection: BrokerConnection, name: str, who: str) -> list[dict[str, object]]:
    """Return a row for each address whose messages the peer did not take: at that address, and where they are now."""
    return [
        _told(
            connector,
            connection.link.state.value,
            "parked",
            f"{who}: {one.count:,} of {address} were not taken there and went to {PARKED}; the last: {one.why}",
            MOVE_BACK,
        )
        for address, one in connection.parked.items()
        if name in (address, PARKED)
    ]


def _reading(
    connector: AmqpConnector, connection: BrokerConnection, key: str, who: str, source: str = FROM_ADDRESS
) -> dict[str, object]:
    taking = connection.takings.get(key)
    received = 0 if taking is None else int(taking.received)
    text = f"{who} {source}; {received:,} came"
    remedy = ""
    if taking is not None and taking.withheld:
        text += f"; {NO_ROOM}"
        remedy = MORE_ROOM
    held_back = int(taking.holds_back()) if isinstance(taking, Pulling) else 0
    if held_back:
        text += f"; {_held_back(held_back)}"
        remedy = remedy or CONSUME
    row = _told(connector, "open", "full" if remedy else "reading", text, remedy)
    return {**row, "received": received}


def _held_back(count: int) -> str:
    return f"it pulls (amqpCredits 0), and asks for nothing while {count:,} messages wait here"


def _told(connector: AmqpConnector, state: str, code: str, text: str, remedy: str) -> dict[str, object]:
    return {
        "connector": connector.name,
        "state": state,
        "code": code,
        "text": text,
        "remedy": remedy,
        "source": "",
        "received": 0,
        "unacknowledged": 0,
    }
