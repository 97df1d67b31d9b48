"""The name of a branch of a distributed transaction, as a transaction coordinator gives it (X/Open XA)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from entrepot.base.errors import TransactionError

PART_OCTETS_MAX: Final = 64  # of the global id, and of the qualifier (XA specification, section 4.2)


class Xid(Struct, frozen=True):
    """A branch: ``global_id`` names the transaction, ``qualifier`` this branch of it, ``format_id`` who made them."""

    format_id: int
    global_id: bytes
    qualifier: bytes = b""

    def check(self) -> None:
        """Raise TransactionError for parts of the wrong length."""
        if not 0 < len(self.global_id) <= PART_OCTETS_MAX or len(self.qualifier) > PART_OCTETS_MAX:
            raise TransactionError(
                f"the parts of an Xid have {len(self.global_id)} and {len(self.qualifier)} octets",
                remedy=f"give the global id 1 to {PART_OCTETS_MAX}, the qualifier at most {PART_OCTETS_MAX}",
            )
