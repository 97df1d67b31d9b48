"""The resource ``broker``: what a broker tells of itself and of all that it has, and what is done to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import InvalidDestination, Refused
from entrepot.base.machines import machine_of
from entrepot.core.broker import BrokerCore
from entrepot.core.maintenance import SWEEP_EVERY
from entrepot.core.operators import broker_connections, entitlements, tables, upkeep, views
from entrepot.core.operators.address_control import AddressControl, address_named
from entrepot.core.operators.amending_verbs import Amending
from entrepot.core.operators.control import DESCRIBED_MOST, Control, Described, fields_of, json_of, rows_of
from entrepot.core.operators.disk_room import DiskRoom
from entrepot.core.operators.divert_control import create_divert, destroy_divert, update_divert
from entrepot.core.operators.explaining import explained
from entrepot.core.operators.leaving import scale_down
from entrepot.core.operators.limiting import Limiting
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.making import Making, address_text
from entrepot.core.operators.overlook import QueuePage, Sums
from entrepot.core.operators.pace import Pace
from entrepot.core.operators.queue_control import QUEUES, QueueControl, find_queue
from entrepot.core.operators.rehearsing import Rehearsal
from entrepot.core.operators.remembering import remember_octets, remember_texts
from entrepot.core.operators.replaying import replay, replayed, retained
from entrepot.core.operators.roles import role_rows, roles
from entrepot.core.operators.sampling_verbs import BrokerSampling
from entrepot.core.operators.settings_page import settings_page
from entrepot.core.operators.storage import storage
from entrepot.core.operators.tables import Page
from entrepot.core.operators.tally import prepared_json
from entrepot.core.operators.virtual_queues import VirtualQueues
from entrepot.core.operators.where import Search
from entrepot.core.queue.queue import MAYBE_DELIVERED
from entrepot.model.address import ROUTING_NAMES
from entrepot.model.connected import SessionView

CLOSED: Final = "an operator closed it"


class BrokerControl(Control):
    """The resource ``broker``."""

    kind = "the broker"

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        broker = self.broker
        queues = broker.table.queues
        counts = broker.access.counts
        room = DiskRoom(broker)
        return {
            "name": lambda: broker.options.name,
            "version": lambda: broker.options.version,
            "currentTimeMillis": lambda: int(broker.wall),
            "nodeID": lambda: broker.ids.node.uuid_text,
            "nodeUUID": lambda: broker.ids.node.uuid_text,
            "active": lambda: True,
            "started": lambda: True,
            "backup": lambda: False,
            "clustered": lambda: bool(broker.informant.topology()),
            "securityEnabled": lambda: broker.access.guarded,
            "managementAddress": lambda: broker.access.management,
            "managementNotificationAddress": lambda: broker.informant.address,
            "addressCount": lambda: len(broker.table.addresses),
            "addressNames": lambda: list(broker.table.addresses),
            "queueCount": lambda: len(queues),
            "queueNames": lambda: list(queues),
            "divertNames": lambda: [one.name for diverts in broker.table.diverts.values() for one in diverts],
            "bridgeNames": lambda: self.census.components("bridge"),
            "brokerConnectionNames": lambda: self.census.components("brokerconnection"),
            "clusterConnectionNames": lambda: self.census.components("clusterconnection"),
            "connectionCount": self.census.count,
            "sessionCount": lambda: sum(1 for _ in tables.sessions(self.census)),
            "totalConsumerCount": lambda: sum(queue.roster.readers() for queue in queues.values()),
            "totalMessageCount": lambda: sum(int(queue.count) for queue in queues.values()),
            "totalMessagesAdded": lambda: sum(int(queue.accepted) for queue in queues.values()),
            "totalMessagesAcknowledged": lambda: sum(int(queue.settled) for queue in queues.values()),
            "addressMemoryUsage": lambda: int(broker.memory.used),
            "addressMemoryUsagePercentage": lambda: 100 * int(broker.memory.used) // int(broker.memory.limit),
            "diskStoreUsage": room.usage,
            "diskStoreLimit": room.limit,
            "diskTempLimit": room.temp_limit,
            "diskTempUsage": room.temp_usage,
            "globalMaxSize": lambda: int(broker.memory.limit),
            "uptime": lambda: spoken(self._uptime()),
            "uptimeMillis": self._uptime,
            "acceptorsAsJSON": lambda: json_of(self._acceptors()),
            "acceptors": lambda: [[name, uri] for name, uri in self.census.places()],
            "acceptorNames": lambda: [name for name, _ in self.census.places()],
            "status": self._status,
            "connectors": lambda: [list(one.values()) for one in self.census.connectors()],
            "connectorsAsJSON": lambda: json_of(self.census.connectors()),
            "totalSessionCount": lambda: counts.sessions,
            "totalConnectionCount": self.census.connected,
            "authenticationSuccessCount": lambda: counts.admitted,
            "authenticationFailureCount": lambda: counts.turned_away,
            "authorizationSuccessCount": lambda: counts.allowed,
            "authorizationFailureCount": lambda: counts.denied,
            "messageExpiryScanPeriod": lambda: SWEEP_EVERY // MILLISECOND,
            "journalFileSize": lambda: int(broker.journal.options.segment_bytes) if broker.journal.pages else 0,
            **self.census.settings(),
            **BrokerSampling(broker, self.census).attributes(),
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to a broker."""
        broker, census = self.broker, self.census
        making = Making(broker)
        return {
            "createAddress": making.create_address,
            "updateAddress": making.update_address,
            "deleteAddress": making.delete_address,
            "createQueue": making.create_queue,
            "updateQueue": making.update_queue,
            "destroyQueue": making.destroy_queue,
            "deployQueue": making.create_queue,
            "describeOutcome": lambda given: Rehearsal(broker).describe(given),
            "createDivert": lambda given: create_divert(broker, given),
            "updateDivert": lambda given: update_divert(broker, given),
            "destroyDivert": lambda given: destroy_divert(broker, given),
            "reloadConfigurationFile": self._reload,
            "listDivertNames": lambda given: self.get("divertNames"),
            "clearAuthenticationCache": lambda given: None,  # users and rights are looked up anew
            "clearAuthorizationCache": lambda given: None,
            "getQueueNames": self._queue_names,
            "getAddressInfo": lambda given: address_text(broker, address_named(broker, given.text(0))),
            "listBindingsForAddress": self._bindings,
            **Amending(broker).operations(),
            **Limiting(broker).operations(),
            **census.operations(),
            **BrokerSampling(broker, census).operations(),
            "listAddresses": self._list_addresses,
            "listQueues": lambda given: Page(list(broker.table.queues.values()), QUEUES, given, Pace(broker)),
            "listConsumers": lambda given: Page(
                tables.consumers(broker, census), tables.consumer_columns(broker), given, Pace(broker)
            ),
            "listConnections": lambda given: Page(census.views(), tables.CONNECTIONS, given, Pace(broker)),
            "listSessions": self._list_sessions,
            "listAllSessionsAsJSON": lambda given: _sessions_json(tables.sessions(census)),
            "listProducersInfoAsJSON": lambda given: json_of(
                [_producer(one) for one in islice(tables.producers(census), DESCRIBED_MOST)]
            ),
            "listConsumersAsJSON": self._consumers_of,
            "getRoles": lambda given: role_rows(broker, given.text(0)),
            "getRolesAsJSON": lambda given: json_of(roles(broker, given.text(0))),
            "listProducers": lambda given: Page(tables.producers(census), tables.PRODUCERS, given, Pace(broker)),
            "listAllConsumersAsJSON": lambda given: json_of(self._consumers("")[:DESCRIBED_MOST]),
            "listConnectionsAsJSON": lambda given: json_of(census.connections(0, DESCRIBED_MOST)),
            "listConnectionIDs": lambda given: [one.id for one in islice(census.views(), DESCRIBED_MOST)],
            "listRemoteAddresses": self._peers,
            "listSessionsAsJSON": self._sessions_of,
            "listNetworkTopology": lambda given: json_of(broker.informant.topology()),
            "listBrokerConnections": lambda given: broker_connections.listed(census),
            "startBrokerConnection": lambda given: broker_connections.switch(census, given.text(0), start=True),
            "stopBrokerConnection": lambda given: broker_connections.switch(census, given.text(0), start=False),
            "closeConnectionWithID": lambda given: census.close(given.text(0), CLOSED),
            "closeConnectionsForAddress": self._close_from,
            "closeConnectionsForUser": self._close_of_user,
            "closeConsumerConnectionsForAddress": self._close_readers,
            "closeSessionWithID": lambda given: census.close_session(given.text(0), given.text(1), CLOSED),
            "closeConsumerWithID": self._close_consumer,
            "listPreparedTransactions": self._prepared,
            "listPreparedTransactionDetailsAsJSON": lambda given: prepared_json(broker, DESCRIBED_MOST),
            "commitPreparedTransaction": lambda given: self._finish(given, commits=True),
            "rollbackPreparedTransaction": lambda given: self._finish(given, commits=False),
            "sendQueueInfoToQueue": lambda given: broker.informant.send_queue_info(given.text(0), given.text(1, "")),
            "describeQueues": self._describe_queues,
            "describeQueuePage": lambda given: QueuePage(broker, given),
            "describeSums": lambda given: Sums(broker),
            "describeVirtualTopics": lambda given: VirtualQueues(broker),
            "describeResources": self._describe_resources,
            "describeConsumers": lambda given: self._consumers(given.text(0, ""))[:DESCRIBED_MOST],
            "describeConnections": self._describe_connections,
            "describeBridges": lambda given: census.bridges(),
            "describeClusters": lambda given: census.clusters(),
            "describeRouters": lambda given: census.routers(),
            "drain": lambda given: census.drain(given.text(0, "begin"), given.text(1, "")),
            "scaleDown": lambda given: scale_down(census, given),
            "replay": lambda given: replay(broker, census, given),
            "describeReplay": lambda given: replayed(census),
            "verifyReplicas": lambda given: census.verify(given.number(0, 0)),
            "forceFailover": lambda given: census.step_down(),
            "updateDuplicateIdCache": lambda given: remember_texts(broker, given),
            "rememberDuplicateIds": lambda given: remember_octets(broker, given),
            "describeStorage": lambda given: {**storage(broker), "syncs": census.syncs(), **retained(census)},
            "describeAvailability": lambda given: census.availability(),
            "describeStores": lambda given: census.stores(),
            "describeConfiguration": lambda given: settings_page(broker, census, given),
            "describeUsers": lambda given: entitlements.users(broker, given),
            "describeRules": lambda given: entitlements.rules(broker, given),
            "describeRights": lambda given: entitlements.verdicts(broker, given),
            "cleanStore": lambda given: census.clean_store(given.text(0), discards=given.flag(1, False)),
            "startConnector": lambda given: self._switch_connector(given, start=True),
            "stopConnector": lambda given: self._switch_connector(given, start=False),
            "describeLeases": lambda given: [fields_of(view) for view in views.list_leases(broker)],
            "describeStages": lambda given: [
                fields_of(view) for view in views.list_stages(broker, given.text(0, ""), DESCRIBED_MOST)
            ],
            "describeSinks": lambda given: [fields_of(view) for view in views.list_sinks(broker, rows_of(given, 0))],
            "dropStages": self._drop_stages,
            "publishStages": lambda given: upkeep.publish_stages(
                broker, given.text(0), given.number(1), [part for part in given.text(2, "").split(",") if part]
            ),
            "explain": lambda given: explained(broker, census, given.text(0)),
            "where": lambda given: Search(broker, census, given.identity(0)),
            "describeScheduled": self._describe_scheduled,
            "cancelScheduled": lambda given: upkeep.cancel_scheduled(broker, given.number(0)),
        }

    # -- of itself -----------------------------------------------------------------------------------------------------

    def _reload(self, given: Arguments) -> None:
        """Begin to read the configuration again; the log says what comes of it."""
        if not self.census.reload():
            raise Refused("this broker has no broker.xml to read again", remedy="start it with one")

    def _uptime(self) -> int:
        return int(self.broker.wall - self.broker.informant.started)

    def _acceptors(self) -> list[dict[str, object]]:
        return [{"name": name, "uri": uri} for name, uri in self.census.places()]

    def _status(self) -> str:
        broker = self.broker
        server = {
            "state": "STARTED",
            "version": broker.options.version,
            "nodeId": broker.ids.node.uuid_text,
            "identity": None,
            "uptime": spoken(self._uptime()),
        }
        return json_of({"server": server})

    # -- of its addresses ----------------------------------------------------------------------------------------------

    def _list_addresses(self, given: Arguments) -> object:
        """Take (options, page, size) or, as older tools do, (what to write between the names)."""
        table = self.broker.table
        if len(given) == 1:
            return given.text(0).join(sorted(table.addresses, key=str.lower))
        return Page(list(table.addresses.values()), tables.address_columns(self.broker), given, Pace(self.broker))

    def _bindings(self, given: Arguments) -> str:
        """Return one binding a line: its name, what it leads to, and who reads there."""
        address = self.broker.table.addresses.get(given.text(0))
        if address is None:
            return ""
        groups = [address.anycasts, *address.multicasts.values()]
        return "\n".join(
            f"{'RemoteQueueBinding' if one.distance else 'LocalQueueBinding'} [address={one.address}, "
            f"queue={one.queue.name}, routingName={one.routing_name}, distance={one.distance}, "
            f"consumers={one.consumers()}]"
            for group in groups
            for one in group.bindings
        )

    # -- of who is there -----------------------------------------------------------------------------------------------

    def _sessions_of(self, given: Arguments) -> str:
        """Return the sessions of one connection."""
        wanted = given.text(0)
        return _sessions_json(one for one in tables.sessions(self.census) if one.connection == wanted)

    def _list_sessions(self, given: Arguments) -> object:
        """Take (options, page, size), or (connection): the ids of its sessions."""
        if len(given) != 1:
            return Page(tables.sessions(self.census), tables.SESSIONS, given, Pace(self.broker))
        wanted = given.text(0)
        return [one.id for one in tables.sessions(self.census) if one.connection == wanted]

    def _peers(self, given: Arguments) -> list[str]:
        """Take ([machine]): where connections come from."""
        wanted = given.text(0, "")
        peers = (one.peer for one in self.census.views() if not wanted or machine_of(one.peer) == wanted)
        return list(islice(peers, DESCRIBED_MOST))

    def _consumers_of(self, given: Arguments) -> str:
        """Return the consumers of one connection."""
        wanted = given.text(0)
        rows = tables.consumers(self.broker, self.census)
        found = (one for one in rows if one.connection is not None and one.connection.id == wanted)
        columns = tables.consumer_columns(self.broker)
        return json_of([_consumer(columns, one) for one in islice(found, DESCRIBED_MOST)])

    def _close_from(self, given: Arguments) -> bool:
        """Close the connections from one machine."""
        wanted = given.text(0)
        return self._close([one.id for one in self.census.views() if machine_of(one.peer) == wanted])

    def _close_of_user(self, given: Arguments) -> bool:
        """Close the connections of one user."""
        wanted = given.text(0)
        return self._close([one.id for one in self.census.views() if wanted in one.users.split(",")])

    def _close_readers(self, given: Arguments) -> bool:
        """Close the connections of those who read the queues of one address."""
        address = self.broker.table.addresses.get(given.text(0))
        queues = [] if address is None else tables.queues_of(address)
        readers = [one.subscriber for queue in queues for one in queue.roster.consumers]
        return self._close(list(dict.fromkeys(str(reader.origin) for reader in readers)))

    def _close(self, connections: list[str]) -> bool:
        return sum(1 for one in connections if self.census.close(one, CLOSED)) > 0

    def _close_consumer(self, given: Arguments) -> bool:
        """Close a consumer, by the name of its session and its id of `listConsumers`."""
        session, key = given.text(0), given.text(1)
        for queue in self.broker.table.queues.values():
            for consumer in list(queue.roster.consumers):
                reader = consumer.subscriber
                if str(consumer.key) == key and (reader.session or str(reader.origin)) == session:
                    consumer.ended(CLOSED)
                    if consumer.queue is queue:
                        self.broker.reading.detach(queue, consumer, MAYBE_DELIVERED)
                    return True
        return False

    def _prepared(self, given: Arguments) -> list[str]:
        """Return the names of the branches that are prepared."""
        return [one.transaction.name for one in islice(self.broker.branches.prepared.values(), DESCRIBED_MOST)]

    def _finish(self, given: Arguments, *, commits: bool) -> bool:
        """Commit or roll back the prepared branch of a name; False when there is none."""
        branches = self.broker.branches
        for key, branch in branches.prepared.items():
            if branch.transaction.name == given.text(0):
                branches.decide(key)
                if commits:
                    branches.commit(key)
                else:
                    branches.roll_back(key)
                return True
        return False

    def _switch_connector(self, given: Arguments, *, start: bool) -> None:
        name = given.text(0)
        if not self.census.switch_connector(name, start):
            raise InvalidDestination(
                f"there is no network connector {name!r}", remedy="`entrepot bridge list` shows those that there are"
            )

    def _drop_stages(self, given: Arguments) -> int:
        sink = given.text(0)
        batch = given.number(1, -1)
        part = given.text(2, "")
        if given.flag(3, False):
            return self.broker.stages.forget(sink)
        return upkeep.drop_stages(self.broker, sink, batch, part)

    def _queue_names(self, given: Arguments) -> list[str]:
        wanted = given.text(0, "")
        queues = self.broker.table.queues.values()
        return [queue.name for queue in queues if not wanted or ROUTING_NAMES[queue.routing] == wanted]

    def _consumers(self, queue: str) -> list[dict[str, Any]]:
        name = find_queue(self.broker, queue).name if queue else ""
        return [fields_of(view) for view in views.list_consumers(self.broker, name)]

    def _describe_queues(self, given: Arguments) -> Described:
        """Take ([pattern [, name after which to go on [, most]]]); by name, at most `DESCRIBED_MOST`."""
        broker = self.broker
        queues = broker.table.queues

        def describe(name: str) -> dict[str, Any] | None:
            return fields_of(views.queue_view(broker, queues[name])) if name in queues else None

        after, most = given.text(1, ""), rows_of(given, 2)
        return Described(broker, _names(broker, given.text(0, "")), describe, after=after, most=most)

    def _describe_resources(self, given: Arguments) -> Described:
        """Take (queue or address [, pattern [, name after which to go on [, most [, attributes with commas]]]])."""
        broker, census = self.broker, self.census
        kind, names = given.text(0), given.text(4, "")
        if kind == "queue":
            every: Iterable[str] = _names(broker, given.text(1, ""))
            known: Mapping[str, object] = broker.table.queues
            of: Callable[[str], Control] = lambda name: QueueControl(broker, census, name)  # noqa: E731
        elif kind == "address":
            every = known = broker.table.addresses
            of = lambda name: AddressControl(broker, census, name)  # noqa: E731
        else:
            raise Refused(f"there is no list of {kind!r}", remedy="use queue or address")

        def describe(name: str) -> dict[str, Any] | None:
            return of(name).read(names) if name in known else None

        return Described(broker, every, describe, after=given.text(2, ""), most=rows_of(given, 3))

    def _describe_scheduled(self, given: Arguments) -> list[dict[str, Any]]:
        return [fields_of(view) for view in views.list_scheduled(self.broker, rows_of(given, 0))]

    def _describe_connections(self, given: Arguments) -> list[dict[str, str]]:
        """Take ([how many to skip [, most]])."""
        return self.census.connections(max(0, given.number(0, 0)), rows_of(given, 1))


def _sessions_json(found: Iterable[SessionView]) -> str:
    return json_of(
        [
            {"sessionID": one.id, "creationTime": one.opened, "consumerCount": one.consumers, "principal": one.user}
            for one in islice(found, DESCRIBED_MOST)
        ]
    )


def _producer(one: tables.Producing) -> dict[str, object]:
    """Return a producer by the names of Artemis."""
    return {
        "id": one.number,
        "connectionID": one.connection.id,
        "sessionID": one.session.id,
        "creationTime": one.session.opened,
        "destination": one.address,
    }


def _consumer(columns: tables.Columns, one: tables.Consuming) -> dict[str, object]:
    """Return a consumer by the names of Artemis."""
    names = {"id": "consumerID", "connection": "connectionID", "session": "sessionID", "queue": "queueName"}
    wanted = [*names, "filter", "messagesInTransit", "messagesDelivered", "lastAcknowledgedTime", "status"]
    return {names.get(name, name): columns[name].read(one) for name in wanted}


def _names(broker: BrokerCore, pattern: str) -> Iterable[str]:
    """Return the names of queues, all or those that a pattern covers."""
    queues = broker.table.queues
    return [queue.name for queue in broker.table.matching(pattern)] if pattern else queues


def spoken(milliseconds: int) -> str:
    """Return a time as Artemis says it: its greatest units, "1 hour 3 minutes"; below a second in ms."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    said = [(days, "day"), (hours, "hour"), (minutes, "minute")]
    found = [f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in said if count]
    return " ".join(found) or f"{seconds} second{'' if seconds == 1 else 's'}"
