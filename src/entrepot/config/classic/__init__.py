"""``activemq.xml`` to one typed model and a list of findings (classic.md 8).

Nothing in the file is dropped silently: it is in the model, or there is a finding. With an error among the findings
there is no model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.config.classic.connectors import Connectors
from entrepot.config.classic.destinations import Virtual, initial
from entrepot.config.classic.lockers import sharing
from entrepot.config.classic.peering import peering
from entrepot.config.classic.plugins import plugins
from entrepot.config.classic.policies import PolicyReader
from entrepot.config.classic.policy_elements import ELSEWHERE, KINDS
from entrepot.config.classic.security import ask_for_certificates, security
from entrepot.config.classic.spring import Surroundings
from entrepot.config.classic.stores import store, usage
from entrepot.config.console import strangers
from entrepot.config.findings import Findings, Severity
from entrepot.config.instructions import own_settings
from entrepot.config.lines import ledger_of
from entrepot.config.model import BrokerConfig, BrokerSettings
from entrepot.config.reading import Bean, Reader, Reading
from entrepot.config.sources import Decrypt, Sources
from entrepot.config.xml import Element, parse

SPACES: Final = ("http://activemq.apache.org/schema/core", "http://activemq.org/config/1.0", "")
SPRING_SPACES: Final = ("http://www.springframework.org/schema/beans", "http://activemq.org/config/1.0", "")


def read(
    path: Path,
    *,
    spoken: Collection[str],
    bridges: bool = False,
    defines: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    decrypt: Decrypt | None = None,
) -> Reading:
    """Read a file. ``spoken``: protocols of this build; ``bridges``: whether it runs network connectors.

    ``defines`` and ``environment`` fill placeholders, see `config/sources.py`. Raises InvalidConfiguration for a file
    that cannot be read at all, or is not XML.
    """
    findings = Findings()
    sources = Sources(findings, defines=defines, environment=environment, decrypt=decrypt)
    return interpret(parse(sources.open(path), str(path)), sources, spoken=spoken, bridges=bridges)


def interpret(root: Element, sources: Sources, *, spoken: Collection[str], bridges: bool = False) -> Reading:
    """Make the model of a file that is parsed already."""
    findings = sources.findings
    surroundings = Surroundings(sources, findings)
    element = _broker(root, sources, surroundings)
    if element is None:
        return Reading(None, findings)
    reader = Reader(KINDS, ELSEWHERE, SPACES, sources, findings)
    bean = reader.bean(KINDS["broker"], element)
    assert bean is not None, "a broker is obeyed"
    config = replace(_config(reader, bean, spoken, bridges), own=own_settings(root, sources))
    config = replace(config, console=surroundings.console())
    _say_strangers(config, findings)
    ask_for_certificates(reader, bean.many("plugins"), config)
    config = replace(config, ledger=ledger_of(bean, config, sources))
    return Reading(None if findings.errors else config, findings, bean, config)


def _say_strangers(config: BrokerConfig, findings: Findings) -> None:
    """Name the users of the console whom the broker does not know: it is asked as who logged in."""
    console = config.console
    if console is None or console.realm is None:
        return
    for name in strangers(console.realm, config.security):
        what = f"the console's user {name!r} is not one of the broker's, or has another password there: he sees nothing"
        remedy = "give the broker that user too: the console asks it as who logged in"
        findings.add(Severity.WARNING, console.file, console.line, console.path, what, remedy)


def _broker(root: Element, sources: Sources, surroundings: Surroundings) -> Element | None:
    """Return the one broker of the file; None, and an error, where there is none. Reads what stands around it."""
    findings = sources.findings
    if root.name == "broker" and root.space in SPACES:
        return root
    if root.name != "beans" or root.space not in SPRING_SPACES:
        what = f"<{root.name}> is not a configuration of ActiveMQ Classic"
        findings.add(Severity.ERROR, sources.file, root.line, root.path, what, "give a file with <beans> and <broker>")
        return None
    brokers: list[Element] = []
    for child in root.children:
        if child.name == "broker" and child.space in SPACES:
            brokers.append(child)
        else:
            surroundings.read(child)
    for extra in brokers[1:]:
        what = "there is a broker in this file already: one process runs one"
        findings.add(Severity.ERROR, sources.file, extra.line, extra.path, what, "put it into a file of its own")
    if not brokers:
        what = "there is no <broker> in this file"
        remedy = f"its name space is {SPACES[0]}"
        findings.add(Severity.ERROR, sources.file, root.line, root.path, what, remedy)
        return None
    return brokers[0]


def _config(reader: Reader, bean: Bean, spoken: Collection[str], bridges: bool) -> BrokerConfig:
    try:
        settings = bean.options(BrokerSettings)
    except InvalidOption as error:
        reader.error(bean, error.message, error.remedy)
        settings = BrokerSettings()
    limits = usage(reader, bean.one("systemUsage"), reader.sources)
    interceptors = bean.many("destinationInterceptors") if "destinationInterceptors" in bean.slots else None
    virtual = Virtual(reader, settings, interceptors)
    connectors = Connectors(reader, reader.sources, spoken, bean.one("sslContext"))
    policies = PolicyReader(reader, settings, limits)
    return BrokerConfig(
        broker=settings,
        usage=limits,
        store=store(reader, bean, settings),
        connectors=connectors.transports(bean),
        policies=policies.entries(bean.one("destinationPolicy"), bean.many("plugins")),
        destinations=initial(reader, bean.many("destinations")),
        virtual_topics=tuple(virtual.topics),
        composites=tuple(virtual.composites),
        mirror_prefix=virtual.mirror_prefix,
        plugins=plugins(bean.many("plugins")),
        networks=connectors.networks(bean, run=bridges),
        sharing=sharing(reader, bean, settings),
        security=security(reader, bean.many("plugins")),
        peering=peering(bean),
    )


__all__ = ["InvalidConfiguration", "Reading", "interpret", "read"]
