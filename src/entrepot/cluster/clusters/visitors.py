"""Clients that another node serves: a client id of MQTT is one connection's in the whole cluster (artemis.md 5.4).

A node tells of each session that begins (SESSION_CREATED). Whoever has its client id here gives way, as he would if the
newer connection had come here: to the same user where there are rights, and where his acceptor lets ids be taken over.

What is told on, over several hops, names the node that it began at. A real Artemis leaves that out when it tells on;
such news may be this node's own and is not obeyed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.primitive import INT, Primitive
from entrepot.core.broker import BrokerCore
from entrepot.core.ports import ClientHolder
from entrepot.protocols.artemis.notifying import (
    ADDRESS,
    CLIENT_ID,
    CONNECTION_NAME,
    DISTANCE,
    PROTOCOL,
    SESSION_CREATED,
    TIMESTAMP,
    USER,
)
from entrepot.protocols.serving.session import Tenure
from entrepot.protocols.session import MQTT

ORIGIN: Final = "entrepot_node"
BEGINNING: Final = MQTT.upper()  # of what the protocol is called: Artemis 2.42 says MQTT5
TOLD_ON: Final = (USER, PROTOCOL, ADDRESS, CLIENT_ID, CONNECTION_NAME)


class Visitors:
    """What others tell of their clients. ``own``: this node; ``tell_on``: tells nodes behind it, if there are any."""

    def __init__(self, broker: BrokerCore, own: str, tell_on: Callable[[str, dict[str, object]], None] | None) -> None:
        self._broker: Final = broker
        self._own: Final = own
        self._tell_on: Final = tell_on

    def heard(self, node: str, said: dict[str, object]) -> None:
        """The neighbour ``node`` tells of a session, at itself or behind it; within a turn."""
        client_id, protocol, distance = said.get(CLIENT_ID), said.get(PROTOCOL), said.get(DISTANCE)
        if not isinstance(protocol, str) or not protocol.startswith(BEGINNING):
            return
        if not isinstance(client_id, str) or not client_id or not isinstance(distance, int):
            return
        origin = node if distance == 0 else said.get(ORIGIN)
        if not isinstance(origin, str) or origin == self._own:
            return
        user, told = said.get(USER), said.get(TIMESTAMP)
        holder = self._broker.clients.held.get(client_id)
        if holder is not None and (not isinstance(told, int) or told > _since(self._broker, holder)):
            self._give_way(holder, user if isinstance(user, str) else "", origin)
        if self._tell_on is not None:
            passed: dict[str, object] = {name: said.get(name) for name in TOLD_ON}
            self._tell_on(SESSION_CREATED, passed | {DISTANCE: Primitive(INT, distance + 1), ORIGIN: origin})

    def _give_way(self, holder: ClientHolder, user: str, node: str) -> None:
        if holder.protocol == MQTT and holder.yields and (holder.user == user or not self._broker.access.guarded):
            holder.give_way(f"at the node {node}")


def _since(broker: BrokerCore, holder: ClientHolder) -> int:
    """Return when the connection of ``holder`` was accepted, ms since 1970; 0 where that is not known.

    What is told of a session that is older than this one comes late: its client is here by now.
    """
    session = holder.session if isinstance(holder, Tenure) else None
    return 0 if session is None else int(broker.wall) - (int(broker.now) - int(session.opened)) // MILLISECOND
