"""Which topic a queue of a virtual topic gets its messages from: the question of `RoutingTable` the other way round."""

from __future__ import annotations

from entrepot.base.patterns import MIXED
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core.addressing.routing import VirtualTopic


def virtual_source(virtual: VirtualTopic, queue: str) -> str:
    """Return the topic whose messages come to ``queue``, "" for a queue that ``virtual`` does not fill."""
    ahead = virtual.prefix.count(".")
    words = queue.split(".")
    if len(words) <= ahead or not queue.endswith(virtual.postfix):
        return ""
    topic = ".".join(words[ahead:]).removesuffix(virtual.postfix)
    fits = pattern_matches(virtual.prefix.removesuffix("."), ".".join(words[:ahead]), MIXED)
    return topic if topic and fits and pattern_matches(virtual.name, topic, MIXED) else ""
