"""The core bridges of a ``broker.xml``: from a queue here to an address of another broker (artemis.md 4.11).

Only read for `entrepot check`: this build does not run them, and its reader says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.analysis.clusters import CHECK_MS, TTL_MS, Cluster
from entrepot.analysis.model import FOREVER, Address, Channel, CoreBridge
from entrepot.base.errors import InvalidSelector
from entrepot.config.findings import Severity
from entrepot.config.model import QueueEntry
from entrepot.config.xml import Element
from entrepot.model.predicate import compile_selector

RETRY_MS: Final = 2_000
ROUTINGS: Final = ("PASS", "STRIP", "ANYCAST", "MULTICAST")


def bridges(file: Cluster, queues: tuple[QueueEntry, ...]) -> tuple[Channel, ...]:
    """Return the bridges of a file; ``queues``: those of its addresses. What is wrong goes to the issues of ``file``.

    A bridge without a queue or without a place to go is not deployed, so there is no channel for it.
    """
    known = {queue.name: queue.address for queue in queues}
    found = []
    for name, element in file.once(file.within("bridges", "bridge"), "bridge"):
        channel = _channel(file, name, element, known)
        if channel is not None:
            found.append(channel)
    return tuple(found)


def _channel(file: Cluster, name: str, element: Element, known: dict[str, str]) -> Channel | None:
    queue = file.text(element, "queue-name")
    if not queue:
        file.wrong(element, f"the bridge {name!r} takes from no queue", "name it in <queue-name>")
        return None
    places = tuple(_places(file, name, element))
    groups = tuple(_groups(file, name, element))
    if not element.named("static-connectors") and not element.named("discovery-group-ref"):
        file.wrong(element, f"the bridge {name!r} leads nowhere", "name its <static-connectors>")
    if not places and not groups:
        return None
    routing = file.text(element, "routing-type", "PASS").upper()
    if routing not in ROUTINGS:
        file.wrong(element, f"routing-type is {routing!r}", f"one of {', '.join(ROUTINGS)}")
    if file.number(element, "connection-ttl", TTL_MS) <= file.number(element, "check-period", CHECK_MS):
        what = "connection-ttl is not above check-period: a bridge that is well may be given up"
        file.wrong(element, what, "a connection-ttl of twice the check-period", Severity.WARNING)
    return Channel(
        name=name,
        spot=file.spot(element),
        uri=", ".join([queue, *(place.text for place in places), *groups]),
        scheme="discovery" if groups else "static",
        targets=(places,) if places else (),
        groups=groups,
        conduit=False,
        message_ttl=FOREVER,
        consumer_ttl=FOREVER,
        deduplicates=file.flag(element, "use-duplicate-detection", True),
        bridge=CoreBridge(
            queue=queue,
            source=known.get(queue, ""),
            defined=queue in known,
            forwards=file.text(element, "forwarding-address"),
            selector=_selector(file, element),
            ha=file.flag(element, "ha", False),
            concurrency=file.number(element, "concurrency", 1),
            attempts=file.number(element, "reconnect-attempts", FOREVER),
            attempts_first=file.number(element, "initial-connect-attempts", FOREVER),
            retry_ms=file.number(element, "retry-interval", RETRY_MS),
            retry_ms_max=file.number(element, "max-retry-interval", RETRY_MS),
            multiplier=_multiplier(file, element),
            user=file.text(element, "user") or _cluster_user(file),
        ),
    )


def _cluster_user(file: Cluster) -> str:
    """Return who a bridge without a user of its own is; "" where that is the default, with a default password."""
    return file.text(file.root, "cluster-user") if file.text(file.root, "cluster-password") else ""


def _places(file: Cluster, name: str, element: Element) -> Iterator[Address]:
    for below in element.named("static-connectors"):
        for reference in below.named("connector-ref"):
            place = file.refer(reference, file.filled(reference.text), f"the bridge {name!r} does not dial it")
            if place is not None:
                yield place


def _groups(file: Cluster, name: str, element: Element) -> Iterator[str]:
    references = element.named("discovery-group-ref")
    known = {group.name: group.place for group in file.discoveries()} if references else {}
    for reference in references:
        wanted = file.text(reference, "discovery-group-name")
        if wanted in known:
            yield known[wanted]
        else:
            remedy = f"known: {', '.join(known)}" if known else "add it to <discovery-groups>"
            file.wrong(element, f"there is no discovery group {wanted!r}: the bridge {name!r} is not deployed", remedy)
    if references and element.named("static-connectors"):
        what = f"the bridge {name!r} has static connectors and a discovery group: Artemis takes one of them"
        file.wrong(element, what, "take one out")


def _selector(file: Cluster, element: Element) -> str:
    for below in element.named("filter"):
        text = file.text(below, "string")
        try:
            compile_selector(text or "TRUE")
        except InvalidSelector as error:
            file.wrong(below, f"the filter is none: {error.message}", error.remedy or "a selector, as of JMS")
        return text
    return ""


def _multiplier(file: Cluster, element: Element) -> float:
    text = file.text(element, "retry-interval-multiplier", "1")
    try:
        return float(text)
    except ValueError:
        file.wrong(element, f"retry-interval-multiplier is {text!r}, and not a number", "write a number")
        return 1.0
