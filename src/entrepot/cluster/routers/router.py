"""Which broker serves a client: the key, who is served here in any case, what was decided before, the policy.

In this order (artemis.md 4.14): a key that ``local-target-filter`` matches as a whole is served here; one in the cache
goes where it went, while that broker is ready; else the policy chooses among those that are ready. With fewer than
``quorum-size`` of them nobody is served: a client waits ``quorum-timeout`` for more.

Decided on purpose, where Artemis does otherwise: the cache has at most `CACHE_MAX` keys, the longest unseen goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.cluster.routers.keys import NO_KEY, key_of, reduced
from entrepot.cluster.routers.options import CacheOptions, PolicyKind, RouterOptions
from entrepot.cluster.routers.policies import Policy
from entrepot.cluster.routers.pool import Local, Pool, Target
from entrepot.cluster.routers.probe import CLIENT_ID, Perform, Probe
from entrepot.core.broker import BrokerCore
from entrepot.core.guiding import HERE, LATER, REFUSED, THERE, UNREADY, Guidance, Guides, Visitor

CACHE_MAX: Final = 100_000
ASK_AGAIN: Final = 100 * MILLISECOND  # while a client waits for a quorum
NOTES: Final = "router."


class Cache:
    """Which broker a key went to. A persisted one notes each change; when a key was last seen is not kept."""

    def __init__(self, broker: BrokerCore, router: str, options: CacheOptions) -> None:
        self._broker: Final = broker
        self._part: Final = NOTES + router
        self._options: Final = options
        self.nodes: dict[str, tuple[str, Instant]] = {}  # the longest unseen first
        if options.persisted:
            now = int(broker.now)
            self.nodes = {key: (node, now) for key, node in broker.notes.of(self._part).items()}

    def get(self, key: str) -> str:
        """Return the node, "" for none."""
        now = int(self._broker.now)
        found = self.nodes.pop(key, None)
        if found is None:
            return ""
        timeout = self._options.timeout_ms
        if timeout > 0 and now - found[1] > timeout * MILLISECOND:
            self._forget(key)
            return ""
        self.nodes[key] = (found[0], now)
        return found[0]

    def put(self, key: str, node: str) -> None:
        """Remember it."""
        self.nodes.pop(key, None)
        while len(self.nodes) >= CACHE_MAX:
            oldest = next(iter(self.nodes))
            del self.nodes[oldest]
            self._forget(oldest)
        self.nodes[key] = (node, int(self._broker.now))
        if self._options.persisted and self._broker.journal.refusal() is None:
            self._broker.notes.put(self._part, key, node)

    def _forget(self, key: str) -> None:
        if self._options.persisted and self._broker.journal.refusal() is None:
            self._broker.notes.remove(self._part, key)


class Router:
    """One of a broker's."""

    def __init__(
        self, broker: BrokerCore, options: RouterOptions, count: Callable[[], int], say: Callable[[str, str], None]
    ) -> None:
        """``count``: of this broker's connections; ``say``: what an operator should know."""
        self.options: Final = options
        self.local: Final = Local(broker, count)
        self.policy: Final = None if options.policy is None else Policy(options.policy)
        self.cache: Final = None if options.cache is None else Cache(broker, options.name, options.cache)
        self.pool: Final = (
            None
            if options.pool is None
            else Pool(broker, options.pool, self.local, lambda what: say(f"router {options.name}", what))
        )
        self.served: dict[str, int] = {}  # clients by where they went: a node, "here", "refused", "unready"
        self._broker: Final = broker

    def ask(self, visitor: Visitor) -> Guidance:
        """Return who serves ``visitor``."""
        if visitor.client_id.startswith(CLIENT_ID):
            return Guidance(HERE)
        options = self.options
        key = key_of(options, visitor)
        if options.policy is not None and options.policy.kind is PolicyKind.CONSISTENT_HASH_MODULO:
            key = reduced(key, options.policy.modulo)
        if options.local_filter is not None and options.local_filter.fullmatch(key):
            return self._note("here", Guidance(HERE))
        if self.policy is None or self.pool is None:
            return self._note("refused", Guidance(REFUSED, f"Connection router {options.name} rejected the connection"))
        return self._choose(key, visitor, self.pool, self.policy)

    def _choose(self, key: str, visitor: Visitor, pool: Pool, policy: Policy) -> Guidance:
        ready = pool.ready()
        if self.cache is not None:
            known = self.cache.get(key)
            for one in ready:
                if one.node == known:
                    return self._guidance(one)
        if not pool.has_quorum(ready):
            if int(self._broker.now) - int(visitor.since) < pool.options.quorum_ms * MILLISECOND:
                later = Guidance(LATER)
                later.again = int(self._broker.now) + ASK_AGAIN
                return later
            return self._note("unready", Guidance(UNREADY, f"Connection router {self.options.name} not ready"))
        chosen = policy.choose(ready, key)
        if chosen is None:
            return self._note("unready", Guidance(UNREADY, f"Connection router {self.options.name} not ready"))
        assert isinstance(chosen, Local | Probe)
        if self.cache is not None and key != NO_KEY:
            self.cache.put(key, chosen.node)
        return self._guidance(chosen)

    def _guidance(self, chosen: Target) -> Guidance:
        if isinstance(chosen, Local) or chosen.node == self.local.node:
            return self._note("here", Guidance(HERE))
        place = chosen.place
        found = Guidance(THERE, f"Connection redirected to {chosen.key} by the connection router {self.options.name}")
        found.node = chosen.node
        found.host = place.host
        found.port = place.port
        found.options = {
            one.key: str(one.value) for one in chosen.connector.parameters if one.key not in ("host", "port")
        }
        return self._note(chosen.node, found)

    def _note(self, where: str, guidance: Guidance) -> Guidance:
        self.served[where] = self.served.get(where, 0) + 1
        return guidance

    def report(self) -> dict[str, object]:
        """Return what there is to know, for people."""
        options = self.options
        targets = [] if self.pool is None else self.pool.all()
        return {
            "name": options.name,
            "key": options.key.value,
            "policy": "" if options.policy is None else options.policy.kind.value,
            "cached": 0 if self.cache is None else len(self.cache.nodes),
            "served": dict(self.served),
            "targets": [
                {
                    "node": one.node,
                    "place": one.key if isinstance(one, Probe) else "here",
                    "ready": one.ready if isinstance(one, Probe) else True,
                    "connections": one.connections,
                    "clients": self.served.get(one.node if isinstance(one, Probe) else "here", 0),
                    "why": one.why if isinstance(one, Probe) else "",
                }
                for one in targets
            ],
        }


class Routers(Guides):
    """All of a broker's, by name."""

    def __init__(self, routers: Sequence[Router]) -> None:
        self.routers: Final = {one.options.name: one for one in routers}

    def ask(self, name: str, visitor: Visitor) -> Guidance:
        """Return who serves ``visitor``, who came to a listener with the router ``name``."""
        found = self.routers.get(name)
        return super().ask(name, visitor) if found is None else found.ask(visitor)

    def report(self) -> list[dict[str, object]]:
        """Return all there is to know, for people."""
        return [one.report() for one in self.routers.values()]

    def start(self, perform: Perform) -> None:
        """Look at the brokers of all pools."""
        for one in self.routers.values():
            if one.pool is not None:
                one.pool.start(perform)

    def stop(self) -> None:
        """Look at nobody any more."""
        for one in self.routers.values():
            if one.pool is not None:
                one.pool.stop()
