"""What the nodes of a cluster decided about message groups: kept, asked for and told (artemis.md 1.21).

A decision is to which queue, by its cluster name, the messages of a group go among the queues of one routing name. The
LOCAL handler decides, and keeps that in the journal; a REMOTE one proposes, and remembers what it hears. All of it is
said by notifications that every node hears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from entrepot.base.environment import Instant
from entrepot.base.primitive import INT, Primitive
from entrepot.cluster.clusters.options import GroupingOptions
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.journal.log import Waiter
from entrepot.model.address import NAME_OCTETS_MAX
from entrepot.protocols.artemis.notifying import ADDRESS, BINDING_TYPE, DISTANCE, Properties

PINS_MAX: Final = 100_000
GROUP_CHARACTERS: Final = 1_000  # of a group that the nodes agree about
KEY_CHARACTERS: Final = GROUP_CHARACTERS + 1 + NAME_OCTETS_MAX  # a group, and the routing name it is decided for
NOTES: Final = "grouping"
GROUP_ID: Final = "_JBM_ProposalGroupId"
VALUE: Final = "_JBM_ProposalValue"
OTHER_VALUE: Final = "_JBM_ProposalAltValue"
PROPOSAL: Final = "PROPOSAL"
RESPONSE: Final = "PROPOSAL_RESPONSE"
UNPROPOSAL: Final = "UNPROPOSAL"
KINDS: Final = (PROPOSAL, RESPONSE, UNPROPOSAL)

Tell = Callable[[str, Properties], None]


class Concerned(Protocol):
    """Who wants to know of decisions."""

    def decided(self, key: str) -> None:
        """It is known where ``key`` goes."""

    def undecided(self, key: str) -> None:
        """It is not known any more."""

    def say(self, what: str) -> None:
        """Tell an operator, once."""


class Pin:
    """To which queue a group goes, by its cluster name. ``used``, ``asked``: when that was last so."""

    def __init__(self, name: str, now: Instant) -> None:
        self.name: Final = name
        self.used = now
        self.asked: Final = now


class _Reaper(Alarm):
    def __init__(self, due: Instant, owner: Agreement) -> None:
        super().__init__(due)
        self._owner: Final = owner

    def ring(self, now: Instant) -> None:
        self._owner.reap()


class _Answer(Waiter):
    """Says what was decided, once that is on disk."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say: Final = say

    def stored(self, token: bytes) -> None:
        self._say()

    def store_failed(self, token: bytes, error: Exception) -> None:
        """Who asked asks again."""


class Agreement:
    """All decisions that one node knows. ``pins``: by group and routing name, the longest unused first."""

    def __init__(self, broker: BrokerCore, options: GroupingOptions, tell: Tell, concerned: Concerned) -> None:
        """``tell``: other nodes, as a notification of that type."""
        self.options: Final = options
        self.pins: dict[str, Pin] = {}
        self._broker: Final = broker
        self._tell: Final = tell
        self._concerned: Final = concerned
        if options.local:
            now = int(broker.now)
            self.pins = {key: Pin(name, now) for key, name in broker.notes.of(NOTES).items()}
        if options.local and options.forgets > 0:
            broker.timetable.add(_Reaper(int(broker.now) + options.reaper, self))

    def get(self, key: str) -> Pin | None:
        """Return what was decided about ``key``, which is used now."""
        pin = self.pins.pop(key, None)
        if pin is None:
            return None
        now = int(self._broker.now)
        forgets = self.options.forgets
        if not self.options.local and 0 < forgets < now - pin.asked:
            return None
        pin.used = now
        self.pins[key] = pin
        return pin

    def decide(self, key: str, name: str) -> bool:
        """Let ``key`` go to the queue ``name``, for good; False: that cannot be kept now."""
        if self._broker.journal.refusal() is not None:
            return False
        self._broker.notes.put(NOTES, key, name)
        self._know(key, name)
        return True

    def _know(self, key: str, name: str) -> None:
        self.pins.pop(key, None)
        while len(self.pins) >= PINS_MAX:
            self.dissolve(next(iter(self.pins)))
        self.pins[key] = Pin(name, int(self._broker.now))
        self._concerned.decided(key)

    def dissolve(self, key: str, distance: int = 0, *, tells: bool = True) -> None:
        """Forget what was decided about ``key``; who decides tells the others."""
        pin = self.pins.pop(key, None)
        self._concerned.undecided(key)
        if self.options.local and self._broker.journal.refusal() is None:
            self._broker.notes.remove(NOTES, key)
        if tells and pin is not None:
            self._say_others(UNPROPOSAL, key, pin.name, distance)

    def propose(self, key: str, name: str) -> None:
        """Ask whether ``key`` may go to the queue ``name`` (REMOTE)."""
        if not self.options.local:
            self._say_others(PROPOSAL, key, name, 0)

    def _say_others(self, kind: str, key: str, name: str, distance: int, **more: object) -> None:
        said: Properties = {
            GROUP_ID: key,
            VALUE: name,
            **more,
            BINDING_TYPE: Primitive(INT, 0),
            ADDRESS: self.options.address,
            DISTANCE: Primitive(INT, distance),
        }
        self._tell(kind, said)

    def heard(self, kind: str, said: dict[str, object]) -> None:
        """Another node proposes, decides or forgets."""
        key, name, other = said.get(GROUP_ID), said.get(VALUE), said.get(OTHER_VALUE)
        distance = said.get(DISTANCE)
        if not isinstance(key, str) or not isinstance(name, str) or not isinstance(distance, int):
            return
        if len(key) > KEY_CHARACTERS or max(len(name), len(other) if isinstance(other, str) else 0) > NAME_OCTETS_MAX:
            return  # no node of ours says such a thing: what is remembered has a size
        local = self.options.local
        if kind == UNPROPOSAL:
            known = key in self.pins
            self.dissolve(key, tells=False)
            if known or not local:
                self._say_others(UNPROPOSAL, key, name, distance + 1)
        elif kind == PROPOSAL and local:
            self._answer(key, name)
        elif kind == PROPOSAL:
            self._say_others(PROPOSAL, key, name, distance + 1)
        elif local:
            self._doubt(key, other if isinstance(other, str) else name, distance)
        else:
            self._know(key, other if isinstance(other, str) else name)
            self._say_others(RESPONSE, key, name, distance + 1, **{OTHER_VALUE: other})

    def _doubt(self, key: str, name: str, distance: int) -> None:
        """Another node has decided that ``key`` goes to ``name``, or has told on what was decided here."""
        pin = self.pins.get(key)
        if distance > 0 and (pin is None or pin.name == name):
            return
        self._concerned.say(
            "another node of the cluster has a LOCAL grouping-handler too: groups have two minds. Let one "
            "node be LOCAL, and all others REMOTE"
        )

    def _answer(self, key: str, name: str) -> None:
        """Say what is decided about ``key``: what is proposed, if nothing was."""
        known = self.get(key)
        if known is None and not self.decide(key, name):
            return  # who proposed asks again
        other = None if known is None else known.name
        self._broker.journal.confirm(
            _Answer(lambda: self._say_others(RESPONSE, key, name, 0, **{OTHER_VALUE: other})), b""
        )

    def reap(self) -> None:
        """Forget what was decided about groups that nobody used for ``group-timeout`` (LOCAL)."""
        now = int(self._broker.now)
        for key, pin in list(self.pins.items()):
            if now - pin.used <= self.options.forgets:
                break
            self.dissolve(key)
        self._broker.timetable.add(_Reaper(now + self.options.reaper, self))

    def forget(self, names: Iterable[str]) -> None:
        """The queues ``names`` are gone: what goes there is undecided."""
        gone = dict.fromkeys(names)
        for key in [key for key, pin in self.pins.items() if pin.name in gone]:
            self.dissolve(key, tells=self.options.local)
