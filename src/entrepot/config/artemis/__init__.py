"""``broker.xml`` of Artemis to the same typed model and the same findings as Classic's files (artemis.md 8).

Nothing in the file is dropped silently: it is in the model, or there is a finding. With an error among the findings
there is no model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidConfiguration
from entrepot.base.settings import Dialect
from entrepot.config.artemis.acceptors import Acceptors
from entrepot.config.artemis.addresses import addresses, base, diverts, policies, queues
from entrepot.config.artemis.bootstrap import Bootstrap
from entrepot.config.artemis.bridges import core_bridges
from entrepot.config.artemis.broker_connections import broker_connections
from entrepot.config.artemis.elements import CORE
from entrepot.config.artemis.federations import federations
from entrepot.config.artemis.includes import Includes
from entrepot.config.artemis.masks import unmask
from entrepot.config.artemis.network_check import network_check
from entrepot.config.artemis.overrides import override
from entrepot.config.artemis.peering import peering
from entrepot.config.artemis.plugins import notified
from entrepot.config.artemis.reading import SPACES, PartReader
from entrepot.config.artemis.routers import routers
from entrepot.config.artemis.security import security, users
from entrepot.config.artemis.serving import heap, serving
from entrepot.config.artemis.sharing import sharing
from entrepot.config.artemis.stored import store
from entrepot.config.console import ConsoleSettings
from entrepot.config.findings import Severity
from entrepot.config.instructions import own_settings
from entrepot.config.lines import ledger_of
from entrepot.config.model import (
    BrokerConfig,
    BrokerSettings,
    NoticeOptions,
    UsageOptions,
)
from entrepot.config.reading import Bean, Reading
from entrepot.config.sources import Sources
from entrepot.config.xml import Element
from entrepot.core.operators.rbac import PREFIX, VIEWS
from entrepot.core.security.access import MANAGEMENT, NOTIFICATIONS

REFRESH_MS: Final = 5000
NO_CORE: Final = "there is no <core> in this file"


def belongs(root: Element) -> bool:
    """Say whether a file is one of Artemis."""
    return root.name in ("configuration", "core") and root.space in SPACES


def interpret(
    root: Element,
    sources: Sources,
    *,
    spoken: Collection[str],
    properties: Sequence[Path] = (),
    bootstrap: Bootstrap | None = None,
) -> Reading:
    """Make the model of a file that is parsed already. ``properties``: files of broker properties; they win.

    ``bootstrap``: the file that names this one; without it the one beside it is looked for.
    """
    findings = sources.findings
    Includes(sources).resolve(root, Path(sources.file))
    cores = [root] if root.name == "core" else root.named("core")
    for child in root.children if root.name != "core" else ():
        if child.name != "core":
            what = f"<{child.name}> beside <core> is not read"
            findings.add(Severity.WARNING, sources.file, child.line, child.path, what, "take it out")
    if len(cores) != 1:
        what = NO_CORE if not cores else "there are two <core>"
        findings.add(Severity.ERROR, sources.file, root.line, root.path, what, "its name space is urn:activemq:core")
        return Reading(None, findings)
    override(cores[0], sources, properties)
    unmask(cores[0], sources)
    reader = PartReader(sources)
    core = reader.part(CORE, cores[0])
    if bootstrap is None:
        bootstrap = _beside(reader, core)
    config = replace(_config(reader, core, spoken, bootstrap), own=own_settings(root, sources))
    if bootstrap is not None:
        config = replace(config, console=_console(reader, core, bootstrap))
    config = replace(config, ledger=ledger_of(core, config, sources))
    return Reading(None if findings.errors else config, findings, None, config, tuple(sources.files))


def _beside(reader: PartReader, core: Bean) -> Bootstrap | None:
    """Return the ``bootstrap.xml`` in the directory of the file."""
    try:
        return Bootstrap.beside(reader.sources.file)
    except InvalidConfiguration as error:
        file = error.file or reader.sources.file
        reader.findings.add(Severity.ERROR, file, error.line, "", error.message, error.remedy)
        return None


def _console(reader: PartReader, core: Bean, bootstrap: Bootstrap) -> ConsoleSettings | None:
    asked = bool(core.get("security-enabled", True))
    return bootstrap.console(reader.sources, None if asked else users)


def _config(reader: PartReader, core: Bean, spoken: Collection[str], bootstrap: Bootstrap | None) -> BrokerConfig:
    persistent = bool(core.get("persistence-enabled", True))
    places, made = queues(reader, core)
    memory = heap(reader, core)
    others = peering(core.element, reader.sources)
    others = replace(others, routers=routers(reader, core, others))
    return BrokerConfig(
        refresh_ms=_refresh(reader, core),
        serving=serving(reader, core),
        addresses=addresses(reader, core),
        notices=NoticeOptions(
            address=core.text("management-notification-address") or NOTIFICATIONS,
            sessions=not core.get("suppress-session-notifications", False),
            kinds=notified(reader, core),
            management=core.text("management-address") or MANAGEMENT,
            guarded=_guarded(core),
            views=_views(reader, core),
        ),
        broker=BrokerSettings(
            name=core.text("name") or "localhost",
            persistent=persistent,
            scheduler=True,
            users_on_messages=bool(core.get("populate-validated-user", False)),
        ),
        usage=_usage(reader, core, memory),
        store=store(reader, core, persistent),
        connectors=Acceptors(reader, spoken).read(core),
        policies=policies(reader, core),
        base=base(core),
        destinations=places,
        queues=made,
        diverts=diverts(reader, core),
        virtual_topics=(),
        sharing=sharing(reader, core) if persistent else None,
        network_check=network_check(reader, core),
        security=security(reader, core, bootstrap),
        family=Dialect.ARTEMIS,
        peering=others,
        core_bridges=core_bridges(reader, core, others),
        federations=federations(reader, core, others),
        amqp_connections=broker_connections(reader, core),
    )


def _guarded(core: Bean) -> str:
    """Return before which word each operation of management takes a right, "" for none does."""
    prefix = core.text("management-rbac-prefix") or PREFIX
    return prefix if core.get("management-message-rbac", False) else ""


def _views(reader: PartReader, core: Bean) -> str:
    """Return which methods of management only look."""
    text = core.text("view-permission-method-match-pattern") or VIEWS
    try:
        re.compile(text)
    except re.error as error:
        reader.error(core, f"it is no pattern: {error}", "", "view-permission-method-match-pattern")
        return VIEWS
    return text


def _refresh(reader: PartReader, core: Bean) -> int:
    """Return how often the files are looked at for changes, ms; 0 for never."""
    return max(int(core.get("configuration-file-refresh-period", REFRESH_MS)), 0)


def _usage(reader: PartReader, core: Bean, memory: int) -> UsageOptions:
    """Return the limits of memory and disk. Artemis takes 90 % where max-disk-usage is not given; here that is none."""
    percent, free = int(core.get("max-disk-usage", -1)), int(core.get("min-disk-free", -1))
    if percent > 100 or percent == 0:
        reader.error(core, f"{percent} is no percentage of a disk", "use 1 to 100, or -1 for none", "max-disk-usage")
        percent = -1
    return UsageOptions(
        memory_limit=memory, disk_percent_max=percent if 0 < percent < 100 else 0, disk_free_min=max(free, 0)
    )
