"""The connections over AMQP of a ``broker.xml``, and the places that they dial (artemis.md 2.8)."""

from __future__ import annotations

from typing import Any, Final

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.settings import Dialect
from entrepot.base.uri import Endpoint, parse
from entrepot.cluster.broker_connections.options import (
    AmqpConnectionEntry,
    AmqpConnectionOptions,
    Element,
    MirrorOptions,
    Way,
)
from entrepot.config.artemis.amqp_federations import federation_of
from entrepot.config.artemis.bridges import SECRETS, effective
from entrepot.config.artemis.reading import PartReader
from entrepot.config.reading import Bean

SCHEME: Final = "tcp"


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
    places = _places(reader, bean)
    mirror = _mirror(reader, bean)
    elements = _elements(reader, bean)
    federation = federation_of(reader, bean, options.name)
    if not elements and mirror is None and federation is None:
        reader.warn(bean, f"the connection {options.name!r} has no link: nothing goes over it")
    if not places:
        return None
    return AmqpConnectionEntry(
        options=options, places=tuple(places), elements=tuple(elements), mirror=mirror, federation=federation
    )


def _mirror(reader: PartReader, bean: Bean) -> MirrorOptions | None:
    """Return the mirror of a connection; what is wrong with it is a finding."""
    one = bean.one("mirror")
    if one is None:
        return None
    values = {declared.name: one.get(written) for written, declared in MirrorOptions.names(Dialect.ARTEMIS).items()}
    try:
        return MirrorOptions(**{name: value for name, value in values.items() if value is not None})
    except InvalidOption as error:
        reader.error(one, error.message, error.remedy)
        return None


def _places(reader: PartReader, bean: Bean) -> list[Endpoint]:
    """Return where ``tcp://A:5672?OPTIONS#B:5672,C:5672`` leads; none for what leads nowhere, which is a finding.

    Options are parted by ``;`` or ``&``; places behind the # have those of the first one, and their own.
    """
    text = bean.text("uri")
    if not text:
        reader.error(bean, f"the connection {bean.text('name')!r} leads nowhere", "write uri=tcp://HOST:PORT")
        return []
    first, _, others = text.partition("#")
    found: list[Endpoint] = []
    for one in (first, *(other for other in others.split(",") if other.strip())):
        written = one.strip() if "://" in one else f"{SCHEME}://{one.strip()}"
        address, mark, query = written.partition("?")
        try:
            place = parse(address + mark + query.replace(";", "&"))
            if not isinstance(place, Endpoint) or place.scheme != SCHEME:
                raise InvalidOption(f"{written!r} is no place of TCP", remedy="write tcp://HOST:PORT")
        except (InvalidURI, InvalidOption) as error:
            reader.error(bean, error.message, error.remedy, "uri")
            return []
        options = effective(place.options)
        for secret in SECRETS:
            reader.findings.hide(options.get(secret, ""))
        shared = found[0].options if found else {}
        found.append(Endpoint(place.scheme, host=place.host, port=place.port, options={**shared, **options}))
    return found


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
