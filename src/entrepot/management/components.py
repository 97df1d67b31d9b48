"""Acceptors, bridges, cluster connections and broadcast groups, as management shows and switches them.

Attributes have the names and units of Artemis' controls: times in ms, -1 for no limit. What one has and nobody asks for
costs nothing: it is looked at when it is asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import OperatorError
from entrepot.core.operators.census import Component
from entrepot.io.links import Links
from entrepot.io.tcp import Listener, parse_place
from entrepot.model.headers import ADD_HEADERS

if TYPE_CHECKING:
    from entrepot.cluster.carrying.connector import CoreConnector
    from entrepot.cluster.routers.router import Routers
    from entrepot.config.model import BrokerConfig
    from entrepot.core.operators.listing import Arguments
    from entrepot.io.reloading import Reloader
    from entrepot.management.users import Users

CONNECTS: Final = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
NETTY: Final = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptorFactory"
NOTIFYING: Final = "org.apache.activemq.artemis.core.server.plugin.impl.NotificationActiveMQServerPlugin"
DISK_SCAN_MS: Final = 500  # between two looks at the limits of the disk: `COMPACT_LOOK` of node.py
STOPPED: Final = "an operator stopped the acceptor"

log: Final = logging.getLogger("entrepot.node")


def json_of(value: object) -> str:
    """Return ``value`` as JSON. What else management says is not loaded for it."""
    return msgspec.json.encode(value).decode()


class Components:
    """Those of one broker. ``names``: what its file calls the places where it listens, by their texts."""

    def __init__(
        self,
        listeners: list[Listener],
        names: Mapping[str, str],
        links: Callable[[], Links | None],
        config: Callable[[], BrokerConfig | None],
        routers: Callable[[], Routers | None] = lambda: None,
        reloader: Callable[[], Reloader | None] = lambda: None,
        directory: str = "",
    ) -> None:
        """``directory``: where the store is, "" for nowhere."""
        self._listeners: Final = listeners
        self._names: Final = names
        self._links: Final = links
        self.config: Final = config
        self._routers: Final = routers
        self._reloader: Final = reloader
        self._directory: Final = directory
        self._users: Users | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    def name_of(self, listener: Listener) -> str:
        """Return what a place to listen is called: by its file, or as it is dialled."""
        return self._names.get(listener.listening.text) or listener.uri.partition("?")[0]

    def names(self, kind: str) -> list[str]:
        """Return those that there are of one kind."""
        links, config = self._links(), self.config()
        if kind == "acceptor":
            return [self.name_of(one) for one in self._listeners]
        if kind == "bridge":
            return [] if links is None else [one.name for one in links.core_connectors if not one.entry.clustered]
        if kind == "brokerconnection":
            return [] if links is None else [one.name for one in links.amqp_connectors]
        if kind == "clusterconnection":
            return [] if links is None else [one.options.name for one in links.clusters]
        if kind == "broadcastgroup":
            return [] if config is None else [one.name for one in config.peering.broadcasts]
        if kind == "connectionrouter":
            routers = self._routers()
            return [] if routers is None else list(routers.routers)
        return []

    def find(self, kind: str, name: str) -> Component | None:
        """Return one of them; None when there is none."""
        made = {
            "acceptor": self._acceptor,
            "bridge": self._bridge,
            "brokerconnection": self._called,
            "clusterconnection": self._cluster,
            "broadcastgroup": self._broadcast,
            "connectionrouter": self._router,
        }.get(kind)
        return None if made is None else made(name)

    def connectors(self) -> list[dict[str, object]]:
        """Return the connectors that the file names, passwords left out."""
        config = self.config()
        found = () if config is None else config.peering.places
        rows: list[dict[str, object]] = []
        for one in found:
            place = parse_place(one.uri)
            shown = {name: value for name, value in place.options.items() if "password" not in name.lower()}
            parameters = {"host": place.host, "port": str(place.port), **shown}
            rows.append({"name": one.name, "factoryClassName": CONNECTS, "params": parameters})
        return rows

    def settings(self) -> Mapping[str, Callable[[], object]]:
        """Return what the configuration says of the broker itself, where it is obeyed here; times in ms."""
        config = self.config()
        serving, usage = (None, None) if config is None else (config.serving, config.usage)
        known: dict[str, Callable[[], object]] = {
            "persistenceEnabled": lambda: self._directory != "",
            "journalSyncTransactional": lambda: self._directory != "",  # every answer waits for the disk
            "journalSyncNonTransactional": lambda: self._directory != "",
            "journalType": lambda: "NIO",  # files are written and synced as any other
            "createJournalDir": lambda: True,
            "createBindingsDir": lambda: True,
            "persistIDCache": lambda: self._directory != "",
            "diskScanPeriod": lambda: DISK_SCAN_MS,
            "securityInvalidationInterval": lambda: 0,  # what changes about rights holds at once
            "asyncConnectionExecutionEnabled": lambda: False,  # every decision is taken on one thread
            "incomingInterceptorClassNames": list,
            "outgoingInterceptorClassNames": list,
            "connectorServices": list,
            "brokerPluginClassNames": list,
            "pendingMirrorAcks": lambda: 0,
            "journalDirectory": lambda: self._directory,
            "bindingsDirectory": lambda: self._directory,  # the journal has the bindings, and what is paged
            "pagingDirectory": lambda: self._directory,
            "largeMessagesDirectory": lambda: f"{self._directory}/blobs" if self._directory else "",
        }
        if config is None or serving is None or usage is None:
            return known
        sharing = config.sharing
        return known | {
            "sharedStore": lambda: sharing is not None and sharing.copies is None,
            "connectionTTLOverride": lambda: serving.ttl_override_ms,
            "transactionTimeout": lambda: serving.branch_ms,
            "brokerPluginClassNames": lambda: [NOTIFYING] if config.notices.kinds else [],
            "IDCacheSize": lambda: config.base.get("id_cache", 0),
            "persistDeliveryCountBeforeDelivery": lambda: bool(config.base.get("mark_delivered", False)),
            "failoverOnServerShutdown": lambda: (
                sharing is not None and sharing.copies is None and sharing.failover_on_shutdown
            ),
            "wildcardRoutingEnabled": lambda: serving.wildcards,
            "maxDiskUsage": lambda: usage.disk_percent_max or -1,
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to users."""
        from entrepot.management.users import Users  # noqa: PLC0415 - few brokers are asked

        if self._users is None:
            self._users = Users(self.config, self.reload)
        return self._users.operations()

    def reload(self) -> bool:
        """Begin to read the configuration again, unless that is under way; False when there is no file."""
        reloader = self._reloader()
        if reloader is not None:
            reloader.ask()
        return reloader is not None

    # -- acceptors -----------------------------------------------------------------------------------------------------

    def _acceptor(self, name: str) -> Component | None:
        listener = next((one for one in self._listeners if self.name_of(one) == name), None)
        if listener is None:
            return None
        place = listener.place
        parameters = {
            "host": place.host,
            "port": str(place.port),
            "protocols": ",".join(one.upper() for one in listener.listening.protocols),
            "sslEnabled": str(listener.options.secure).lower(),
        }
        return Component(
            {
                "name": lambda: name,
                "factoryClassName": lambda: NETTY,
                "parameters": lambda: parameters,
                "parametersAsJSON": lambda: json_of(parameters),
                "started": lambda: listener.is_open,
                "connectionCount": lambda: len(listener.connections),
            },
            lambda start: self._switch(listener, start),
        )

    def _switch(self, listener: Listener, start: bool) -> None:
        """Open or close a place to listen. Who stops it over itself still gets the answer."""
        loop = listener.turn.loop
        if start and not listener.is_open:
            task = loop.create_task(self._open(listener))
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))
        elif not start and listener.is_open:
            log.info("%s: stopped by an operator", listener.uri)
            listener.close()
            loop.call_soon(lambda: listener.turn.run(lambda: listener.shut(STOPPED)))

    async def _open(self, listener: Listener) -> None:
        try:
            await listener.open()
        except OperatorError as error:
            log.error("the acceptor cannot be started: %s", error)

    # -- bridges -------------------------------------------------------------------------------------------------------

    def _bridge(self, name: str) -> Component | None:
        links = self._links()
        found = [] if links is None else [one for one in links.core_connectors if one.name == name]
        if links is None or not found or found[0].entry.clustered:
            return None
        connector = found[0]
        entry = connector.entry
        options = entry.options
        config = self.config()
        written = [one for one in (() if config is None else config.peering.bridges) if one.name == name]
        places = [one.name for bridge in written for one in bridge.connectors or ()]
        places = places or [place.masked() for place in entry.places]

        def total(word: str) -> int:
            now = int(links.turn.now)
            return sum(int(str(one.report(now)[word])) for one in connector.bridges.values())

        return Component(
            {
                "name": lambda: name,
                "queueName": lambda: options.queue,
                "forwardingAddress": lambda: options.forwards or None,
                "filterString": lambda: entry.selector or None,
                "transformerClassName": lambda: ADD_HEADERS if entry.headers else None,
                "transformerProperties": lambda: dict(entry.headers) or None,
                "transformerPropertiesAsJSON": lambda: json_of(dict(entry.headers)),
                "staticConnectors": lambda: places,
                "staticConnectorsAsJSON": lambda: json_of(places),
                "discoveryGroupName": lambda: entry.group or None,
                "retryInterval": lambda: options.retry_interval // MILLISECOND,
                "retryIntervalMultiplier": lambda: options.retry_multiplier,
                "maxRetryInterval": lambda: options.retry_interval_max // MILLISECOND,
                "reconnectAttempts": lambda: options.attempts,
                "useDuplicateDetection": lambda: options.deduplicates,
                "HA": lambda: options.ha,
                "started": lambda: connector.started,
                "connected": lambda: is_connected(connector, int(links.turn.now)),
                "messagesPendingAcknowledgement": lambda: total("under_way"),
                "messagesAcknowledged": lambda: total("confirmed"),
                "metrics": lambda: {
                    "messagesPendingAcknowledgement": total("under_way"),
                    "messagesAcknowledged": total("confirmed"),
                },
            },
            lambda start: links.switch(name, start=start),
        )

    def _called(self, name: str) -> Component | None:
        links = self._links()
        found = [] if links is None else [one for one in links.amqp_connectors if one.name == name]
        if links is None or not found:
            return None
        connector = found[0]
        options = connector.entry.options
        return Component(
            {
                "name": lambda: name,
                "protocol": lambda: "AMQP",
                "uri": lambda: connector.place,
                "user": lambda: options.user or None,
                "retryInterval": lambda: options.retry_interval // MILLISECOND,
                "reconnectAttempts": lambda: options.attempts,
                "started": lambda: connector.started,
                "connected": lambda: connector.is_open,
            },
            lambda start: links.switch(name, start=start),
        )

    # -- clusters ------------------------------------------------------------------------------------------------------

    def _cluster(self, name: str) -> Component | None:
        links, config = self._links(), self.config()
        found = [] if links is None else [one for one in links.clusters if one.options.name == name]
        if links is None or not found:
            return None
        from entrepot.cluster.clusters.report import report  # noqa: PLC0415 - see `entrepot.artemis`

        connection = found[0]
        entries = [] if config is None else [one for one in config.peering.clusters if one.name == name]
        connectors = [one.name for entry in entries for one in entry.connectors or ()]
        groups = [one.name for entry in entries for one in entry.groups]

        def shown() -> dict[str, object]:
            return report(connection, int(links.turn.now))

        def members() -> list[dict[str, object]]:
            rows = shown()["members"]
            assert isinstance(rows, list)
            return rows

        def total(word: str) -> int:
            return sum(int(str(row.get(word, 0))) for row in members())

        return Component(
            {
                "name": lambda: name,
                "address": lambda: connection.options.address,
                "nodeID": lambda: shown()["node"],
                "duplicateDetection": lambda: connection.options.deduplicates,
                "messageLoadBalancingType": lambda: connection.options.balancing.value,
                "maxHops": lambda: connection.options.max_hops,
                "topology": lambda: json_of(members()),
                "nodes": lambda: {str(row["node"]): row["place"] for row in members() if row["state"] != "here"},
                "staticConnectors": lambda: connectors,
                "staticConnectorsAsJSON": lambda: json_of(connectors),
                "discoveryGroupName": lambda: groups[0] if groups else None,
                "retryInterval": lambda: entries[0].retry_ms if entries else -1,
                "producerWindowSize": lambda: entries[0].producer_window if entries else -1,
                "messagesPendingAcknowledgement": lambda: total("waiting"),
                "messagesAcknowledged": lambda: total("sent"),
                "metrics": lambda: {
                    "messagesPendingAcknowledgement": total("waiting"),
                    "messagesAcknowledged": total("sent"),
                },
                "started": lambda: connection.started,
            },
            lambda start: links.turn.run(connection.resume if start else connection.suspend),
            operations={"getBridgeMetrics": lambda given: metrics_of(members(), given.text(0))},
        )

    def _router(self, name: str) -> Component | None:
        routers = self._routers()
        router = None if routers is None else routers.routers.get(name)
        if router is None:
            return None
        options = router.options
        return Component(
            {
                "name": lambda: name,
                "keyType": lambda: options.key.value,
                "targetKeyFilter": lambda: None if options.key_filter is None else options.key_filter.pattern,
                "localTargetFilter": lambda: None if options.local_filter is None else options.local_filter.pattern,
                "policy": lambda: None if options.policy is None else options.policy.kind.value,
                "report": lambda: json_of(router.report()),
            },
        )

    def _broadcast(self, name: str) -> Component | None:
        config = self.config()
        found = [] if config is None else [one for one in config.peering.broadcasts if one.name == name]
        if not found:
            return None
        one = found[0]
        connectors = [each.name for each in one.connectors]
        return Component(
            {
                "name": lambda: name,
                "groupAddress": lambda: one.address,
                "groupPort": lambda: int(one.port) if one.port.isdigit() else one.port,
                "localBindPort": lambda: one.local_port,
                "broadcastPeriod": lambda: one.period_ms,
                "connectorPairs": lambda: connectors,
                "connectorPairsAsJSON": lambda: json_of(connectors),
                "started": lambda: True,
            }
        )


def metrics_of(members: list[dict[str, object]], node: str) -> dict[str, int] | None:
    """Return what went to ``node`` and what waits for it; None for a node that is no member, or this one."""
    for row in members:
        if row.get("node") == node and row.get("state") != "here":
            words = {"messagesPendingAcknowledgement": "waiting", "messagesAcknowledged": "sent"}
            return {name: int(str(row.get(word, 0))) for name, word in words.items()}
    return None


def is_connected(connector: CoreConnector, now: int) -> bool:
    """Return whether one of its bridges is open."""
    return any(one.report(now)["state"] == "open" for one in connector.bridges.values())
