"""The network as one value: who is joined to whom, and what goes between them, of what several brokers tell.

Each broker tells of its own ends of links (`describeBridges`, `describeClusters`), and no number is made here that a
broker has counted. A broker is found again by the id of its node, by its name where only one is called so, or by the
place where it is reached; who is only told of is a broker that nobody asked. What two brokers tell of one connection is
told twice, and counted once: as the one says that sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from entrepot.management.view import Glance, Moved, link_named

WELL: Final = ("open", "started", "met")
AT_REST: Final = ("stopped", "behind others", "not dialled")  # nothing is wrong with it, and nothing goes over it
ANSWERS: Final = "answers"
SILENT: Final = "does not answer"
UNASKED: Final = "not asked"
NETWORK: Final = "network"
CLUSTER: Final = "cluster"
KINDS: Final = {
    NETWORK: "network connector",
    CLUSTER: "cluster connection",
    "core": "core bridge",
    "federation": "federation, upstream",
    "downstream": "federation, downstream",
    "amqp": "AMQP broker connection",
    "artemis": "drawn from Artemis",
    "activemq": "drawn from ActiveMQ",
}
"""What a row of `describeBridges` calls itself, in words."""
PLACES: Final = re.compile(r"//(\[[0-9a-fA-F:.]+\]|[^/?,()&#:\[\]]+):(\d+)")
LOOPBACK: Final = ("localhost", "[::1]", "ip6-localhost")
EVERYWHERE: Final = ("0.0.0.0", "[::]")

Row = Mapping[str, Any]


class Spot(msgspec.Struct):
    """One broker. ``key``: what it is called here; ``state``: `ANSWERS`, `SILENT`, `UNASKED`; ``why``: it is silent."""

    key: str
    state: str = UNASKED
    zone: str = ""
    why: str = ""


class Way(msgspec.Struct):
    """One end of one connection, as its broker tells it.

    ``teller``, ``other``: keys of spots; ``out``, ``into``: messages a second from and to the teller, None where that
    is not known yet or the other end counts; ``lag``: messages that wait at the teller for it, or are on their way;
    ``row``: all that the broker tells of it; ``member``: what a cluster tells of the other node.
    """

    teller: str
    other: str
    kind: str
    state: str
    row: dict[str, Any]
    member: dict[str, Any]
    out: float | None = None
    into: float | None = None

    @property
    def counts(self) -> bool:
        """Whether this end counts messages; one that another broker opened may not."""
        return "sent" in self.row

    @property
    def connector(self) -> str:
        """What operators call it."""
        return str(self.row.get("connector") or self.member.get("cluster") or "")

    @property
    def lag(self) -> int:
        """Return how many messages wait here for the other broker, or are on their way."""
        waiting = self.member.get("waiting", self.row.get("depth"))
        return int(self.row.get("under_way") or 0) if waiting is None else int(waiting)

    @property
    def canary_us(self) -> int:
        """Return how long the last question to the other broker took, -1 for none."""
        return int(self.row.get("canary_us", -1))

    @property
    def error(self) -> str:
        """Return what went wrong last."""
        return str(self.row.get("error") or self.member.get("why") or "")


class Link(msgspec.Struct):
    """All connections between two brokers. ``ends``: their keys, in order."""

    ends: tuple[str, str]
    ways: list[Way]

    @property
    def state(self) -> str:
        """Return "open" where every connection is, or what keeps one of them from it."""
        wrong = [way.state for way in self.ways if way.state not in WELL]
        return min(wrong, key=lambda state: state in AT_REST) if wrong else WELL[0]

    @property
    def ill(self) -> bool:
        """Whether a connection that should be open is not."""
        return self.state not in (*WELL, *AT_REST)

    @property
    def canary_us(self) -> int:
        """Return the longest time that a question over it took, -1 for none."""
        return max(way.canary_us for way in self.ways)

    @property
    def kinds(self) -> list[str]:
        """Return the kinds of its connections, in words."""
        return sorted({KINDS.get(way.kind, way.kind) for way in self.ways})

    def sends(self, sender: str) -> list[Way]:
        """Return the ends that count what ``sender`` sends."""
        return [way for way in self.ways if way.teller == sender and way.counts]

    def rate(self, sender: str) -> float | None:
        """Return messages a second that ``sender`` sends, None while that is not known."""
        own = self.sends(sender)
        rates = [way.out for way in own]
        bridged = any(way.kind == NETWORK for way in own)
        rates += [
            way.into
            for way in self.ways
            if way.teller != sender and way.counts and not (way.kind == NETWORK and bridged)
        ]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    def lag(self, sender: str) -> int:
        """Return how many messages wait at ``sender`` for the other broker, or are on their way."""
        return sum(way.lag for way in self.ways if way.teller == sender)

    def busy(self) -> float:
        """Return messages a second, both ways together."""
        return sum(self.rate(end) or 0.0 for end in self.ends)


class Topology(msgspec.Struct):
    """Brokers by key, links by their ends, and ``loose``: connectors that lead to nobody who is known yet."""

    spots: dict[str, Spot]
    links: dict[tuple[str, str], Link]
    loose: list[Way]

    def between(self, one: str, other: str) -> Link | None:
        """Return the link between two brokers, whichever comes first."""
        return self.links.get(ends_of(one, other))

    def zones(self) -> dict[str, list[Spot]]:
        """Return the brokers by zone, those whose zone nobody tells last."""
        found: dict[str, list[Spot]] = {}
        for spot in sorted(self.spots.values(), key=lambda spot: (not spot.zone, spot.zone)):
            found.setdefault(spot.zone, []).append(spot)
        return found


def ends_of(one: str, other: str) -> tuple[str, str]:
    """Return two keys in the order that a link has them."""
    return (one, other) if one <= other else (other, one)


def topology(
    views: Mapping[str, Glance],
    moved: Mapping[str, Mapping[str, Moved]],
    failures: Mapping[str, object],
    urls: Mapping[str, str],
) -> Topology:
    """Return the network of what brokers tell. ``moved``: see `link_rates`, by broker; ``failures``: why one is silent.

    ``urls``: where each broker of ``views`` and ``failures`` is asked.
    """
    found = Topology({}, {}, [])
    for key, view in views.items():
        found.spots[key] = Spot(key, ANSWERS, str(view.facts.get("zone") or ""))
    for key, why in failures.items():
        found.spots[key] = Spot(key, SILENT, why=str(why))
    names = _Names(views, urls)
    for key, view in views.items():
        for way in _ways(key, view, moved.get(key, {}), names):
            _join(found, way)
    return found


def _join(found: Topology, way: Way) -> None:
    if not way.other or way.other == way.teller:
        found.loose.append(way)
        return
    spot = found.spots.setdefault(way.other, Spot(way.other))
    spot.zone = spot.zone or str(way.row.get("zone") or "")
    ends = ends_of(way.teller, way.other)
    found.links.setdefault(ends, Link(ends, [])).ways.append(way)


def _ways(key: str, view: Glance, moved: Mapping[str, Moved], names: _Names) -> list[Way]:
    members = {
        f"{cluster['name']} to {row['node']}": {**row, "cluster": cluster["name"]}
        for cluster in view.clusters
        for row in cluster["members"]
        if row.get("state") != "here"
    }
    found = []
    for row in view.bridges:
        member = members.pop(str(row.get("connector")), None)
        kind = str(row.get("kind") or NETWORK) if member is None else CLUSTER
        node = str(row.get("peer_id") or (member or {}).get("node", ""))
        other = names.of(node, str(row.get("peer") or ""), str(row.get("place") or row.get("peer_url") or ""))
        rates = moved.get(link_named(row))
        way = Way(key, other, kind, str(row.get("state") or ""), dict(row), member or {})
        if rates is not None:
            way.out, way.into = rates.sent, rates.received
        found.append(way)
    for member in members.values():  # nothing is sent to these: they are members all the same
        other = names.of(str(member.get("node") or ""), "", f"//{member.get('place') or ''}")
        found.append(Way(key, other, CLUSTER, str(member.get("state") or ""), {}, member))
    return found


class _Names:
    """What brokers are called here, by what others know of them."""

    def __init__(self, views: Mapping[str, Glance], urls: Mapping[str, str]) -> None:
        self._answering: Final = set(views)
        self._nodes: Final = {str(view.facts.get("nodeID") or ""): key for key, view in views.items()}
        self._places: Final = {place: key for key, url in urls.items() for place in places_of(url)}
        names = [(view.name, key) for key, view in views.items()]
        every = [name for name, _ in names]
        self._names: Final = {name: key for name, key in names if name and every.count(name) == 1}

    def of(self, node: str, name: str, place: str) -> str:
        """Return the key of the broker that has this node id, name or place; a new one for one that nobody asked."""
        places = places_of(place) or places_of(f"//{name}")
        found = self._nodes.get(node, "") if node else ""
        found = found or self._names.get(name, "") or next((self._places[p] for p in places if p in self._places), "")
        if found:
            return found
        called = name or (places[0] if places else "") or node
        if called in self._answering:  # who is called so here is somebody else
            called = f"{called} ({places[0] if places else node})"
        if node and called:
            self._nodes[node] = called
        return called


def places_of(url: str) -> Sequence[str]:
    """Return each host and port that a URL names, "localhost" and 127.0.0.1 alike; none that mean every address."""
    found = [(host.lower(), port) for host, port in PLACES.findall(url)]
    return [f"{'127.0.0.1' if host in LOOPBACK else host}:{port}" for host, port in found if host not in EVERYWHERE]
