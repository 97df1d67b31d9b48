"""Core bridges, and the connectors that they dial (artemis.md 4.11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.settings import Dialect
from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.carrying.options import CoreBridgeEntry, CoreBridgeOptions
from entrepot.config.artemis.addresses import filter_of
from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.transformers import headers_in
from entrepot.config.peering import Peering
from entrepot.config.reading import Bean

NO_EFFECT = (
    "tcpNoDelay",
    "useNio",
    "useNioGlobalWorkerPool",
    "nioRemotingThreads",
    "remotingThreads",
    "batchDelay",
    "tcpSendBufferSize",
    "tcpReceiveBufferSize",
    "localAddress",
    "localPort",
    "connect-timeout-millis",
    "netty-connect-timeout",
)
"""Options of a connector that are about Artemis' own threads and sockets."""
RENAMED = {"verifyHost": "verifyHostName"}
"""Of TLS: how a connector here calls it."""
SECRETS = ("keyStorePassword", "trustStorePassword", "keyPassword")


def core_bridges(reader: PartReader, core: Bean, peering: Peering) -> tuple[CoreBridgeEntry, ...]:
    """Return the bridges of a file; ``peering`` has its connectors."""
    below = core.one("bridges")
    found: dict[str, CoreBridgeEntry] = {}
    for number, bean in enumerate([] if below is None else below.many("bridge"), 1):
        entry = _bridge(reader, bean, peering, number)
        if entry is None:
            continue
        name = entry.options.name
        if name in found:
            reader.error(bean, f"there is a bridge {name!r} already", "names are unique in a broker", "name")
        else:
            found[name] = entry
    return tuple(found.values())


def _bridge(reader: PartReader, bean: Bean, peering: Peering, number: int) -> CoreBridgeEntry | None:
    values: dict[str, Any] = {}
    for written, declared in CoreBridgeOptions.names(Dialect.ARTEMIS).items():
        value = bean.get(written)
        if value is not None:
            values[declared.name] = value
    values.setdefault("name", f"bridge-{number}")
    values.setdefault("user", peering.cluster_user)
    if "password" not in values and not peering.masked:
        values["password"] = peering.cluster_password
    try:
        options = CoreBridgeOptions(**values)
    except InvalidOption as error:
        reader.error(bean, error.message, error.remedy)
        return None
    reader.findings.hide(options.password)
    if not options.queue:
        reader.error(bean, f"the bridge {options.name!r} takes from no queue", "name it in <queue-name>")
        return None
    group = bean.one("discovery-group-ref")
    heard = "" if group is None else heard_in(reader, bean, group, peering)
    places = places_of(reader, bean, options.name, peering) if group is None else []
    if not places and not heard:
        return None
    return CoreBridgeEntry(
        options=options,
        places=tuple(places),
        selector=filter_of(reader, bean),
        group=heard,
        headers=headers_in(reader, bean),
    )


def heard_in(reader: PartReader, bean: Bean, reference: Bean, peering: Peering) -> str:
    """Return the name of the discovery group that ``bean`` listens to; "" for one that is not there, a finding."""
    wanted = reference.text("discovery-group-name")
    known = [one.name for one in peering.discoveries]
    if bean.one("static-connectors") is not None:
        reader.error(bean, "it has static connectors and a discovery group", "take one out")
    elif wanted not in known:
        remedy = f"known: {', '.join(known)}" if known else "add it to <discovery-groups>"
        reader.error(reference, f"there is no discovery group {wanted!r}", remedy)
    else:
        return wanted
    return ""


def places_of(reader: PartReader, bean: Bean, name: str, peering: Peering) -> list[Endpoint]:
    """Return where the connectors of a bridge or upstream lead; none for one that leads nowhere, which is a finding."""
    lists = bean.one("static-connectors")
    if lists is None:
        reader.error(bean, f"the {bean.kind.name} {name!r} leads nowhere", "name its <static-connectors>")
        return []
    found: list[Endpoint] = []
    for reference in lists.many("connector-ref"):
        try:
            place = place_called(reference.text("content"), peering)
        except (InvalidOption, InvalidURI) as error:
            reader.error(reference, error.message, error.remedy)
            continue
        for secret in SECRETS:
            reader.findings.hide(place.options.get(secret, ""))
        found.append(Endpoint(place.scheme, host=place.host, port=place.port, options=effective(place.options)))
    return found


def effective(options: Mapping[str, str]) -> dict[str, str]:
    """Return the ``options`` of a place that are not about Artemis' own threads and sockets, by our names."""
    return {RENAMED.get(key, key): value for key, value in options.items() if key not in NO_EFFECT}


def place_called(name: str, peering: Peering) -> Endpoint:
    """Return where the connector ``name`` leads. Raises InvalidOption, InvalidURI."""
    known = {one.name: one.uri for one in peering.places}
    if name not in known:
        remedy = f"known: {', '.join(known)}" if known else "add it to <connectors>"
        raise InvalidOption(f"there is no connector {name!r}", remedy=remedy)
    place = parse(known[name])
    if not isinstance(place, Endpoint) or place.scheme != "tcp":
        raise InvalidOption(f"the connector {name!r} is no place of TCP", remedy="write tcp://HOST:PORT")
    return place
