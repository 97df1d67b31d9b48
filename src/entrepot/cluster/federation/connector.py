"""One upstream of a federation, as operators start and stop it; and all of them together, as reload changes them."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.base.uri import Endpoint
from entrepot.cluster.federation.options import UpstreamEntry
from entrepot.cluster.federation.upstream import Upstream
from entrepot.cluster.fetching import Perform, Say
from entrepot.cluster.link import LinkCore, LinkOptions, State
from entrepot.cluster.supervision import INTERVALS_SILENT
from entrepot.core.broker import BrokerCore
from entrepot.protocols.session import NEVER


def link_of(entry: UpstreamEntry, broker: BrokerCore, places: list[Endpoint], interval: Duration) -> LinkCore:
    """Return the link to the broker of ``entry``. ``interval``: of supervision, 0: as the options say."""
    options = entry.options
    link_options = LinkOptions(
        reconnect=options.reconnection(),
        interval=interval or options.interval(INTERVALS_SILENT),
        patience=options.call_timeout,
        language="CORE",
    )
    return LinkCore(entry.name, broker, link_options, places, sought=entry.group != "")


class FederationConnector:
    """One of them. ``upstream`` while it is started, and until it has left; ``since``: it was started or stopped."""

    def __init__(self, entry: UpstreamEntry) -> None:
        self.entry: Final = entry
        self.name: Final = entry.name
        self.places: list[Endpoint] = list(entry.places)
        self.upstream: Upstream | None = None
        self.started = False
        self.since: Instant = NEVER

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: Duration = 0) -> None:
        """Dial. ``interval``: of supervision, 0: as the options say."""
        if self.upstream is not None:
            self.upstream.close("it begins anew")
        self.started = True
        self.since = now
        link = link_of(self.entry, broker, self.places, interval)
        self.upstream = Upstream(broker, self.entry, link, perform, say)
        self.upstream.begin(now)

    @property
    def place(self) -> str:
        """Where it leads, without secrets."""
        return ", ".join(place.masked() for place in self.places) or f"the discovery group {self.entry.group}"

    def located(self, places: list[Endpoint], now: Instant) -> None:
        """Its discovery group hears ``places``, all that there are now."""
        self.places = places
        if self.upstream is not None:
            self.upstream.perform(self.upstream.link.moved(places, now))

    def drain(self, now: Instant) -> bool:
        """Take no more; return whether everything that was taken is acknowledged."""
        if self.upstream is None:
            return True
        self.upstream.retire()
        return not self.upstream.is_busy()

    def leave(self, now: Instant) -> None:
        """Stop. What came and is not acknowledged comes again when it is started, and is known then."""
        self._end("it was stopped", now)

    def stop(self, now: Instant) -> None:
        """End the connection: the broker stops."""
        self._end("the broker stops", now)

    def _end(self, why: str, now: Instant) -> None:
        upstream, self.upstream = self.upstream, None
        if self.started:
            self.since = now
        self.started = False
        if upstream is not None:
            upstream.close(why)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know, as `Upstream.report`, or little where it is stopped."""
        if self.upstream is not None:
            return self.upstream.report(now)
        return {
            "connector": self.name,
            "kind": "federation",
            "peer": "",
            "peer_url": "",
            "place": self.place,
            "state": "stopped",
            "since_ms": (now - self.since) // MILLISECOND if self.since <= now else -1,
            "initiator": True,
            "duplex": False,
        }

    def outlook(self, name: str, *, topic: bool, now: Instant) -> list[dict[str, object]]:
        """Return what it does for the queue, or the address, ``name``; ``text``: that in words, ``remedy``: what helps.

        Nothing where no policy means that.
        """
        upstream = self.upstream
        who = f"the upstream {self.name} ({self.place})"
        if upstream is None:
            text, remedy = f"{who} is stopped", f"entrepot bridge start {self.name}"
            return [_told(self.name, "stopped", "stopped", text, remedy)]
        policies = upstream.demand.means(name, topic=topic)
        if not policies:
            return []
        state = upstream.link.state
        by = ", ".join(policies)
        wishes = upstream.demand.about(name)
        if not wishes:
            what = "no queue is bound to it" if topic else "nobody reads it"
            text = f"{who} is asked for nothing: the policy {by} means it, but {what} here"
            return [_told(self.name, state.value, "unwanted", text, "start a consumer here")]
        if state is not State.OPEN:
            why = f": {upstream.link.why}" if upstream.link.why else ""
            text = f"{who} is not there, it is {state.value}{why}"
            return [_told(self.name, state.value, "down", text, "start that broker, or see entrepot bridge list")]
        rows = []
        for wish in wishes:
            reader = upstream.readers.get(wish.key)
            if reader is None:
                continue
            came = reader.accepted + (0 if reader.arrivals is None else reader.arrivals.accepted)
            for_ms = (now - reader.since) // MILLISECOND
            text = f"{who}: its queue {wish.queue} is {reader.state.value} since {for_ms / 1000:.1f} s, {came} came"
            text += f"; {reader.why}" if reader.why else ""
            remedy = "look at the queue there: entrepot explain" if reader.why else ""
            rows.append(_told(self.name, state.value, reader.state.value, text, remedy))
        return rows


def _told(name: str, state: str, code: str, text: str, remedy: str) -> dict[str, object]:
    return {"connector": name, "state": state, "code": code, "text": text, "remedy": remedy}
