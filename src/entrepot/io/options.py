"""What the URI of a listener or a dialled peer may say: Classic's transport options and Artemis' acceptor parameters.

Each option is obeyed, or accepted with a note in the log that it has no effect here, or belongs to a protocol, or is
refused by name (classic.md 6.1; artemis.md 5.4). The prefixes ``transport.`` and ``socket.`` mean nothing by
themselves and are cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint
from entrepot.base.values import INT_MAX, boolean, count_or_none, whole, words
from entrepot.io.connection import CLOSE_GRACE, WRITE_MARK_HIGH, WRITE_MARK_LOW, ConnectionOptions
from entrepot.io.tls import TlsOptions
from entrepot.protocols.detection import DETECTION_TIMEOUT
from entrepot.protocols.openwire.negotiation import OPTION_NAMES, WIRE_FORMAT
from entrepot.protocols.openwire.options import CLUSTER_FILTER, CLUSTER_FLAGS

BACKLOG: Final = 5000  # Classic's; the kernel cuts it to net.core.somaxconn
UNLIMITED: Final = INT_MAX
CONNECT_TIMEOUT: Final = 30 * SECOND

log: Final = logging.getLogger("entrepot.options")

NO_EFFECT: Final[Mapping[str, str]] = {
    "useQueueForAccept": "one thread accepts and serves",
    "ioBufferSize": "chunks are as large as the socket gives them",
    "soTimeout": "silence is watched by the heart-beats of the protocol",
    "closeAsync": "closing never blocks",
    "connectAttemptTimeout": "a silent connection is closed after protocolDetectionTimeOut",
    "useInactivityMonitor": "silence is watched by the heart-beats of the protocol",
    "useKeepAlive": "silence is watched by the heart-beats of the protocol",
    "trace": "start the broker with the log level DEBUG",
    "logWriterName": "start the broker with the log level DEBUG",
    "startLogging": "start the broker with the log level DEBUG",
    "dynamicManagement": "there is no JMX",
    "jmxPort": "there is no JMX",
    "minmumWireFormatVersion": "versions are negotiated",
    "daemon": "one thread serves all connections",
    "maxThreads": "one thread serves all connections",
    "maxConnectionThreadPoolSize": "one thread serves all connections",
    "remotingThreads": "one thread serves all connections",
    "nioRemotingThreads": "one thread serves all connections",
    "batchDelay": "what one turn of the loop writes goes out together",
    "directDeliver": "delivery is always direct",
    "useEpoll": "the loop chooses",
    "useKQueue": "the loop chooses",
    "keyStoreType": "the file itself tells",
    "trustStoreType": "the file itself tells",
    "sslProvider": "TLS is OpenSSL's",
    "readCheckTime": "silence is watched by wireFormat.maxInactivityDuration",
    "writeCheckTime": "silence is watched by wireFormat.maxInactivityDuration",
    "http.enableTrace": "TRACE is not answered",
    "verifyHost": "a listener has no host name to verify",
    "useLocalHost": "the system chooses the address to dial from",
    "stackSize": "one thread serves all connections",
    "create": "a broker of this process is found by its name, and dialled again until it is there",
    "waitForStart": "a broker of this process is found by its name, and dialled again until it is there",
    "marshal": "what goes to a broker of this process is encoded, always",
    "async": "what goes to a broker of this process is encoded, always",
    "asyncQueueDepth": "what goes to a broker of this process is encoded, always",
}
OPENWIRE_ONLY: Final = frozenset(
    (
        "version",
        "cacheSize",
        "cacheEnabled",
        "tightEncodingEnabled",
        "stackTraceEnabled",
        "tcpNoDelayEnabled",
        "sizePrefixDisabled",
        "maxInactivityDuration",
        "maxInactivityDurationInitalDelay",
        "maxFrameSizeEnabled",
        "host",
        "providerName",
        "providerVersion",
        "platformDetails",
        "includePlatformDetails",
    )
)
OPENWIRE_NAMES: Final = ("allowLinkStealing", "auditNetworkProducers", *CLUSTER_FLAGS, CLUSTER_FILTER)
"""Options of a listener's URI that OpenWire reads: for guesses at what was meant."""
PREFIXES: Final = ("transport.socketOptions.", "transport.", "socket.")


class TransportOptions:
    """What one URI says about its sockets. Octets, ns; None: as the system has it."""

    def __init__(self) -> None:
        self.connections_max: int = UNLIMITED
        self.backlog: int = BACKLOG
        self.send_octets: int | None = None
        self.receive_octets: int | None = None
        self.write_timeout: Duration = 0
        self.write_mark_high: int = WRITE_MARK_HIGH
        self.write_mark_low: int = WRITE_MARK_LOW
        self.linger_seconds: int | None = None
        self.keep_alive: bool = False
        self.no_delay: bool = True
        self.traffic_class: int | None = None
        self.detection_timeout: Duration = DETECTION_TIMEOUT
        self.connect_timeout: Duration = CONNECT_TIMEOUT
        self.shutdown_timeout: Duration = CLOSE_GRACE
        self.protocols: list[str] = []
        self.proxied: bool = False
        self.secure: bool = False
        self.tls: TlsOptions = TlsOptions()
        self.proxy_host: str = ""  # dialled instead, and asked to CONNECT
        self.proxy_port: int = 8080
        self.proxy_user: str = ""
        self.proxy_password: str = ""
        self.compressed: bool = False  # what is posted to ActiveMQ's http: transport
        self.compressed_from: int = 0

    def connection(self) -> ConnectionOptions:
        """Return what concerns a single connection."""
        return ConnectionOptions(
            write_mark_high=self.write_mark_high, write_mark_low=self.write_mark_low, write_timeout=self.write_timeout
        )


Taker = Callable[[TransportOptions, str], None]


def no_option(written: str, text: str) -> bool:
    """Say that no protocol knows an option: what `read` is told where there are none but those of the socket."""
    return False


def read(endpoint: Endpoint, spoken: Callable[[str, str], bool]) -> TransportOptions:
    """Return the transport options of ``endpoint``; ``spoken(name, text)`` is asked about what is not among them.

    It returns whether a protocol knows that option. Raises InvalidOption for a bad value and for an unknown name.
    """
    options = TransportOptions()
    options.secure = endpoint.secure
    for written, text in endpoint.options.items():
        name = _plain(written)
        taker = TAKERS.get(name)
        if taker is not None:
            try:
                taker(options, text)
            except ValueError as error:
                raise InvalidOption(f"{text!r} is no value for the option {written!r}: {error}") from None
        elif not spoken(written, text):
            _without_effect(written, name)
    if options.write_mark_low >= options.write_mark_high:
        raise InvalidOption("writeBufferLowWaterMark must be below writeBufferHighWaterMark")
    return options


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def without_effect(written: str) -> str:
    """Return why an option that is known has no effect here; "" for one that has an effect, or that nobody knows."""
    scope, _, rest = written.rpartition(".")
    if "wireFormat" in scope.split(".") and rest in OPENWIRE_ONLY:
        return "it steers OpenWire"
    return NO_EFFECT.get(_plain(written), "")


def _without_effect(written: str, name: str) -> None:
    reason = without_effect(written)
    if reason:
        log.info("the option %s has no effect here: %s", written, reason)
        return
    import difflib  # noqa: PLC0415 - nobody needs it who makes no mistake

    spoken = [*OPENWIRE_NAMES, *(f"{WIRE_FORMAT}{one}" for one in OPTION_NAMES)]
    near = difflib.get_close_matches(name, [*TAKERS, *NO_EFFECT, *spoken], n=1)
    hint = f"did you mean {near[0]!r}?" if near else "leave it out, or see docs/reference for what a URI may say"
    raise InvalidOption(f"there is no transport option {written!r}", remedy=hint)


def _count(name: str, least: int = 0, most: int = UNLIMITED, unit: int = 1) -> Taker:
    return lambda options, text: setattr(options, name, whole(text, least, most) * unit)


def _flag(name: str) -> Taker:
    return lambda options, text: setattr(options, name, boolean(text))


def _text(name: str) -> Taker:
    return lambda options, text: setattr(options, name, text)


def _tls_text(name: str) -> Taker:
    return lambda options, text: setattr(options.tls, name, text)


def _tls_flag(name: str) -> Taker:
    return lambda options, text: setattr(options.tls, name, boolean(text))


def _connections(options: TransportOptions, text: str) -> None:
    value = count_or_none(text)
    options.connections_max = UNLIMITED if value is None else value


def _buffers(options: TransportOptions, text: str) -> None:
    options.send_octets = options.receive_octets = whole(text, 1)


def _buffer(name: str) -> Taker:
    def take(options: TransportOptions, text: str) -> None:
        setattr(options, name, count_or_none(text) or None)

    return take


def _linger(options: TransportOptions, text: str) -> None:
    options.linger_seconds = count_or_none(text, 65_535)


def _protocols(options: TransportOptions, text: str) -> None:
    options.protocols = ["openwire" if word == "default" else word for word in words(text.lower())]


TAKERS: Final[Mapping[str, Taker]] = {
    "maximumConnections": _connections,
    "connectionsAllowed": _connections,
    "backlog": _count("backlog", 1),
    "socketBufferSize": _buffers,
    "tcpSendBufferSize": _buffer("send_octets"),
    "tcpReceiveBufferSize": _buffer("receive_octets"),
    "soWriteTimeout": _count("write_timeout", unit=MILLISECOND),
    "writeBufferHighWaterMark": _count("write_mark_high", 1),
    "writeBufferLowWaterMark": _count("write_mark_low"),
    "soLinger": _linger,
    "keepAlive": _flag("keep_alive"),
    "tcpNoDelay": _flag("no_delay"),
    "trafficClass": _count("traffic_class", 0, 255),
    "diffServ": _count("traffic_class", 0, 63, 4),  # the upper six bits of the octet (RFC 2474)
    "typeOfService": _count("traffic_class", 0, 255),
    "protocolDetectionTimeOut": _count("detection_timeout", 1, unit=MILLISECOND),
    "handshake-timeout": _count("detection_timeout", 1, unit=SECOND),
    "connectionTimeout": _count("connect_timeout", 1, unit=MILLISECOND),
    "sslHandshakeTimeout": _count("connect_timeout", 1, unit=SECOND),
    "shutdownTimeout": _count("shutdown_timeout", unit=MILLISECOND),
    "auto.protocols": _protocols,
    "protocols": _protocols,
    "proxyProtocolEnabled": _flag("proxied"),
    "sslEnabled": _flag("secure"),
    "keyStorePath": _tls_text("certificate"),
    "keyStorePassword": _tls_text("password"),
    "keyPath": _tls_text("key"),
    "keyPassword": _tls_text("password"),
    "trustStorePath": _tls_text("trust"),
    "trustStorePassword": _tls_text("trust_password"),
    "needClientAuth": _tls_flag("need_client"),
    "wantClientAuth": _tls_flag("want_client"),
    "enabledProtocols": _tls_text("protocols"),
    "enabledCipherSuites": _tls_text("ciphers"),
    "sslAutoReload": _tls_flag("reloads"),
    "trustAll": _tls_flag("trust_all"),
    "verifyHostName": _tls_flag("verify_host"),
    "proxyHost": _text("proxy_host"),
    "proxyPort": _count("proxy_port", 1, 65_535),
    "proxyUser": _text("proxy_user"),
    "proxyPassword": _text("proxy_password"),
    "useCompression": _flag("compressed"),
    "minSendAsCompressedSize": _count("compressed_from"),
}
