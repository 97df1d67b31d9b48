"""The journal's question after each sync, answered by the lease: may this broker confirm what is on disk now? [C]

Asked once for all that a sync wrote, so what it costs is shared by many messages, or by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.ha.lease import Tenure
from entrepot.journal.ports import Fence

UNANSWERED: Final = "it could not be renewed in time"


class LeaseFence(Fence):
    """Stands as long as ``tenure`` holds by ``clock``, that of leases."""

    def __init__(self, tenure: Tenure, clock: Callable[[], int]) -> None:
        self.tenure: Tenure = tenure
        self.clock: Callable[[], int] = clock

    def holds(self) -> bool:
        """Say whether the lease holds: `Tenure.holds`, without a call of Python."""
        tenure = self.tenure
        return not tenure.lost and self.clock() < tenure.until

    def why(self) -> str:
        """Return why not."""
        return self.tenure.lost or UNANSWERED
