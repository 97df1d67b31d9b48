"""MBeans of ActiveMQ Classic, ``org.apache.activemq:type=Broker,...`` (classic.md 7.4), made of what a broker tells.

What is not measured here is not there: times in queues, sizes of messages, limits of audits. docs/jolokia.md compares
each attribute with a real broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.console.jolokia.answering import Bean, Write
from entrepot.console.jolokia.calling import fitted
from entrepot.console.jolokia.classic_queue import STOPS, QueueVerbs, writes_of
from entrepot.console.jolokia.names import ObjectName, plain
from entrepot.console.jolokia.world import Readers, Row, World, readers, shape
from entrepot.core.operators.overlook import is_dead_letters
from entrepot.core.operators.views import QueueView

DOMAIN: Final = "org.apache.activemq"
FACTS: Final = (
    "name,version,nodeID,uptime,uptimeMillis,active,connectionCount,totalConsumerCount,totalMessageCount,"
    "totalMessagesAdded,totalMessagesAcknowledged,addressMemoryUsagePercentage,globalMaxSize,diskStoreUsage,acceptorsAsJSON,"
    "diskStoreLimit,diskTempLimit,diskTempUsage,totalConnectionCount"
)

LIMITS: Final = ("MemoryLimit", "StoreLimit", "TempLimit")
"""What can be written of a broker; each has an operation of management that sets it."""
BROKER: Final[Readers] = {
    "BrokerId": lambda row: row["nodeID"],
    "BrokerName": lambda row: row["name"],
    "BrokerVersion": lambda row: row["version"],
    "CurrentConnectionsCount": lambda row: row["connectionCount"],
    "MemoryLimit": lambda row: row["globalMaxSize"],
    "MemoryPercentUsage": lambda row: row["addressMemoryUsagePercentage"],
    "Persistent": lambda row: True,
    "Queues": lambda row: row["_queues"],
    "Slave": lambda row: not row["active"],
    "StatisticsEnabled": lambda row: True,
    "StoreLimit": lambda row: row["diskStoreLimit"],
    "StorePercentUsage": lambda row: round(100 * float(row["diskStoreUsage"])),
    "TempLimit": lambda row: row["diskTempLimit"],
    "TempPercentUsage": lambda row: round(100 * float(row["diskTempUsage"])),
    "TemporaryQueues": lambda row: row["_temporaries"],
    "Topics": lambda row: row["_topics"],
    "QueueSubscribers": lambda row: row["_queue_subscribers"],
    "TopicSubscribers": lambda row: row["_topic_subscribers"],
    "DurableTopicSubscribers": lambda row: row["_durables"],
    "InactiveDurableTopicSubscribers": lambda row: row["_inactive"],
    "TotalConnectionsCount": lambda row: row["totalConnectionCount"],
    "TotalConsumerCount": lambda row: row["totalConsumerCount"],
    "TotalDequeueCount": lambda row: row["totalMessagesAcknowledged"],
    "TotalEnqueueCount": lambda row: row["totalMessagesAdded"],
    "TotalMessageCount": lambda row: row["totalMessageCount"],
    "TotalProducerCount": lambda row: row["_producers"],
    "TransportConnectors": lambda row: {one["name"]: one["uri"] for one in row["_places"]},
    "Uptime": lambda row: row["uptime"],
    "UptimeMillis": lambda row: row["uptimeMillis"],
    "VMURL": lambda row: f"vm://{row['name']}",
}
DESTINATION: Final[Readers] = {
    "ConsumerCount": lambda row: row["consumers"],
    "DLQ": lambda row: row["dlq"],
    "DequeueCount": lambda row: row["settled"],
    "DispatchCount": lambda row: row["delivered"],
    "EnqueueCount": lambda row: row["accepted"],
    "ExpiredCount": lambda row: row["expired"],
    "InFlightCount": lambda row: row["in_flight"],
    "MemoryLimit": lambda row: row["limit_octets"] or row["_all"],
    "MemoryPercentUsage": lambda row: percent(row["octets"], row["limit_octets"] or row["_all"]),
    "MemoryUsageByteCount": lambda row: row["octets"],
    "Name": lambda row: row["name"],
    "Options": lambda row: "",
    "ProducerCount": lambda row: row["producers"],
    "QueueSize": lambda row: row["messages"],
    "StoreMessageSize": lambda row: row["octets"] if row["durable"] else 0,
    "Subscriptions": lambda row: row["subscriptions"],
}
QUEUE: Final[Readers] = {
    **DESTINATION,
    "Paused": lambda row: row["paused"],
    "ProducerFlowControl": lambda row: row["when_full"] in STOPS,
}
SUBSCRIPTION: Final[Readers] = {
    "Active": lambda row: row["active"],
    "ClientId": lambda row: row["clientID"],
    "ConnectionId": lambda row: row["connection"],
    "DequeueCounter": lambda row: int(row["messagesDelivered"]) - int(row["messagesInTransit"]),
    "DestinationName": lambda row: row["address"],
    "DestinationQueue": lambda row: row["queueType"] == "anycast",
    "DestinationTemporary": lambda row: False,
    "DestinationTopic": lambda row: row["queueType"] != "anycast",
    "DispatchedCounter": lambda row: int(row["messagesDelivered"]),
    "DispatchedQueueSize": lambda row: int(row["messagesInTransit"]),
    "EnqueueCounter": lambda row: row["entered"],
    "Durable": lambda row: row["durable"],
    "MessageCountAwaitingAcknowledge": lambda row: int(row["messagesInTransit"]),
    "Network": lambda row: False,
    "PendingQueueSize": lambda row: row["pending"],
    "Priority": lambda row: int(row["priority"]),
    "Selector": lambda row: row["filter"] or None,
    "SlowConsumer": lambda row: row["status"] == "SLOW",
    "SubscriptionName": lambda row: row["subscription"],
    "UserName": lambda row: row["user"] or None,
}
CONNECTION: Final[Readers] = {
    "Active": lambda row: True,
    "ClientId": lambda row: row["clientID"],
    "Connected": lambda row: True,
    "RemoteAddress": lambda row: f"tcp://{row['remoteAddress']}",
    "UserName": lambda row: row["users"] or None,
}
CONNECTOR: Final[Readers] = {"Started": lambda row: True, "StatisticsEnabled": lambda row: True}
HEALTH: Final[Readers] = {"CurrentStatus": lambda row: row["status"]}
BRIDGE: Final[Readers] = {
    "RemoteAddress": lambda row: row.get("peer_url") or row.get("place") or "",
    "RemoteBrokerName": lambda row: row.get("peer") or "",
    "RemoteBrokerId": lambda row: row.get("peer_id") or "",
    "EnqueueCounter": lambda row: row.get("sent", 0),
    "DequeueCounter": lambda row: row.get("sent", 0),
    "ReceivedCounter": lambda row: row.get("received", 0),
    "CreatedByDuplex": lambda row: not row.get("initiator", True),
}


def percent(octets: int, limit: int) -> int:
    """Return how much of a limit is taken; 0 where there is none."""
    return 100 * octets // limit if limit > 0 else 0


class ClassicBeans:
    """All of them, of one broker."""

    domain = DOMAIN

    def __init__(self, world: World, send: Any) -> None:
        """``send``: as `Desk.send`."""
        self.asker: Final = world.asker
        self.world: Final = world
        self.send: Final = send
        self._broker = ""

    async def find(self, name: ObjectName) -> list[Bean]:
        """Return those that ``name`` covers. Raises EntrepotError."""
        if not name.covers(ObjectName(DOMAIN, name.properties)) and name.domain != "*":
            return []
        facts = await self.world.facts(FACTS)
        self._broker = str(facts["name"])
        found: list[Bean] = []
        base = {"type": "Broker", "brokerName": plain(self._broker)}
        if name.may_be(base):
            found.append(await self._broker_bean(facts, base))
        for kind in ("Queue", "Topic", "TempQueue"):
            if name.may_be({**base, "destinationType": kind, "destinationName": ""}):
                found += await self._destinations(name, kind)
        if name.may_be(
            {
                **base,
                "destinationType": "",
                "destinationName": "",
                "endpoint": "Consumer",
                "clientId": "",
                "consumerId": "",
            }
        ):
            found += [self._bean(one, "subscription", SUBSCRIPTION, row) for one, row in await self._subscriptions()]
        clients = {**base, "connector": "clientConnectors", "connectorName": ""}
        if name.may_be(clients):
            for one in msgspec.json.decode(facts["acceptorsAsJSON"]):
                found.append(
                    self._bean(
                        self._name({**clients, "connectorName": plain(one["name"])}), "connector", CONNECTOR, one
                    )
                )
        if name.may_be({**clients, "connectionViewType": "", "connectionName": ""}):
            found += await self._connections(clients)
        if name.may_be({**base, "service": "Health"}):
            found.append(await self._health(base))
        networks = {**base, "connector": "networkConnectors", "networkConnectorName": ""}
        if name.may_be(networks) or name.may_be({**networks, "networkBridge": ""}):
            found += await self._networks(networks)
        return [bean for bean in found if name.covers(bean.name)]

    def _name(self, properties: dict[str, str]) -> ObjectName:
        return ObjectName(DOMAIN, properties)

    def _bean(
        self,
        name: ObjectName,
        kind: str,
        table: Readers,
        row: Row,
        verbs: dict[str, Callable[..., Any]] | None = None,
        writes: Mapping[str, Write] = MappingProxyType({}),
    ) -> Bean:
        known = verbs or {}

        async def invoke(operation: str, arguments: list[Any]) -> object:
            verb = known.get(operation)
            if verb is None:
                told = f"No operation {operation} found on MBean {name}"
                raise Refused(told, remedy="it has " + (", ".join(sorted(known)) or "none"))
            return await verb(*fitted(verb, operation, arguments))

        return Bean(name, readers(table, row), invoke, shape("classic", kind), writes)

    # -- the broker ----------------------------------------------------------------------------------------------------

    async def _broker_bean(self, facts: Row, base: dict[str, str]) -> Bean:
        queues = await self.world.queues()
        subscriptions = await self._subscriptions()
        producers = await self.world.listed("listProducers")
        topics = await self._topic_names()

        def named(kind: str, names: list[str]) -> list[Row]:
            return [self._pointer({**base, "destinationType": kind, "destinationName": plain(name)}) for name in names]

        def chosen(holds: Callable[[Row], bool]) -> list[Row]:
            return [self._pointer(one.properties) for one, row in subscriptions if holds(row)]

        row = {
            **facts,
            "_queues": named("Queue", [one.address for one in queues if _is_queue(one)]),
            "_temporaries": named("TempQueue", [one.name for one in queues if _is_temporary(one)]),
            "_topics": named("Topic", topics),
            "_queue_subscribers": chosen(lambda row: row["queueType"] == "anycast"),
            "_topic_subscribers": chosen(lambda row: row["queueType"] != "anycast" and not row["durable"]),
            "_durables": chosen(lambda row: bool(row["durable"] and row["active"])),
            "_inactive": chosen(lambda row: bool(row["durable"] and not row["active"])),
            "_producers": len(producers),
            "_places": msgspec.json.decode(facts["acceptorsAsJSON"]),
        }
        ask = self.asker.ask

        async def add_queue(name: str) -> None:
            await ask("broker", "createQueue", name, name, "ANYCAST")

        async def add_topic(name: str) -> None:
            await ask("broker", "createAddress", name, "MULTICAST")

        async def remove_queue(name: str) -> None:
            await ask("broker", "destroyQueue", name, True)

        async def remove_topic(name: str) -> None:
            await ask("broker", "deleteAddress", name, True)

        async def create_durable(client: str, subscription: str, topic: str, selector: str | None = None) -> Row:
            name = f"{client}.{subscription}"
            await ask("broker", "createQueue", topic, name, selector or "", True, "MULTICAST")
            keys = {"destinationType": "Topic", "destinationName": plain(topic), "endpoint": "Consumer"}
            durable = f"Durable({plain(client)}_{plain(subscription)})"
            return self._pointer({**base, **keys, "clientId": plain(client), "consumerId": durable})

        async def destroy_durable(client: str, subscription: str) -> None:
            await ask("broker", "destroyQueue", f"{client}.{subscription}")

        verbs: dict[str, Callable[..., Any]] = {
            "addQueue": add_queue,
            "addTopic": add_topic,
            "removeQueue": remove_queue,
            "removeTopic": remove_topic,
            "createDurableSubscriber": create_durable,
            "destroyDurableSubscriber": destroy_durable,
        }
        writes: dict[str, Write] = {name: partial(ask, "broker", f"set{name}") for name in LIMITS}
        return self._bean(self._name(base), "broker", BROKER, row, verbs, writes)

    def _pointer(self, properties: dict[str, str]) -> Row:
        return {"objectName": str(self._name(properties))}

    async def _health(self, base: dict[str, str]) -> Bean:
        found = []
        for queue in await self.world.queues():
            if queue.waiting and not queue.consumers and not queue.temporary and not is_dead_letters(queue.name):
                found.append(
                    {"healthId": "org.apache.activemq.noConsumer", "level": "WARNING", "resource": queue.name,
                     "message": f"Queue {queue.name} has no consumers"}
                )  # fmt: skip

        async def health_list() -> list[Row]:
            return found

        async def status() -> str:
            return "Getting Worried" if found else "Good"

        verbs: dict[str, Callable[..., Any]] = {"healthList": health_list, "healthStatus": status}
        row = {"status": await status()}
        return self._bean(self._name({**base, "service": "Health"}), "health", HEALTH, row, verbs)

    # -- destinations --------------------------------------------------------------------------------------------------

    async def _destinations(self, name: ObjectName, kind: str) -> list[Bean]:
        base = {"type": "Broker", "brokerName": plain(self._broker), "destinationType": kind}
        if kind == "Topic":
            return await self._topics(base)
        wanted = name.properties.get("destinationName", "")
        queues: list[QueueView] = []
        if wanted and not name.is_pattern and plain(wanted) == wanted:
            with suppress(InvalidDestination):  # it may be called otherwise than the part of its name
                queues = await self.world.queues(wanted)
        queues = queues or await self.world.queues()
        test = _is_queue if kind == "Queue" else _is_temporary
        some = [one for one in queues if test(one)]
        producers = await self._producers()
        pointers = await self._pointers()
        memory = await self._memory()
        found = []
        for view in some:
            title = view.address if kind == "Queue" else view.name
            row = {
                **msgspec.to_builtins(view),
                "_all": memory,
                "name": title,
                "dlq": is_dead_letters(view.name),
                "producers": producers.get(view.address, 0),
                "subscriptions": pointers.get(view.name, []),
            }
            verbs = QueueVerbs(self.asker, self.send, view.name, f"queue://{view.address}").verbs()
            writes = writes_of(self.asker, view.address, "ANYCAST", view.when_full)
            keys = {**base, "destinationName": plain(title)}
            found.append(self._bean(self._name(keys), "queue", QUEUE, row, verbs, writes))
        return found

    async def _topics(self, base: dict[str, str]) -> list[Bean]:
        queues = await self.world.queues()
        producers = await self._producers()
        pointers = await self._pointers()
        tuned = await self._tuned()
        memory = await self._memory()
        found = []
        for name in await self._topic_names():
            some = [one for one in queues if one.address == name and one.routing == "MULTICAST"]
            total = {
                field: sum(getattr(one, field) for one in some)
                for field in ("settled", "delivered", "expired", "in_flight", "consumers")
            }
            row: Row = {
                **total,
                "name": name,
                "messages": sum(one.messages for one in some),
                "accepted": max((one.accepted for one in some), default=0),
                "octets": sum(one.octets for one in some),
                "limit_octets": tuned.get(name) or max((one.limit_octets for one in some), default=0),
                "_all": memory,
                "durable": any(one.durable for one in some),
                "dlq": False,
                "producers": producers.get(name, 0),
                "subscriptions": [each for one in some for each in pointers.get(one.name, [])],
            }
            verbs = QueueVerbs(self.asker, self.send, "", f"topic://{name}").sending()
            keys = {**base, "destinationName": plain(name)}
            writes = writes_of(self.asker, name, "MULTICAST")
            found.append(self._bean(self._name(keys), "topic", DESTINATION, row, verbs, writes))
        return found

    async def _memory(self) -> int:
        """Return what all destinations together may have in memory, in octets."""
        return int((await self.world.facts(FACTS))["globalMaxSize"])

    async def _tuned(self) -> dict[str, int]:
        """Return topic -> what was written of its memory, which holds before somebody subscribes, too."""
        rows = await self.world.tuned()
        limits = {row["address"]: row["settings"].get("maxSizeBytes") for row in rows if row["routing"] == "MULTICAST"}
        return {name: octets for name, octets in limits.items() if octets is not None}

    async def _topic_names(self) -> list[str]:
        rows = await self.world.listed("listAddresses")
        return [row["name"] for row in rows if "MULTICAST" in row["routingTypes"] and row["temporary"] != "true"]

    async def _producers(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in await self.world.listed("listProducers"):
            name = str(row["address"])
            counts[name] = counts.get(name, 0) + 1
        return counts

    async def _pointers(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for name, row in await self._subscriptions():
            found.setdefault(str(row["queue"]), []).append({"objectName": str(name)})
        return found

    # -- who is there --------------------------------------------------------------------------------------------------

    async def _subscriptions(self) -> list[tuple[ObjectName, Row]]:
        """Return the consumers, and the durable subscriptions that nobody reads."""
        base = {"type": "Broker", "brokerName": plain(self._broker), "endpoint": "Consumer"}
        queues = {one.name: one for one in await self.world.queues()}
        found, read = [], set()
        for row in await self.world.listed("listConsumers"):
            queue = queues.get(str(row["queue"]))
            durable = queue is not None and queue.durable and queue.routing == "MULTICAST"
            client = str(row["clientID"])
            subscription = _subscription(queue, client) if durable and queue is not None else None
            row = {**row, "active": True, "durable": durable, "subscription": subscription}
            row["pending"] = queue.waiting if durable and queue is not None else 0
            row["entered"] = queue.accepted if durable and queue is not None else int(row["messagesDelivered"])
            ident = (
                f"Durable({plain(client)}_{plain(subscription or '')})"
                if durable
                else plain(f"{row['session']}:{row['id']}")
            )
            keys = {"destinationType": "Queue" if row["queueType"] == "anycast" else "Topic"}
            keys |= {"destinationName": plain(str(row["address"])), "clientId": plain(client), "consumerId": ident}
            read.add(row["queue"])
            found.append((self._name({**base, **keys}), row))
        for queue in queues.values():
            if queue.name in read or not queue.durable or queue.routing != "MULTICAST":
                continue
            client, _, subscription = queue.name.partition(".")
            row = dict.fromkeys(("messagesDelivered", "messagesInTransit", "priority"), 0)
            row |= {"active": False, "durable": True, "subscription": subscription, "pending": queue.waiting}
            row["entered"] = queue.accepted
            row |= {"clientID": client, "connection": "", "address": queue.address, "queueType": "multicast"}
            row |= {"filter": queue.selector, "status": "OK", "user": "", "queue": queue.name}
            keys = {"destinationType": "Topic", "destinationName": plain(queue.address), "clientId": plain(client)}
            keys["consumerId"] = f"Durable({plain(client)}_{plain(subscription)})"
            found.append((self._name({**base, **keys}), row))
        return found

    async def _connections(self, clients: dict[str, str]) -> list[Bean]:
        names = {
            one["uri"].partition("?")[0]: one["name"]
            for one in msgspec.json.decode((await self.world.facts(FACTS))["acceptorsAsJSON"])
        }
        found = []
        for row in await self.world.listed("listConnections"):
            connector = plain(names.get(str(row["localAddress"]), str(row["localAddress"])))
            identity = row["connectionID"]

            async def stop(identity: object = identity) -> None:
                await self.asker.ask("broker", "closeConnectionWithID", identity)

            shown = {
                "clientId": row["clientID"],
                "remoteAddress": f"tcp://{row['remoteAddress']}".replace("://", "_//"),
            }
            for kind, title in shown.items():
                if title:
                    keys = {
                        **clients,
                        "connectorName": connector,
                        "connectionViewType": kind,
                        "connectionName": plain(str(title)),
                    }
                    found.append(self._bean(self._name(keys), "connection", CONNECTION, row, _verbs(stop=stop)))
        return found

    async def _networks(self, networks: dict[str, str]) -> list[Bean]:
        found: list[Bean] = []
        seen: set[str] = set()
        for row in await self.world.rows("describeBridges"):
            connector = str(row.get("connector"))
            keys = {**networks, "networkConnectorName": plain(connector)}

            async def start(name: str = connector) -> None:
                await self.asker.ask("broker", "startConnector", name)

            async def stop(name: str = connector) -> None:
                await self.asker.ask("broker", "stopConnector", name)

            if connector not in seen:
                seen.add(connector)
                table: Readers = {
                    "Name": lambda row: row["connector"],
                    "Started": lambda row: row.get("state") != "stopped",
                }
                found.append(
                    self._bean(self._name(keys), "networkConnector", table, row, {"start": start, "stop": stop})
                )
            place = row.get("peer_url") or row.get("place")
            if place and row.get("peer"):
                bridge = {**keys, "networkBridge": plain(str(place))}
                found.append(
                    self._bean(self._name(bridge), "networkBridge", BRIDGE, row, {"start": start, "stop": stop})
                )
        return found


def _verbs(**verbs: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return verbs


def _is_queue(view: QueueView) -> bool:
    return view.routing == "ANYCAST" and not view.temporary


def _is_temporary(view: QueueView) -> bool:
    return view.routing == "ANYCAST" and view.temporary


def _subscription(queue: QueueView, client: str) -> str:
    return queue.name.removeprefix(f"{client}.")
