"""Where a broker of Artemis listens: an acceptor speaks several protocols, and finds out which (artemis.md 5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidURI
from entrepot.base.uri import Composite, Endpoint, parse
from entrepot.base.values import boolean_or
from entrepot.config.artemis.elements import CONTENT
from entrepot.config.artemis.reading import PartReader
from entrepot.config.model import Connector
from entrepot.config.reading import Bean

PROTOCOLS: Final[Mapping[str, str]] = {
    "CORE": "core",
    "HORNETQ": "core",
    "AMQP": "amqp",
    "STOMP": "stomp",
    "MQTT": "mqtt",
    "OPENWIRE": "openwire",
}
EVERY: Final = ("CORE", "AMQP", "STOMP", "MQTT", "OPENWIRE")
AUTO: Final = "auto"
WS: Final = "ws"

OTHER_PROTOCOLS: Final = ("amqp", "mqtt", "hornetq", "core")
"""Options that begin with these belong to protocols; without the protocol they mean nothing."""
OF_AMQP: Final = ("amqpCredits", "amqpLowCredits", "amqpIdleTimeout", "amqpMinLargeMessageSize", "saslMechanisms")
"""Options that hold where AMQP is spoken."""
NO_EFFECT: Final[Mapping[str, str]] = {
    "writeBufferLowWaterMark": "output is limited by what waits in it",
    "writeBufferHighWaterMark": "output is limited by what waits in it",
    "tcpSendBufferSize": "the system chooses the buffers of sockets",
    "tcpReceiveBufferSize": "the system chooses the buffers of sockets",
    "tcpNoDelay": "what is written goes out at once",
    "autoStart": "an acceptor opens with the broker",
    "shutdownTimeout": "closing does not wait",
    "localAddress": "it belongs to connectors",
    "localPort": "it belongs to connectors",
    "enable-ingress-timestamp": "it is a setting of addresses",
    "initialRemoteMaxFrameSize": "frames of a peer that has not said its own size are small",
    "maxTransfersPerDelivery": "the octets of a delivery are limited, whatever its transfers",
    "amqpDrainOnTransientDeliveryErrors": "links are not quiesced",
    "amqpLinkQuiesceTimeout": "links are not quiesced",
}
OTHERWISE: Final[Mapping[str, str]] = {
    "supportAdvisory": "advisories are published when somebody reads them",
    "suppressInternalManagementObjects": "there are no objects for advisories",
    "stompEnableMessageId": "messages have their ids always",
    "stompMaxFramePayloadLength": "frames are limited by maxFrameSize",
    "stompMinLargeMessageSize": "bodies are large from a size of our own",
    "amqpDuplicateDetection": "a message with a duplicate id is detected, always",
    "amqpUseModifiedForTransientDeliveryErrors": "what has no room is rejected",
    "amqpTreatRejectAsUnmodifiedDeliveryFailed": "what a consumer rejects is a dead letter",
    "amqpUseCoreSubscriptionNaming": "queues of subscriptions are named as those of CORE, always",
    "saslLoginConfigScope": "users of SCRAM are those of the security domain; tickets of Kerberos are not read",
}
ONLY_CORE: Final[Mapping[str, str]] = {
    "anycastPrefix": "the other protocols have prefixes of their own",
    "multicastPrefix": "the other protocols have prefixes of their own",
    "connectionTtl": "connections of the other protocols are watched by their heart-beats",
    "connectionTtlMin": "connections of the other protocols are watched by their heart-beats",
    "connectionTtlMax": "connections of the other protocols are watched by their heart-beats",
}
"""Options that hold for clients of CORE, and why for no others."""


class Acceptors:
    """Reads the acceptors of one broker. ``spoken``: the protocols of this build."""

    def __init__(self, reader: PartReader, spoken: Collection[str]) -> None:
        self.reader: Final = reader
        self.spoken: Final = spoken
        self.found: list[Connector] = []

    def read(self, core: Bean) -> tuple[Connector, ...]:
        """Return every place to listen that this build can serve."""
        below = core.one("acceptors")
        beans = [] if below is None else below.many("acceptor")
        for number, bean in enumerate(beans, 1):
            self._acceptor(bean, bean.text("name") or f"acceptor-{number}")
        if not beans:
            self.reader.warn(core, "no client can connect: it has no acceptor", "add one in <acceptors>")
        elif not self.found:
            self.reader.error(core, "none of its acceptors can start", "add one for CORE, OPENWIRE or STOMP")
        return tuple(self.found)

    def _acceptor(self, bean: Bean, name: str) -> None:
        text = bean.text(CONTENT).replace(";", "&")  # Artemis separates options by either
        try:
            place = parse(text)
        except InvalidURI as error:
            self.reader.error(bean, error.message, error.remedy)
            return
        if isinstance(place, Composite) or place.scheme not in ("tcp", "vm", "in-vm"):
            self.reader.error(bean, "an acceptor listens on one place, by tcp://", "write tcp://HOST:PORT")
            return
        if place.scheme != "tcp":
            self.reader.note(bean, "it is not opened: nobody else is in this process", "take it out")
            return
        self.reader.findings.hide(place.options.get("keyStorePassword", ""))
        self.reader.findings.hide(place.options.get("trustStorePassword", ""))
        if any(one.name == name for one in self.found):
            self.reader.error(bean, f"there are two acceptors {name!r}", "names must differ")
            return
        protocols = self._protocols(bean, name, place)
        if not protocols:
            return
        secure = boolean_or(place.options.get("sslEnabled", ""), False)
        protocol = protocols[0] if len(protocols) == 1 else AUTO
        options = dict(self._options(bean, place, protocols))
        if protocol == AUTO and place.options.get("protocols"):
            inside = WS in self.spoken and ("stomp" in protocols or "mqtt" in protocols)  # as Artemis does
            options["auto.protocols"] = ",".join([*protocols, WS] if inside else protocols)
        scheme = f"{protocol}+ssl" if secure else protocol
        uri = replace(place, scheme=scheme, options=options).format()
        self.found.append(Connector(name=name, uri=uri, protocol=protocol, line=bean.line()))

    def _protocols(self, bean: Bean, name: str, place: Endpoint) -> list[str]:
        """Return those that are opened; the others are named."""
        given = place.options.get("protocols", "")
        wanted = [word.strip().upper() for word in given.split(",") if word.strip()] or list(EVERY)
        unknown = [word for word in wanted if word not in PROTOCOLS]
        if unknown:
            self.reader.error(bean, f"there is no protocol {unknown[0]!r}", f"known: {', '.join(PROTOCOLS)}")
            return []
        here = [PROTOCOLS[word] for word in wanted if PROTOCOLS[word] in self.spoken]
        missing = [word for word in wanted if PROTOCOLS[word] not in self.spoken and word != "HORNETQ"]
        if not here:
            what = f"the acceptor {name!r} does not start: this build does not speak {', '.join(wanted)} yet"
            self.reader.warn(bean, what, f"it speaks {', '.join(self.spoken)}; the other acceptors start")
        elif missing and given:
            what = f"the acceptor {name!r} does not speak {', '.join(missing)}: this build does not yet"
            self.reader.warn(bean, what, "its other protocols are served")
        elif missing:
            what = f"the acceptor {name!r} speaks {', '.join(here)}, and not yet {', '.join(missing)}"
            self.reader.warn(bean, what, "protocols=CORE,STOMP,OPENWIRE says what is meant")
        return list(dict.fromkeys(here))

    def _options(self, bean: Bean, place: Endpoint, spoken: list[str]) -> Iterator[tuple[str, str]]:
        """Yield the options of a listener, which speaks ``spoken``; what means nothing here is a finding."""
        core, amqp = "core" in spoken, "amqp" in spoken
        for name, value in place.options.items():
            if name in ("protocols", "sslEnabled"):
                continue
            if amqp and name in OF_AMQP:
                yield name, value
            elif name in OTHERWISE:
                self.reader.warn(bean, f"the option {name}={value} is not done here: {OTHERWISE[name]}")
            elif name in NO_EFFECT or name in OF_AMQP or name.lower().startswith(OTHER_PROTOCOLS):
                why = NO_EFFECT.get(name, "it belongs to a protocol that is not spoken here")
                self.reader.note(bean, f"the option {name}={value} has no effect here: {why}")
            elif name in ONLY_CORE and not (core or (amqp and name.endswith("Prefix"))):
                self.reader.warn(bean, f"the option {name}={value} is not done here: {ONLY_CORE[name]}")
            elif name == "connectionsAllowed":
                yield "maximumConnections", value if value != "-1" else str(2**31 - 1)
            else:
                yield name, value
