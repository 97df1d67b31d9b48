"""Duplicate ids that another node remembered, and gave to this one with all that it had (artemis.md 1.20, step 7).

Artemis says ids as text, and those that its clients give as text are UTF-16 to it, of which the text has the zeros. A
node of ours says them as they are, in hexadecimal digits.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import Refused
from entrepot.core.addressing.routing import default_routing
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.listing import Arguments
from entrepot.core.sending.duplicates import OF_BRIDGES

AT_ONCE: Final = 500


class Remembering:
    """Notes the ids of one address, in steps: each is a record of the journal."""

    def __init__(self, broker: BrokerCore, address: str, ids: list[bytes]) -> None:
        if "\0" in address:
            raise Refused(f"{address[:40]!r} is no address")
        self.broker: Final = broker
        self.address: Final = address
        self.ids: Final = ids
        self._at = 0

    def step(self) -> bool:
        """Do a part. What is known already keeps its place."""
        broker = self.broker
        duplicates = broker.sending.duplicates
        name = self.address.removeprefix(OF_BRIDGES)
        policy = broker.sending.policies.of(name, default_routing(broker.table, name))
        until = min(self._at + AT_ONCE, len(self.ids))
        broker.journal.begin()
        try:
            for identity in self.ids[self._at : until]:
                if identity and not duplicates.seen(self.address, identity):
                    duplicates.remember(self.address, identity, policy.id_cache, True)
        finally:
            broker.journal.end()
        self._at = until
        return until == len(self.ids)

    def result(self) -> object:
        """Return nothing: it is done."""
        return None


def remember_texts(broker: BrokerCore, given: Arguments) -> Remembering:
    """Return the work of ``updateDuplicateIdCache(address, ids)``. Raises Refused."""
    return Remembering(broker, given.text(0), [_plain(one.encode("utf-8", "replace")) for one in given.texts(1)])


def remember_octets(broker: BrokerCore, given: Arguments) -> Remembering:
    """Return the work of ``rememberDuplicateIds(address, ids)``, in hexadecimal digits. Raises Refused."""
    try:
        return Remembering(broker, given.text(0), [bytes.fromhex(one) for one in given.texts(1)])
    except ValueError:
        raise Refused("a duplicate id is not in hexadecimal digits") from None


def _plain(identity: bytes) -> bytes:
    """Return the id as it is remembered here: a text without the zeros that it has as UTF-16."""
    every_other = identity[1::2]
    if len(identity) % 2 == 0 and not any(every_other) and all(identity[::2]):
        return identity[::2]
    return identity
