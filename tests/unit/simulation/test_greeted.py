"""A replica at the end of its primary: it is told why it is refused, and nothing once that primary is over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from entrepot.base.errors import Refused
from entrepot.ha.stream import HELLO, REFUSED, Frames, greeting
from entrepot.simulation.greeted import Greeted
from entrepot.simulation.wires import Wire


def made(*, refuses: bool) -> tuple[Greeted, SimpleNamespace, list[bytes], list[str]]:
    said: list[bytes] = []
    met: list[str] = []

    def greeted(link: object, facts: dict[str, Any], now: int) -> object:
        if refuses:
            raise Refused("it has another store")
        met.append(facts["name"])
        return object()

    replication = SimpleNamespace(
        greeted=greeted, take=lambda *given: met.append("frames"), lost=lambda *given: met.append("lost")
    )
    copy = SimpleNamespace(name="alpha", now=lambda: 7)
    primary = SimpleNamespace(copy=copy, replication=replication, open=True, over=False)
    wire = SimpleNamespace(send=lambda name, octets: said.append(octets))
    return Greeted(primary, cast(Wire, wire)), primary, said, met


def test_who_is_let_in_is_listened_to_and_missed() -> None:
    link, _, said, met = made(refuses=False)
    link.take(greeting(HELLO, {"name": "beta"}))
    link.lost("cut")
    assert met == ["beta", "frames", "lost"]
    assert not said


def test_who_is_refused_is_told_why() -> None:
    link, _, said, met = made(refuses=True)
    link.take(greeting(HELLO, {"name": "beta"}))
    link.lost("cut")
    (frame,) = Frames().feed(b"".join(said))
    assert (frame.kind, bytes(frame.octets)) == (REFUSED, b"it has another store")
    assert not met


def test_a_primary_that_is_over_hears_nothing() -> None:
    link, primary, _, met = made(refuses=False)
    primary.over = True
    link.take(greeting(HELLO, {"name": "beta"}))
    assert not met
