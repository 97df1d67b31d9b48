"""Clusters of clients: tells failover clients which brokers there are, and asks them to move (classic.md 2.4, 2.6).

Brokers of this kind tell one another where they are over every bridge; that serves readers by lease too, which are told
of every broker that speaks STOMP (`ClientCluster.places`).

`census.py` knows who is there, `balance.py` decides who moves; this carries it out on the accepted connections of one
broker. Attributes of the connector say how far: ``updateClusterClients`` sends the lists and lets its clients count,
``rebalanceClusterClients`` lets them be moved, ``updateClusterClientsOnRemove`` takes a broker that is gone out of the
lists, ``updateClusterFilter`` chooses brokers by name.

Decided on purpose, where Classic does otherwise:
- a list never sets ``rebalanceConnection``: that leaves the choice of who moves, and where to, to the dice of each
  client. Who is to move is told alone (``reconnectTo``), after what he holds has been settled (`Departure`);
- a list changes nothing for a client that already knows it, so it is sent only if it is another one;
- each client's list begins at another broker, so that those of a dead broker spread over the rest, also the clients
  that do not shuffle; this broker itself comes first, for it is where the client is;
- the passive side of a one-way connector learns the other broker too;
- a broker that stops in order tells its clients the others, once and before anything else closes, and itself no more
  (`retire`): ActiveMQ sends shorter lists while its bridges close, and the last names none but the one that stops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import InvalidOption
from entrepot.cluster.balance import Balance, Client, Move
from entrepot.cluster.census import TOKEN, UNKNOWN, Census, Facts
from entrepot.cluster.channel import CensusPort
from entrepot.cluster.roll import Roll, rotated
from entrepot.cluster.zones import ZoneRules
from entrepot.core.ports import Neighbours
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.commands import BrokerId, BrokerInfo
from entrepot.protocols.openwire.departure import Departure
from entrepot.protocols.openwire.ids import text_of
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.steering import Cluster, Steering
from entrepot.protocols.openwire.whereabouts import ZONES_TOKEN, Zones

LOOK_EVERY: Final = 250 * MILLISECOND
CALM_LOOK_EVERY: Final = SECOND  # where no clients are shared out: news of brokers only
DEPARTING_EVERY: Final = 20 * MILLISECOND  # a client that is to go waits for nothing but what it holds
DRAIN_PATIENCE: Final[Duration] = 15 * SECOND  # for a client to settle what it holds; then it stays
MANY: Final = 1000  # clients that may be looked at in a moment; with more, the moments are further apart
ZONE_KEY: Final = "entrepot.zone"
RETRY: Final = 60 * SECOND  # a client that could not be moved is left alone for so long
TRANSACTED_COST: Final = 1_000_000
TEMPORARY_COST: Final = 100_000


class _Look(Alarm):
    def __init__(self, due: int, cluster: ClientCluster) -> None:
        super().__init__(due)
        self.cluster = cluster

    def ring(self, now: int) -> None:
        self.cluster.look(now)


class _Neighbours(Neighbours):
    def __init__(self, cluster: ClientCluster) -> None:
        self.cluster = cluster

    def places(self) -> str:
        return self.cluster.places()

    def away(self, name: str, topic: bool) -> str:
        return ", ".join(self.cluster.unreached(name, topic))


class ClientCluster(Cluster):
    """What one broker does for its clients.

    ``active``: it tells other brokers where it is. ``sharing``: and how many clients it has, for some connector updates
    its clients, or there are zones.
    """

    def __init__(self, acceptor: Acceptor, *, zone: str = "", rules: ZoneRules | None = None) -> None:
        self.acceptor: Final = acceptor
        self.broker: Final = acceptor.broker
        self.zone: Final = zone
        self.rules: Final = ZoneRules() if rules is None else rules
        self.active = False
        self.sharing = False
        here = Facts(self.broker.ids.node_id, self.broker.options.name, acceptor.url, zone)
        self.census: Final = Census(here, int(self.broker.wall))
        self.roll: Final = Roll(self.census)
        self.balance: Final = Balance()
        self.moved = 0
        self.links: dict[Hashable, CensusPort] = {}
        self.unreached: Callable[[str, bool], list[str]] = lambda name, topic: []  # see `Neighbours.away`
        self._departures: dict[int, Departure] = {}
        self._stubborn: dict[int, int] = {}  # a client that could not be moved -> when it may be asked again
        self._filters: dict[str, list[re.Pattern[str]]] = {}
        self._told: dict[int, str] = {}
        self._zones: dict[int, str] = {}  # where clients belong
        self._looked = 0

    def introduce(self) -> None:
        """Let every bridge say from its beginning that we tell more than ActiveMQ does."""
        self.acceptor.introduction = f"{ZONE_KEY}={self.zone}\n"

    def activate(self, *, sharing: bool = True, stomp: str = "") -> None:
        """Begin: tell other brokers what we know, and look at the clients now and then. See the class."""
        if not self.active:
            self.active = True
            self.sharing = sharing
            clients = 0 if sharing else UNKNOWN
            here = msgspec.structs.replace(self.census.here, url=self.acceptor.url, stomp=stomp, clients=clients)
            self.census.here = here
            self.introduce()
            self.broker.neighbours = _Neighbours(self)
            self._again(int(self.broker.now), LOOK_EVERY)

    # -- other brokers -------------------------------------------------------------------------------------------------

    def joined(self, link: CensusPort, peer: BrokerInfo) -> None:
        """A bridge to ``peer`` is open."""
        there = "" if peer.broker_id is None else text_of(peer.broker_id)
        url = peer.broker_url or ""
        told = (peer.network_properties or "").find(ZONE_KEY + "=") >= 0
        if told:
            self.links[link] = link
        if there and url:
            self.census.joined(link, Facts(there, peer.broker_name or "", url), int(self.broker.now))
        if self.active and told:
            link.tell_census(self.census.token())
        self._changed()

    def left(self, link: CensusPort) -> None:
        """A bridge ended."""
        self.links.pop(link, None)
        before = self.roll.named()
        self.census.left(link, int(self.broker.now))
        self._forget(before)

    def heard(self, link: CensusPort, token: bytes | None) -> None:
        """Another broker tells what it knows."""
        if self.active and token is not None and token.startswith(TOKEN):
            before = self.roll.named()
            self.census.heard(token, int(self.broker.now))
            self._forget(before)

    def _forget(self, before: dict[str, Facts]) -> None:
        self.roll.forget(before)
        self._changed()

    def retire(self) -> None:
        """The broker stops: send its clients to the others, and tell those that it goes. Nobody is moved any more."""
        if self.roll.retired:
            return
        self.roll.retire()
        for client in list(self.acceptor.clients.values()):
            number = int(client.number)
            if client.follows and not client.sent_away and number in self._told:
                self._tell_brokers(client, self.list_for(client))
        if self.active:
            told = self.census.leave(int(self.broker.now), int(self.broker.wall))
            for link in list(self.links.values()):
                link.tell_census(told)

    # -- readers by lease ----------------------------------------------------------------------------------------------

    def places(self) -> str:
        """Return every broker that says where it speaks STOMP: ``id=place place,id=place``, this one first."""
        known = [*([] if self.roll.retired else [self.census.here]), *self.census.brokers()]
        return ",".join(f"{one.id}={one.stomp}" for one in known if one.stomp)

    # -- lists ---------------------------------------------------------------------------------------------------------

    def list_for(self, client: Steering) -> str:
        """Return the brokers that a client should know, in the order in which it should try them; "" for no list."""
        options = client.options
        if not options.update_clients:
            return ""
        zone = self.zone_of(client) or self.zone
        return ",".join(self.roll.in_order(self._listed(options), self.acceptor.url, zone, int(client.number)))

    def zones_for(self, client: Steering) -> bytes | None:
        """Return where the brokers are, for a client that said where it is; None for others."""
        if not client.told_zone:
            return None
        zones = {one.url: one.zone for one in self._listed(client.options) if one.zone}
        return ZONES_TOKEN + msgspec.json.encode(Zones(self.zone, zones))

    def infos(self, options: OpenWireOptions) -> list[BrokerInfo]:
        """Return the other brokers for our own introduction."""
        if not options.update_clients:
            return []
        return [
            BrokerInfo(broker_id=BrokerId(one.id), broker_url=one.url, broker_name=one.name)
            for one in self._listed(options)
        ]

    def entered(self, client: Steering) -> None:
        """A connection was let in."""
        number = int(client.number)
        self._zones[number] = self.zone_of(client)
        self._told[number] = self.list_for(client)

    def exited(self, client: Steering) -> None:
        """A connection is gone."""
        self._told.pop(int(client.number), None)
        departure = self._departures.pop(int(client.number), None)
        if departure is not None and departure.told:
            self.moved += 1
        self._stubborn.pop(int(client.number), None)
        self._zones.pop(int(client.number), None)

    def _listed(self, options: OpenWireOptions) -> list[Facts]:
        return self.roll.others(removes=options.update_clients_on_remove, fits=lambda one: self._passes(one, options))

    def _passes(self, one: Facts, options: OpenWireOptions) -> bool:
        text = options.update_filter
        if not text:
            return True
        patterns = self._filters.get(text)
        if patterns is None:
            patterns = self._filters[text] = read_filter(text)
        return any(pattern.fullmatch(one.name) for pattern in patterns)

    def _changed(self) -> None:
        """Tell those clients whose list is another one now; a broker that stops has told its last."""
        if not self.census.changed or self.roll.retired:
            return
        self.census.changed = False
        self.roll.found()
        for client in list(self.acceptor.clients.values()):
            number = int(client.number)
            if client.follows and number not in self._departures and number in self._told:
                self._tell_brokers(client, self.list_for(client))

    def _tell_brokers(self, client: Steering, brokers: str) -> None:
        number = int(client.number)
        if brokers and brokers != self._told[number]:
            self._told[number] = brokers
            client.tell_brokers(self, brokers)

    # -- clients -------------------------------------------------------------------------------------------------------

    def zone_of(self, client: Steering) -> str:
        """Return where a client belongs: what it says itself, else what the rules say, "" if nobody says it."""
        session = client.session
        return client.told_zone or self.rules.zone(session.client_id, session.subject.name, session.peer)

    def clients(self) -> list[Steering]:
        """Return the connections that can be told where to go, and are not on their way."""
        return [
            one
            for one in self.acceptor.clients.values()
            if one.options.update_clients and one.follows and one.number not in self._departures
        ]

    def _client(self, client: Steering, now: int) -> Client:
        busy = client.is_transacting()
        cost = client.unsettled() + (TRANSACTED_COST if busy else 0) + (TEMPORARY_COST if client.temporary else 0)
        movable = (
            client.options.rebalance_clients
            and now >= self._stubborn.get(int(client.number), 0)
            and not client.is_durable()
        )
        return Client(int(client.number), self._zones[int(client.number)], movable, cost)

    def look(self, now: int) -> None:
        """See who should move, go on with those who do, and tell the other brokers; nothing once the broker stops."""
        if self.roll.retired:
            return
        self._proceed(now)
        if self._departures and now - self._looked < LOOK_EVERY:
            self._again(now, DEPARTING_EVERY)
            return
        self._looked = now
        before = self.roll.named()
        self.census.advance(now)
        self._forget(before)
        if self.sharing:
            self._share_out(now)
        self._tell(now)
        pause = LOOK_EVERY * (1 + len(self._told) // MANY) if self.sharing else CALM_LOOK_EVERY
        self._again(now, DEPARTING_EVERY if self._departures else pause)

    def _share_out(self, now: int) -> None:
        """Count the clients, and begin with those who should move."""
        staying = self.clients()
        leaving = len(self._departures)
        self.census.count(len(staying) + leaving)
        settled = [one for key, one in self.roll.named().items() if self.census.members[key].settled(now)]
        by_number = {int(client.number): client for client in staying}
        for move in self.balance.look(
            self.census.here,
            settled,
            lambda: [self._client(client, now) for client in staying],
            count=len(staying),
            guests=any(self._zones[number] not in ("", self.zone) for number in by_number),
            leaving=leaving,
            now=now,
        ):
            self._begin(by_number[move.key], move, now)

    def _tell(self, now: int) -> None:
        told = self.census.tell(now, int(self.broker.wall))
        if told:
            for link in list(self.links.values()):
                link.tell_census(told)

    def _begin(self, client: Steering, move: Move, now: int) -> None:
        if self._passes(move.to, client.options):
            self._departures[move.key] = Departure(client, self, move.to.url, self._itinerary(client, move.to), now)

    def _itinerary(self, client: Steering, to: Facts) -> str:
        """Return the list of a client that leaves: where it should go, and where else if that falls meanwhile.

        Java's client draws the place from the list by lot unless ``randomize=false``. So this broker is not on it where
        another one is: whoever draws that must be told again.
        """
        others = [one.url for one in self._listed(client.options) if one.zone == to.zone and one.url != to.url]
        return ",".join([to.url, *(rotated(others, int(client.number)) or [self.acceptor.url])])

    def _proceed(self, now: int) -> None:
        for number, departure in list(self._departures.items()):
            departure.advance(now)
            if not departure.told and now - departure.since > DRAIN_PATIENCE:
                departure.cancel()
                del self._departures[number]
                self._stubborn[number] = now + RETRY

    def _again(self, now: int, after: int) -> None:
        self.broker.timetable.add(_Look(now + after, self))


def read_filter(text: str) -> list[re.Pattern[str]]:
    """Return the patterns of an ``updateClusterFilter``: a comma list. Raises InvalidOption."""
    try:
        return [re.compile(part.strip()) for part in text.split(",") if part.strip()]
    except re.error as error:
        raise InvalidOption(
            f"{text!r} is no list of regular expressions: {error}", remedy="like updateClusterFilter=ams.*,fra1"
        ) from error
