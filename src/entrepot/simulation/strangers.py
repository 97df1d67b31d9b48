"""Who connects to a simulated primary and does not belong to it: what is refused, why, and that nothing comes of it.

A stranger is made of a member's files, each with another octet, and of a file that nobody has; and of one fact that
must keep it out: another store, a group of its own, a second owner, a history that is longer than the primary's, the
copy of the primary itself. Some have no such fact, and are let in: a primary that refused everybody would be no better.
What a stranger says is said by the product (`Replica.greeting`, `fitting.identity`), as is what it is answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.ha.fitting import identity
from entrepot.ha.replica import Replica, Store
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import Standing
from entrepot.ha.stream import HELLO, REFUSED, Frames, greeting
from entrepot.journal.index import segment_name
from entrepot.simulation.copies import Copy, Primary, Scene
from entrepot.simulation.process_disk import ProcessDisk
from entrepot.simulation.wires import End, Network

OWN: Final = segment_name(1, 9, 1, 0)

FOREIGN: Final = "has another store"
UNKNOWN: Final = "was never replicated"
AHEAD: Final = "has a longer history"
BY_HAND: Final = "is a copy by hand"
GROUPED: Final = "is of another group"
OWNING: Final = "is a second owner"
OTHERWISE: Final = "speaks another layout"
FITS: Final = "fits"

REASONS: Final[Mapping[str, str]] = {
    FOREIGN: "has a store of its own",
    UNKNOWN: "never replicated",
    AHEAD: "has seen epoch",
    BY_HAND: "made by hand",
    GROUPED: "they are no pair",
    OWNING: "both configured as the primary",
    OTHERWISE: "speaks layout",
}
"""What keeps a stranger out -> what it must be told."""


class Stranger(Store):
    """One that connects to ``primary``, once, and leaves when it has its answer."""

    def __init__(self, strangers: Strangers, primary: Primary, number: int) -> None:
        self.all: Final = strangers
        self.primary: Final = primary
        self.name: Final = f"stranger{number}"
        lots = strangers.lots
        kinds = [FITS, *REASONS]
        if not primary.replication.options.owns:
            kinds.remove(OWNING)  # where nobody owns the store, an owner is welcome
        self.kind: Final = lots.one_of(kinds)
        self.disk: Final = ProcessDisk(lots, strangers.scene.world.later)
        self.standing: Final = self._standing()
        if self.kind not in (FITS, GROUPED, OWNING):
            self._fill()
        self.before: Final = self._facts()
        self._frames: Final = Frames()
        self._answered = False
        self._dial()

    def _standing(self) -> Standing:
        epoch = self.primary.epoch
        copy = self.primary.copy.standing.copy if self.kind == BY_HAND else f"copy of {self.name}"
        store = {FOREIGN: "elsewhere", UNKNOWN: "", FITS: "", GROUPED: "", OWNING: ""}.get(self.kind, "store")
        standing = Standing(copy, store=store)
        if store:
            standing.followed = epoch + self.all.lots.between(1, 9) if self.kind == AHEAD else max(1, epoch - 1)
            standing.epochs = [standing.followed]
        return standing

    def _fill(self) -> None:
        medium = self.disk.medium
        of = self.all.lots.one_of(self.all.scene.copies).disk.medium
        medium.durable = {name: bytearray(content) for name, content in of.durable.items()}
        for content in medium.durable.values():
            if content:
                content[self.all.lots.below(len(content))] ^= 1
        medium.durable[OWN] = bytearray(b"what nobody else has")
        medium.show()

    def _facts(self) -> tuple[dict[str, bytes], dict[str, object]]:
        files = {name: bytes(content) for name, content in self.disk.medium.view.items()}
        return files, self.standing.facts()

    def _dial(self) -> None:
        near, far = End(self.name), End(self.primary.copy.name)
        wire = self.all.network.connect(near, far)
        self.primary.welcome(wire, far)
        near.take = self._take
        replica = Replica(self.disk, self.standing, self, lambda octets: wire.send(self.name, octets), _never)
        facts = replica.greeting(self.name)
        facts.update(identity(self._options()))
        if self.kind == OTHERWISE:
            facts["layout"] = int(facts["layout"]) + 1
        wire.send(self.name, greeting(HELLO, facts))
        self.all.scene.world.later(SECOND, lambda: wire.close(self.name))

    def _options(self) -> ReplicationOptions:
        group = self.primary.replication.options.group
        return ReplicationOptions(group=f"not {group}" if self.kind == GROUPED else group, owns=self.kind == OWNING)

    def _take(self, octets: bytes) -> None:
        frames = self._frames.feed(octets)
        if self._answered or not frames:
            return
        self._answered = True
        world, first = self.all.scene.world, frames[0]
        world.count(f"strangers: {self.kind}")
        told = first.octets.decode(errors="replace") if first.kind == REFUSED else ""
        wanted = REASONS.get(self.kind, "")
        if bool(told) != bool(wanted):
            who = f"{self.name}, which {self.kind},"
            world.violation(f"{who} is {'refused: ' + told if told else 'let in'} by {self.primary.copy.name}")
        elif wanted and not (wanted in told and self.name in told):
            world.violation(f"{self.name}, which {self.kind}, is told: {told}")

    def judge(self) -> None:
        """See that it has what it had, and is nobody who may take over."""
        world, record = self.all.scene.world, self.all.scene.service.record
        if self._facts() != self.before:
            world.violation(f"{self.name}, which {self.kind}, has lost what it had")
        copy = self.standing.copy
        if self.kind != BY_HAND and record is not None and copy in record.eligible:
            world.violation(f"{self.name}, which {self.kind}, may take over")


class Strangers:
    """Sends one now and then, on wires of its own: what members draw stays what it was."""

    def __init__(self, scene: Scene) -> None:
        self.scene: Final = scene
        self.lots: Final = scene.world.lots("strangers")
        self.network: Final = Network(scene.world, self.lots)
        self._met: list[Stranger] = []
        self._next()

    def _next(self) -> None:
        self.scene.world.later(self.lots.between(100 * MILLISECOND, 3 * SECOND), self._come)

    def _come(self) -> None:
        serving = [each.primary for each in self.scene.copies if _can_answer(each) and each.primary is not None]
        if serving and self.scene.producing:
            self._met.append(Stranger(self, self.lots.one_of(serving), len(self._met)))
        self._next()

    def judge(self) -> None:
        """See that nothing came of any of them."""
        for each in self._met:
            each.judge()


def _can_answer(copy: Copy) -> bool:
    return copy.primary is not None and copy.primary.open and not copy.primary.over and not copy.paused


def _never(work: object, then: object) -> None:
    """Nothing is done of what it is asked."""
