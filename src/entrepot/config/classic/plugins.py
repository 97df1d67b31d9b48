"""Plugins that are neither about addresses nor about users: what is written on all messages, and statistics (7.6)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from entrepot.config.model import PluginSettings
from entrepot.config.reading import Bean
from entrepot.core.arrival import DURABLE, NOT_DURABLE

PATH_PROPERTY: Final = "BrokerPath"
SEPARATOR: Final = "/"


def plugins(beans: list[Bean]) -> PluginSettings:
    """Return what the plugins say. Of two of a kind the first counts: Classic asks the last one first."""
    found = PluginSettings()
    for bean in reversed(beans):
        match bean.kind.name:
            case "forcePersistencyModeBrokerPlugin" | "forcePersistencyModeBroker":
                durable = bean.get("persistenceFlag", False)
                found = replace(found, persistence=DURABLE if durable else NOT_DURABLE)
            case "traceBrokerPathPlugin":
                found = replace(found, path_property=bean.text("stampProperty", PATH_PROPERTY))
            case "destinationPathSeparatorPlugin":
                found = replace(found, separator=bean.text("pathSeparator", SEPARATOR))
            case "statisticsBrokerPlugin":
                found = replace(found, statistics=True)
    return found
