"""What one copy of a replicated store knows of itself: whose it is, which epochs it followed, whether it is whole.

Two notes decide who may be primary, and both must agree. The *record* of the lock says which copies are eligible, each
with the epoch in which it joined (`Record.eligible`); a primary changes it before it confirms anything without one of
them. The *standing*, beside the copy itself, says in which epoch this very directory was whole: it is emptied before
the first file is changed by a catch-up, and a copy that was restored from a backup has an old one. So neither a stale
copy, nor half a copy, nor another's is ever served.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from entrepot.base.environment import WallTime
from entrepot.base.errors import Refused, StoreUnusable
from entrepot.ha.lease import BACKUP, Record

SYNCED: Final = "synced"  # written and synced on each eligible copy
RECEIVED: Final = "received"  # received by the others, synced here
CONFIRMS: Final = (SYNCED, RECEIVED)
CLAIMS_MAX: Final = 100
"""Claims in a row whose fate is not known; more have never been, and each takes a look at the lock and a rewrite."""


class Standing:
    """``copy``: of this directory, fresh where that is; ``store``: what it is a copy of, "" for nothing yet.

    ``epochs``: of the record's entry that this copy answers to; empty while it is not whole. ``claim``: the epoch that
    it asked the lock for last; ``open``: those of its claims whose fate is not known, that one among them: whichever
    stands in the record is its own. A claim makes no copy whole. ``followed``: whose
    operations stand here, 0 for nobody's. ``boot``: of the machine on which it only *received* what was confirmed, ""
    where all is synced. ``forced``: an operator's word, used up once. ``returned``: when it gave the store back to the
    primary, ms since 1970 (`ha/failback.py`). The claim is written by who keeps the lease, all
    else by who follows or serves; so the two may be threads.
    """

    def __init__(self, copy: str, *, store: str = "", part: str = "", boot: str = "") -> None:
        """``part``: what this broker is to the others; ``boot``: of the machine, now."""
        self.copy: Final = copy
        self.store = store
        self.epochs: list[int] = []
        self.claim = 0
        self.open: list[int] = []
        self.followed = 0
        self.received_at = ""
        self.forced = False
        self.returned: list[WallTime] = []
        self.part = part
        self.boot = boot
        self.refusal = ""  # why it may not be primary, as seen last

    @property
    def seen(self) -> int:
        """Return the highest epoch that it ever heard of."""
        return max(self.claim, self.followed)

    @property
    def whole(self) -> bool:
        """Say whether no catch-up has begun that did not end: else this copy must not be served, whoever claimed."""
        return bool(self.epochs) or not self.followed or self.forced

    # -- who may be primary --------------------------------------------------------------------------------------------

    def may_claim(self, record: Record | None) -> bool:
        """Say whether this copy may be served in succession to ``record``; `refusal` says why not."""
        self.refusal = self._against(record)
        return not self.refusal

    def _against(self, record: Record | None) -> str:
        if self.forced:
            return ""
        if record is None or not record.eligible:
            if not self.followed and self.part != BACKUP:
                return ""
            if not self.followed:
                return "it holds no copy of a store yet, and waits for one"
            return "the lock has no record of who is eligible: an operator must say which copy counts"
        entry = record.eligible.get(self.copy)
        if entry is None:
            return "its copy was not up to date when the last primary ended"
        if not self.whole or entry not in (*self.epochs, *self.open):
            return "its copy is not whole, or older than the lock says"
        if self.received_at and self.received_at != self.boot:
            return "its machine was started anew, and what it had only received may be lost"
        return ""

    def claimed(self, record: Record | None, epoch: int) -> dict[str, int]:
        """Return who is eligible once this copy is primary with ``epoch``: who was, as nothing was confirmed since."""
        if self.forced or record is None:
            return {self.copy: epoch}
        return {**record.eligible, self.copy: epoch}

    # -- what changes it; each is on disk before anybody acts on it ----------------------------------------------------

    def claims(self, epoch: int) -> None:
        """It is about to ask for the lock with ``epoch``."""
        self.claim = epoch
        self.open = [*self.open, epoch][-CLAIMS_MAX:]

    def won(self, epoch: int) -> None:
        """It is primary with ``epoch``."""
        self.epochs = [epoch]
        self.open = []
        self.followed = epoch
        self.received_at = ""
        self.forced = False

    def follows(self, store: str, epoch: int) -> bool:
        """Files will be made those of the primary of ``epoch``. Return whether they were on the way to that before."""
        same = self.followed == epoch
        self.store = store
        self.epochs = []
        self.followed = epoch
        self.forced = False
        return same

    def joined(self, epoch: int, confirm: str) -> None:
        """All that the primary of ``epoch`` has is here, and it will wait for this copy from now on."""
        self.epochs = [epoch]
        self.received_at = self.boot if confirm == RECEIVED else ""

    # -- on disk -------------------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return what is kept."""
        return {
            "copy": self.copy,
            "store": self.store,
            "epochs": self.epochs,
            "followed": self.followed,
            "claim": self.claim,
            "open": self.open,
            "received_at": self.received_at,
            "forced": self.forced,
            **({"returned": self.returned} if self.returned else {}),
        }

    def encode(self) -> bytes:
        """Return a line of JSON."""
        return (json.dumps(self.facts()) + "\n").encode()


def follows_only(standing: Standing, holder: Record | None) -> str:
    """Return which broker a copy follows where primaries of other stores answer, too; "" for any of its own store.

    ``holder``: whom its lock names. Raises Refused: a copy of nothing yet would become one of any store.
    """
    if standing.store:
        return ""
    if holder is None or holder.released:
        raise Refused("the lock does not say who is primary, and this copy is one of nothing yet")
    return holder.name


def read_standing(octets: bytes, *, part: str, boot: str, made: type[Standing] = Standing) -> Standing:
    """Return the standing in ``octets``. Raises StoreUnusable: what a damaged one allows is not known."""
    try:
        facts: Mapping[str, Any] = json.loads(octets)
        standing = made(str(facts["copy"]), store=str(facts["store"]), part=part, boot=boot)
        standing.epochs = [int(each) for each in facts["epochs"]]
        standing.followed = int(facts["followed"])
        standing.claim = int(facts["claim"])
        standing.open = [int(each) for each in facts.get("open", [standing.claim] if standing.claim else [])]
        standing.received_at = str(facts["received_at"])
        standing.forced = bool(facts["forced"])
        standing.returned = [int(each) for each in facts.get("returned", [])]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreUnusable(
            f"replica.json of the data directory is damaged: {error!r}",
            remedy="remove the data directory of this copy, and it is made anew from the primary",
        ) from error
    return standing
