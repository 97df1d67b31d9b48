"""Where a message ends that is sent to a node of a cluster, by who reads it: what `entrepot check` predicts.

The rules are those by which a node chooses (artemis.md 1.12 and 1.17; `core/addressing/choice.py` of a running broker):
the mode of the node that a message is sent to decides, once, and redistribution may move it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from entrepot.analysis.clusters import OFF, OFF_WITH_REDISTRIBUTION, STRICT
from entrepot.analysis.graph import UNREACHED, distances, served
from entrepot.analysis.model import Channel, Member, Network

NOBODY: Final = "nobody reads it"


class Ending(Struct, frozen=True):
    """One case. ``sent_at``: a node; ``to``: queue or topic; ``when``: who reads; ``ends``: where it is then."""

    sent_at: str
    to: str
    when: str
    ends: str


def endings(network: Network) -> Iterator[Ending]:
    """Yield the cases of every node that is in a cluster, node by node."""
    links = [link for link in network.links if link.channel.cluster]
    if not links:
        return
    count = len(network.nodes)
    reach, far = served(count, links), distances(count, links)
    for number, node in enumerate(network.nodes):
        for at in node.members[:1]:
            member = network.members[at]
            for channel in member.channels:
                if channel.cluster:
                    others = [network.nodes[one].name for one in range(count) if reach[number][one] > 0]
                    beyond = [
                        f"{network.nodes[one].name} ({far[number][one]} nodes away)"
                        for one in range(count)
                        if far[number][one] > 0 and reach[number][one] == UNREACHED
                    ]
                    yield from _cases(node.name, member, channel, others, beyond)


def _cases(name: str, member: Member, channel: Channel, others: list[str], beyond: list[str]) -> Iterator[Ending]:
    """Yield the cases of one cluster connection of the node ``name``."""
    only = f" (addresses {channel.destination_filter})" if channel.destination_filter else ""
    queue, topic = f"queue{only}", f"topic{only}"
    if not others:
        yield Ending(name, queue, "anybody reads it", f"{name}: no other node is reached from there")
    else:
        yield from _queues(name, queue, member, channel, ", ".join(others))
        yield Ending(name, topic, "it is subscribed anywhere", f"each subscription at {', '.join([name, *others])}")
    if beyond:
        what = f"read at {', '.join(beyond)} alone"
        yield Ending(name, f"{queue}, {topic}", what, f"{name}: max-hops {channel.consumer_ttl} does not reach there")


def _queues(name: str, queue: str, member: Member, channel: Channel, others: str) -> Iterator[Ending]:
    moved = () if member.clustering is None else member.clustering.redistributes
    moves = member.clustering is not None and member.clustering.redistributes_all
    later = f"{name}, and moves" if moves else f"{name}, and stays there when somebody reads at {others} later"
    if moved and not moves:
        later += f", but for {', '.join(moved)}"
    if channel.balancing == STRICT:
        every = f"in turn at {name}, {others}, wherever there is such a queue"
        yield Ending(name, queue, "somebody reads it, or nobody", f"{every}, read or not; it does not move again")
    elif channel.balancing == OFF:
        yield Ending(name, queue, "read at any node", f"{name}, and stays there")
    elif channel.balancing == OFF_WITH_REDISTRIBUTION:
        yield Ending(name, queue, f"read at {name}", name)
        yield Ending(name, queue, f"read only at {others}", later)
    else:
        yield Ending(name, queue, f"read at several of {name}, {others}", "in turn at those where it is read")
        yield Ending(name, queue, "read at one node", "there")
        yield Ending(name, queue, NOBODY, later)


def tell(network: Network) -> list[str]:
    """Return lines for people; none without a cluster."""
    found = list(endings(network))
    if not found:
        return []
    lines = ["", "where a message ends"]
    for name in dict.fromkeys(one.sent_at for one in found):
        lines.append(f"sent at {name}")
        lines += [f"  {one.to}, {one.when}: {one.ends}" for one in found if one.sent_at == name]
    return lines
