"""A network as text: each broker with the links that lead away from it, and how many hops it is from each to each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.analysis.graph import UNREACHED, distances, served
from entrepot.analysis.model import FOREVER, Channel, Link, Network
from entrepot.config.model import IncludedDestination

BOTH: Final = "<=>"
ONWARD: Final = "-->"
INWARD: Final = "<--"
ORDER: Final = (BOTH, ONWARD, INWARD, "")
LISTED_MAX: Final = 4
MATRIX_NODES_MAX: Final = 30  # a wider table is not read by anybody
SHORT: Final = "!"


def draw(network: Network) -> str:
    """Return lines for a terminal, each ended."""
    return "".join(f"{line}\n" for line in [*_nodes(network), "", *_matrix(network)])


def ttl(channel: Channel) -> str:
    """Return how far messages go over a channel, in words; over a core bridge, from where to where."""
    if channel.bridge is not None:
        return f"{channel.bridge.entry.queue} to {channel.bridge.target or 'its address'}"
    if channel.cluster:
        return f"max-hops {channel.consumer_ttl}"
    message, consumer = ("no limit" if one == FOREVER else str(one) for one in channel.hops)
    return f"TTL {message}" if message == consumer else f"messageTTL {message}, consumerTTL {consumer}"


def carried(channel: Channel) -> str:
    """Return what a channel carries, where it does not carry everything."""
    parts = [channel.balancing] if channel.balancing else []
    if channel.bridge is not None and channel.bridge.entry.selector:
        parts.append(f"where {channel.bridge.entry.selector}")
    if channel.cluster and channel.destination_filter:
        parts.append(f"addresses {channel.destination_filter}")
    if channel.static_only:
        parts.append("static bridge")
    if channel.included:
        parts.append("only " + _listed(channel.included))
    if channel.static:
        parts.append("always " + _listed(channel.static))
    if channel.excluded:
        parts.append("not " + _listed(channel.excluded))
    return "; ".join(parts)


def _listed(entries: tuple[IncludedDestination, ...]) -> str:
    said = [f"{'topic' if one.topic else 'queue'} {one.pattern}" for one in entries]
    more = len(said) - LISTED_MAX
    return ", ".join(said[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _nodes(network: Network) -> Iterator[str]:
    width = max(len(node.name) for node in network.nodes)
    for number, node in enumerate(network.nodes):
        if node.outside:
            continue
        places = [
            f"{listener.protocol}{'+ssl' if listener.secure else ''}:{listener.port}"
            for member in node.members[:1]
            for listener in network.members[member].listeners
        ]
        pair = " (a pair)" if len(node.members) > 1 else ""
        files = ", ".join(network.members[member].file for member in node.members)
        yield f"{node.name}{pair}  {' '.join(places)}  {files}"
        seen = [(*_seen_from(number, link), link) for link in network.links]
        for sign, other, link in sorted(seen, key=lambda one: ORDER.index(one[0])):
            if sign:
                name = network.nodes[other].name + (" (in none of these files)" if network.nodes[other].outside else "")
                more = carried(link.channel)
                whose = f"{link.channel.kind} {link.channel.name}" if not link.back else "the other's connector"
                yield f"  {sign} {name.ljust(width)}  {whose}, {ttl(link.channel)}{', ' + more if more else ''}"


def _seen_from(node: int, link: Link) -> tuple[str, int]:
    """Return how ``link`` looks from ``node``; "" where another line says it."""
    if link.channel.duplex:
        return (BOTH, link.target) if link.source == node else ("", 0)
    if link.source == node:
        return ONWARD, link.target
    return (INWARD, link.source) if link.target == node else ("", 0)


def _matrix(network: Network) -> Iterator[str]:
    """Yield hops from each row to each column; SHORT where only a TTL forbids."""
    known = [number for number, node in enumerate(network.nodes) if node.members]
    if not 1 < len(known) <= MATRIX_NODES_MAX:
        return
    far, real = distances(len(network.nodes), network.links), served(len(network.nodes), network.links)
    names = [network.nodes[number].name for number in known]
    first = max(len("hops from \\ to"), *(len(name) for name in names))
    widths = [max(len(name), 2) for name in names]
    heads = [f"  {name.rjust(width)}" for name, width in zip(names, widths, strict=True)]
    yield "hops from \\ to".ljust(first) + "".join(heads)
    for one in known:
        cells = []
        for two, width in zip(known, widths, strict=True):
            if one == two:
                text = "."
            elif far[one][two] == UNREACHED:
                text = "-"
            else:
                text = str(real[one][two]) if real[one][two] != UNREACHED else f"{far[one][two]}{SHORT}"
            cells.append(f"  {text.rjust(width)}")
        yield network.nodes[one].name.ljust(first) + "".join(cells)
    yield f"(-: no way; {SHORT}: a way, and a TTL too short for it)"
