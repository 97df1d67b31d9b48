"""The lines of a configuration that was read: every setting that is obeyed, with file and line, and what was left out.

They are in the order of the file. The name of a line is the same on each broker that has it: elements are told apart by
what they are called, not by how many stand before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from entrepot.base.provenance import DEFAULT, Said, Spot
from entrepot.base.settings import Dialect
from entrepot.config.findings import MASK, SECRET_NAME, Findings
from entrepot.config.ledger import Ledger, by_default, hidden, meaning, unsaid
from entrepot.config.model import BrokerConfig
from entrepot.config.reading import Bean
from entrepot.config.sources import Sources
from entrepot.config.vocabulary import Does

CONTENT: Final = "content"  # the text of an element of Artemis itself
CALLED: Final = ("name", "match", "username", "queue", "topic", "tempQueue", "tempTopic", "physicalName", "type", "id")
"""Attributes that tell one element from others of its kind, the first that is there."""
KINDS: Final = ("queue", "topic", "tempQueue", "tempTopic")
"""Of these the name tells more than the value: what is set for all queues is not for all topics."""
ADDRESSES: Final = ("policyEntry", "address-setting")
"""What these leave out is said by a wider one, so there is no default to tell."""
CORE: Final[Mapping[str, Callable[[BrokerConfig], Any]]] = {
    "name": lambda config: config.broker.name,
    "persistence-enabled": lambda config: config.broker.persistent,
    "security-enabled": lambda config: config.security.guards,
    "populate-validated-user": lambda config: config.broker.users_on_messages,
    "global-max-size": lambda config: config.usage.memory_limit,
    "max-disk-usage": lambda config: config.usage.disk_percent_max or -1,
    "min-disk-free": lambda config: config.usage.disk_free_min,
    "journal-directory": lambda config: config.store.directory,
    "journal-file-size": lambda config: config.store.segment,
    "management-address": lambda config: config.notices.management,
    "management-notification-address": lambda config: config.notices.address,
    "configuration-file-refresh-period": lambda config: config.refresh_ms,
    "connection-ttl-override": lambda config: config.serving.ttl_override_ms,
    "transaction-timeout": lambda config: config.serving.branch_ms,
    "wild-card-routing-enabled": lambda config: config.serving.wildcards,
    "reject-empty-validated-user": lambda config: config.serving.demands_user,
    "global-max-messages": lambda config: config.serving.messages_max,
}
"""What holds where a ``broker.xml`` does not say it: its declarations have no defaults of their own."""


def ledger_of(bean: Bean, config: BrokerConfig, sources: Sources) -> Ledger:
    """Return all lines of a file whose root is ``bean``. Call it when all is read: only then all secrets are known."""
    walk = _Walk(sources.findings, config.family)
    lines = list(walk.below(bean, bean.element.name, defaults=True))
    if config.family is Dialect.ARTEMIS:
        lines += _core_left_out(bean, config)
    lines += by_default(config.family)
    lines += _beside(config, sources)
    return Ledger(lines, [str(file) for file in sources.files])


def _core_left_out(core: Bean, config: BrokerConfig) -> Iterator[Said]:
    for name, read in CORE.items():
        if name not in core.texts:
            value = read(config)
            text = hidden(name, meaning(value) or str(value))
            yield Said(core.element.name, name, text, source=DEFAULT)


def _beside(config: BrokerConfig, sources: Sources) -> Iterator[Said]:
    """Yield what stands beside the broker: its zone, and where its console is."""
    if config.own.zone:
        yield Said("zone", "", config.own.zone, file=sources.file)
    if config.own.reports:
        yield Said("reports", "", config.own.reports, file=sources.file)
    for number, rule in enumerate(config.own.client_zones, 1):
        yield Said("client zones", str(number), rule, file=sources.file)
    for number, place in enumerate(() if config.console is None else config.console.places, 1):
        yield Said("console", str(number), str(place), file=place.file, line=place.line)


class _Walk:
    def __init__(self, findings: Findings, dialect: Dialect) -> None:
        self.findings: Final = findings
        self.dialect: Final = dialect

    def below(self, bean: Bean, place: str, *, defaults: bool) -> Iterator[Said]:
        """Yield what one element says, then what those in it do."""
        for name, text in bean.texts.items():
            yield self._said(bean, place, name, text)
        for slot, pairs in bean.pairs.items():
            spot = bean.spot(slot)
            for key, text in pairs.items():
                yield _line(f"{place}/{slot}", key, hidden(key, text, self.findings), "", spot)
        if defaults:
            yield from self._left_out(bean, place)
        for slot, beans in bean.slots.items():
            known: dict[str, int] = {}
            for below in beans:
                step = _step(bean, slot, below)
                known[step] = known.get(step, 0) + 1
                step = step if known[step] == 1 else f"{step}#{known[step]}"
                inner = defaults and below.kind.name not in ADDRESSES
                yield from self.below(below, f"{place}/{step}", defaults=inner)

    def _said(self, bean: Bean, place: str, name: str, text: str) -> Said:
        shown = hidden(name, text, self.findings)
        means = "" if shown == MASK else meaning(bean.values.get(name))
        spot = bean.spot("" if name == CONTENT else name)
        return _line(place, "" if name == CONTENT else name, shown, means, spot)

    def _left_out(self, bean: Bean, place: str) -> Iterator[Said]:
        for name, declared in bean.kind.attributes.items():
            known = declared.setting
            if known is None or declared.does is not Does.OBEYED:
                continue
            if name not in bean.texts and not SECRET_NAME.search(name):
                yield unsaid(place, name, known, self.dialect)


def _step(bean: Bean, slot: str, below: Bean) -> str:
    """Return how an element is called among those beside it."""
    element = below.element
    name = next((one for one in CALLED if below.texts.get(one)), "")
    called = f"{name}={below.texts[name]}" if name in KINDS else below.texts.get(name, "")
    own = f"{element.name}[{called}]" if called else element.name
    return own if element.parent is bean.element else f"{slot}/{own}"


def _line(place: str, name: str, value: str, means: str, spot: Spot) -> Said:
    return Said(place, name, value, "" if means == value else means, file=spot.file, line=spot.line)
