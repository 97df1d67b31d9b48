"""Limits that an operator sets while a broker runs, and that hold until it stops: memory, the disk, one address.

As the setters of ActiveMQ Classic's MBeans do (classic.md 7.4). What has to hold after a restart is said in the
configuration, or by ``addAddressSettings`` (`core/operators/amending_verbs.py`), which is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import Any, Final

from entrepot.base.errors import Refused
from entrepot.core.addressing import amending as settings
from entrepot.core.addressing.binding import Address
from entrepot.core.broker import BrokerCore
from entrepot.core.operators import words
from entrepot.core.operators.control import json_of, rows_of
from entrepot.core.operators.listing import Arguments
from entrepot.model.address import ANYCAST, MULTICAST, ROUTING_NAMES

OCTETS_MOST: Final = 1 << 60
ROUTING: Final = {ROUTING_NAMES[routing]: routing for routing in (ANYCAST, MULTICAST)}


class Limiting:
    """The verbs of ``broker`` that set them."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return them by name."""
        return {
            "setMemoryLimit": self._memory,
            "setStoreLimit": self._store,
            "setTempLimit": self._temp,
            "describeTuned": lambda given: tuned(self.broker, given.text(0, ""), rows_of(given, 1)),
        }

    def _memory(self, given: Arguments) -> None:
        """Take (octets): what all messages in memory may cost together, and what is a share of that."""
        self.broker.limit_memory(_octets(given))

    def _store(self, given: Arguments) -> None:
        """Take (octets): what may be stored, from the next look at the disk on."""
        self.broker.journal.space.limits.store = _octets(given)

    def _temp(self, given: Arguments) -> None:
        """Take (octets): what may be paged that may be lost, from the next look at the disk on."""
        self.broker.journal.space.limits.temp = _octets(given)


def tune(broker: BrokerCore, address: Address, given: Arguments) -> str:
    """Take (routing type, JSON as of ``addAddressSettings``), for this address alone; answer with what of it holds."""
    word = given.text(0).upper()
    if word not in ROUTING:
        raise words.no_type(word)
    values = settings.read(given.text(1))
    broker.policies.tune(address.name, ROUTING[word], values)
    broker.queues.regovern()
    return json_of(settings.shown(values))


def tuned(broker: BrokerCore, after: str, most: int) -> list[dict[str, Any]]:
    """Return addresses with settings of their own, and which these are, by the names and in the units of Artemis.

    By name, those behind ``after``, ``most`` rows, and the second one of an address whose first is among them.
    """
    later = (entry for entry in broker.policies.tuned.values() if entry.pattern > after)
    found = nsmallest(most + 1, later, key=lambda entry: (entry.pattern, int(entry.routing)))
    if len(found) > most and (most == 0 or found[most].pattern != found[most - 1].pattern):
        del found[most:]
    return [
        {
            "address": entry.pattern,
            "routing": ROUTING_NAMES[int(entry.routing)],
            "settings": settings.shown(entry.settings),
        }
        for entry in found
    ]


def _octets(given: Arguments) -> int:
    octets = given.number(0)
    if not 1 <= octets <= OCTETS_MOST:
        raise Refused(f"{octets} octets are no limit", remedy=f"give 1 to {OCTETS_MOST}")
    return octets
