"""What is promised of a store that is replicated, in the seeded world, and the look at each copy of it that counts."""

from __future__ import annotations

from entrepot.base.errors import EntrepotError
from entrepot.ha.standing import SYNCED, read_standing
from entrepot.journal.log import JournalCore, JournalOptions
from entrepot.simulation.copies import Copy, Scene
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.recovered import Found
from entrepot.simulation.wires import Network
from entrepot.simulation.world import World


class Kept(Scene):
    """One store, and what its brokers have confirmed of it."""

    def __init__(self, world: World, planted: str, *, label: str = "", network: Network | None = None) -> None:
        super().__init__(world, planted, label=label, network=network)
        self.looks = world.lots(f"{label}looks")
        self.epoch = 0  # the youngest that read the store
        self.stored: dict[int, bool] = {}  # confirmed
        self.settled: dict[int, bool] = {}  # confirmed
        self.confirmed_at = 0

    def spoiled(self, copy: Copy) -> bool:
        """Say whether a copy has what the world damaged."""
        return False

    # -- what is promised ----------------------------------------------------------------------------------------------

    def promised(self, name: str, epoch: int, number: int, what: str) -> None:
        """A broker confirms that it keeps a message, or that one is settled."""
        self.world.count(f"confirmed: {what}")
        self.confirmed_at = self.world.time
        (self.stored if what == "stored" else self.settled)[number] = True
        if epoch != self.epoch:
            self.world.violation(f"{name} confirms in epoch {epoch}, epoch {self.epoch} is under way")

    def begun(self, name: str, epoch: int, found: dict[int, int]) -> None:
        """A primary has read its store back."""
        self.world.count("primaries")
        if epoch <= self.epoch:
            self.world.violation(f"{name} begins epoch {epoch}, epoch {self.epoch} was here")
        self.epoch = epoch
        self._compare(f"{name}, primary of epoch {epoch}", found)

    def _compare(self, who: str, found: dict[int, int]) -> None:
        lost = [number for number in self.stored if number not in self.settling and number not in found]
        if lost:
            self.world.violation(f"{who} lacks {len(lost)} confirmed messages, {lost[0]} first")
        back = [number for number in found if number in self.settled]
        if back:
            self.world.violation(f"{who} has {len(back)} messages that were settled, {back[0]} first")

    # -- looking at copies ---------------------------------------------------------------------------------------------

    def look_at_all(self) -> None:
        """Read each copy that counts."""
        record = self.service.record
        for each in self.copies:
            if record is None or each.note is None or self.world.violations:
                continue
            standing = read_standing(each.note, part="", boot=f"{each.name}.{each.boots}")
            if standing.may_claim(record) and not self.spoiled(each):
                self._look_at(each)

    def _look_at(self, copy: Copy) -> None:
        """Read a copy as it would be after its process died, or its machine; its eligibility says it has all."""
        twin = SimulatedDisk(self.looks, self.world.later)
        medium, of = twin.medium, copy.disk.medium
        medium.durable = {name: bytearray(content) for name, content in of.durable.items()}
        medium.take_over(of)
        medium.show()
        if self.options.confirm == SYNCED or self.epoch in self._led_by(copy):
            twin.crash()
        found = Found()
        try:
            epoch = self.epoch + 1000
            journal = JournalCore(twin, JournalOptions(node="node", segment_bytes=8192, epoch=epoch))
            report = journal.recover(found)
        except EntrepotError as error:
            self.world.violation(f"the eligible copy of {copy.name} cannot be read: {error}")
            return
        self.world.count("copies read")
        self._compare(f"the eligible copy of {copy.name}", found.messages)
        if report.bodies_lost:
            self.world.violation(f"the eligible copy of {copy.name}: {report.bodies_lost[0]}")
        for number in found.messages:
            size = self.bodies.get(number)
            if size is not None and not self.world.violations:
                flaw = journal.overflow.flaw_inside(number, size, True)
                if flaw:
                    self.world.violation(f"the eligible copy of {copy.name}: {flaw}")

    def _led_by(self, copy: Copy) -> list[int]:
        return [] if copy.primary is None else [copy.primary.epoch]
