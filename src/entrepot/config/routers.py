"""What a running broker needs of the connection routers that its file describes."""

from __future__ import annotations

import re

from entrepot.cluster.clusters.options import connector_of
from entrepot.cluster.routers.options import (
    CacheOptions,
    KeyType,
    PolicyKind,
    PolicyOptions,
    PoolOptions,
    RouterOptions,
)
from entrepot.config.clusters import place_in
from entrepot.config.peering import Peering, RouterEntry
from entrepot.protocols.artemis.primitives import Connector


def routers_of(peering: Peering) -> tuple[RouterOptions, ...]:
    """Return the routers of ``peering``, whose reader saw to it that names lead somewhere."""
    connectors: dict[str, Connector] = {}
    for entry in peering.places:
        place = place_in(entry.uri)
        if place is not None:
            connectors.setdefault(entry.name, connector_of(entry.name, place))
    return tuple(_router(one, connectors) for one in peering.routers)


def _router(entry: RouterEntry, connectors: dict[str, Connector]) -> RouterOptions:
    pool = entry.pool
    return RouterOptions(
        name=entry.name,
        key=KeyType(entry.key),
        key_filter=re.compile(entry.key_filter) if entry.key_filter else None,
        local_filter=re.compile(entry.local_filter) if entry.local_filter else None,
        policy=None if not entry.policy else _policy(entry),
        cache=None
        if entry.cache is None
        else CacheOptions(persisted=entry.cache.persisted, timeout_ms=entry.cache.timeout_ms),
        pool=None
        if pool is None
        else PoolOptions(
            user=pool.user,
            password=pool.password,
            check_ms=pool.check_ms,
            quorum=pool.quorum,
            quorum_ms=pool.quorum_ms,
            local=pool.local,
            connectors=tuple(connectors[one] for one in pool.connectors if one in connectors),
            groups=(pool.group,) if pool.group else (),
            cluster=pool.cluster,
        ),
    )


def _policy(entry: RouterEntry) -> PolicyOptions:
    kind = PolicyKind(entry.policy)
    if kind is PolicyKind.CONSISTENT_HASH_MODULO:
        return PolicyOptions(kind=kind, modulo=entry.policy_value)
    return PolicyOptions(kind=kind, threshold=entry.policy_value)
