"""What a configuration says about bridges, as the cores want it: lists of destinations, and what may go back."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.patterns import MIXED, matches, specificity
from entrepot.cluster.networks.lists import Included, Lists
from entrepot.cluster.networks.options import BridgeFilterOptions
from entrepot.config.model import BrokerConfig, IncludedDestination, NetworkConnector
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED


def lists_of(connector: NetworkConnector) -> Lists:
    """Return the three lists of a network connector."""
    return Lists(
        _included(connector.excluded),
        _included(connector.dynamically_included),
        _included(connector.statically_included),
    )


def _included(entries: tuple[IncludedDestination, ...]) -> tuple[Included, ...]:
    return tuple(Included(one.pattern, one.topic, one.force_durable) for one in entries)


def no_filters(name: str, topic: bool) -> BridgeFilterOptions | None:
    """Nothing may go back anywhere."""
    return None


def bridge_filters(config: BrokerConfig) -> Callable[[str, bool], BridgeFilterOptions | None]:
    """Return what says for a queue or topic what may go back; the closest pattern that has a filter counts."""
    entries = [one for one in config.policies if one.bridge is not None]
    entries.sort(key=lambda one: specificity(one.pattern, MIXED), reverse=True)

    def filters(name: str, topic: bool) -> BridgeFilterOptions | None:
        for one in entries:
            if one.routing in (UNTYPED, MULTICAST if topic else ANYCAST) and matches(one.pattern, name, MIXED):
                return one.bridge
        return None

    return filters
