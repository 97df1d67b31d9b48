"""Large bodies come in as fast as the disk takes them: a connection that is ahead of it is read no further. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.protocols.inflow import Inflow, Pace
from entrepot.protocols.session import STOP_DISK, Session

ASKED_MAX: Final = 2  # one stretch of a large body is on its way to disk while the next one comes in


class DiskPace(Pace):
    """Stops the reading of a connection while the disk is far behind. ``asked``: how often it has not answered."""

    def __init__(self, session: Session | None) -> None:
        self.session: Session | None = session
        self.asked: i64 = 0

    def look(self, inflow: Inflow) -> None:
        """Ask the disk how far it is, after each stretch; when it has not answered so often, read no further."""
        session = self.session
        if session is None or not inflow.is_due():
            return
        self.asked += 1
        if self.asked >= ASKED_MAX or inflow.is_crowded():
            session.stop_reading(STOP_DISK)
        inflow.ask_the_disk(self)

    def reached(self) -> None:
        """The disk came nearer: read on."""
        self.asked -= 1
        session = self.session
        if session is not None and not session.closing:
            session.read_on(STOP_DISK)

    def end(self) -> None:
        """The connection is gone."""
        self.session = None
