"""What each bridge does for one destination, and why messages on one broker do not reach consumers on another.

`outlook` is asked of one broker; `across` joins the answers of several (operation ``explain`` of
`core/operators/controls.py`) and finds reasons that no broker can see alone. Neither changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.patterns import MIXED, matches
from entrepot.cluster.link import State
from entrepot.cluster.networks.admission import REPLAY_ON
from entrepot.cluster.networks.connector import NetworkConnector
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Neighbourhood

UNLIMITED: Final = -1
UNWANTED_HERE: Final = ("no-consumer", "selector", "no-local", "conduit", "path", "ttl")  # another broker could help


def outlook(
    neighbourhood: Neighbourhood, connectors: Iterable[NetworkConnector], name: str, *, topic: bool, now: Instant
) -> list[dict[str, object]]:
    """Return for each bridge from here, and each connector without one, its state and whether it wants ``name``.

    ``demand``: consumers beyond it want the destination, ``suppressed``: those of them that another bridge serves are
    left to it; ``permitted``: its lists let demand cross. Times in ms.
    """
    rows = [_row(bridge, name, topic=topic, now=now) for bridge in neighbourhood.bridges]
    for connector in connectors:
        if not connector.bridges:
            options = connector.options
            rows.append(
                {
                    "connector": options.name,
                    "peer": "",
                    "state": connector.state,
                    "for_ms": connector.for_ms(now),
                    "error": "",
                    "place": connector.place,
                    "sends": True,
                    "demand": False,
                    "suppressed": False,
                    "permitted": True,
                    "forbidden": "",
                    "consumer_ttl": options.consumer_ttl,
                    "message_ttl": options.message_ttl,
                    "conduit": options.conduit_subscriptions,
                }
            )
    return rows


def _row(bridge: BridgeEnd, name: str, *, topic: bool, now: Instant) -> dict[str, object]:
    link = bridge.link
    stalled = link.supervision.stalled_since and link.state is State.OPEN
    down = link.down_since if link.state is not State.OPEN and link.down_since else link.since
    options = bridge.options
    return {
        "connector": options.name,
        "peer": bridge.names.there,
        "state": "stalled" if stalled else link.state.value,
        "for_ms": (now - (link.supervision.stalled_since if stalled else down)) // MILLISECOND,
        "error": link.why if link.state is not State.OPEN else "",
        "place": "" if link.place is None else link.place.masked(),
        "sends": bridge.initiator or bridge.duplex,
        "demand": any(
            demand.where.topic == topic and matches(demand.name, name, MIXED) for demand in bridge.demand.demands
        ),
        "suppressed": any(
            demand.where.topic == topic and matches(demand.name, name, MIXED)
            for demand, owner in bridge.neighbourhood.interests.suppressed.items()
            if owner is bridge.demand
        ),
        "permitted": bridge.permits(name, topic=topic),
        "forbidden": next((why for one, why in bridge.forbidden.items() if matches(one, name, MIXED)), ""),
        "consumer_ttl": options.consumer_ttl,
        "message_ttl": options.message_ttl,
        "conduit": options.conduit_subscriptions,
    }


def across(told: Sequence[Mapping[str, Any]], silent: Sequence[str] = ()) -> list[dict[str, object]]:
    """Return reasons of the network: who has messages that wait, who has clients that want them, what is between.

    ``told``: what each broker that answered explained of one destination; ``silent``: those that did not. Each reason
    has ``broker`` (where the messages are), ``code``, ``text``, ``remedy``.
    """
    found: list[dict[str, object]] = []
    for here in told:
        found += _stalled(here)
        waiting = sum(queue["waiting"] for queue in here["queues"])
        if not waiting or not any(
            reason["code"] in UNWANTED_HERE for one in here["queues"] for reason in one["reasons"]
        ):
            continue
        found += _ways_closed(here)
        found += _ways_suppressed(here)
        found += _ways_forbidden(here)
        for there in told:
            if _in_cluster(here, there):
                continue  # `cluster/clusters/outlook.py` says what is between
            if there is not here and any(_client(one) for one in _readers(there)):
                found += _between(here, there, told)
        closed = [f" to {row['peer']} " for row in here["bridges"] if row["peer"] and row["state"] != "open"]
        unknown = [one for one in silent if f" to {one.partition(' (')[0]} " not in closed]
        if unknown:
            text = "nobody knows what they have: " + ", ".join(unknown)
            found.append(_reason(here, "silent", text, "start them, or see why they do not answer"))
    return found


def _in_cluster(here: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    """Return whether ``here`` knows the queues of ``there`` as those of another node of its cluster."""
    rows = (here.get("elsewhere") or {}).get("rows", ())
    return any(row["node"] == there.get("uuid") for row in rows)


def _readers(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [consumer for queue in told["queues"] for consumer in queue["consumers"]]


def _client(consumer: Mapping[str, Any]) -> bool:
    return not consumer["peer"]


def _reason(told: Mapping[str, Any], code: str, text: str, remedy: str) -> dict[str, object]:
    return {"broker": told["broker"], "code": code, "text": text, "remedy": remedy}


def _stalled(here: Mapping[str, Any]) -> list[dict[str, object]]:
    """Note the bridges from ``here`` that hold messages of the destination, or should get some, and confirm none."""
    waiting = any(queue["waiting"] for queue in here["queues"])
    busy = {reader["peer"] for reader in _readers(here) if reader["peer"] and reader["in_flight"]}
    found = []
    for row in here["bridges"]:
        if row["sends"] and row["state"] == "stalled" and (row["peer"] in busy or (waiting and row["demand"])):
            text = f"the bridge to {row['peer']} is stalled{_since(row)}: its broker lives and confirms nothing"
            remedy = f"ask there: entrepot explain; is {row['peer']} full? Does it read from this connection?"
            found.append(_reason(here, "bridge-stalled", text, remedy))
    return found


def _since(row: Mapping[str, Any]) -> str:
    return f" since {row['for_ms'] / 1000:.1f} s" if row["for_ms"] >= 0 else ""


def _ways_closed(here: Mapping[str, Any]) -> list[dict[str, object]]:
    """Note the bridges from ``here`` that are not open."""
    found = []
    for row in here["bridges"]:
        if not row["sends"] or row["state"] in ("open", "stalled"):
            continue
        peer = row["peer"] or row.get("place") or row["connector"]
        since = _since(row)
        error = f": {row['error']}" if row["error"] else ""
        text = f"the bridge to {peer} ({row['connector']}) is down{since}, {row['state']}{error}"
        stopped = row["state"] in ("stopped", "draining")
        remedy = (
            f"entrepot bridge start {row['connector']}" if stopped else "start that broker, or see entrepot bridge list"
        )
        found.append(_reason(here, "bridge-down", text, remedy))
    return found


def _ways_suppressed(here: Mapping[str, Any]) -> list[dict[str, object]]:
    """Note the bridges that could take what may not go the way that is kept, because it came from there."""
    if not any(reason["code"] == "path" for queue in here["queues"] for reason in queue["reasons"]):
        return []
    found = []
    for row in here["bridges"]:
        if row["state"] == "open" and row.get("suppressed") and not row["demand"]:
            text = (
                f"the bridge to {row['peer']} leads to consumers, too, and takes nothing: another way to them is kept "
                f"(suppressDuplicateQueueSubscriptions of {row['connector']}), and that one leads back"
            )
            remedy = f"suppressDuplicateQueueSubscriptions=false, or let it go back: {REPLAY_ON}"
            found.append(_reason(here, "suppressed", text, remedy))
    return found


def _ways_forbidden(here: Mapping[str, Any]) -> list[dict[str, object]]:
    """Note the bridges whose user may not send there: consumers beyond asked, and the other broker refused."""
    found = []
    for row in here["bridges"]:
        if row.get("forbidden") and row["state"] == "open":
            text = f"{row['peer']} lets the user of {row['connector']} not send there: {row['forbidden']}"
            remedy = f"let that user write there, then entrepot bridge stop and start {row['connector']}"
            found.append(_reason(here, "forbidden", text, remedy))
    return found


def _between(
    here: Mapping[str, Any], there: Mapping[str, Any], told: Sequence[Mapping[str, Any]]
) -> list[dict[str, object]]:
    """Note why a consumer of ``there`` makes no demand at ``here``; nothing when it does."""
    name = there["broker"]
    ways = _ways(here, told)
    way = ways.get(name)
    if way is None:
        text = f"{name} has consumers, and no open bridge leads there from {here['broker']}"
        return [_reason(here, "no-way", text, f"a network connector from {here['broker']} towards {name}")]
    first = way[0]
    hops = len(way)
    ttl = min(row["consumer_ttl"] for row in way)
    if first["demand"] or first.get("forbidden"):
        return []
    if not all(row["permitted"] for row in way):
        closed = next(row for row in way if not row["permitted"])
        text = f"{name} has consumers, and the lists of {closed['connector']} do not let this destination cross"
        return [_reason(here, "excluded", text, "change excludedDestinations or dynamicallyIncludedDestinations")]
    if UNLIMITED < ttl < hops:
        text = f"{name} has consumers {hops} hops away, and consumerTTL on the way is {ttl}"
        return [
            _reason(here, "consumer-ttl", text, f"networkTTL={hops} (or consumerTTL) on every connector of the way")
        ]
    text = f"{name} has consumers, and {here['broker']} has heard of none: the bridge to {first['peer']} has no demand"
    remedy = "is advisorySupport on everywhere? Is it a dynamicOnly or staticBridge connector? entrepot bridge show"
    return [_reason(here, "no-demand", text, remedy)]


def _ways(here: Mapping[str, Any], told: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return for each broker that open bridges lead to from ``here`` the shortest way, as bridges."""
    rows = {one["broker"]: one["bridges"] for one in told}
    found: dict[str, list[Mapping[str, Any]]] = {here["broker"]: []}
    at = [here["broker"]]
    while at:
        name = at.pop(0)
        for row in rows.get(name, ()):
            if row["sends"] and row["state"] in ("open", "stalled") and row["peer"] not in found:
                found[row["peer"]] = [*found[name], row]
                at.append(row["peer"])
    del found[here["broker"]]
    return found
