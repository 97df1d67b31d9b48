"""A cluster connection: this node in one cluster, and whom it knows there (artemis.md 1.10).

It dials the static connectors and whoever is heard in a discovery group, all of them and for as long as they are not
given up, so that a node which was not there at the start is found when it comes. What it learns is in its `Topology`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Instant, WallTime
from entrepot.base.uri import Endpoint
from entrepot.cluster.clusters.contact import Contact, Effect, State
from entrepot.cluster.clusters.groups import Event, Found, Lost, Twin
from entrepot.cluster.clusters.members import Credentials, Members, where
from entrepot.cluster.clusters.options import ClusterOptions, place_of
from entrepot.cluster.clusters.topology import Member, Overseer, Topology, same_place
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.primitives import Connector

CONTACTS_MAX: Final = 1_000  # places: who says that a node is there could fill memory

Perform = Callable[[Contact, list[Effect]], None]


class _Due(Alarm):
    """A contact is to be dialled again."""

    def __init__(self, due: Instant, contact: Contact) -> None:
        super().__init__(due)
        self._contact: Final = contact

    def ring(self, now: Instant) -> None:
        """Dial, if it still wants that."""
        self._contact.advance()


class _Announcement(Alarm):
    """This node says once more that it is there."""

    def __init__(self, due: Instant, connection: ClusterConnection, left: int) -> None:
        super().__init__(due)
        self._connection: Final = connection
        self._left: Final = left

    def ring(self, now: Instant) -> None:
        """Say it."""
        self._connection.announce(self._left)


class ClusterConnection(Overseer):
    """One of a broker's. ``say``: takes what an operator should know: who, and what.

    ``listens``: it hears a discovery group. With neither that nor static connectors it dials nobody, and is a node that
    others send to (artemis.md 1.7).
    """

    def __init__(
        self,
        broker: BrokerCore,
        options: ClusterOptions,
        credentials: Credentials,
        say: Callable[[str, str], None],
        *,
        listens: bool = False,
    ) -> None:
        self.broker: Final = broker
        self.options: Final = options
        self.contacts: dict[str, Contact] = {}
        own = Member(broker.ids.node.uuid_text, int(broker.wall), options.own)
        self.topology: Final = Topology(own)
        self.members: Final = Members(broker, self.topology, credentials, self.say)
        self._credentials: Final = credentials
        self._say: Final = say
        self._perform: Perform = lambda contact, effects: None
        self._running = False
        self._dials: Final = listens or len(options.seeds) > 0
        self.topology.overseers.append(self)

    def start(self, perform: Perform) -> None:
        """Dial everybody that is listed. ``perform`` carries out what contacts ask for."""
        self._perform = perform
        self._running = True
        for seed in self.options.seeds:
            self.look_at(seed)
        self.announce(self.options.notification_attempts)

    def stop(self) -> None:
        """Hang up. Peers learn that this node goes by what its own connections are told."""
        self._running = False
        for contact in self.contacts.values():
            contact.close()

    def look_at(self, connector: Connector) -> None:
        """A node of the cluster may be at ``connector``."""
        place = place_of(connector)
        if place is None:
            self.say(f"the connector {connector.name!r} names no place of TCP: it is not dialled")
        elif not same_place(connector, self.options.own):
            self._contact(place)

    def member_up(self, member: Member) -> None:
        """A node that others told of is met too, unless only those that are listed may be."""
        if self._dials and not self.options.direct and member.primary is not None and member.node != self.members.node:
            for contact in self.contacts.values():
                if contact.node == member.node and contact.state is State.MET:
                    return
            self.look_at(member.primary)

    def _contact(self, place: Endpoint) -> None:
        contact = Contact(place, self.options, self.members, self._credentials, self)
        known = self.contacts.get(contact.key)
        if not self._running or (known is not None and known.state not in (State.FAILED, State.CLOSED)):
            return
        if known is None and len(self.contacts) >= CONTACTS_MAX:
            self.say(f"{contact.key} is not dialled: {CONTACTS_MAX} places are")
            return
        self.contacts[contact.key] = contact
        contact.start()

    def forget(self, connector: Connector) -> None:
        """``connector`` is announced no more: it is not dialled again, unless somebody is there now."""
        place = place_of(connector)
        if place is None:
            return
        for key, contact in list(self.contacts.items()):
            if contact.place == place and contact.state is not State.MET:
                del self.contacts[key]
                contact.close()

    def heard(self, event: Event) -> None:
        """A discovery group says who is there."""
        if isinstance(event, Found):
            self.look_at(event.connector)
        elif isinstance(event, Lost):
            self.forget(event.connector)
        else:
            assert isinstance(event, Twin)
            mine = " (this broker's own)" if event.node == self.topology.own.node else ""
            self.say(
                f"AMQ212034: two brokers announce themselves as the node {event.node}{mine}: the data directory of one "
                "is a copy of the other's. Start one of them with an empty data directory"
            )

    def announce(self, left: int) -> None:
        """Say ``left`` times, at intervals, that this node is there (artemis.md 1.10)."""
        if not self._running or left <= 0:
            return
        self.topology.announce(self.wall())
        for contact in self.contacts.values():
            contact.announce()
        due = self.now() + self.options.notification_interval
        self.broker.timetable.add(_Announcement(due, self, left - 1))

    def report(self) -> dict[str, object]:
        """Return what is known, for people."""
        return {
            "name": self.options.name,
            "node": self.topology.own.node,
            "members": [
                {"node": member.node, "place": where(member), "event": member.event}
                for member in self.topology.members.values()
            ],
            "contacts": [
                {"place": contact.key, "state": contact.state.value, "why": contact.why}
                for contact in self.contacts.values()
            ],
        }

    # -- what contacts ask ---------------------------------------------------------------------------------------------

    def perform(self, contact: Contact, effects: list[Effect]) -> None:
        """Carry ``effects`` out."""
        self._perform(contact, effects)

    def wake(self, contact: Contact, due: Instant) -> None:
        """Dial again at ``due``."""
        self.broker.timetable.add(_Due(due, contact))

    def say(self, what: str) -> None:
        """Tell an operator."""
        self._say(self.options.name, what)

    def now(self) -> Instant:
        """Return the time."""
        return int(self.broker.now)

    def wall(self) -> WallTime:
        """Return the date."""
        return int(self.broker.wall)
