"""Addresses, their settings and diverts (artemis.md 4.1, 4.2, 4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from entrepot.base.errors import InvalidOption, InvalidSelector
from entrepot.base.patterns import ARTEMIS, is_pattern
from entrepot.config.artemis.reading import PartReader
from entrepot.config.model import DivertEntry, PolicyEntry, QueueEntry
from entrepot.config.reading import Bean
from entrepot.config.vocabulary import LOOSE, Dialect, Unit
from entrepot.core.policy import SETTINGS, Policy, apply
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.predicate import compile_selector

EVERYTHING: Final = "#"
ROUTINGS: Final[Mapping[str, int]] = {"STRIP": UNTYPED, "ANYCAST": ANYCAST, "MULTICAST": MULTICAST, "PASS": UNTYPED}

DEFAULTS: Final[Mapping[str, str]] = {
    "max_octets": "-1",
    "full": "PAGE",
    "block_ms_max": "0",
    "prioritized": "true",
    "max_deliveries": "10",
    "redelivery_delay": "0",
    "redelivery_delay_first": "-1",
    "redelivery_jitter": "0.0",
    "redelivery_multiplier": "1.0",
    "redelivery_delay_max": "-1",  # ten times the delay
    "nack_redelivers": "false",
    "dead_letter_address": "",
    "dead_letter_individual": "false",
    "dead_letter_prefix": "DLQ.",
    "dead_letter_topic_prefix": "DLQ.",
    "dead_letter_suffix": "",
    "dead_letter_topic_suffix": "",
    "dead_letter_expiry_ms": "0",
    "dead_letter_non_persistent": "true",
    "dead_letter_expired": "false",
    "expiry_address": "",
    "expiry_ms": "-1",
    "expiry_ms_min": "-1",
    "expiry_ms_max": "-1",
    "auto_create": "true",
    "auto_delete": "true",
    "auto_delete_delay": "0",
    "exclusive": "false",
    "strict_order": "false",
    "group_buckets": "-1",
    "group_rebalance": "false",
    "consumers_before_dispatch": "0",
    "delay_before_dispatch": "-1",
    "max_consumers": "-1",
    "queue_prefetch": "1000",
    "id_cache": "20000",
    "slow_after": "-1",
    "slow": "NOTIFY",
}
"""Those of Artemis, where it has any; the rest has no name there and keeps its own."""

_OF_ARTEMIS: Final = {setting.artemis: setting for setting in SETTINGS if setting.artemis}


def policies(reader: PartReader, core: Bean) -> tuple[PolicyEntry, ...]:
    """Return the settings of addresses by pattern, Artemis' defaults among them."""
    below = core.one("address-settings")
    found: dict[str, dict[str, str]] = {EVERYTHING: dict(DEFAULTS)}
    for bean in [] if below is None else below.many("address-setting"):
        pattern = bean.text("match")
        if not pattern:
            reader.error(bean, "it says for no address", 'give match="#"')
            continue
        found.setdefault(pattern, {}).update(_settings(reader, bean))
    return tuple(PolicyEntry(pattern=pattern, settings=settings) for pattern, settings in found.items())


def _settings(reader: PartReader, bean: Bean) -> Iterator[tuple[str, str]]:
    for name, setting in _OF_ARTEMIS.items():
        text = bean.text(name)
        if name not in bean.texts:
            continue
        try:
            if setting.kind == "octets":
                text = str(LOOSE[Unit.OCTETS].parse(text, Dialect.ARTEMIS))
            elif setting.kind in ("ms", "ns-ms"):
                text = str(LOOSE[Unit.MILLISECONDS].parse(text, Dialect.ARTEMIS))
            apply(Policy(), setting.name, text)
        except InvalidOption as error:
            reader.error(bean, error.message, error.remedy, name)
            continue
        yield setting.name, text


def queues(reader: PartReader, core: Bean) -> tuple[tuple[Destination, ...], tuple[QueueEntry, ...]]:
    """Return the addresses and the queues that exist from the start."""
    below = core.one("addresses")
    places: list[Destination] = []
    found: dict[str, QueueEntry] = {}
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
            if routing == MULTICAST and not named:
                places.append(Destination(name=address, routing=MULTICAST))
            for queue in named:
                made = _queue(reader, queue, address, routing)
                if made.name in found:
                    reader.error(queue, f"there is a queue {made.name!r} already", "names are unique in a broker")
                    continue
                found[made.name] = made
    return tuple(places), tuple(found.values())


def _queue(reader: PartReader, bean: Bean, address: str, routing: int) -> QueueEntry:
    name = bean.text("name") or address
    durable = bool(bean.get("durable", True))
    return QueueEntry(name=name, address=address, routing=routing, durable=durable, selector=_filter(reader, bean))


def _filter(reader: PartReader, bean: Bean) -> str:
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
        selector = _filter(reader, bean)
        if not address or not forwards:
            reader.error(bean, "it needs an address and a forwarding-address", "name both")
        elif routing not in ROUTINGS:
            reader.error(bean, f"there is no routing type {routing!r}", f"use {', '.join(ROUTINGS)}", "routing-type")
        elif name in found:
            reader.error(bean, f"there is a divert {name!r} already", "names are unique in a broker", "name")
        else:
            if routing == "PASS":
                what = "routing-type PASS is not done here: what is forwarded goes to any queue of the address"
                reader.warn(bean, what, "name ANYCAST or MULTICAST", "routing-type")
            targets = tuple(Destination(name=one, routing=ROUTINGS[routing]) for one in forwards)
            found[name] = DivertEntry(
                name=name, address=address, targets=targets, exclusive=exclusive, selector=selector
            )
    return tuple(found.values())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
