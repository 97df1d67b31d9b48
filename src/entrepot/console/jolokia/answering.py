"""Answers of Jolokia: what is asked for is looked up among MBeans.

Cut to the path and depth, and put into its envelope.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from entrepot import __version__
from entrepot.base.errors import (
    AccessDenied,
    EntrepotError,
    InvalidDestination,
    InvalidOption,
    InvalidSelector,
    LimitExceeded,
    Refused,
)
from entrepot.console.jolokia.calling import typed
from entrepot.console.jolokia.names import ObjectName
from entrepot.console.jolokia.requests import JolokiaRequest
from entrepot.console.numbers import count

PROTOCOL: Final = "8.0"
AGENT: Final = "2.2.9"  # the version of Jolokia whose answers these are
DEPTH: Final = 15
BEANS_MOST: Final = 20_000

ARTEMIS: Final = "org.apache.activemq.artemis"
THROWN: Final[Mapping[tuple[str, type[Exception]], tuple[str, int]]] = {
    (ARTEMIS, InvalidDestination): (f"{ARTEMIS}.api.core.ActiveMQNonExistentQueueException", 500),
    (ARTEMIS, InvalidSelector): (f"{ARTEMIS}.api.core.ActiveMQInvalidFilterExpressionException", 500),
    ("org.apache.activemq", InvalidSelector): ("jakarta.jms.InvalidSelectorException", 500),
}
"""What a real broker of a domain throws where ours refuses: the class, and the status that Jolokia makes of it."""

Invoke = Callable[[str, list[Any]], Awaitable[object]]


class NoSuch(Exception):
    """There is no such MBean, attribute or part of a value: what Jolokia answers 404. ``kind``: the class in Java."""

    kind = "javax.management.InstanceNotFoundException"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message: Final = message
        self.remedy: Final = ""


class NoSuchBean(NoSuch):
    """There is no MBean of a name."""


class NoSuchAttribute(NoSuch):
    """An MBean has no attribute of a name, or a value no part of one."""

    kind = "javax.management.AttributeNotFoundException"


Write = Callable[[Any], Awaitable[object]]


class Bean:
    """One MBean. ``attributes``: name -> what reads it; ``shape``: its attributes and operations with their types.

    ``writes``: name -> what lets a value hold from now on, which has the type of the attribute.
    """

    def __init__(
        self,
        name: ObjectName,
        attributes: Mapping[str, Callable[[], object]],
        invoke: Invoke,
        shape: Mapping[str, Any],
        writes: Mapping[str, Write] = MappingProxyType({}),
    ) -> None:
        self.name: Final = name
        self.attributes: Final = attributes
        self.invoke: Final = invoke
        self.shape: Final = shape
        self.writes: Final = writes


class Beans(Protocol):
    """The MBeans of one broker, in one domain."""

    domain: str

    async def find(self, name: ObjectName) -> list[Bean]:
        """Return those that a name or pattern covers. Raises EntrepotError."""


async def answer(request: JolokiaRequest, beans: Beans) -> dict[str, Any]:
    """Return the answer to one request; what is wrong is part of it."""
    try:
        value = await _value(request, beans)
        shown = _cut(_at_path(value, request.path if request.type != "list" else []), request)
    except (EntrepotError, NoSuch) as error:
        told = failure(error, request.raw, beans.domain)
        if request.flag("includeStackTrace"):
            told["stacktrace"] = told["error"]  # there is no Java behind it; clients look whether it is there
        return told
    return {"request": request.raw, "value": shown, "timestamp": int(time.time()), "status": 200}


def failure(error: EntrepotError | NoSuch, raw: object, domain: str = "") -> dict[str, Any]:
    """Return the answer that says what went wrong, with what the broker of that ``domain`` throws in Java."""
    kind, status = THROWN.get((domain, type(error))) or _kind(error)
    told = error.message + (f"; {error.remedy}" if error.remedy else "")
    said: dict[str, Any] = {"error_type": kind, "error": f"{kind} : {told}", "status": status}
    said["timestamp"] = int(time.time())
    if raw is not None:
        said["request"] = raw
    return said


def _kind(error: EntrepotError | NoSuch) -> tuple[str, int]:
    if isinstance(error, NoSuch):
        return error.kind, 404
    if isinstance(error, AccessDenied):
        return "java.lang.SecurityException", 403
    if isinstance(error, LimitExceeded | Refused | InvalidOption):
        return "java.lang.IllegalArgumentException", 400
    return "javax.management.MBeanException", 500


async def _value(request: JolokiaRequest, beans: Beans) -> object:
    if request.type == "version":
        return version()
    if request.type == "list":
        return await _list(request, beans)
    if request.type == "notification":
        raise Refused("notifications are not pushed", remedy="read the address activemq.notifications, or ask again")
    name = ObjectName.parse(request.mbean)
    if request.type == "search":
        return sorted(bean.name.written(canonical=request.canonical) for bean in await beans.find(name))
    if request.type == "read":
        return await _read(request, name, beans)
    bean = await _one(name, beans)
    if request.type == "exec":
        if not request.operation:
            raise Refused("no operation is named", remedy="set operation")
        return await bean.invoke(request.operation.partition("(")[0], request.arguments)
    return await _write(bean, request)


def version() -> dict[str, object]:
    """Return who answers."""
    return {
        "agent": AGENT,
        "protocol": PROTOCOL,
        "id": "entrepot",
        "details": {"agent_version": AGENT, "agent_id": "entrepot", "secured": True},
        "config": {"maxDepth": str(DEPTH), "maxCollectionSize": "0", "maxObjects": "0"},
        "info": {"product": "entrepot", "vendor": "entrepot", "version": __version__},
    }


async def _write(bean: Bean, request: JolokiaRequest) -> object:
    """Let an attribute have a value; return the one that it had, as Jolokia does."""
    name = request.attribute
    if not isinstance(name, str) or not name:
        raise Refused("no attribute is named", remedy="set attribute to the name of one")
    if request.path:
        raise Refused("a part of a value cannot be written", remedy="leave out path, and write the whole value")
    if name not in bean.attributes:
        raise NoSuchAttribute(f"No attribute {name} found for MBean {bean.name}")
    write = bean.writes.get(name)
    if write is None:
        raise NoSuchAttribute(f"Read-only attribute: {name}")
    before = bean.attributes[name]()
    await write(typed(request.value, str(bean.shape["attr"][name]["type"]), name))
    return before


async def _one(name: ObjectName, beans: Beans) -> Bean:
    if name.is_pattern:
        raise Refused(f"{name} is a pattern", remedy="name one MBean")
    found = await beans.find(name)
    if not found:
        raise NoSuchBean(str(name))
    return found[0]


async def _read(request: JolokiaRequest, name: ObjectName, beans: Beans) -> object:
    wanted = request.attributes
    if not name.is_pattern:
        bean = await _one(name, beans)
        if request.is_one and wanted:
            return _attribute(bean, wanted[0])
        return _attributes(bean, wanted, ignores=request.flag("ignoreErrors"))
    found = await beans.find(name)
    if not found:
        raise NoSuchBean(f"No MBean with pattern {name} found for reading attributes")
    if len(found) > BEANS_MOST:
        raise LimitExceeded(f"{len(found)} MBeans are meant, more than {BEANS_MOST}", remedy="name fewer")
    shown: dict[str, object] = {}
    for bean in found:
        some = [one for one in wanted if one in bean.attributes] if wanted is not None else None
        if some or wanted is None:
            shown[bean.name.written(canonical=request.canonical)] = _attributes(bean, some, ignores=True)
    if not shown:
        raise NoSuchAttribute(f"No matching attributes {wanted} found on MBeans of {name}")
    return shown


def _attributes(bean: Bean, wanted: list[str] | None, *, ignores: bool) -> dict[str, object]:
    shown: dict[str, object] = {}
    for name in bean.attributes if wanted is None else wanted:
        try:
            shown[name] = _attribute(bean, name)
        except (EntrepotError, NoSuch) as error:
            if not ignores:
                raise
            shown[name] = f"ERROR: {error.message}"
    return shown


def _attribute(bean: Bean, name: str) -> object:
    read = bean.attributes.get(name)
    if read is None:
        raise NoSuchAttribute(f"No such attribute: {name}")
    return read()


async def _list(request: JolokiaRequest, beans: Beans) -> object:
    path = request.path
    if path and path[0] != beans.domain:
        return {}  # as a JVM that has no such domain; the path inside it leads nowhere either
    pattern = ObjectName(beans.domain, {}, more=True)
    if len(path) > 1:
        pattern = ObjectName.parse(f"{beans.domain}:{path[1]}")
    found = {bean.name.listed(canonical=request.canonical): bean.shape for bean in await beans.find(pattern)}
    if len(path) > 1 and not found:
        raise NoSuchBean(f"{beans.domain}:{path[1]}")
    if request.flag("listCache"):
        return {"cache": {}, "domains": {beans.domain: found}}
    value: object = {beans.domain: found}
    steps = [path[0], next(iter(found)), *path[2:]] if len(path) > 1 else path
    return _at_path(value, steps)


def _at_path(value: object, path: Sequence[str]) -> object:
    """Return what ``path`` leads to inside ``value``; ``*`` is each. Raises Refused."""
    for at, part in enumerate(path):
        if part == "*":
            rest = path[at + 1 :]
            if isinstance(value, dict):
                return {name: _at_path(one, rest) for name, one in value.items()}
            if isinstance(value, list):
                return [_at_path(one, rest) for one in value]
            raise Refused(f"{part!r} leads nowhere in the value")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and (index := count(part, len(value) - 1)) is not None:
            value = value[index]
        else:
            raise NoSuchAttribute(f"the path leads nowhere at {part!r}")
    return value


def _cut(value: object, request: JolokiaRequest) -> object:
    """Return ``value`` no deeper and longer than the request wants it."""
    depth = request.number("maxDepth")
    if request.type == "list":
        return _shallow(value, depth) if depth else value
    return _bounded(value, depth or DEPTH, request.number("maxCollectionSize") or None)


def _shallow(value: object, depth: int) -> object:
    if not isinstance(value, dict):
        return value
    if depth <= 0:
        return 1
    return {name: _shallow(one, depth - 1) for name, one in value.items()}


def _bounded(value: object, depth: int, most: int | None) -> object:
    if isinstance(value, dict):
        if depth <= 0:
            return str(value)
        return {name: _bounded(one, depth - 1, most) for name, one in value.items()}
    if isinstance(value, list):
        if depth <= 0:
            return str(value)
        return [_bounded(one, depth - 1, most) for one in value[:most]]
    return value
