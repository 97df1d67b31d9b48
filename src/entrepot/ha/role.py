"""Which part a broker of a pair plays, and what it has to do when that changes. All transitions are in one table.

The order of the effects is the safety of the pair, so it is data as well: a broker that stops closes its ports and its
journal **before** it releases the lease; one that lost the lease stops confirming **before** it does anything else,
and never writes to the store again. Effects are carried out in order, each to its end, by whoever gave the signal.

A pair of state and signal that is not in the table is a bug of the shell: `Fault`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from entrepot.base.errors import Fault


class Role(Enum):
    """What this broker is to its store."""

    BACKUP = "backup"  # waits for the lease; has no port open and nothing of the store in memory
    ACTIVATING = "activating"  # has the lease, recovers the store
    PRIMARY = "primary"  # serves
    DRAINING = "draining"  # gives all that it took over to another broker, and serves nobody
    STOPPING = "stopping"  # serves no more, still has the lease
    FENCED = "fenced"  # lost the lease: another broker may serve
    STOPPED = "stopped"


class Signal(Enum):
    """What happens to it."""

    WON = "won"  # the lease is ours
    RECOVERED = "recovered"  # the store is read back
    DRAINS = "drains"  # it is read back, and goes to another broker
    FAILED = "failed"  # the store cannot be used, or not any more
    LOST = "lost"  # the lease is not ours any more, or might not be
    STOP = "stop"  # the operator wants it to end
    DONE = "done"  # the effects of the last transition are carried out


class Effect(Enum):
    """What to do about it, in this order."""

    OPEN_STORE = "open store"
    OPEN_PORTS = "open ports"
    STOP_CONFIRMING = "stop confirming"
    CLOSE_PORTS = "close ports"
    CLOSE_STORE = "close store"
    ABANDON_STORE = "abandon store"  # let go of it without another write
    RELEASE = "release"
    WITHDRAW = "withdraw"  # wait for the lease no longer
    REJOIN = "rejoin"  # become a backup, from the beginning


_HAND_OVER: Final = (Effect.CLOSE_PORTS, Effect.CLOSE_STORE, Effect.RELEASE)
_FENCE: Final = (Effect.STOP_CONFIRMING, Effect.CLOSE_PORTS, Effect.ABANDON_STORE)

TRANSITIONS: Final[Mapping[tuple[Role, Signal], tuple[Role, tuple[Effect, ...]]]] = {
    (Role.BACKUP, Signal.WON): (Role.ACTIVATING, (Effect.OPEN_STORE,)),
    (Role.BACKUP, Signal.STOP): (Role.STOPPED, (Effect.WITHDRAW,)),
    (Role.BACKUP, Signal.FAILED): (Role.STOPPED, (Effect.WITHDRAW,)),
    (Role.ACTIVATING, Signal.RECOVERED): (Role.PRIMARY, (Effect.OPEN_PORTS,)),
    (Role.ACTIVATING, Signal.DRAINS): (Role.DRAINING, ()),
    (Role.ACTIVATING, Signal.LOST): (Role.FENCED, _FENCE),
    (Role.ACTIVATING, Signal.FAILED): (Role.STOPPING, _HAND_OVER),
    (Role.ACTIVATING, Signal.STOP): (Role.STOPPING, _HAND_OVER),
    (Role.PRIMARY, Signal.LOST): (Role.FENCED, _FENCE),
    (Role.PRIMARY, Signal.FAILED): (Role.STOPPING, _HAND_OVER),
    (Role.PRIMARY, Signal.STOP): (Role.STOPPING, _HAND_OVER),
    (Role.DRAINING, Signal.LOST): (Role.FENCED, _FENCE),
    (Role.DRAINING, Signal.FAILED): (Role.STOPPING, _HAND_OVER),
    (Role.DRAINING, Signal.STOP): (Role.STOPPING, _HAND_OVER),
    (Role.STOPPING, Signal.LOST): (Role.STOPPED, _FENCE),
    (Role.STOPPING, Signal.STOP): (Role.STOPPING, ()),
    (Role.STOPPING, Signal.FAILED): (Role.STOPPING, ()),
    (Role.STOPPING, Signal.DONE): (Role.STOPPED, ()),
    (Role.FENCED, Signal.LOST): (Role.FENCED, ()),
    (Role.FENCED, Signal.FAILED): (Role.FENCED, ()),
    (Role.FENCED, Signal.STOP): (Role.STOPPED, ()),
    (Role.FENCED, Signal.DONE): (Role.BACKUP, (Effect.REJOIN,)),
    (Role.STOPPED, Signal.LOST): (Role.STOPPED, ()),
    (Role.STOPPED, Signal.STOP): (Role.STOPPED, ()),
    (Role.STOPPED, Signal.FAILED): (Role.STOPPED, ()),
    (Role.STOPPED, Signal.DONE): (Role.STOPPED, ()),
}


class RoleCore:
    """One broker's part. ``role`` is changed by `signal` alone; ``story`` keeps how it came about."""

    def __init__(self) -> None:
        self.role = Role.BACKUP
        self.story: list[tuple[Role, Signal, Role]] = []

    def signal(self, signal: Signal) -> tuple[Effect, ...]:
        """Take one signal and return what to do, in order. Raises Fault when it cannot come now."""
        known = TRANSITIONS.get((self.role, signal))
        if known is None:
            raise Fault(f"a broker that is {self.role.value} was told {signal.value!r}")
        role, effects = known
        if role is not self.role:
            self.story.append((self.role, signal, role))
        self.role = role
        return effects

    @property
    def confirming(self) -> bool:
        """Say whether this broker may confirm anything: what was on disk while it stopped was promised, too."""
        return self.role in (Role.PRIMARY, Role.DRAINING, Role.STOPPING)

    @property
    def ended(self) -> bool:
        """Say whether the broker serves no more and will not by itself."""
        return self.role in (Role.FENCED, Role.STOPPED)
