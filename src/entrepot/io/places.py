"""Where a broker is reached: what its listeners mean to clients on this machine, to those elsewhere, and to beacons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.networks.discovery import Beacon, parse_beacon
from entrepot.io.announcing import public_uri, published_uri
from entrepot.io.tcp import AUTO, Listener
from entrepot.protocols.openwire.options import Published
from entrepot.protocols.session import AMQP, CORE, HTTP, MQTT, OPENWIRE, STOMP, WS

SPOKEN: Final = [OPENWIRE, STOMP, HTTP, CORE, MQTT, AMQP, WS]
SPOKEN_OVER: Final = {"tcp": OPENWIRE}  # what ActiveMQ's clients call it


class Places:
    """The places of one broker. ``listeners`` may grow; only the first ``count`` of them are for others."""

    def __init__(self, listeners: list[Listener], count: int) -> None:
        self._listeners: Final = listeners
        self._count: Final = count

    @property
    def public(self) -> list[Listener]:
        """Return the listeners that are for others and open, in the order of the options."""
        return self._listeners[: self._count]

    def spoken(self, protocol: str) -> str:
        """Return a place where ``protocol`` is spoken, to be dialled from this machine. Raises InvalidOption.

        One without TLS goes first: who dials from here need not know whom to trust.
        """
        ranked = sorted(self.public, key=lambda one: (one.place.secure, one.listening.protocol == AUTO))
        for listener in ranked:
            if SPOKEN_OVER.get(protocol, protocol) in (listener.listening.protocol, *listener.listening.protocols):
                return dialled(listener, protocol).format()
        spoken = dict.fromkeys(each for listener in ranked for each in listener.listening.protocols)
        raise InvalidOption(
            f"this broker does not speak {protocol!r}",
            remedy=f"it speaks {', '.join(spoken) or 'nothing yet: it is not started'}; ask for one of these",
        )

    def by_protocol(self) -> dict[str, str]:
        """Return where this broker listens, by the names that ActiveMQ has for what is spoken there."""
        found: dict[str, str] = {}
        for listener in self._listeners:
            layer = "ssl" if "ssl" in listener.place.scheme.split("+") else ""
            for protocol in listener.listening.protocols:
                names = {OPENWIRE: layer or "openwire", STOMP: f"stomp+{layer}" if layer else "stomp"}
                names[MQTT] = f"mqtt+{layer}" if layer else "mqtt"
                if protocol in names:
                    name = names[protocol]
                    place = replace(dialled(listener, protocol), scheme="tcp" if name == "openwire" else name)
                    found.setdefault(name, place.format())
        return found

    def stomp(self) -> list[str]:
        """Return where readers by lease reach this broker: a place without TLS and one with it, where there are."""
        found: dict[bool, str] = {}
        for listener in sorted(self._listeners, key=lambda one: one.listening.protocol == AUTO):
            place = listener.place
            if STOMP in listener.listening.protocols and "unix" not in place.scheme.split("+"):
                scheme = "stomp+ssl" if place.secure else "stomp"
                found.setdefault(place.secure, public_uri(scheme, place.host, place.port))
        return [found[secure] for secure in sorted(found)]

    def announced(self, everywhere: Sequence[str], each: Sequence[str]) -> list[tuple[Beacon, str]]:
        """Return which place is announced by which beacon. Raises InvalidURI.

        ``everywhere``: beacons of the first place that speaks OpenWire; ``each``: that of each public listener, "" for
        none.
        """
        speaking = [one for one in self.public if OPENWIRE in one.listening.protocols]
        speaking += [one for one in self.public if one.listening.protocol == HTTP]
        found = [(text, listener) for text in everywhere for listener in speaking[:1]]
        for text, listener in zip(each, self.public, strict=False):
            if text and listener in speaking:
                found.append((text, listener))
        return [(parse_discovery(text), announced_uri(listener)) for text, listener in found]


def dialled(listener: Listener, protocol: str) -> Endpoint:
    """Return the place to dial: no wildcard host, and ``protocol`` as the scheme, with the layers of the listener."""
    endpoint = listener.place
    layers = [word for word in endpoint.scheme.split("+") if word in ("ssl", "unix")]
    if protocol == HTTP and listener.listening.options.secure:
        protocol, layers = "https", []
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)
    return Endpoint("+".join([protocol, *layers]), host, endpoint.port, endpoint.path)


def published(listener: Listener, policy: Published) -> str:
    """Return where clients of OpenWire are told that ``listener`` is; "" where it is not spoken."""
    if OPENWIRE not in listener.listening.protocols:
        return ""
    place = dialled(listener, OPENWIRE)
    scheme = "ssl" if "ssl" in place.scheme.split("+")[1:] else "tcp"
    wildcard = listener.place.host in ("0.0.0.0", "::", "")  # for others, not for this machine alone
    host, port = ("", listener.port) if wildcard else (place.host, place.port)
    return published_uri(Endpoint(scheme, host, port, place.path), policy)


def announced_uri(listener: Listener) -> str:
    """Return what a beacon says of where ``listener`` is."""
    scheme = dialled(listener, HTTP).scheme if listener.listening.protocol == HTTP else "tcp"
    scheme = "ssl" if "ssl" in listener.place.scheme.split("+") and scheme == "tcp" else scheme
    return public_uri(scheme, listener.place.host, listener.port)


def parse_discovery(text: str) -> Beacon:
    """Return where ``text``, a ``discoveryUri``, has a broker announced. Raises InvalidURI."""
    found = parse(text)
    if not isinstance(found, Endpoint):
        raise InvalidURI(f"{text!r} is a list; a broker is announced in one place", remedy="use multicast://default")
    return parse_beacon(found)[0]
