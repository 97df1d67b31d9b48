"""What a node that gives all away tells the other one at the end: the duplicate ids of its producers (artemis.md 1.20).

So a producer that goes there, and asks again for what this node had taken, is answered right. Ids go in portions, each
answered before the next, the oldest first, so that the same are forgotten there first. A node of ours is told them as
they are; an Artemis as the texts that it makes of ids: one that a client gave as text is UTF-16 there. Which it was is
not known here, so it is told both. What is no text cannot be said to it, and with it the ids of bridges.

What another node of the cluster sent here has the number that it has there, and goes under the same one to each node
where it is wanted. So it is not told: the other one would take its own copy of the message, which it has yet to get,
for a repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from entrepot.base.environment import KIB
from entrepot.cluster.clusters.asking import Asking
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.duplicates import OF_BRIDGES
from entrepot.model.ids import NUMBERED_OCTETS

AT_ONCE: Final = 500  # ids
OCTETS_AT_ONCE: Final = 4 * KIB  # of ids: a request has 16 times that at most, which is no large message


class Remembered:
    """Of one connection. ``told``: ids that the other one has; ``refused``: why it takes none; ``unsaid``: no texts."""

    def __init__(self, broker: BrokerCore, asking: Asking, *, ours: bool) -> None:
        """``ours``: the other one is no Artemis."""
        self.told = 0
        self.unsaid = 0
        self.refused = ""
        self.done = False
        self._asking: Final = asking
        self._ours: Final = ours
        self._broker: Final = broker
        self._had: Final[dict[str, dict[bytes, None]]] = {}  # by address: looked at already
        self._portions = self._cut()
        self._go_on()

    def more(self) -> bool:
        """Tell what came since; return whether there was any. Producers go on while ids are told."""
        if self.refused:
            return False
        self.done = False
        self._portions = self._cut()
        self._go_on()
        return not self.done

    def _cut(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield each address with some of its ids that were not told yet. What comes meanwhile is for `more`."""
        broker = self._broker
        seen = [(address, list(one.ids)) for address, one in broker.sending.duplicates.addresses.items()]
        for address, ids in seen:
            portion: list[bytes] = []
            octets = 0
            had = self._had.get(address, {})
            self._had[address] = dict.fromkeys(ids)  # what is forgotten here is forgotten there
            for one in ids:
                if one in had:
                    continue
                if len(one) == NUMBERED_OCTETS and address.startswith(OF_BRIDGES):  # of a node: no mark behind it
                    continue
                if len(one) > OCTETS_AT_ONCE:
                    self.unsaid += 1
                    continue
                if len(portion) == AT_ONCE or octets + len(one) > OCTETS_AT_ONCE:
                    yield address, portion
                    portion, octets = [], 0
                portion.append(one)
                octets += len(one)
            if portion:
                yield address, portion

    def _go_on(self) -> None:
        for address, ids in self._portions:
            said = [one.hex() for one in ids] if self._ours else self._texts(address, ids)
            if said:
                name = "rememberDuplicateIds" if self._ours else "updateDuplicateIdCache"
                self._asking.operation("broker", name, [address, said], self._answered_for(len(ids)))
                return
        self.done = True

    def _answered_for(self, count: int) -> Callable[[bool, object], None]:
        def answered(succeeded: bool, value: object) -> None:
            if succeeded:
                self.told += count
                self._go_on()
            else:
                self.refused = str(value)
                self.done = True

        return answered

    def _texts(self, address: str, ids: list[bytes]) -> list[str]:
        said: list[str] = []
        for one in ids:
            text = "" if address.startswith(OF_BRIDGES) else _text(one)
            if text:
                said += [text, "".join(f"{character}\0" for character in text)]
            else:
                self.unsaid += 1
        return said


def _text(identity: bytes) -> str:
    """Return an id as plain text, "" for one that is none."""
    return identity.decode("ascii") if identity.isascii() and b"\0" not in identity else ""
