"""Asks a broker's guides where a connection is served, and waits for the answer where it takes a while. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.guiding import LATER, Guidance, Visitor
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.serving.life import LEAVING
from entrepot.protocols.serving.session import ServerSession


class _Again(Alarm):
    """Lets a connection ask again."""

    def __init__(self, due: i64, session: ServerSession) -> None:
        super().__init__(due)
        self.session: ServerSession = session

    def ring(self, now: int) -> None:
        """Let it go on, if it still waits."""
        session = self.session
        session.asks = None
        if not session.closing and session.life < LEAVING:
            session.broker.effort.later(session.rest)


def guided(session: ServerSession, router: str, client_id: str) -> Guidance | None:
    """Return where ``session`` is served; None: it is not known yet, and the session goes on, by `work`, when it is."""
    broker = session.broker
    if session.asks is not None:
        session.unfinished = True
        return None
    if session.asked_at == 0:
        session.asked_at = broker.now
    subject = session.subject
    visitor = Visitor(
        session.peer, session.shell.server_name, client_id, subject.name, list(subject.groups), session.asked_at
    )
    guidance = broker.guides.ask(router, visitor)
    if guidance.verdict != LATER:
        return guidance
    again = _Again(guidance.again, session)
    session.asks = again
    broker.timetable.add(again)
    session.unfinished = True
    return None
