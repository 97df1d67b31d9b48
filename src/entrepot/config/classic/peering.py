"""What an ``activemq.xml`` says about other brokers beyond its network connectors, off the beans (classic.md 6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.config.peering import AccountsEntry, ListenerEntry, Peering, Position, ReplayEntry
from entrepot.config.reading import Bean

EVERYTHING: Final = ">"
WITH_SELECTORS: Final = ("virtualSelectorCacheBrokerPlugin", "filteredDestination")


def peering(broker: Bean) -> Peering:
    """Return what ``<broker>`` says; it is asked even where this build does not obey it."""
    return Peering(
        at=_at(broker, "brokerName"),
        listeners=tuple(_listeners(broker)),
        advisories=broker.said.get("advisorySupport", True),
        chose_store=_chose_store(broker),
        selectors=any(one.name in WITH_SELECTORS for one in broker.element.walk()),
        accounts=_accounts(broker),
        replays=tuple(_replays(broker)),
    )


def _at(bean: Bean, attribute: str = "") -> Position:
    given = attribute if attribute in bean.element.attributes else ""
    return Position(bean.line(given), bean.path(given))


def _listeners(broker: Bean) -> Iterator[ListenerEntry]:
    for one in broker.many("transportConnectors"):
        if one.said.get("autoStart", True):
            yield ListenerEntry(
                name=one.said.get("name", ""),
                uri=one.said.get("uri", ""),
                at=_at(one, "uri"),
                discovery=one.said.get("discoveryUri", ""),
                audits=one.said.get("auditNetworkProducers", True),
                tells_clients=one.said.get("updateClusterClients", False),
            )
    for text in broker.said.get("transportConnectorURIs", "").split(","):
        if text.strip():
            yield ListenerEntry(name="", uri=text.strip(), at=_at(broker, "transportConnectorURIs"))


def _chose_store(broker: Bean) -> bool:
    """Say whether the directory of the store is an absolute path as written, so that a second one means a pair."""
    adapters = broker.many("persistenceAdapter", "persistenceFactory")
    bean, name = (adapters[0], "directory") if adapters else (broker, "dataDirectory")
    given = bean.element.attributes.get(name)
    return given is not None and given.text.strip().startswith("/")


def _accounts(broker: Bean) -> AccountsEntry | None:
    """Return who may connect, from the first plugin that asks."""
    for plugin in broker.many("plugins"):
        if plugin.kind.name == "simpleAuthenticationPlugin":
            return AccountsEntry(
                at=_at(plugin),
                users={one.said.get("username", ""): one.said.get("password", "") for one in plugin.many("users")},
                anonymous=plugin.said.get("anonymousAccessAllowed", False),
            )
        if plugin.kind.name.startswith("jaas"):
            return AccountsEntry(at=_at(plugin), complete=False)
    return None


def _replays(broker: Bean) -> Iterator[ReplayEntry]:
    policies = broker.one("destinationPolicy")
    for entry in [] if policies is None else policies.many("policyEntries", "entries", "defaultEntry"):
        factory = entry.one("networkBridgeFilterFactory")
        if factory is None or not factory.said.get("replayWhenNoConsumers", False):
            continue
        pattern = entry.said.get("queue", "") or (EVERYTHING if not entry.said.get("topic", "") else "")
        if pattern:
            yield ReplayEntry(pattern=pattern, audited=entry.said.get("enableAudit", True), at=_at(factory))
