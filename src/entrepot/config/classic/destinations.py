"""Destinations that exist from the start, and virtual ones: topics with queues, composites, mirrors (4.8)."""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidSelector
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.values import boolean_or
from entrepot.config.classic.policies import KIND_ROUTING, destinations, physical_name
from entrepot.config.model import BrokerSettings, CompositeEntry, ForwardEntry, IncludedDestination, VirtualTopicEntry
from entrepot.config.reading import Bean, Reader
from entrepot.core.addressing.diversion import MIRROR_PREFIX
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.predicate import compile_selector

VIRTUAL_DEFAULTS: Final = VirtualTopicEntry()


class Virtual:
    """What the interceptors of one broker make. A list of them replaces the topic that is there by default."""

    def __init__(self, reader: Reader, broker: BrokerSettings, interceptors: list[Bean] | None) -> None:
        """``interceptors`` None: the file has no list, so the broker's own attributes decide."""
        self.reader: Final = reader
        self.topics: list[VirtualTopicEntry] = []
        self.composites: list[CompositeEntry] = []
        self.mirror_prefix = MIRROR_PREFIX if broker.mirrored_queues else ""
        if interceptors is None:
            self.topics = [VIRTUAL_DEFAULTS] if broker.virtual_topics else []
            return
        for interceptor in interceptors:
            if interceptor.kind.name == "mirroredQueue":
                self.mirror_prefix = interceptor.text("prefix", MIRROR_PREFIX)
                continue
            for bean in interceptor.many("virtualDestinations"):
                if bean.kind.name == "virtualTopic":
                    self._topic(bean)
                else:
                    self._composite(bean)

    def _topic(self, bean: Bean) -> None:
        entry = VirtualTopicEntry(
            name=bean.text("name", VIRTUAL_DEFAULTS.name),
            prefix=bean.text("prefix", VIRTUAL_DEFAULTS.prefix),
            postfix=bean.text("postfix", VIRTUAL_DEFAULTS.postfix),
            selective=bean.get("selectorAware", False),
        )
        if not entry.prefix and not entry.postfix:
            self.reader.error(bean, "its queues would have the name of the topic", "give a prefix or a postfix")
            return
        if destinations(self.reader, bean, entry.prefix + entry.name + entry.postfix, ANYCAST, "name"):
            self.topics.append(entry)

    def _composite(self, bean: Bean) -> None:
        topic = bean.kind.name == "compositeTopic"
        name = bean.text("name")
        places = destinations(self.reader, bean, name, MULTICAST if topic else ANYCAST, "name")
        forward_only = bean.get("forwardOnly", True)
        unmatched = bean.get("sendWhenNotMatched", False)
        if not places:
            return
        if is_pattern(name, MIXED) or len(places) > 1:
            self.reader.error(bean, f"{name!r} is not one name", "write an element for each name", "name")
            return
        forwards: list[ForwardEntry] = []
        for target in bean.many("forwardTo"):
            forwards += self._targets(target)
        if not forwards:
            self.reader.warn(bean, "it forwards to nothing", "name targets in <forwardTo>")
        self.composites.append(
            CompositeEntry(
                name=places[0].name,
                topic=topic,
                forwards=tuple(forwards),
                forward_only=forward_only,
                send_when_not_matched=unmatched,
            )
        )

    def _targets(self, bean: Bean) -> list[ForwardEntry]:
        selector = ""
        if bean.kind.name != "filteredDestination":
            places = _plain(self.reader, bean)
        else:
            selector = bean.text("selector").strip()
            places = self._filtered(bean)
            if selector:
                try:
                    compile_selector(selector)
                except InvalidSelector as error:
                    self.reader.error(bean, error.message, error.remedy, "selector")
                    return []
        for place in places:
            if is_pattern(place.name, MIXED):
                self.reader.error(bean, f"nothing can be sent to the wildcard {place.name!r}", "name one destination")
                return []
        return [ForwardEntry(target=place, selector=selector) for place in places]

    def _filtered(self, bean: Bean) -> list[Destination]:
        places: list[Destination] = []
        for name, routing in KIND_ROUTING.items():
            text = bean.text(name)
            if text:
                places += destinations(self.reader, bean, text, routing, name)
        nested = bean.one("destination")
        if nested is not None:
            places += _plain(self.reader, nested)
        if not places:
            self.reader.error(bean, "it has no destination", "give queue or topic")
        return places


def initial(reader: Reader, beans: list[Bean]) -> tuple[Destination, ...]:
    """Return the destinations that exist from the start."""
    found: list[Destination] = []
    for bean in beans:
        for place in _plain(reader, bean):
            if is_pattern(place.name, MIXED):
                reader.error(bean, f"a wildcard, {place.name!r}, cannot be made", "name each destination")
            elif place not in found:
                if place.options:
                    reader.note(bean, "options of a destination mean nothing here", "", "physicalName")
                found.append(place)
    return tuple(found)


def included(reader: Reader, beans: list[Bean]) -> tuple[IncludedDestination, ...]:
    """Return one list of a network connector."""
    found: list[IncludedDestination] = []
    for bean in beans:
        for place in _plain(reader, bean):
            durable = boolean_or(place.options.get("forceDurable", ""), False)
            if durable and not place.is_topic:
                reader.warn(bean, "forceDurable means nothing for a queue", "take it out")
            found.append(IncludedDestination(pattern=place.name, topic=place.is_topic, force_durable=durable))
    return tuple(found)


def _plain(reader: Reader, bean: Bean) -> list[Destination]:
    """Return what a ``<queue>`` or ``<topic>`` names; a temporary one is an error."""
    routing = KIND_ROUTING.get(bean.kind.name)
    name = physical_name(bean)
    if routing is None:
        reader.error(bean, "temporary destinations come and go with their connection", "use queue or topic")
        return []
    return destinations(reader, bean, name, routing, "physicalName")
