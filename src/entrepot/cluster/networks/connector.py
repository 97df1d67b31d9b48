"""A network connector: the bridges of one ``<networkConnector>``, one for each broker that it is to reach.

Owns which bridges there are; each lives by itself (`LinkCore`). A broker that discovery finds gets a bridge, one that
discovery forgets keeps it as long as it is connected: an announcement lost is no broker lost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.settings import Dialect
from entrepot.base.uri import Composite, parse
from entrepot.cluster.carrying.draw_options import ActiveMQOptions, DrawEntry
from entrepot.cluster.link import Effect, LinkCore, LinkOptions, State
from entrepot.cluster.networks.bridge import LOOP, Bridge
from entrepot.cluster.networks.discovery import Discovery, Target, parse_connector
from entrepot.cluster.networks.lists import Included, Lists
from entrepot.cluster.networks.neighbourhood import Neighbourhood
from entrepot.cluster.networks.opening import greet
from entrepot.cluster.networks.options import NetworkConnectorOptions, spread
from entrepot.protocols.announcement import Forgotten, Found
from entrepot.protocols.session import NEVER

Perform = Callable[[Bridge, list[Effect]], None]


class NetworkConnector:
    """One connector. ``bridges`` by the key of their target. Raises InvalidURI, InvalidOption when it is made."""

    def __init__(self, options: NetworkConnectorOptions, lists: Lists | None = None) -> None:
        if options.network_ttl != 1:  # made by a program: what is not the default was said
            ttls = {"messageTTL": options.message_ttl, "consumerTTL": options.consumer_ttl}
            options = spread(options, [name for name, ttl in ttls.items() if ttl != 1])
        self.options: Final = options
        self.lists: Final = Lists() if lists is None else lists
        self.discovery: Final[Discovery] = parse_connector(options.uri)
        self.bridges: dict[str, Bridge] = {}
        self._forgotten: dict[str, None] = {}  # announced no more, and connected still
        self.started = False
        self.since: Instant = NEVER  # when it was stopped, or began to search
        self._neighbourhood: Neighbourhood | None = None
        self._perform: Perform = lambda bridge, effects: None

    def start(self, neighbourhood: Neighbourhood, perform: Perform, now: Instant) -> None:
        """Make a bridge to every broker that is listed, and dial."""
        for key, bridge in list(self.bridges.items()):
            self._end(key, bridge, "it begins anew", now)  # it was stopped, and something was on its way still
        self._neighbourhood = neighbourhood
        self._perform = perform
        self.started = True
        self.since = now
        for target in self.discovery.targets:
            self.add(target, now)

    def add(self, target: Target, now: Instant) -> None:
        """Bridge to ``target``, unless there is one already."""
        neighbourhood = self._neighbourhood
        known = self.bridges.get(target.key)
        if (
            neighbourhood is None
            or not self.started
            or (known is not None and known.link.state not in (State.FAILED, State.CLOSED))
        ):
            return
        name = f"{self.options.name} to {target.key}"
        options = LinkOptions(
            reconnect=self.discovery.reconnect.for_link(),
            interval=neighbourhood.interval or self.options.supervision,
            language="OpenWire",
        )
        link = LinkCore(name, neighbourhood.broker, options, target.places, neighbourhood.doubts)
        bridge = Bridge(neighbourhood, self.options, self.lists, link, initiator=True, driver=self._perform)
        bridge.greeter = greet
        self.bridges[target.key] = bridge
        bridge.perform(link.start(now))

    @property
    def state(self) -> str:
        """What it does while it has no bridge, for people."""
        return "searching" if self.started else "stopped"

    def seeks(self) -> bool:
        """Say whether a broker that it is to reach is not reached just now."""
        links = [bridge.link for bridge in self.bridges.values()]
        return any(link.state is not State.OPEN and link.why != LOOP for link in links)

    def for_ms(self, now: Instant) -> int:
        """Return for how long it has done that, ms; -1: it was never started."""
        return (now - self.since) // MILLISECOND if self.since <= now else -1

    @property
    def place(self) -> str:
        """Where it looks for brokers, without secrets."""
        return parse(self.options.uri).masked()

    def heard(self, event: Found | Forgotten, now: Instant) -> None:
        """Discovery says who is there."""
        target = Target((event.place,))
        self._forgotten.pop(target.key, None)
        if isinstance(event, Found):
            self.add(target, now)
        elif target.key in self.bridges:
            self._forgotten[target.key] = None
            self.tidy(now)

    def tidy(self, now: Instant) -> None:
        """Drop bridges to brokers that discovery forgot and that are not connected any more, and one to ourselves.

        Every broker of a group hears itself too (classic.md 1.4).
        """
        for key in list(self._forgotten):
            bridge = self.bridges.get(key)
            if bridge is None or bridge.link.state not in (State.OPEN, State.OPENING, State.DRAINING):
                del self._forgotten[key]
                if bridge is not None:
                    self._end(key, bridge, "it is announced no more", now)
        if self.discovery.beacons:
            for key, bridge in list(self.bridges.items()):
                if bridge.link.state is State.FAILED and bridge.link.why == LOOP:
                    self._end(key, bridge, LOOP, now)

    def stop(self, now: Instant) -> None:
        """End every bridge; what is on its way is given back. It may be started again."""
        self._stopped(now)
        for key, bridge in list(self.bridges.items()):
            self._end(key, bridge, "the broker stops", now)

    def leave(self, now: Instant) -> None:
        """End every bridge as soon as what is on its way over it arrived, so that nothing comes twice.

        That takes 30 s at the most, as in Classic (classic.md 1.3). It may be started again, at any time.
        """
        self._stopped(now)
        for key, bridge in list(self.bridges.items()):
            bridge.link.drain(now)
            if bridge.link.under_way:
                bridge.parted = partial(self.bridges.pop, key, None)
                bridge.watch()
            else:
                self._end(key, bridge, "it was stopped", now)

    def _stopped(self, now: Instant) -> None:
        if self.started:
            self.since = now
        self.started = False

    def drain(self, now: Instant) -> bool:
        """Take no more, let arrive what is on its way; return whether nothing is any more."""
        busy = False
        for bridge in self.bridges.values():
            bridge.link.drain(now)
            bridge.watch()
            busy = busy or bool(bridge.link.under_way)
        return not busy

    def _end(self, key: str, bridge: Bridge, why: str, now: Instant) -> None:
        self.bridges.pop(key, None)
        bridge.perform(bridge.link.close(why, now))
        if self._neighbourhood is not None:
            self._neighbourhood.leave(bridge)


def connector_of(text: str, number: int, *, duplex: bool) -> NetworkConnectorOptions:
    """Return the connector that a line of a command names: attributes of ``<networkConnector>`` may stand in its query.

    ``static:(tcp://b:61616)?networkTTL=3&initialReconnectDelay=100``: the first is the connector's, the second says how
    brokers are found. Raises InvalidURI, InvalidOption.
    """
    found = parse(text)
    options, rest = NetworkConnectorOptions.take(found.options, Dialect.CLASSIC)
    if "networkTTL" in found.options:
        options = spread(options, found.options)
    uri = replace(found, options=rest).format()
    name = options.name if "name" in found.options else ("NC" if number == 1 else f"NC-{number}")
    return options.replaced(uri=uri, name=name, duplex=duplex or options.duplex)


def connector_back(entry: DrawEntry) -> NetworkConnector | None:
    """Return the connector that empties queues to the ActiveMQ that ``entry`` draws from; None where there are none.

    It sends whether somebody reads there or not. Raises InvalidURI, InvalidOption.
    """
    options = entry.options
    if not isinstance(options, ActiveMQOptions) or not options.back:
        return None
    delays = {"initialReconnectDelay": options.retry, "maxReconnectDelay": max(options.retry, options.retry_max)}
    scheme = "masterslave" if len(entry.places) > 1 else "static"
    where = Composite(scheme, entry.places, {name: str(delay // MILLISECOND) for name, delay in delays.items()})
    made = NetworkConnectorOptions(
        name=f"{options.name}-back", uri=where.format(), user=options.user, password=options.password, static=True
    )
    return NetworkConnector(made, Lists(static=tuple(Included(queue, topic=False) for queue in options.back)))
