"""Where the broker listens, and which brokers it bridges to (classic.md 1.2, 6.1).

A connector's URI is rewritten so that its scheme names the protocol: ``tcp:``, ``nio:`` and ``ssl:`` speak OpenWire in
Classic, and only that. A protocol that this build does not speak is reported by name, and the others start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.cluster.clients import read_filter
from entrepot.cluster.networks.discovery import parse_beacon
from entrepot.cluster.networks.options import NetworkConnectorOptions, spread
from entrepot.config.classic.destinations import included
from entrepot.config.findings import Severity
from entrepot.config.model import Connector, NetworkConnector
from entrepot.config.peering import Position
from entrepot.config.reading import Bean, Reader
from entrepot.config.sources import Sources
from entrepot.protocols.openwire.options import OpenWireOptions, read_option

OPENWIRE: Final = "openwire"
AUTO: Final = "auto"
STOMP: Final = "stomp"
MQTT: Final = "mqtt"
AMQP: Final = "amqp"
NO_SASL: Final = "wireFormat.allowNonSaslConnections"
HTTP: Final = "http"
HTTPS: Final = "https"
MEANT: Final = {HTTPS: HTTP, "wss": "ws"}  # words of a scheme that say TLS too
OF_OPENWIRE: Final = (OPENWIRE, AUTO, HTTP)
LAYERS: Final = ("tcp", "nio", "ssl", "unix")
LANGUAGES: Final = {
    "openwire": "OpenWire",
    "stomp": "STOMP",
    "mqtt": "MQTT",
    "amqp": "AMQP",
    "ws": "WebSocket",
    "wss": "WebSocket",
    "http": "HTTP",
    "https": "HTTP",
    "vm": "the transport within one virtual machine",
    "udp": "UDP",
    "multicast": "multicast",
}
URI_LIST: Final = ","

OPENWIRE_FLAGS: Final = (
    "allowLinkStealing",
    "auditNetworkProducers",
    "updateClusterClients",
    "rebalanceClusterClients",
    "updateClusterClientsOnRemove",
)
"""Attributes of a transport connector that are options of OpenWire in its URI."""

CLUSTER_FILTER: Final = "updateClusterFilter"
COUNTED: Final = ("maximumConsumersAllowedPerConnection", "maximumProducersAllowedPerConnection")
PUBLISHED: Final = ("publishedHostStrategy", "clusterClientUriQuery")
PUBLISHED_MAPS: Final = {"hostMapping": "publishedHostMapping", "portMapping": "publishedPortMapping"}

STORE_OPTIONS: Final = {
    "keyStore": "keyStorePath",
    "keyStorePassword": "keyStorePassword",
    "keyStoreKeyPassword": "keyPassword",
    "trustStore": "trustStorePath",
    "trustStorePassword": "trustStorePassword",
}
"""Attributes of ``sslContext`` and the options of a URI that say the same."""


class Connectors:
    """Reads the connectors of one broker. ``spoken``: the protocols of this build."""

    def __init__(self, reader: Reader, sources: Sources, spoken: Collection[str], tls: Bean | None) -> None:
        self.reader: Final = reader
        self.sources: Final = sources
        self.spoken: Final = spoken
        self.tls: Final = {} if tls is None else self._tls(tls)
        self.found: list[Connector] = []

    def transports(self, broker: Bean) -> tuple[Connector, ...]:
        """Return every place to listen that this build can serve."""
        beans = broker.many("transportConnectors")
        for bean in beans:
            self._transport(bean)
        more = [text.strip() for text in broker.text("transportConnectorURIs").split(URI_LIST) if text.strip()]
        for number, text in enumerate(more, 1):
            self._place(broker, f"connector-{number}", text, "transportConnectorURIs")
        opened = [bean for bean in beans if bean.get("autoStart", True)]
        if not opened and not more:
            none = "it has no transport connector" if not beans else "none of its transport connectors is opened"
            self.reader.warn(broker, f"no client can connect: {none}", "add one")
        elif not self.found:
            self.reader.error(broker, "none of its transport connectors can start", "add one that this build speaks")
        return tuple(self.found)

    def _transport(self, bean: Bean) -> None:
        text = bean.text("uri")
        name = bean.text("name") or text.partition("?")[0]
        starts = bean.get("autoStart", True)
        if not text:
            self._no_uri(bean, 'give one, like uri="tcp://0.0.0.0:61616"')
        elif not starts:
            self.reader.note(bean, "it is not opened", "take autoStart out to open it", "autoStart")
        else:
            flags = {flag: "true" for flag in OPENWIRE_FLAGS if bean.get(flag, False)}
            flags |= {name: str(bean.get(name)) for name in COUNTED if bean.get(name, 0) > 0}
            flags |= self._published(bean)
            if bean.text(CLUSTER_FILTER):
                flags[CLUSTER_FILTER] = self._filter(bean)
            self._place(bean, name, text, "uri", self._discovery(bean), flags)

    def _published(self, bean: Bean) -> dict[str, str]:
        """Return as options which address clients are told."""
        policy = bean.one("publishedAddressPolicy")
        if policy is None:
            return {}
        found = {name: policy.text(name) for name in PUBLISHED if policy.text(name)}
        for name, option in PUBLISHED_MAPS.items():
            pairs = ",".join(f"{key}={value}" for key, value in policy.pairs.get(name, {}).items())
            if pairs:
                found[option] = pairs
        try:
            for name, text in found.items():
                read_option(OpenWireOptions(), name, text)
        except InvalidOption as error:
            self.reader.error(policy, error.message, error.remedy)
            return {}
        return found

    def _no_uri(self, bean: Bean, remedy: str) -> None:
        """Say so once: a ``uri`` whose placeholder has no value is an error already."""
        attribute = bean.element.attributes.get("uri")
        if attribute is None or not attribute.text.strip():
            self.reader.error(bean, "it has no uri", remedy)

    def _filter(self, bean: Bean) -> str:
        """Return which brokers the clients hear of; an error for what is no list of expressions."""
        text = str(bean.text(CLUSTER_FILTER))
        try:
            read_filter(text)
        except InvalidOption as error:
            self.reader.error(bean, error.message, error.remedy, CLUSTER_FILTER)
        return text

    def _discovery(self, bean: Bean) -> str:
        """Return where the connector is announced; an error for what announces nothing."""
        text = bean.text("discoveryUri")
        if not text:
            return ""
        try:
            found = parse(text)
            if isinstance(found, Composite):
                raise InvalidURI("it is a list", remedy="use multicast://default")
            parse_beacon(found)
        except (InvalidURI, InvalidOption) as error:
            self.reader.error(bean, error.message, error.remedy, "discoveryUri")
            return ""
        return text

    def _place(
        self,
        bean: Bean,
        name: str,
        text: str,
        attribute: str,
        discovery: str = "",
        flags: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        place = self._parsed(bean, text, attribute)
        if place is None:
            return
        protocol = self._protocol(bean, name, place, attribute)
        if not protocol:
            return
        if any(one.name == name for one in self.found):
            self.reader.error(bean, f"there are two transport connectors {name!r}", "names must differ", "name")
            return
        words = place.scheme.split("+")
        layers = [word for word in words if word in LAYERS and word != "tcp"]
        secure = [word for word in words if word in MEANT]
        scheme = secure[0] if secure else "+".join([protocol, *layers])
        endpoint = self._with_tls(replace(place, scheme=scheme))
        if protocol in (STOMP, MQTT, AMQP):
            flags = {name: text for name, text in flags.items() if name == COUNTED[0]}
        said = [name.rpartition(".")[2] for name in endpoint.options]
        if protocol == AMQP and NO_SASL.rpartition(".")[2] not in said:
            flags = {**flags, NO_SASL: "false"}  # Classic lets nobody in without it
        if protocol in (*OF_OPENWIRE, STOMP, MQTT, AMQP):
            endpoint = replace(endpoint, options={**endpoint.options, **flags})
        self.found.append(
            Connector(
                name=name,
                uri=endpoint.format(),
                protocol=protocol,
                line=bean.line(attribute),
                discovery=discovery if protocol in OF_OPENWIRE else "",
            )
        )

    def _parsed(self, bean: Bean, text: str, attribute: str) -> Endpoint | None:
        """Return the place of a connector; one that cannot be read is an error."""
        try:
            place = parse(text)
        except InvalidURI as error:
            self.reader.error(bean, error.message, error.remedy, attribute)
            return None
        if isinstance(place, Composite):
            self.reader.error(bean, "a connector listens on one place, this is a list", "write one for each", attribute)
            return None
        self.reader.findings.hide(place.password)
        return place

    def _protocol(self, bean: Bean, name: str, place: Endpoint, attribute: str) -> str:
        """Return what is spoken at a place; "" for what this build does not speak, which is a finding then."""
        words = place.scheme.split("+")
        protocols = [MEANT.get(word, word) for word in words if word not in LAYERS]
        protocol = protocols[0] if protocols else OPENWIRE
        if protocol != AUTO and protocol not in LANGUAGES:
            what = f"there is no transport {place.scheme!r}"
            self.reader.error(bean, what, "use tcp:, ssl:, nio:, auto: or a protocol", attribute)
            return ""
        if len(protocols) > 1 or (protocol != AUTO and protocol not in self.spoken):
            self._unspoken(bean, name, protocols or [OPENWIRE], attribute)
            return ""
        return protocol

    def _unspoken(self, bean: Bean, name: str, protocols: list[str], attribute: str) -> None:
        language = " over ".join(LANGUAGES.get(protocol, protocol) for protocol in protocols)
        what = f"the connector {name!r} does not start: this build does not speak {language} yet"
        here = ", ".join(LANGUAGES.get(protocol, protocol) for protocol in self.spoken)
        self.reader.warn(bean, what, f"it speaks {here}; the other connectors start", attribute)

    def _with_tls(self, place: Endpoint) -> Endpoint:
        """Return the endpoint with the broker's certificates, where it needs some and names none."""
        return _secured(place, self.tls)

    def _tls(self, bean: Bean) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, option in STORE_OPTIONS.items():
            text = bean.text(name)
            if not text:
                continue
            if name in ("keyStore", "trustStore"):
                path = self.sources.local(text)
                if path is None:
                    self.reader.error(bean, f"{text!r} is not a file of this machine", "use file: and a path", name)
                    continue
                text = str(path)
            found[option] = text
        return found

    # -- network connectors -------------------------------------------------------------------------------------------

    def networks(self, broker: Bean, *, run: bool) -> tuple[NetworkConnector, ...]:
        """Return the network connectors; ``run``: whether this build bridges."""
        found: list[NetworkConnector] = []
        for bean in broker.many("networkConnectors"):
            made = self._network(bean)
            if made is not None:
                found.append(made)
                self._once(bean, found)
        for number, text in enumerate(_uris(broker.text("networkConnectorURIs")), 1):
            if self._checked(broker, text, "networkConnectorURIs"):
                options = NetworkConnectorOptions(name=f"NC-{number}", uri=text)
                line = broker.line("networkConnectorURIs")
                found.append(NetworkConnector(options=options, line=line, at=Position(line, broker.element.path)))
        if not run:
            for connector in found:
                self.reader.findings.add(
                    Severity.WARNING,
                    self.sources.file,
                    connector.line,
                    f"{broker.element.path}/networkConnectors",
                    f"the network connector {connector.options.name!r} is read and does not run: "
                    "this build does not bridge brokers yet",
                    "messages stay on this broker until somebody consumes them here",
                )
        return tuple(found)

    def _network(self, bean: Bean) -> NetworkConnector | None:
        child = bean.one("sslContext")
        tls = self.tls if child is None else self._tls(child)
        lists = {
            name: included(self.reader, bean.many(name))
            for name in ("excludedDestinations", "dynamicallyIncludedDestinations", "staticallyIncludedDestinations")
        }
        try:
            options = bean.options(NetworkConnectorOptions)
        except InvalidOption as error:
            self.reader.error(bean, error.message, error.remedy)
            return None
        if "networkTTL" in bean.values:
            options = spread(options, bean.values)
        if not options.uri:
            self._no_uri(bean, 'give one, like uri="static:(tcp://other:61616)"')
            return None
        if not self._checked(bean, options.uri, "uri"):
            return None
        if parse(options.uri).scheme in (HTTP, HTTPS):
            what = "the registry of brokers behind http: is not asked here"
            remedy = 'list the brokers: uri="static:(http://host:port)" for the http transport'
            self.reader.error(bean, what, remedy, "uri")
            return None
        if options.static and not lists["staticallyIncludedDestinations"]:
            self.reader.warn(bean, "a static bridge without destinations carries nothing", "name some", "staticBridge")
        if tls:
            options = options.replaced(uri=_all_secured(parse(options.uri), tls).format())
        return NetworkConnector(
            options=options,
            excluded=lists["excludedDestinations"],
            dynamically_included=lists["dynamicallyIncludedDestinations"],
            statically_included=lists["staticallyIncludedDestinations"],
            line=bean.line("uri"),
            at=Position(bean.element.line, bean.element.path),
            given=tuple(bean.element.attributes),
        )

    def _once(self, bean: Bean, found: list[NetworkConnector]) -> None:
        name = found[-1].options.name
        if any(one.options.name == name for one in found[:-1]):
            self.reader.error(bean, f"there are two network connectors {name!r}", "give each a name of its own", "name")

    def _checked(self, bean: Bean, text: str, attribute: str) -> bool:
        """Return whether ``text`` is a URI; hide its passwords. An error if it is none."""
        try:
            for place in parse(text).endpoints():
                self.reader.findings.hide(place.password)
        except InvalidURI as error:
            self.reader.error(bean, error.message, error.remedy, attribute)
            return False
        return True


def _secured(place: Endpoint, tls: dict[str, str]) -> Endpoint:
    named = any(name.rpartition(".")[2] in ("keyStorePath", "keyStore") for name in place.options)
    return replace(place, options={**tls, **place.options}) if place.secure and not named else place


def _all_secured(found: Endpoint | Composite, tls: dict[str, str]) -> Endpoint | Composite:
    """Return the URI of a network connector with the certificates that its secure places show and believe."""
    if isinstance(found, Endpoint):
        return _secured(found, tls)
    return replace(found, members=tuple(_all_secured(member, tls) for member in found.members))


def _uris(text: str) -> list[str]:
    """Split a list of URIs at the commas outside parentheses."""
    parts: list[str] = []
    depth = 0
    first = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == URI_LIST and depth == 0:
            parts.append(text[first:at])
            first = at + 1
    parts.append(text[first:])
    return [part.strip() for part in parts if part.strip()]
