"""Cables between two brokers of a unit test: octets of both directions, and what cuts them."""

from __future__ import annotations

from entrepot.cluster.dialled import Dialled
from entrepot.cluster.link import Effect
from entrepot.protocols.failover import Dial, Drop, GiveUp
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


class Dialling(Cabled):
    """``near`` has what dials, and this performs what that decides. ``said``: what an operator was told."""

    def __init__(self) -> None:
        self.cables = {}
        self.dials: list[tuple[Dialled, Dial]] = []
        self.said: list[str] = []
        self.given_up: list[str] = []
        self.reachable = True

    def perform(self, end: Dialled, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Dial):
                self.dials.append((end, effect))
            elif isinstance(effect, Drop):
                cable = self.cables.get(effect.attempt)
                if cable is not None and cable.near.session is not None:
                    cable.near.session.shut("dropped", self.near.now)
            elif isinstance(effect, GiveUp):
                self.given_up.append(effect.why)

    def answer(self, far: End, attempt: int) -> Session:
        """Return the session of ``far`` that answers the connection ``attempt``."""
        raise NotImplementedError

    def check(self) -> None:
        """Look at invariants of what dials, at rest."""

    def run(self) -> None:
        """Dial, and let octets flow until nothing moves."""
        still = 0  # passes in which nothing flowed: what the turns of one of them have written flows in the next
        for _ in range(400):
            moved = self.dial()
            for number, cable in list(self.cables.items()):
                moved = self._flow(number, cable) or moved
            for rig in (self.near, self.far):
                rig.turn()
                moved = rest(rig) or moved
            still = 0 if moved else still + 1
            if still == 2:
                self.check()
                return
        raise AssertionError("the brokers are never at rest")

    def dial(self) -> bool:
        """Dial for whoever wants it; return whether anybody did."""
        dials, self.dials = self.dials, []
        for end, dial in dials:
            self._dial(end, dial)
        return bool(dials)

    def _dial(self, end: Dialled, dial: Dial) -> None:
        if not self.reachable:
            end.perform(end.link.failed(dial.attempt, "nobody answers", self.near.now))
            return
        near, far = End(self.near), End(self.far)
        self.cables[dial.attempt] = Cable(near, far)
        near.session = end.greet(near, dial.attempt, dial.place, self.near.now)
        far.session = self.answer(far, dial.attempt)

    def deafen(self) -> None:
        """What the far broker says is lost from now on, until the connection is cut."""
        for cable in self.cables.values():
            cable.answers = False


def rest(rig: Rig) -> bool:
    """Let what waits for a later turn go on; return whether anything did."""
    moved = bool(rig.broker.effort.waits())
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    return moved
