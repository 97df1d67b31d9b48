"""Operations of a queue's and a topic's MBean as Classic has them, over those of management."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from entrepot.base.errors import Refused
from entrepot.console.jolokia.answering import Write
from entrepot.console.jolokia.world import Row
from entrepot.console.numbers import count, whole
from entrepot.core.operators.together.asker import Asker

BROWSED: Final = 1_000  # messages of one look
HEADERS: Final = {
    "JMSCorrelationID": "correlation_id",
    "JMSReplyTo": "reply_to",
    "JMSType": "type",
    "JMSXGroupID": "group",
    "JMSPriority": "priority",
}
KINDS: Final = {bool: "Boolean", int: "Long", float: "Double", str: "String"}
STOPS: Final = ("BLOCK", "FAIL")  # what a full queue does whose producers are controlled

Verb = Callable[..., Awaitable[object]]


class QueueVerbs:
    """What can be done to one queue, named ``queue``, or sent to ``destination``."""

    def __init__(self, asker: Asker, send: Any, queue: str, destination: str) -> None:
        self.asker: Final = asker
        self.send: Final = send
        self.resource: Final = f"queue.{queue}"
        self.destination: Final = destination

    def verbs(self) -> dict[str, Verb]:
        """Return those of a queue."""
        ask = self.asker.ask
        resource = self.resource

        def to(target: str) -> str:
            return target.removeprefix("queue://")

        async def purge(most: int = -1) -> None:
            await ask(resource, "purge", _number(most))

        async def remove(identity: str) -> object:
            return await ask(resource, "removeMessage", identity)

        async def remove_matching(selector: str, most: int = -1) -> object:
            return await ask(resource, "removeMessages", selector, _number(most))

        async def copy_matching(selector: str, target: str, most: int = -1) -> object:
            return await ask(resource, "copyMessages", selector or "", to(target), _number(most))

        async def move_matching(selector: str, target: str, most: int = -1) -> object:
            return await ask(resource, "moveMessages", selector or "", to(target), False, _number(most))

        async def move(identity: str, target: str) -> object:
            return await ask(resource, "moveMessage", identity, to(target))

        async def copy(identity: str, target: str) -> object:
            chosen = identity.replace("'", "''")
            return await ask(resource, "copyMessages", f"JMSMessageID = '{chosen}'", to(target), 1) == 1

        async def retry(identity: str) -> object:
            return await ask(resource, "retryMessage", identity)

        async def retry_all(most: int = -1) -> object:
            return await ask(resource, "retryMessages", "", _number(most))

        async def message(identity: str) -> object:
            return _composite(await ask(resource, "describeMessage", identity))

        async def size() -> object:
            return (await ask(resource, "describe"))["waiting"]

        async def yes() -> bool:
            return True

        async def no() -> bool:
            return False

        async def pause() -> None:
            await ask(resource, "pause")

        async def resume() -> None:
            await ask(resource, "resume")

        async def remove_group(group: str) -> bool:
            await ask(resource, "resetGroup", group)
            return True

        async def remove_groups() -> None:
            await ask(resource, "resetAllGroups")

        return {
            **self.sending(),
            "browse": self._browse,
            "browseAsTable": self._table,
            "browseMessages": self._browse,
            "getMessage": message,
            "purge": purge,
            "removeMessage": remove,
            "removeMatchingMessages": remove_matching,
            "copyMatchingMessagesTo": copy_matching,
            "moveMatchingMessagesTo": move_matching,
            "moveMessageTo": move,
            "copyMessageTo": copy,
            "retryMessage": retry,
            "retryMessages": retry_all,
            "pause": pause,
            "resume": resume,
            "cursorSize": size,
            "doesCursorHaveSpace": yes,
            "doesCursorHaveMessagesBuffered": no,
            "removeMessageGroup": remove_group,
            "removeAllMessageGroups": remove_groups,
        }

    def sending(self) -> dict[str, Verb]:
        """Return those that send."""
        return {"sendTextMessage": self._send, "sendTextMessageWithProperties": self._send_text}

    async def _browse(self, selector: str = "") -> list[Row]:
        return [_composite(row) for row in await self.asker.ask(self.resource, "browse", 1, BROWSED, selector or "")]

    async def _table(self, selector: str = "") -> Row:
        return {row["JMSMessageID"]: row for row in await self._browse(selector)}

    async def _send(self, *given: object) -> str:
        """Take (body), (headers, body), (body, user, password) or (headers, body, user, password)."""
        headers = given[0] if given and isinstance(given[0], dict) else {}
        rest = given[1:] if isinstance(given[0] if given else None, dict) else given
        if len(rest) not in (1, 3):
            raise Refused("a message is (body), (headers, body), (body, user, password) or all of these")
        # name and password of another user are not taken: a message is sent as who asks, whose rights are looked at
        return await self._sent(str(rest[0]), headers)

    async def _send_text(self, text: str, delimiter: str = ",") -> str:
        """Take "key=value,..."; the body is the value of ``body``."""
        headers: dict[str, Any] = {}
        for pair in text.split(delimiter):
            name, equals, value = pair.partition("=")
            if not equals:
                raise Refused(f"{pair[:40]!r} is not KEY=VALUE")
            headers[name.strip()] = value.strip()
        body = str(headers.pop("body", ""))
        for secret in ("username", "password"):
            headers.pop(secret, None)
        return await self._sent(body, headers)

    async def _sent(self, body: str, given: dict[str, Any]) -> str:
        headers: dict[str, Any] = {HEADERS[name]: value for name, value in given.items() if name in HEADERS}
        properties = {name: value for name, value in given.items() if not name.startswith("JMS")}
        _priority(headers)
        headers["persistent"] = str(given.get("JMSDeliveryMode", "PERSISTENT")).upper() in ("PERSISTENT", "2")
        if given.get("JMSTimeToLive"):
            life = count(given["JMSTimeToLive"])
            if life is None:
                raise Refused(f"JMSTimeToLive is {str(given['JMSTimeToLive'])[:40]!r}, which is no number of ms")
            headers["time_to_live"] = life / 1000
        return str(await self.send(self.destination, body, properties, headers) or "")


def writes_of(asker: Asker, address: str, routing: str, when_full: str = "") -> dict[str, Write]:
    """Return what can be written of a destination; ``when_full``: what a queue does then, "" for a topic."""

    async def tune(**settings: object) -> None:
        await asker.ask(f"address.{address}", "tune", routing, json.dumps(settings))

    async def limit(octets: int) -> None:
        if octets < 1:
            raise Refused(f"{octets} octets are no limit", remedy="write 1 or more")
        await tune(maxSizeBytes=octets)

    async def control(stops: bool) -> None:
        if stops != (when_full in STOPS):  # FAIL stays: who is refused is controlled, too
            await tune(addressFullMessagePolicy="BLOCK" if stops else "PAGE")

    return {"MemoryLimit": limit, "ProducerFlowControl": control} if when_full else {"MemoryLimit": limit}


def _composite(row: Row) -> Row:
    """Return a message as JMX shows one."""
    properties = dict(row.get("properties") or {})
    said: Row = {
        "JMSCorrelationID": properties.pop("JMSCorrelationID", None),
        "JMSDeliveryMode": "PERSISTENT" if row["durable"] else "NON-PERSISTENT",
        "JMSDestination": f"queue://{row['address']}",
        "JMSExpiration": row["expiration"],
        "JMSMessageID": row["userID"],
        "JMSPriority": row["priority"],
        "JMSRedelivered": row["redelivered"],
        "JMSReplyTo": properties.pop("JMSReplyTo", None),
        "JMSTimestamp": _date(int(row["timestamp"])),
        "JMSType": properties.pop("JMSType", None),
        "JMSXGroupID": properties.pop("JMSXGroupID", None),
        "Text": row.get("text"),
    }
    for kind, name in KINDS.items():
        said[f"{name}Properties"] = {key: value for key, value in properties.items() if type(value) is kind}
    said["PropertiesText"] = str(properties)
    return said


def _date(wall: int) -> str:
    return datetime.fromtimestamp(wall / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _priority(headers: dict[str, Any]) -> None:
    """Make the priority a number. Raises Refused."""
    if headers.get("priority") is None:
        headers.pop("priority", None)
        return
    priority = count(headers["priority"], 9)
    if priority is None:
        raise Refused(f"JMSPriority is {str(headers['priority'])[:40]!r}, and not 0 to 9")
    headers["priority"] = priority


def _number(value: object) -> int:
    found = whole(value)
    if found is None:
        raise Refused(f"{str(value)[:40]!r} is no number of messages")
    return found
