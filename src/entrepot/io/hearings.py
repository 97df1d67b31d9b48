"""Discovery groups that core bridges and federations listen to: datagrams in, places out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.connector import CoreConnector
from entrepot.cluster.clusters.groups import DATAGRAM_OCTETS_MAX, DiscoveryGroup, Event, Found, Hearing, Lost
from entrepot.cluster.clusters.options import place_of
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.downstream import DownstreamConnector
from entrepot.config.clusters import clusters_of
from entrepot.config.model import BrokerConfig
from entrepot.io.datagram import Group, listen
from entrepot.io.turns import Turn

Located = CoreConnector | FederationConnector | DownstreamConnector
SWEEP_S: Final = 0.5  # between two looks for brokers that announce themselves no more


class BridgeHearings:
    """The groups of all core bridges and upstreams of one broker; those that name one group share what is heard."""

    def __init__(self, turn: Turn, node: str, config: BrokerConfig | None, connectors: Sequence[Located]) -> None:
        """``node``: the UUID of this broker, which hears itself, too."""
        self._turn: Final = turn
        self._groups: list[Group] = []
        self._timer: asyncio.TimerHandle | None = None
        self._heard: Final[list[tuple[Hearing, list[Located], dict[str, Endpoint]]]] = []
        asked = any(connector.entry.group for connector in connectors)
        known = {one.name: one for one in clusters_of(config.peering).discoveries} if config and asked else {}
        wanted: dict[str, list[Located]] = {}
        for connector in connectors:
            if connector.entry.group in known:
                wanted.setdefault(connector.entry.group, []).append(connector)
        self._wanted: Final[list[tuple[DiscoveryGroup, list[Located]]]] = [
            (known[name], told) for name, told in wanted.items()
        ]
        self._node: Final = node

    async def start(self) -> None:
        """Listen. Raises OperatorError for a group that cannot be joined."""
        for group, told in self._wanted:
            hearing = Hearing(group, self._node, {})
            places: dict[str, Endpoint] = {}
            self._heard.append((hearing, told, places))
            heard = partial(self._hear, hearing, told, places)
            self._groups.append(
                await listen(
                    group.address, group.port, heard, interface=group.local_address, octets_max=DATAGRAM_OCTETS_MAX
                )
            )
        if self._heard:
            self._sweep()

    def stop(self) -> None:
        """Listen no more."""
        if self._timer is not None:
            self._timer.cancel()
        for group in self._groups:
            group.close()

    def _hear(
        self, hearing: Hearing, told: list[Located], places: dict[str, Endpoint], data: bytes, sender: str
    ) -> None:
        self._turn.run(lambda: self._tell(hearing.heard(data, int(self._turn.now)), told, places))

    def _tell(self, events: list[Event], told: list[Located], places: dict[str, Endpoint]) -> None:
        before = dict(places)
        for event in events:
            if isinstance(event, Lost):
                places.pop(event.node, None)
            elif isinstance(event, Found):
                place = place_of(event.connector)
                if place is not None:
                    places[event.node] = place
        if places != before:
            for connector in told:
                connector.located(list(places.values()), int(self._turn.now))

    def _sweep(self) -> None:
        self._turn.run(self._forget)
        self._timer = self._turn.loop.call_later(SWEEP_S, self._sweep)

    def _forget(self) -> None:
        for hearing, told, places in self._heard:
            self._tell(hearing.advance(int(self._turn.now)), told, places)
