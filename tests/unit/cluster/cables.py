"""Cables between two brokers of a unit test: octets of both directions, and what cuts them."""

from __future__ import annotations

from entrepot.protocols.session import Session, Shell
from kit import Rig


class End(Shell):
    """One end of a cable."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.session: Session | None = None

    def go_on(self) -> None:
        assert self.session is not None
        self.session.resume(self.rig.now)


class Cable:
    """A connection. ``heard``: what the near end says arrives; ``answers``: what the far end says does."""

    def __init__(self, near: End, far: End) -> None:
        self.near = near
        self.far = far
        self.heard = True
        self.answers = True


class Cabled:
    """Two brokers, ``near`` which dials and ``far``, and the cables between them by the number of their attempt."""

    near: Rig
    far: Rig
    cables: dict[int, Cable]

    def run(self) -> None:
        """Let octets flow until nothing moves."""
        raise NotImplementedError

    def reaches(self, cable: Cable) -> bool:
        """Return whether what the near end says arrives."""
        return cable.heard

    def arrives(self, cable: Cable) -> bool:
        """Return whether what the far end says arrives."""
        return cable.answers

    def _flow(self, number: int, cable: Cable) -> bool:
        near, far = cable.near.session, cable.far.session
        assert near is not None
        assert far is not None
        moved = False
        data = near.outgoing()
        if data and self.reaches(cable):
            self._tick(self.far)
            far.receive(data, self.far.now)
            moved = True
        self.far.turn()
        back = far.outgoing()
        if back and self.arrives(cable):
            self._tick(self.near)
            near.receive(back, self.near.now)
            moved = True
        if near.closing or far.closing:
            self._part(number)
            moved = True
        return moved

    def _tick(self, rig: Rig) -> None:
        rig.now += 1_000
        rig.broker.tick(rig.now, rig.wall)

    def _part(self, number: int) -> None:
        cable = self.cables.pop(number, None)
        if cable is None:
            return
        assert cable.near.session is not None
        assert cable.far.session is not None
        cable.near.session.detach("cut", self.near.now)
        cable.far.session.detach("cut", self.far.now)

    def cut(self) -> None:
        """Every connection breaks, and what was under way on it is lost."""
        for number in list(self.cables):
            self._part(number)

    def pass_ms(self, ms: int) -> None:
        """Let time pass on both sides, in steps."""
        for _ in range(10):
            for rig in (self.near, self.far):
                rig.wait(ms // 10)
            self.run()
