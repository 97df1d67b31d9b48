"""The URI of a connection over AMQP: places that it dials, and what it says of sockets and of AMQP (artemis.md 2.8).

Every option that Artemis 2.42 has for a connector, and for AMQP, is in one of the tables: it is obeyed, has no effect,
which is said with the reason, or is refused with what to do. Others are those of a connector here (`io/options.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import Endpoint, parse
from entrepot.config.artemis.bridges import RENAMED, SECRETS
from entrepot.config.artemis.reading import PartReader
from entrepot.config.reading import Bean
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.uri import read_option

SCHEME: Final = "tcp"
OF_AMQP: Final[Mapping[str, str]] = {
    "amqpCredits": "amqpCredits",
    "amqpLowCredits": "amqpLowCredits",
    "amqpMinLargeMessageSize": "amqpMinLargeMessageSize",
    "amqpIdleTimeout": "amqpIdleTimeout",
    "maxFrameSize": "maxAmqpFrameSize",
    "saslMechanisms": "saslMechanisms",
}
"""What the connection itself obeys, and by which name `read_option` knows it."""
CALLED: Final[Mapping[str, str]] = {**RENAMED, "connect-timeout-millis": "connectionTimeout"}
"""Of sockets: how a connector here calls it."""
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "amqpDuplicateDetection": "a message with a duplicate id is known again, always",
    "amqpUseModifiedForTransientDeliveryErrors": "what cannot be taken now is released",
    "amqpTreatRejectAsUnmodifiedDeliveryFailed": "what is rejected is tried three times, and is a dead letter then",
    "amqpDrainOnTransientDeliveryErrors": "what cannot be taken now is released, and the link attached anew",
    "amqpLinkQuiesceTimeout": "a link that nobody wants ends when what came is answered",
    "ackManagerFlushTimeout": "acknowledgements of a mirror are carried out as they come",
    "mirrorMaxPendingAcks": "acknowledgements of a mirror are carried out as they come",
    "initialRemoteMaxFrameSize": "nothing long is written before the other side said what it takes",
    "saslLoginConfigScope": "it is about tickets of Kerberos, which are not shown here",
    "directDeliver": "delivery is always direct",
    "pubSubPrefix": "a link says what it means by a capability",
    "anycastPrefix": "a link says what it means by a capability",
    "multicastPrefix": "a link says what it means by a capability",
    "useNio": "one thread serves all connections",
    "useNioGlobalWorkerPool": "one thread serves all connections",
    "useGlobalWorkerPool": "one thread serves all connections",
    "nioRemotingThreads": "one thread serves all connections",
    "remotingThreads": "one thread serves all connections",
    "batchDelay": "what one turn of the loop writes goes out together",
    "useEpoll": "the loop chooses",
    "useKQueue": "the loop chooses",
    "localAddress": "the system chooses the address to dial from",
    "localPort": "the system chooses the port to dial from",
    "handshake-timeout": "it belongs to acceptors",
    "keyStoreType": "the file itself tells",
    "trustStoreType": "the file itself tells",
    "keyStoreProvider": "the file itself tells",
    "trustStoreProvider": "the file itself tells",
    "sslProvider": "TLS is OpenSSL's",
    "forceSSLParameters": "what the file says of TLS counts, always",
    "activemqServerName": "it is a name for threads",
}
_TUNNEL: Final = "a tunnel through HTTP is not dialled for AMQP", "leave it out, and name a port that speaks AMQP"
_SOCKS: Final = "a SOCKS proxy cannot be dialled through", "leave it out, and tunnel by other means, as ssh -L does"
REFUSED: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(
        (
            "httpEnabled",
            "httpClientIdleTime",
            "httpClientIdleScanPeriod",
            "httpRequiresSessionId",
            "httpUpgradeEnabled",
            "httpUpgradeEndpoint",
            "useServlet",
            "servletPath",
        ),
        _TUNNEL,
    ),
    **dict.fromkeys(
        (
            "socksEnabled",
            "socksHost",
            "socksPort",
            "socksVersion",
            "socksUsername",
            "socksPassword",
            "socksRemoteDNS",
        ),
        _SOCKS,
    ),
    "sniHost": ("the name that is asked for by SNI is the host of the URI", "name the host in the URI"),
    "crlPath": ("revocation lists are not read", "revoke by the trust store"),
    "keyStoreAlias": ("a key store has one key here", "write a file with that key alone"),
    "trustManagerFactoryPlugin": ("a Java class cannot be loaded here", "name a trustStorePath"),
    "useDefaultSslContext": ("there is no JVM whose key store could be meant", "name keyStorePath and trustStorePath"),
}
MASKED: Final = ("usemaskedpassword", "passwordcodec")
FOREVER: Final = "-1"


class Dialled:
    """What one URI says. ``wire``: options of AMQP, by the names of `read_option`, in their order."""

    def __init__(self) -> None:
        self.places: list[Endpoint] = []
        self.wire: dict[str, str] = {}


def dialled(reader: PartReader, bean: Bean) -> Dialled:
    """Return where ``tcp://A:5672?OPTIONS#B:5672,C:5672`` leads; no place for what leads nowhere, which is a finding.

    Options are parted by ``;`` or ``&``; places behind the # have those of the first one, and their own of sockets.
    """
    found = Dialled()
    text = bean.text("uri")
    if not text:
        reader.error(bean, f"the connection {bean.text('name')!r} leads nowhere", "write uri=tcp://HOST:PORT")
        return found
    first, _, others = text.partition("#")
    for number, one in enumerate((first, *(other for other in others.split(",") if other.strip()))):
        written = one.strip() if "://" in one else f"{SCHEME}://{one.strip()}"
        address, mark, query = written.partition("?")
        try:
            place = parse(address + mark + query.replace(";", "&"))
            if not isinstance(place, Endpoint) or place.scheme != SCHEME:
                raise InvalidOption(f"{written!r} is no place of TCP", remedy="write tcp://HOST:PORT")
            for secret in SECRETS:
                reader.findings.hide(place.options.get(secret, ""))
            options, wire = _parted(reader, bean, place.options)
            if wire and number:
                what = f"{', '.join(wire)} behind the #: what AMQP does is the same at each place"
                raise InvalidOption(what, remedy="write it before the #")
        except (InvalidURI, InvalidOption) as error:
            reader.error(bean, error.message, error.remedy, "uri")
            found.places.clear()
            return found
        found.wire |= wire
        shared = found.places[0].options if found.places else {}
        found.places.append(Endpoint(place.scheme, host=place.host, port=place.port, options={**shared, **options}))
    return found


def _parted(reader: PartReader, bean: Bean, said: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of sockets, and those of AMQP. Raises InvalidOption for what is refused."""
    options: dict[str, str] = {}
    wire: dict[str, str] = {}
    probe = AmqpOptions()
    for name, text in said.items():
        if name in REFUSED:
            why, remedy = REFUSED[name]
            raise InvalidOption(f"the option {name} is refused: {why}", remedy=remedy)
        if name.lower() in MASKED:
            raise InvalidOption(
                f"the option {name} is refused: masked passwords are read of attributes alone",
                remedy="write the password of the store as it is, or ${...}",
            )
        if name in WITHOUT_EFFECT:
            reader.warn(bean, f"the option {name} of the URI has no effect: {WITHOUT_EFFECT[name]}", "leave it out")
        elif name in OF_AMQP:
            _check(probe, name, text)
            wire[OF_AMQP[name]] = text
        elif name != "connect-timeout-millis" or text != FOREVER:
            options[CALLED.get(name, name)] = text
    return options, wire


def _check(probe: AmqpOptions, name: str, text: str) -> None:
    """Raise InvalidOption for a value that the connection cannot obey. 0 credits: whoever has such links says so."""
    if name == "amqpCredits" and text == "0":
        return
    read_option(probe, OF_AMQP[name], text)
    if name == "amqpIdleTimeout" and text == "0":
        raise InvalidOption(
            "amqpIdleTimeout is 0: who is never silent too long could not be told from who is gone",
            remedy="write how many ms of silence are too long, or leave it out",
        )
