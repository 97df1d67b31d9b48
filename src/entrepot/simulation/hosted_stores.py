"""The store of one node of those that host one another's copies, in the seeded world: its lock, and what is promised.

A message is what it was when it was first confirmed, in whatever store it is by now: a backup that gives away what it
took over moves it into another one. It is delivered once. What was on its way when such a backup ended may be at both,
as the product says: that alone may come twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.base.environment import SECOND
from entrepot.ha.failback import Returns
from entrepot.ha.lease import BACKUP
from entrepot.ha.standing import Standing, follows_only
from entrepot.simulation.copies import Copy
from entrepot.simulation.hosted_brokers import Empties, Host, Member
from entrepot.simulation.hosted_ledger import Ledger, OneStore
from entrepot.simulation.wires import Network
from entrepot.simulation.world import World

RETURNS_REMEMBERED: Final = 20 * SECOND


class HostedStore(OneStore):
    """Its brokers are on ``hosts``, which are made behind it."""

    def __init__(self, world: World, planted: str, name: str, network: Network, ledger: Ledger) -> None:
        super().__init__(world, planted, name, network, ledger)
        self.hosts: Sequence[Host] = ()
        self.failback = True
        self.lots = self.world.lots(f"store/{name}")
        self.steady = self.lots.between(SECOND // 10, SECOND // 3)

    # -- what its brokers ask ------------------------------------------------------------------------------------------

    def seen_by(self, copy: Copy) -> list[Copy]:
        """Return whose places are listed: the node whose store it is, and what other nodes host, of any store."""
        assert isinstance(copy, Member)
        others = [each for each in self.hosts if each is not copy.node]
        found: list[Copy] = [each.main for each in others if each.main.store is self and copy.part == BACKUP]
        return [*found, *(guest for each in others for guest in each.guests.values())]

    def expects(self, copy: Copy) -> str:
        """Return whom a copy may follow."""
        if self.planted == "a copy of nothing follows anybody":
            return ""
        return follows_only(copy.standing, copy.lease.candidate.holder)

    def identity(self, standing: Standing) -> str:
        """Return what its first primary made up, where none was before."""
        text = standing.store or self.lots.token(16).hex()
        if self.text not in ("", text):
            self.world.violation(f"{self.name} is served as the store {text}, it is {self.text}")
        self.text = text
        return text

    def is_live(self, number: int) -> bool:
        """Say whether it is to be read yet, or once more: nobody was told that it is settled."""
        return number not in self.settled

    def returns(self, standing: Standing) -> Returns:
        """Return when a backup gives the store back."""
        allowed = self.failback and standing.part == BACKUP
        return Returns(standing, allowed=allowed, steady=self.steady, remembered=RETURNS_REMEMBERED)

    def gives_back(self, giver: Copy, to: str) -> None:
        """A backup gives the store to its node."""
        self.world.count("stores given back")

    # -- what is promised ----------------------------------------------------------------------------------------------

    def promised(self, name: str, epoch: int, number: int, what: str) -> None:
        """A broker confirms."""
        super().promised(name, epoch, number, what)
        identity = self.identity_of(number)
        if what == "stored":
            self.ledger.confirmed[identity] = True
        elif self.moving.pop(number, "") and isinstance(self._called(name).primary, Empties):
            self.world.count("moved")
        else:
            self.ledger.deliver(identity)

    def _called(self, name: str) -> Member:
        return next(each for each in self.copies if each.name == name and isinstance(each, Member))

    def begun(self, name: str, epoch: int, found: dict[int, int]) -> None:
        """A broker serves: what had begun to move may be at both ends."""
        super().begun(name, epoch, found)
        copy = self._called(name)
        empties = self.drains and copy.part == BACKUP
        for number, node in list(self.moving.items()):
            if not empties or node != copy.node.name:  # the same target knows what it has
                self.ledger.doubted[self.identity_of(number)] = True
                del self.moving[number]
        if copy is copy.node.main:
            copy.node.serves()
        what = "own stores served" if copy is copy.node.main else "stores emptied" if empties else "guests that serve"
        self.world.count(what)

    def serving(self) -> list[Copy]:
        """Return who serves it, in whatever way."""
        return [each for each in self.copies if each.primary is not None and each.primary.open]

    def emptying(self) -> bool:
        """Say whether a backup gives it away."""
        return any(isinstance(each.primary, Empties) for each in self.serving())
