"""Broker properties: single values said beside ``broker.xml``, by the names of Artemis' Java beans (artemis.md 8.3).

They come from files (``--properties``) and from ``-D brokerconfig.NAME=VALUE``. Each is written into the tree of the
file before that is read, so what it says is judged as if it stood there; a later one wins::

    maxDiskUsage=80
    addressSettings."#".redeliveryDelay=500
    addressConfigurations."orders".queueConfigs."orders".routingType=ANYCAST
    acceptorConfigurations.all.params.port=61617
    securityRoles."orders.#".clerks.send=true
    divertConfigurations.copies.forwardingAddress=all
    addressSettings."old.#"=-
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import DecodeError, json
from msgspec.structs import replace

from entrepot.base.errors import InvalidConfiguration, InvalidURI
from entrepot.base.uri import Endpoint, parse
from entrepot.config.artemis.elements import CONTENT, KINDS, RETENTION
from entrepot.config.findings import Severity
from entrepot.config.properties import parse as parse_properties
from entrepot.config.sources import PROPERTIES_OCTETS_MAX, Sources
from entrepot.config.xml import Attribute, Element
from entrepot.core.security.permissions import PERMISSIONS

PREFIX: Final = "brokerconfig."
REMOVED: Final = "-"
_TOKEN: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

LISTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "addressSettings": ("address-settings", "address-setting", "match"),
    "addressesSettings": ("address-settings", "address-setting", "match"),
    "addressConfigurations": ("addresses", "address", "name"),
    "divertConfigurations": ("diverts", "divert", "name"),
    "bridgeConfigurations": ("bridges", "bridge", "name"),
    "clusterConfigurations": ("cluster-connections", "cluster-connection", "name"),
    "discoveryGroupConfigurations": ("discovery-groups", "discovery-group", "name"),
    "broadcastGroupConfigurations": ("broadcast-groups", "broadcast-group", "name"),
}
"""Bean property -> the list in the file, its members, and what names one."""
URIS: Final = {
    "acceptorConfigurations": ("acceptors", "acceptor"),
    "connectorConfigurations": ("connectors", "connector"),
}
RETAINED: Final = {"journalRetentionDirectory": CONTENT, "journalRetentionMaxBytes": "storage-limit"}
"""Properties of the broker that are parts of one element of the file."""
SPELT: Final[Mapping[str, str]] = {
    "addressFullMessagePolicy": "address-full-policy",
    "pageFullMessagePolicy": "page-full-policy",
    "redeliveryMultiplier": "redelivery-delay-multiplier",
    "pageCacheMaxSize": "page-max-cache-size",
    "defaultLastValueQueue": "default-last-value-queue",
    "sendToDLAOnNoRoute": "send-to-dla-on-no-route",
    "autoCreateDeadLetterResources": "auto-create-dead-letter-resources",
    "persistIDCache": "persist-id-cache",
    "iDCacheSize": "id-cache-size",
    "IDCacheSize": "id-cache-size",
    "createBindingsDir": "create-bindings-dir",
    "clientFailureCheckPeriod": "check-period",
    "duplicateDetection": "use-duplicate-detection",
    "messageLoadBalancingType": "message-load-balancing",
    "connectorName": "connector-ref",
    "clusterNotificationInterval": "notification-interval",
    "clusterNotificationAttempts": "notification-attempts",
    "callFailoverTimeout": "call-failover-timeout",
    "clusterName": "name",
    "networkCheckNIC": "network-check-NIC",
}
"""What the beans call otherwise than the file does."""


class Overrides:
    """Writes properties into the element ``<core>``."""

    def __init__(self, core: Element, sources: Sources) -> None:
        self.core: Final = core
        self.sources: Final = sources
        self.where = ""

    def apply(self, given: Mapping[str, str], where: str) -> None:
        """Write each of ``given``, in its order; ``where`` they are from is for findings."""
        self.where = where
        for name, value in given.items():
            try:
                self._one(_tokens(name), value)
            except InvalidConfiguration as error:
                what = f"the property {name} of {where}: {error.message}"
                self.sources.findings.add(Severity.ERROR, self.sources.file, 0, "", what, error.remedy)

    def _one(self, tokens: list[str], value: str) -> None:
        first, *rest = tokens
        if first in URIS:
            self._uri(URIS[first], rest, value)
        elif first == "securityRoles":
            self._right(rest, value)
        elif first in LISTS:
            below, member, key = LISTS[first]
            self._member(below, member, key, rest, value)
        elif not rest and first in RETAINED:
            self._set(_need(self.core, RETENTION), RETAINED[first], value)
        elif not rest:
            self._scalar(self.core, first, value)
        else:
            raise InvalidConfiguration(f"there is no {first!r} with parts", remedy="write it into the file")

    def _member(self, below: str, member: str, key: str, rest: list[str], value: str) -> None:
        """Set one value of a member of a list, which is made if there is none of its name; or remove it."""
        if not rest:
            raise InvalidConfiguration("it names no entry", remedy='write NAME."ENTRY".VALUE')
        parent = _need(self.core, below)
        if len(rest) == 1:
            if value != REMOVED:
                raise InvalidConfiguration("it says nothing of that entry", remedy=f"name a value of it, or {REMOVED}")
            parent.children[:] = [one for one in parent.children if _keyed(one, key) != rest[0]]
            return
        element = self._of(parent, member, key, rest[0])
        if member == "address" and rest[1] == "queueConfigs":
            self._queue(element, rest[2:], value)
        elif member == "address" and rest[1] == "routingTypes":
            for word in value.split(","):
                _need(element, word.strip().lower())
        elif len(rest) > 2:
            raise InvalidConfiguration(f"{rest[1]!r} has no parts", remedy="write it into the file")
        else:
            self._scalar(element, rest[1], value)

    def _queue(self, address: Element, rest: list[str], value: str) -> None:
        """Set one value of a queue of ``address``; its routing type is the element that it stands in."""
        if len(rest) != 2:
            raise InvalidConfiguration("it names no value of a queue", remedy='write queueConfigs."QUEUE".VALUE')
        name, field = rest
        found: Element | None = None
        for kind in address.children:
            for one in kind.named("queue") if kind.name in ("anycast", "multicast") else ():
                if _keyed(one, "name") == name:
                    found = one
        wanted = value.lower() if field == "routingType" else ""
        if found is None:
            found = self._of(_need(address, wanted or "multicast"), "queue", "name", name)
        elif wanted and found.parent is not None and found.parent.name != wanted:
            found.parent.children.remove(found)
            found.parent = _need(address, wanted)
            found.parent.children.append(found)
            found.parent.counts["queue"] = found.ordinal = found.parent.counts.get("queue", 0) + 1
        if field == "filterString":
            self._set(_need(found, "filter"), "string", value)
        elif field not in ("routingType", "name", "address"):
            self._scalar(found, field, value)

    def _right(self, rest: list[str], value: str) -> None:
        """Give or take one right of one role."""
        if len(rest) != 3 or rest[2] not in PERMISSIONS or value not in ("true", "false"):
            remedy = 'write securityRoles."MATCH".ROLE.RIGHT=true, a right as in the file'
            raise InvalidConfiguration("it is no right of a role", remedy=remedy)
        match, role, right = rest
        setting = self._of(_need(self.core, "security-settings"), "security-setting", "match", match)
        permission = self._of(setting, "permission", "type", right)
        roles = [word.strip() for word in _keyed(permission, "roles").split(",") if word.strip() and word != role]
        self._set(permission, "roles", ",".join([*roles, role] if value == "true" else roles))

    def _uri(self, place: tuple[str, str], rest: list[str], value: str) -> None:
        """Set one parameter of an acceptor or connector, or the whole of it."""
        if not rest:
            raise InvalidConfiguration("it names no entry", remedy='write NAME."ENTRY".params.host')
        parent = _need(self.core, place[0])
        if len(rest) == 1 and value == REMOVED:
            parent.children[:] = [one for one in parent.children if _keyed(one, "name") != rest[0]]
            return
        element = self._of(parent, place[1], "name", rest[0])
        if len(rest) == 2 and rest[1] == "factoryClassName":
            return  # sockets, as all of them are here
        if len(rest) != 3 or rest[1] not in ("params", "extraParams"):
            raise InvalidConfiguration("it is no parameter", remedy=f'write "{rest[0]}".params.NAME')
        try:
            uri = parse(self.sources.fill(element.text.strip() or "tcp://localhost:61616").replace(";", "&"))
        except InvalidURI as error:
            raise InvalidConfiguration(error.message, remedy=error.remedy) from None
        if not isinstance(uri, Endpoint):
            raise InvalidConfiguration("it has several places", remedy="write it into the file")
        name = rest[2]
        if name == "host":
            uri = replace(uri, host=value)
        elif name == "port":
            if not value.isdecimal():
                raise InvalidConfiguration(f"{value!r} is no port", remedy="write a number")
            uri = replace(uri, port=int(value))
        else:
            uri = replace(uri, options={**uri.options, name: value})
        element.text = uri.format()
        element.source, element.line = self.where, 0

    def _scalar(self, element: Element, name: str, value: str) -> None:
        """Set a single value of ``element``, by the name that its bean has for it."""
        spelt = SPELT.get(name) or _HUMP.sub("-", name).lower()
        known = KINDS[element.name].attributes if element.name in KINDS else None
        if known is not None and (spelt not in known or spelt == CONTENT):
            raise InvalidConfiguration(f"<{element.name}> has no <{spelt}>", remedy="see docs/broker-xml.md")
        self._set(element, spelt, value)

    def _set(self, element: Element, key: str, value: str) -> None:
        """Set a single value, in place of what the file says."""
        element.children[:] = [child for child in element.children if child.name != key]
        element.attributes[key] = Attribute(key, "", value, element.line, self.where)

    def _of(self, parent: Element, name: str, key: str, value: str) -> Element:
        """Return the child whose ``key`` is ``value``, made if there is none."""
        for child in parent.named(name):
            if _keyed(child, key) == value:
                return child
        made = Element(name, parent.space, parent.line, parent)
        self._set(made, key, value)
        return made


def _tokens(name: str) -> list[str]:
    """Return the parts of a name: between dots, or in quotation marks with dots within. Raises InvalidConfiguration."""
    tokens: list[str] = []
    at = 0
    while at <= len(name):
        found = _TOKEN.match(name, at)
        if found is None:
            raise InvalidConfiguration(f"{name!r} is no name", remedy="put names with dots into quotation marks")
        tokens.append(found[2] if found[1] is None else found[1].replace('\\"', '"'))
        at = found.end()
        if at < len(name) and name[at] != ".":
            raise InvalidConfiguration(f"{name!r} is no name", remedy="put names with dots into quotation marks")
        at += 1
    return tokens


def _keyed(element: Element, key: str) -> str:
    """Return the single value ``key`` of ``element``, an attribute or an element; "" when it has none."""
    attribute = element.attributes.get(key)
    if attribute is not None:
        return attribute.text
    return next((child.text.strip() for child in element.named(key)), "")


def _need(parent: Element, name: str) -> Element:
    """Return the child ``name``, made if there is none."""
    found = parent.named(name)
    return found[0] if found else Element(name, parent.space, parent.line, parent)


def override(core: Element, sources: Sources, files: Sequence[Path]) -> None:
    """Write into ``core`` the properties of ``files``, in their order, then those of the command line."""
    overrides = Overrides(core, sources)
    for file in files:
        overrides.apply(_properties(file, sources), str(file))
    prefix = _keyed(core, "system-property-prefix") or PREFIX
    given = {name.removeprefix(prefix): value for name, value in sources.defines.items() if name.startswith(prefix)}
    overrides.apply(given, "the command line")


def _properties(file: Path, sources: Sources) -> dict[str, str]:
    """Return what a file, or each of a directory, says: ``.properties`` or JSON. What is wrong has become a finding."""
    found: dict[str, str] = {}
    try:
        sources.files[file] = None  # of a directory: files that come and go
        parts = sorted(file.iterdir()) if file.is_dir() else [file]
        sources.files.update(dict.fromkeys(parts))
        for part in parts:
            if part.suffix not in (".properties", ".json") and file.is_dir():
                continue
            data = part.read_bytes()
            if len(data) > PROPERTIES_OCTETS_MAX:
                raise ValueError("it is too large")
            if part.suffix == ".json":
                found.update(_flat(json.decode(data), ""))
            else:
                found.update((name, value) for name, (value, _) in parse_properties(data.decode()).items())
    except (OSError, ValueError, DecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        sources.findings.add(
            Severity.ERROR, str(file), 0, "", f"the broker properties cannot be read: {what}", "check the name"
        )
    return found


def _flat(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the values of a JSON object by their names, as properties have them."""
    if isinstance(value, dict):
        for name, inner in value.items():
            part = name if re.fullmatch(r"[\w\-]+", name) else '"' + name.replace('"', '\\"') + '"'
            yield from _flat(inner, f"{path}.{part}" if path else part)
    else:
        yield path, str(value).lower() if isinstance(value, bool) else str(value)
