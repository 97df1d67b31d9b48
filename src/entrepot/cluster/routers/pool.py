"""The brokers of one router: those of a list, those that are heard in a group, or the members of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.clusters.groups import Event, Found, Lost
from entrepot.cluster.clusters.topology import Member, Overseer, same_place
from entrepot.cluster.routers.options import PoolOptions
from entrepot.cluster.routers.probe import Perform, Probe
from entrepot.core.broker import BrokerCore
from entrepot.protocols.artemis.primitives import Connector

TARGETS_MAX: Final = 1_000


class Local:
    """This broker, as one of those to choose from."""

    def __init__(self, broker: BrokerCore, count: Callable[[], int]) -> None:
        self._broker: Final = broker
        self._count: Final = count

    @property
    def node(self) -> str:
        """Its id."""
        return self._broker.ids.node.uuid_text

    @property
    def connections(self) -> int:
        """How many connections it has."""
        return self._count()


Target = Local | Probe


class Pool(Overseer):
    """``local``: this broker, which is always ready, if it is one of them."""

    def __init__(self, broker: BrokerCore, options: PoolOptions, local: Local, say: Callable[[str], None]) -> None:
        self.options: Final = options
        self.probes: list[Probe] = []
        self._local: Final = local
        self._broker: Final = broker
        self._say: Final = say
        self._perform: Perform | None = None

    def start(self, perform: Perform) -> None:
        """Look at those of the list; the others come as they are heard of."""
        self._perform = perform
        for connector in self.options.connectors:
            self._add(connector, "")

    def stop(self) -> None:
        """Look at nobody any more."""
        self._perform = None
        for probe in self.probes:
            probe.stop()
        self.probes.clear()

    def ready(self) -> list[Target]:
        """Return those that answer, in the order in which they came."""
        own: list[Target] = [self._local] if self.options.local else []
        return [*own, *(one for one in self.probes if one.ready)]

    def all(self) -> list[Target]:
        """Return all, for people."""
        own: list[Target] = [self._local] if self.options.local else []
        return [*own, *self.probes]

    def has_quorum(self, ready: list[Target]) -> bool:
        """Return whether enough are ready."""
        return len(ready) >= self.options.quorum

    # -- who is there --------------------------------------------------------------------------------------------------

    def _add(self, connector: Connector, node: str) -> None:
        if self._perform is None or len(self.probes) >= TARGETS_MAX:
            return
        for one in self.probes:
            if same_place(one.connector, connector):
                return
        try:
            probe = Probe(self._broker, self.options, connector, node)
        except ValueError:
            self._say(f"the connector {connector.name!r} names no place of TCP: nobody is sent there")
            return
        self.probes.append(probe)
        probe.start(self._perform)

    def _remove(self, gone: Probe) -> None:
        self.probes.remove(gone)
        gone.stop()

    def member_up(self, member: Member) -> None:
        """A member of its cluster is there; this broker itself is not looked at."""
        if member.node == self._local.node or member.primary is None:
            return
        for one in list(self.probes):
            if one.node == member.node and not same_place(one.connector, member.primary):
                self._remove(one)
        self._add(member.primary, member.node)

    def member_down(self, node: str) -> None:
        """It left."""
        for one in list(self.probes):
            if one.node == node:
                self._remove(one)

    def heard(self, event: Event) -> None:
        """Its group says who is there."""
        if isinstance(event, Found):
            self._add(event.connector, "")
        elif isinstance(event, Lost):
            for one in list(self.probes):
                if same_place(one.connector, event.connector):
                    self._remove(one)
