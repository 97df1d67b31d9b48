"""MBeans of Artemis, ``org.apache.activemq.artemis:broker="NAME",...`` (artemis.md 7.2).

Its controls, which management has.

Attributes and operations have the same names in JMX and in management messages but for the case of letters, so an
MBean is its resource: `shapes` says how it is written there, and what types the arguments of an operation have.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.console.jolokia.answering import Bean, Write
from entrepot.console.jolokia.calling import WHOLE, read_as
from entrepot.console.jolokia.names import ObjectName, quoted, unquoted
from entrepot.console.jolokia.world import Row, World, readers, shape

DOMAIN: Final = "org.apache.activemq.artemis"
FACTS: Final = "name"
COMPONENTS: Final = {
    "acceptors": ("acceptor", "acceptorNames", "name"),
    "broker-connections": ("brokerconnection", "brokerConnectionNames", "name"),
    "bridges": ("bridge", "bridgeNames", "name"),
    "cluster-connections": ("clusterconnection", "clusterConnectionNames", "name"),
    "diverts": ("divert", "divertNames", "divert"),
}
WRITTEN: Final = ("MessageCounterMaxDayCount", "MessageCounterSamplePeriod")
"""What can be written of a broker; each has an operation of management that sets it."""
SENDS: Final = "sendMessage"
BROWSES: Final = "browse"
INT_MAX: Final = 2**31 - 1
TEXT: Final = 3  # the kind of a message with a text


class ArtemisBeans:
    """All of them, of one broker. ``wanted``: attributes that a request is about, None: all."""

    domain = DOMAIN

    def __init__(self, world: World, send: Any, wanted: list[str] | None = None) -> None:
        """``send``: as `Desk.send`."""
        self.world: Final = world
        self.asker: Final = world.asker
        self.send: Final = send
        self.wanted: Final = wanted

    async def find(self, name: ObjectName) -> list[Bean]:
        """Return those that ``name`` covers. Raises EntrepotError."""
        if not name.covers(ObjectName(DOMAIN, name.properties)) and name.domain != "*":
            return []
        facts = await self.world.attributes("broker", FACTS)
        base = {"broker": quoted(str(facts["name"]))}
        found: list[Bean] = []
        if name.may_be(base):
            row = await self.world.attributes("broker", self._names("broker", ""))
            found.append(self._bean(base, "broker", "broker", row))
        address = {**base, "component": "addresses", "address": ""}
        if name.may_be(address):
            found += await self._addresses(name, address)
        queue = {**address, "subcomponent": "queues", "routing-type": "", "queue": ""}
        if name.may_be(queue):
            found += await self._queues(name, queue)
        for component, (kind, names, key) in COMPONENTS.items():
            keys = {**base, "component": component, key: ""}
            if name.may_be(keys) or (kind == "divert" and name.may_be({**keys, "address": ""})):
                found += await self._components(keys, kind, names, key)
        return [bean for bean in found if name.covers(bean.name)]

    def _names(self, kind: str, always: str) -> str:
        """Return which attributes to ask for, with commas between; "" for all."""
        if self.wanted is None:
            return ""
        known = {name.lower(): name for name in shape("artemis", kind)["attr"]}
        return ",".join(
            dict.fromkeys(
                [*filter(None, always.split(",")), *(_ours(one) for one in self.wanted if one.lower() in known)]
            )
        )

    async def _addresses(self, name: ObjectName, base: dict[str, str]) -> list[Bean]:
        names = self._names("address", "address")
        wanted = name.properties.get("address", "")
        if wanted and not name.is_pattern:
            rows = await self._exact(f"address.{unquoted(wanted)}", names)
        else:
            rows = await self.world.resources("address", names)
        return [
            self._bean({**base, "address": quoted(row["address"])}, "address", f"address.{row['address']}", row)
            for row in rows
        ]

    async def _queues(self, name: ObjectName, base: dict[str, str]) -> list[Bean]:
        names = self._names("queue", "name,address,routingType")
        wanted = name.properties.get("queue", "")
        if wanted and not name.is_pattern:
            rows = await self._exact(f"queue.{unquoted(wanted)}", names)
        else:
            rows = await self.world.resources("queue", names)
        return [
            self._bean(
                {**base, "address": quoted(row["address"]), "queue": quoted(row["name"]),
                 "routing-type": quoted(str(row["routingType"]).lower())},
                "queue", f"queue.{row['name']}", row,
            )
            for row in rows
        ]  # fmt: skip

    async def _exact(self, resource: str, names: str) -> list[Row]:
        try:
            return [await self.world.attributes(resource, names)]
        except InvalidDestination:
            return []

    async def _components(self, base: dict[str, str], kind: str, names: str, key: str) -> list[Bean]:
        facts = await self.world.attributes("broker", names)
        found = []
        for one in facts.get(names, []):
            row = await self.world.attributes(f"{kind}.{one}", "")
            keys = {**base, key: quoted(one)}
            if kind == "divert":
                keys = {**keys, "address": quoted(str(row.get("address")))}
            found.append(self._bean(keys, kind, f"{kind}.{one}", row))
        return found

    def _bean(self, properties: dict[str, str], kind: str, resource: str, row: Row) -> Bean:
        form = shape("artemis", kind)
        ours = {name.lower(): name for name in row}
        table = {name: _read(ours[name.lower()]) for name in form["attr"] if name.lower() in ours}
        if not form["attr"]:
            table = {name[:1].upper() + name[1:]: _read(name) for name in row}

        async def invoke(operation: str, arguments: list[Any]) -> object:
            if operation == SENDS:
                return await self._send(row, arguments)
            told = await self.asker.ask(resource, operation, *_typed(form, operation, arguments))
            return [composite(one) for one in told] if operation == BROWSES else told

        writes: dict[str, Write] = {
            name: partial(self.asker.ask, resource, f"set{name}") for name in WRITTEN if name in table
        }
        return Bean(ObjectName(DOMAIN, properties), readers(table, row), invoke, form, writes)

    async def _send(self, row: Row, given: list[Any]) -> str:
        """Take (headers, type, body, durable, user, password [, create an id])."""
        if len(given) < 4 or not isinstance(given[0] or {}, dict):
            raise Refused("sendMessage takes (headers, type, body, durable, user, password)")
        headers, _, body, durable, *_ = given
        multicast = "queueNames" in row and "MULTICAST" in (row.get("routingTypes") or ())
        place = f"{'topic' if multicast else 'queue'}://{row['address']}"
        persistent = str(durable).lower() == "true"
        return str(await self.send(place, str(body or ""), headers or {}, {"persistent": persistent}) or "")


def composite(row: Row) -> Row:
    """Return a message that is listed as Artemis writes one that is browsed: its properties by their types.

    What they were in Java beyond that is not known: a number is an int where it fits in one.
    """
    properties = row["properties"]
    typed = {kind: {name: one for name, one in properties.items() if _kind(one) == kind} for kind in KINDS}
    said: Row = {
        "address": row["address"],
        "messageID": str(row["messageID"]),
        "userID": row["userID"],
        "type": row.get("type", TEXT if "text" in row else 0),  # an older broker tells neither
        "durable": row["durable"],
        "expiration": row["expiration"],
        "priority": row["priority"],
        "redelivered": row["redelivered"],
        "timestamp": row["timestamp"],
        "protocol": row["protocol"],
        "persistentSize": row["size"],
        "largeMessage": row.get("largeMessage", False),
        "PropertiesText": "{" + ", ".join(f"{name}={one}" for name, one in properties.items()) + "}",
        **{f"{kind}Properties": found or None for kind, found in typed.items()},
    }
    if "preview" in row:
        said["BodyPreview"] = [octet - 256 if octet > 127 else octet for octet in bytes.fromhex(row["preview"])]
    else:
        said["text"] = row.get("text")
    return said


KINDS: Final = ("Boolean", "Byte", "Short", "Int", "Long", "Float", "Double", "String")


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "Boolean"
    if isinstance(value, int):
        return "Int" if -INT_MAX - 1 <= value <= INT_MAX else "Long"
    return "Double" if isinstance(value, float) else "String" if isinstance(value, str) else ""


def _ours(name: str) -> str:
    return {"ID": "id", "Id": "id", "HAPolicy": "HAPolicy"}.get(name) or name[:1].lower() + name[1:]


def _read(name: str) -> Any:
    return lambda row: row[name]


def _typed(form: Mapping[str, Any], operation: str, arguments: list[Any]) -> list[Any]:
    """Return ``arguments`` with the types that an operation wants: from the path of a GET all are texts.

    Raises Refused: one of them cannot be read as its type.
    """
    known = form["op"].get(operation)
    if known is None:
        return arguments
    forms = known if isinstance(known, list) else [known]
    fitting = [one["args"] for one in forms if len(one["args"]) == len(arguments)]
    for types in sorted(fitting, key=lambda args: -sum(one["type"] in WHOLE for one in args)):
        typed = [_one(value, wanted["type"]) for value, wanted in zip(arguments, types, strict=True)]
        if None not in [one for one, given in zip(typed, arguments, strict=True) if given is not None]:
            return typed
    if fitting:
        takes = " or ".join("(" + ", ".join(one["type"] for one in args) + ")" for args in fitting)
        raise Refused(f"{operation} takes {takes}", remedy="write numbers in digits, and true or false")
    return arguments


def _one(value: Any, kind: str) -> Any:
    """Return a value as a type, None where it is none of it."""
    return read_as(value, kind) if isinstance(value, str) else value
