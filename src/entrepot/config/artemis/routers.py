"""The connection routers of a ``broker.xml`` (artemis.md 4.14)."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.router_elements import MODULO, POLICIES
from entrepot.config.peering import CacheEntry, Peering, PoolEntry, Position, RouterEntry
from entrepot.config.reading import Bean

KEYS: Final = ("CLIENT_ID", "SNI_HOST", "SOURCE_IP", "USER_NAME", "ROLE_NAME")
PROPERTIES: Final = {MODULO: "MODULO", "LEAST_CONNECTIONS": "CONNECTION_COUNT_THRESHOLD"}


def routers(reader: PartReader, core: Bean, peering: Peering) -> tuple[RouterEntry, ...]:
    """Return the routers of a file; what is wrong with one is an error: clients would go to the wrong broker."""
    below = core.one("connection-routers")
    found: dict[str, RouterEntry] = {}
    for bean in [] if below is None else below.many("connection-router"):
        entry = _router(reader, bean, peering)
        if entry is None:
            continue
        if entry.name in found:
            reader.error(bean, f"there is a connection router {entry.name!r} already", "names differ", "name")
        found[entry.name] = entry
    _used(reader, core, list(found))
    return tuple(found.values())


def _used(reader: PartReader, core: Bean, known: list[str]) -> None:
    """See that every router that an acceptor names is there."""
    acceptors = core.one("acceptors")
    for bean in [] if acceptors is None else acceptors.many("acceptor"):
        named = re.search(r"[?;&]router=([^;&]*)", bean.text("content"))
        if named is not None and named.group(1) not in known:
            remedy = f"known: {', '.join(known)}" if known else "add it to <connection-routers>"
            reader.error(bean, f"there is no connection router {named.group(1)!r}", remedy)


def _router(reader: PartReader, bean: Bean, peering: Peering) -> RouterEntry | None:
    name = bean.text("name")
    key = bean.text("key-type", "SOURCE_IP").upper()
    if not name:
        reader.error(bean, "a connection router has no name", "acceptors name it by router=NAME")
        return None
    if key not in KEYS:
        reader.error(bean, f"there is no key-type {key!r}", f"known: {', '.join(KEYS)}")
        return None
    for each in ("key-filter", "local-target-filter"):
        try:
            re.compile(bean.text(each))
        except re.error as error:
            reader.error(bean, f"{each} is no regular expression: {error}", "write one of Java that Python has, too")
            return None
    policy, value = _policy(reader, bean)
    entry = RouterEntry(
        name=name,
        at=Position(bean.element.line, bean.element.path),
        key=key,
        key_filter=bean.text("key-filter"),
        local_filter=bean.text("local-target-filter"),
        policy=policy,
        policy_value=value,
    )
    cache = bean.one("cache")
    if cache is not None:
        kept = CacheEntry(persisted=bool(cache.get("persisted", False)), timeout_ms=int(cache.get("timeout", 0)))
        entry = replace(entry, cache=kept)
    pool = bean.one("pool")
    if pool is not None:
        return _pooled(reader, pool, entry, peering)
    if policy and policy != MODULO:
        reader.error(bean, f"the router {name!r} has a policy and no pool to choose from", "add a <pool>")
    elif not entry.local_filter:
        reader.warn(bean, f"the router {name!r} refuses every client: it has no pool and no local-target-filter")
    return entry


def _policy(reader: PartReader, bean: Bean) -> tuple[str, int]:
    """Return the policy of a router, "" for none, and the one number that it may have."""
    policy = bean.one("policy")
    if policy is None:
        return "", 0
    name = policy.text("name")
    if name not in POLICIES:
        reader.error(policy, f"there is no policy {name!r}", f"known: {', '.join(POLICIES)}")
        return "", 0
    value = 0
    for one in policy.many("property"):
        key, text = one.text("key"), one.text("value")
        if key != PROPERTIES.get(name):
            wanted = PROPERTIES.get(name)
            reader.error(one, f"{name} has no property {key!r}", f"known: {wanted}" if wanted else "take it out")
        elif not text.isdecimal() or int(text) < 1:
            reader.error(one, f"{key} is {text!r}, and no positive number", "write a number")
        else:
            value = int(text)
    if name == MODULO and value == 0:
        reader.error(policy, f"{MODULO} needs the property MODULO", '<property key="MODULO" value="2"/>')
    return name, value


def _pooled(reader: PartReader, pool: Bean, entry: RouterEntry, peering: Peering) -> RouterEntry | None:
    """Return ``entry`` with its pool; None where that leads nowhere, which is a finding."""
    lists, group, cluster = (
        pool.one("static-connectors"),
        pool.one("discovery-group-ref"),
        pool.text("cluster-connection"),
    )
    given = [one for one in (lists, group, cluster) if one]
    if len(given) != 1:
        remedy = "give one of static-connectors, discovery-group-ref and cluster-connection"
        reader.error(pool, f"the pool of {entry.name!r} has {len(given)} sources of brokers", remedy)
        return None
    names = tuple(one.text("content") for one in lists.many("connector-ref")) if lists is not None else ()
    heard = "" if group is None else group.text("discovery-group-name")
    known: list[tuple[str, str, list[str]]] = [
        *((name, "connector", [one.name for one in peering.places]) for name in names),
        *([(heard, "discovery group", [one.name for one in peering.discoveries])] if group is not None else []),
        *([(cluster, "cluster connection", [one.name for one in peering.clusters])] if cluster else []),
    ]
    wrong = False
    for name, kind, others in known:
        if name not in others:
            reader.error(pool, f"there is no {kind} {name!r}", f"known: {', '.join(others) or 'none'}")
            wrong = True
    password = pool.text("password")
    reader.findings.hide(password)
    quorum = int(pool.get("quorum-size", 1))
    most = len(names) + (1 if pool.get("local-target-enabled", False) else 0)
    if lists is not None and quorum > most:
        what = f"quorum-size is {quorum}, and the pool has {most} brokers: nobody is ever served"
        reader.error(pool, what, f"{most}, or less", "quorum-size")
        wrong = True
    if wrong:
        return None
    made = PoolEntry(
        user=pool.text("username"),
        password=password,
        check_ms=int(pool.get("check-period", 5_000)),
        quorum=quorum,
        quorum_ms=int(pool.get("quorum-timeout", 3_000)),
        local=bool(pool.get("local-target-enabled", False)),
        connectors=names,
        group=heard,
        cluster=cluster,
    )
    return replace(entry, pool=made)
