"""Sockets for clusters: dials where a contact says so, ends what it drops. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, assert_never

from entrepot.base.environment import SECOND, Entropy
from entrepot.base.errors import OperatorError, PeerError
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.clusters.connection import Carry, ClusterConnection
from entrepot.cluster.clusters.contact import Contact, Effect
from entrepot.cluster.clusters.groups import (
    DATAGRAM_OCTETS_MAX,
    Announcement,
    BroadcastGroup,
    Event,
    Hearing,
    encode,
)
from entrepot.config.clusters import Clusters
from entrepot.io.connection import Connection
from entrepot.io.datagram import Group, listen, speak
from entrepot.io.options import no_option
from entrepot.io.tcp import dial
from entrepot.io.turns import Turn
from entrepot.protocols.failover import Dial, Drop
from entrepot.protocols.session import Session, Shell

SWEEP_S: Final = 0.5  # between two looks for nodes that announce themselves no more

log: Final = logging.getLogger("entrepot.cluster")


class Contacts:
    """All connections that the cluster connections of one broker opened to learn who is there, and its groups."""

    def __init__(
        self, turn: Turn, clusters: Sequence[ClusterConnection], said: Clusters, entropy: Entropy, carry: Carry
    ) -> None:
        self.clusters: Final = clusters
        self._turn: Final = turn
        self._said: Final = said
        self._entropy: Final = entropy
        self._carry: Final = carry
        self._connections: dict[tuple[Contact, int], Connection] = {}
        self._dialling: dict[tuple[Contact, int], asyncio.Task[None]] = {}
        self._tokens: dict[str, None] = {}
        self._groups: list[Group] = []
        self._hearings: list[tuple[Hearing, Sequence[ClusterConnection]]] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def start(self) -> None:
        """Dial, announce this broker and listen. Raises OperatorError for a group that cannot be joined."""
        for cluster in self.clusters:
            self._turn.run(partial(cluster.start, self._perform, self._carry))
        if not self.clusters:
            return
        node = self.clusters[0].topology.own.node
        for broadcast in self._said.broadcasts:
            await self._announce(broadcast, node)
        for group in self._said.discoveries:
            told = [one for one in self.clusters if group.name in self._said.hears.get(one.options.name, ())]
            if told:
                hearing = Hearing(group, node, self._tokens)
                self._hearings.append((hearing, told))
                heard = partial(self._heard, hearing, told)
                self._groups.append(
                    await listen(
                        group.address,
                        group.port,
                        heard,
                        interface=group.local_address,
                        octets_max=DATAGRAM_OCTETS_MAX,
                    )
                )
        if self._hearings:
            self._sweep()

    async def stop(self) -> None:
        """Hang up, and wait until nothing is open."""
        for timer in self._timers.values():
            timer.cancel()
        for group in self._groups:
            group.close()
        for cluster in self.clusters:
            self._turn.run(cluster.stop)
        tasks = list(self._dialling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._connections.values()):
            connection.abort()

    # -- groups --------------------------------------------------------------------------------------------------------

    async def _announce(self, broadcast: BroadcastGroup, node: str) -> None:
        token = self._entropy.token(16).hex()
        self._tokens[token] = None
        try:
            data = encode(Announcement(node, token, broadcast.connectors))
        except PeerError as error:
            log.error("the broadcast group %r: %s", broadcast.name, error)
            return
        group = await speak(
            broadcast.address,
            broadcast.port,
            interface=broadcast.local_address,
            local_port=max(broadcast.local_port, 0),
        )
        self._groups.append(group)
        self._say(broadcast, group, data)

    def _say(self, broadcast: BroadcastGroup, group: Group, data: bytes) -> None:
        group.say(data)
        delay = broadcast.period / SECOND
        self._timers[broadcast.name] = self._turn.loop.call_later(delay, self._say, broadcast, group, data)

    def _heard(self, hearing: Hearing, told: Sequence[ClusterConnection], data: bytes, sender: str) -> None:
        self._turn.run(lambda: self._tell(hearing.heard(data, int(self._turn.now)), told))

    def _tell(self, events: list[Event], told: Sequence[ClusterConnection]) -> None:
        for event in events:
            for cluster in told:
                cluster.heard(event)

    def _sweep(self) -> None:
        self._turn.run(self._forget)
        self._timers[""] = self._turn.loop.call_later(SWEEP_S, self._sweep)

    def _forget(self) -> None:
        for hearing, told in self._hearings:
            self._tell(hearing.advance(int(self._turn.now)), told)

    # -- connections ---------------------------------------------------------------------------------------------------

    def _perform(self, contact: Contact, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dial(attempt, place):
                    key = (contact, attempt)
                    task = self._turn.loop.create_task(self._dial(contact, attempt, place))
                    self._dialling[key] = task
                    task.add_done_callback(partial(self._dialled, key))
                case Drop(attempt):
                    self._drop(contact, attempt)
                case _:
                    assert_never(effect)

    def _dialled(self, key: tuple[Contact, int], done: asyncio.Task[None]) -> None:
        self._dialling.pop(key, None)

    def _drop(self, contact: Contact, attempt: int) -> None:
        connection = self._connections.pop((contact, attempt), None)
        if connection is not None:
            connection.shut("this broker needs it no more")
            return
        task = self._dialling.get((contact, attempt))
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _dial(self, contact: Contact, attempt: int, place: Endpoint) -> None:
        def make(shell: Shell, peer: str) -> Session:
            assert isinstance(shell, Connection)
            self._connections[(contact, attempt)] = shell
            return contact.open(shell, attempt)

        def lost(connection: Connection) -> None:
            self._connections.pop((contact, attempt), None)
            self._failed(contact, attempt, "the connection broke")

        try:
            await dial(place.format(), self._turn, make, no_option, lost)
        except OperatorError as error:
            self._failed(contact, attempt, str(error))
        except OSError as error:
            self._failed(contact, attempt, f"{authority(place)}: {error.strerror or error or 'it took too long'}")

    def _failed(self, contact: Contact, attempt: int, why: str) -> None:
        self._turn.run(partial(contact.failed, attempt, why))
