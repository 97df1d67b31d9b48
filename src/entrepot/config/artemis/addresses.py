"""Addresses, their settings and diverts (artemis.md 4.1, 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from entrepot.base.errors import InvalidSelector, Refused
from entrepot.base.patterns import ARTEMIS, is_pattern
from entrepot.base.settings import Dialect
from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.transformers import headers_in
from entrepot.config.model import AddressEntry, DivertEntry, PolicyEntry
from entrepot.config.reading import Bean
from entrepot.core.addressing.address_settings import AddressSettings
from entrepot.core.addressing.configuration import FIELDS
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.predicate import compile_selector

EVERYTHING: Final = "#"
ELSEWHERE: Final = ("internal", "auto-delete", "auto-delete-delay", "auto-delete-message-count")
"""What Artemis' schema does not let a <queue> say."""
ROUTINGS: Final[Mapping[str, int]] = {"STRIP": UNTYPED, "ANYCAST": ANYCAST, "MULTICAST": MULTICAST, "PASS": UNTYPED}


def base(core: Bean) -> dict[str, Any]:
    """Return the settings of an address of which nothing is said: Artemis' defaults, and those of the whole broker."""
    found = AddressSettings.defaults_in(Dialect.ARTEMIS)
    ids = core.get("id-cache-size")
    if ids is not None:
        found["id_cache"] = max(int(ids), 0)
    if core.get("persist-delivery-count-before-delivery", False):
        found["mark_delivered"] = True  # of each further try there is a record anyway
    return found


def policies(reader: PartReader, core: Bean) -> tuple[PolicyEntry, ...]:
    """Return the settings of addresses by pattern, those of `base` among them."""
    below = core.one("address-settings")
    found: dict[str, dict[str, Any]] = {EVERYTHING: base(core)}
    markers = core.text("literal-match-markers")
    if markers and len(markers) != 2:
        reader.error(core, f"{markers!r} is no pair", "give two characters: ()", "literal-match-markers")
    literal: dict[str, dict[str, Any]] = {}
    for bean in [] if below is None else below.many("address-setting"):
        pattern = bean.text("match")
        if len(markers) == 2 and len(pattern) > 2 and pattern[0] == markers[0] and pattern[-1] == markers[1]:
            literal.setdefault(pattern[1:-1], {}).update(_settings(bean))
            continue
        if not pattern:
            reader.error(bean, "it says for no address", 'give match="#"')
            continue
        found.setdefault(pattern, {}).update(_settings(bean))
    return (
        *(PolicyEntry(pattern=pattern, settings=settings) for pattern, settings in found.items()),
        *(PolicyEntry(pattern=name, settings=settings, literal=True) for name, settings in literal.items()),
    )


def _settings(bean: Bean) -> Iterator[tuple[str, Any]]:
    for name, declared in AddressSettings.names(Dialect.ARTEMIS).items():
        value = bean.get(name)
        if value is not None:
            yield declared.name, value
    older = bean.get("last-value-queue")  # what default-last-value-queue was called
    if older is not None and bean.get("default-last-value-queue") is None:
        yield "last_value", older


def addresses(reader: PartReader, core: Bean) -> tuple[AddressEntry, ...]:
    """Return the addresses that the file names, with or without queues."""
    below = core.one("addresses")
    found: dict[str, int] = {}
    for bean in [] if below is None else below.many("address"):
        name = bean.text("name")
        if name:
            types = (1 if bean.one("multicast") else 0) | (2 if bean.one("anycast") else 0)
            found[name] = found.get(name, 0) | types
    return tuple(AddressEntry(name, types) for name, types in found.items())


def queues(reader: PartReader, core: Bean) -> tuple[tuple[Destination, ...], tuple[QueueDefinition, ...]]:
    """Return the addresses and the queues that exist from the start."""
    below = core.one("addresses")
    places: list[Destination] = []
    found: dict[str, QueueDefinition] = {}
    for bean in [] if below is None else below.many("address"):
        address = bean.text("name")
        if not address or is_pattern(address, ARTEMIS):
            reader.error(bean, f"{address!r} is no name of an address", "give name, without wildcards")
            continue
        for word, routing in (("anycast", ANYCAST), ("multicast", MULTICAST)):
            kind = bean.one(word)
            if kind is None:
                continue
            named = kind.many("queue")
            if not named:  # an address without queues: nobody has to make it
                places.append(Destination(name=address, routing=MULTICAST if routing == MULTICAST else UNTYPED))
            for queue in named:
                made = _queue(reader, queue, address, routing)
                if made.name in found:
                    reader.error(queue, f"there is a queue {made.name!r} already", "names are unique in a broker")
                    continue
                found[made.name] = made
    return tuple(places), tuple(found.values())


def _queue(reader: PartReader, bean: Bean, address: str, routing: int) -> QueueDefinition:
    said = {field: bean.get(word) for word, field in FIELDS.items() if word not in ELSEWHERE}
    definition = QueueDefinition(
        name=bean.text("name") or address,
        address=address,
        routing=routing,
        selector=filter_of(reader, bean),
        configured=True,
        **{field: value for field, value in said.items() if value is not None},
    )
    try:
        definition.check()
    except Refused as error:
        reader.error(bean, error.message, error.remedy)
    return definition


def filter_of(reader: PartReader, bean: Bean) -> str:
    """Return the selector of an element with a ``<filter>``, "" for none; a wrong one is a finding."""
    below = bean.one("filter")
    text = "" if below is None else below.text("string").strip()
    if text:
        try:
            compile_selector(text)
        except InvalidSelector as error:
            reader.error(below or bean, error.message, error.remedy, "string")
            return ""
    return text


def diverts(reader: PartReader, core: Bean) -> tuple[DivertEntry, ...]:
    """Return the standing orders."""
    below = core.one("diverts")
    found: dict[str, DivertEntry] = {}
    for number, bean in enumerate([] if below is None else below.many("divert"), 1):
        name = bean.text("name") or f"divert-{number}"
        address, forwards = bean.text("address"), _words(bean.text("forwarding-address"))
        routing = bean.text("routing-type", "STRIP").upper()
        exclusive = bool(bean.get("exclusive", False))
        selector = filter_of(reader, bean)
        if not address or not forwards:
            reader.error(bean, "it needs an address and a forwarding-address", "name both")
        elif routing not in ROUTINGS:
            reader.error(bean, f"there is no routing type {routing!r}", f"use {', '.join(ROUTINGS)}", "routing-type")
        elif name in found:
            reader.error(bean, f"there is a divert {name!r} already", "names are unique in a broker", "name")
        else:
            targets = tuple(Destination(name=one, routing=ROUTINGS[routing]) for one in forwards)
            found[name] = DivertEntry(
                name=name,
                address=address,
                targets=targets,
                exclusive=exclusive,
                selector=selector,
                passes=routing == "PASS",
                headers=headers_in(reader, bean),
            )
    return tuple(found.values())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
