"""The connections over AMQP of a ``broker.xml`` (artemis.md 2.8)."""

from __future__ import annotations

from typing import Any

from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Dialect
from entrepot.cluster.broker_connections.options import (
    AmqpConnectionEntry,
    AmqpConnectionOptions,
    Element,
    FetchOptions,
    MirrorOptions,
    Way,
)
from entrepot.config.artemis.amqp_federations import federation_of
from entrepot.config.artemis.broker_connection_places import dialled
from entrepot.config.artemis.reading import PartReader
from entrepot.config.reading import Bean

TUNNEL = "tunnel-core-messages"


def broker_connections(reader: PartReader, core: Bean) -> tuple[AmqpConnectionEntry, ...]:
    """Return what a file says of connections over AMQP; what is wrong with one is an error."""
    below = core.one("broker-connections")
    found: dict[str, AmqpConnectionEntry] = {}
    for bean in [] if below is None else below.many("amqp-connection"):
        entry = _entry(reader, bean)
        if entry is None:
            continue
        if entry.name in found:
            reader.error(bean, f"there is a connection {entry.name!r} already", "names are unique in a broker", "name")
        found[entry.name] = entry
    return tuple(found.values())


def _entry(reader: PartReader, bean: Bean) -> AmqpConnectionEntry | None:
    values: dict[str, Any] = {}
    for written, declared in AmqpConnectionOptions.names(Dialect.ARTEMIS).items():
        value = bean.get(written)
        if value is not None:
            values[declared.name] = value
    try:
        options = AmqpConnectionOptions(**values)
    except InvalidOption as error:
        reader.error(bean, error.message, error.remedy)
        return None
    reader.findings.hide(options.password)
    if not options.name:
        reader.error(bean, "a connection has no name", "operators stop and start it by its name")
        return None
    found = dialled(reader, bean)
    mirror = _mirror(reader, bean)
    elements = _elements(reader, bean)
    _look_for_credits(reader, bean, found.wire, elements)
    federation = federation_of(reader, bean, options.name, _fetching(found.wire))
    if not elements and mirror is None and federation is None:
        reader.warn(bean, f"the connection {options.name!r} has no link: nothing goes over it")
    if not found.places:
        return None
    return AmqpConnectionEntry(
        options=options,
        places=tuple(found.places),
        wire=tuple(found.wire.items()),
        elements=tuple(elements),
        mirror=mirror,
        federation=federation,
    )


def _fetching(wire: dict[str, str]) -> FetchOptions:
    """Return what the URI says of the links of a federation, where its properties say nothing."""
    names = {"amqpMinLargeMessageSize": "minLargeMessageSize", "amqpCredits": "", "amqpLowCredits": ""}
    known = {names[name] or name: text for name, text in wire.items() if name in names}
    return FetchOptions.take(known, Dialect.ARTEMIS, base=FetchOptions())[0]


def _look_for_credits(reader: PartReader, bean: Bean, wire: dict[str, str], elements: list[Element]) -> None:
    """Find links over which nothing could come."""
    if wire.get("amqpCredits") == "0" and any(one.way is not Way.SENDER for one in elements):
        what = "amqpCredits is 0: nothing could come over its receivers and peers"
        reader.error(bean, what, "write 1 at least; a <federation> pulls by a property amqpCredits of 0", "uri")


def _mirror(reader: PartReader, bean: Bean) -> MirrorOptions | None:
    """Return the mirror of a connection; what is wrong with it is a finding."""
    one = bean.one("mirror")
    if one is None:
        return None
    for each in one.many("property"):
        key = each.text("key")
        if key == TUNNEL:
            reader.note(each, f"the property {key} has no effect: messages of CORE cross as messages of AMQP")
        else:
            reader.error(each, f"there is no property {key!r} of a mirror", f"known: {TUNNEL}, which has no effect")
    values = {declared.name: one.get(written) for written, declared in MirrorOptions.names(Dialect.ARTEMIS).items()}
    try:
        return MirrorOptions(**{name: value for name, value in values.items() if value is not None})
    except InvalidOption as error:
        reader.error(one, error.message, error.remedy)
        return None


def _elements(reader: PartReader, bean: Bean) -> list[Element]:
    found: list[Element] = []
    for way in Way:
        for one in bean.many(way.value):
            pattern, queue = one.text("address-match"), one.text("queue-name")
            if bool(pattern) == bool(queue):
                what = "means nothing" if not pattern else "means a queue and a pattern"
                reader.error(one, f"the {way.value} {what}", "write address-match or queue-name")
                continue
            found.append(Element(way=way, pattern=pattern, queue=queue))
    _look_for_circles(reader, bean, found)
    return found


def _look_for_circles(reader: PartReader, bean: Bean, elements: list[Element]) -> None:
    """Warn of a queue that is sent from and filled over one connection: its messages go round and round."""
    ways: dict[tuple[str, str], Way] = {}
    for one in elements:
        other = ways.setdefault((one.pattern, one.queue), one.way)
        if other is not one.way and Way.PEER not in (other, one.way):
            meant = one.queue or one.pattern
            reader.warn(bean, f"{meant} is sent from and filled: at another broker its messages go round and round")
