"""The bridges of one ``<bridge>``: as many connections as its ``concurrency`` says (artemis.md 4.11)."""

from __future__ import annotations

from functools import partial
from typing import Final

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.bridge import CoreBridge
from entrepot.cluster.carrying.options import CoreBridgeEntry
from entrepot.cluster.carrying.terms import FOREVER
from entrepot.cluster.dialled import Perform, Say
from entrepot.cluster.link import LinkCore, LinkOptions, State
from entrepot.cluster.supervision import INTERVALS_SILENT
from entrepot.core.broker import BrokerCore
from entrepot.protocols.artemis.linking.carrier import Terms
from entrepot.protocols.session import NEVER


class CoreConnector:
    """One of them. ``bridges`` by name; ``since``: when it was started or stopped, NEVER before that."""

    def __init__(self, entry: CoreBridgeEntry) -> None:
        self.entry: Final = entry
        self.name: Final = entry.options.name
        self.places: list[Endpoint] = list(entry.places)
        self.bridges: dict[str, CoreBridge] = {}
        self.started = False
        self.since: Instant = NEVER

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: Duration = 0) -> None:
        """Make the bridges, and dial. ``interval``: of supervision, 0: as the options say."""
        for name, bridge in list(self.bridges.items()):
            self._end(name, bridge, "it begins anew", now)
        self.started = True
        self.since = now
        options = self.entry.options
        terms = Terms(
            options.user,
            options.password,
            window=options.confirmation_window,
            producer_window=options.producer_window,
            chunk=options.large_from,
            ttl_ms=options.time_to_live() // MILLISECOND,
            client_id=options.client_id,
            cluster=self.entry.clustered,
        )
        link_options = LinkOptions(
            reconnect=options.reconnection(),
            interval=interval or options.interval(INTERVALS_SILENT),
            drain_patience=options.ack_timeout,
            patience=options.call_timeout,
            reattach=options.time_to_live() if options.confirmation_window > 0 else 0,
            language="CORE",
        )
        for number in range(options.concurrency):
            name = f"{self.name}-{number}" if options.concurrency > 1 else self.name
            link = LinkCore(name, broker, link_options, self.places, sought=self.entry.group != "")
            bridge = CoreBridge(broker, self.entry, link, terms, perform, say)
            self.bridges[name] = bridge
            bridge.begin(now)

    @property
    def state(self) -> str:
        """What it does while it has no bridge, for people."""
        return "stopped"

    @property
    def place(self) -> str:
        """Where it leads, without secrets."""
        return ", ".join(place.masked() for place in self.places) or f"the discovery group {self.entry.group}"

    def located(self, places: list[Endpoint], now: Instant) -> None:
        """Its discovery group hears ``places``, all that there are now."""
        self.places = places
        for bridge in list(self.bridges.values()):
            bridge.perform(bridge.link.moved(places, now))

    def for_ms(self, now: Instant) -> int:
        """Return since when it is stopped, ms; -1: it was never started."""
        return (now - self.since) // MILLISECOND if self.since <= now else -1

    def outlook(self, name: str, *, topic: bool, now: Instant) -> list[dict[str, object]]:
        """Return what each bridge does for the queue ``name``, as `cluster/networks/outlook.py` tells it."""
        if topic or name != self.entry.options.queue:
            return []
        idle = {"peer": "", "state": self.state, "for_ms": self.for_ms(now), "error": "", "place": self.place}
        rows = [bridge.report(now) for bridge in self.bridges.values()] or [idle]
        told = {"connector": self.name, "sends": True, "demand": True, "suppressed": False, "permitted": True}
        rest = {"forbidden": "", "consumer_ttl": FOREVER, "message_ttl": FOREVER, "conduit": False}
        return [
            {
                **told,
                **{key: row[key] for key in ("peer", "state", "error", "place")},
                "for_ms": row.get("for_ms", row.get("since_ms", -1)),
                **rest,
            }
            for row in rows
        ]

    def stop(self, now: Instant) -> None:
        """End every bridge; what is on its way is given back. It may be started again."""
        self._stopped(now)
        for name, bridge in list(self.bridges.items()):
            self._end(name, bridge, "the broker stops", now)

    def leave(self, now: Instant) -> None:
        """End every bridge as soon as what is on its way over it arrived (``pending-ack-timeout`` at the longest)."""
        self._stopped(now)
        for name, bridge in list(self.bridges.items()):
            bridge.link.drain(now)
            if bridge.link.under_way and bridge.link.state is State.DRAINING:
                bridge.parted = partial(self.bridges.pop, name, None)
                bridge.watch()
            else:
                self._end(name, bridge, "it was stopped", now)

    def drain(self, now: Instant) -> bool:
        """Take no more, let arrive what is on its way; return whether nothing is any more."""
        busy = False
        for bridge in self.bridges.values():
            bridge.link.drain(now)
            bridge.watch()
            busy = busy or (bool(bridge.link.under_way) and bridge.link.state is State.DRAINING)
        return not busy

    def _stopped(self, now: Instant) -> None:
        if self.started:
            self.since = now
        self.started = False

    def _end(self, name: str, bridge: CoreBridge, why: str, now: Instant) -> None:
        self.bridges.pop(name, None)
        bridge.perform(bridge.link.close(why, now))
