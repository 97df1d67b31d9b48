"""Sessions that lost their connection, and how they come to another one (artemis.md 5.2.6). [C]

A session with a confirmation window waits for its client as long as the connection would have been believed. Nothing is
delivered meanwhile; answers that become due are kept. The client says what it has seen and is told how far its own
commands are done; both sides send the rest again. So that no command is done twice, that number is only told when all
of them have their answers.
"""

from __future__ import annotations

from entrepot.core.queue.consumer import Pause
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.commanding import Commands


class Lost(Alarm):
    """A session that waits for its client until ``due``."""

    def __init__(self, due: int, commands: Commands) -> None:
        super().__init__(due)
        self.commands: Commands = commands

    def begin(self) -> None:
        """Keep what it holds, and deliver nothing."""
        commands = self.commands
        session = commands.session
        session.connection = None
        session.channel.detach()
        commands.lost = self
        if commands.transacting is not None:
            commands.transacting.alone()
        limbo = session.acceptor.limbo
        session.outlet = limbo
        for subscription in session.consumers.values():
            subscription.outlet.starve(subscription)
            subscription.outlet = limbo
            subscription.window.pause(Pause.SOCKET)
            subscription.window.lift(Pause.ENDING)
        session.broker.timetable.add(self)

    def ring(self, now: int) -> None:
        """Nobody came for it."""
        commands = self.commands
        if commands.lost is self:
            commands.lost = None
            commands.end()
            session = commands.session
            session.acceptor.delete_all(session.temporaries or {})
            session.confirmations.end()
