"""One upstream of a federation, as operators start and stop it; and all of them together, as reload changes them."""

from __future__ import annotations

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.cluster.dialled import Perform, Say
from entrepot.cluster.federation.options import UpstreamEntry
from entrepot.cluster.federation.peer import PeerConnector
from entrepot.cluster.federation.upstream import Upstream
from entrepot.cluster.link import LinkCore, State
from entrepot.core.broker import BrokerCore


class FederationConnector(PeerConnector[UpstreamEntry, Upstream]):
    """One of them. What came and is not acknowledged when it stops comes again at its next start, and is known then."""

    kind = "federation"

    def made(self, broker: BrokerCore, link: LinkCore, perform: Perform, say: Say) -> Upstream:
        """Return a new one."""
        return Upstream(broker, self.entry, link, perform, say)

    @property
    def upstream(self) -> Upstream | None:
        """It, while it is started."""
        return self.peer

    def drain(self, now: Instant) -> bool:
        """Take no more; return whether everything that was taken is acknowledged."""
        if self.peer is None:
            return True
        self.peer.retire()
        return not self.peer.is_busy()

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
