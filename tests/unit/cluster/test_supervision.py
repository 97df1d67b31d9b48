"""When a link gives its peer up: silent for three intervals, or no canary back; a full peer is not dead."""

from __future__ import annotations

from entrepot.cluster.source import LinkPort
from entrepot.cluster.supervision import Supervision

INTERVAL = 1_000_000_000


class Port(LinkPort):
    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.able = True

    def probe(self) -> int:
        self.sent += self.able
        return self.sent if self.able else 0


def watched() -> tuple[Supervision, Port]:
    one = Supervision(INTERVAL)
    one.begin(0)
    return one, Port()


def test_a_canary_flies_each_interval_and_its_round_trip_is_known() -> None:
    one, port = watched()
    assert one.due == INTERVAL
    assert one.look(port, INTERVAL, occupied=False) == ""
    one.heard(INTERVAL + 5)
    one.came_back(INTERVAL + 5)
    assert (one.probe, one.round_trip, port.sent) == (0, 5, 1)
    one.look(port, 2 * INTERVAL, occupied=False)
    assert port.sent == 2


def test_silence_of_three_intervals_ends_it_and_is_looked_at_then() -> None:
    one, port = watched()
    assert one.look(port, INTERVAL, occupied=True) == ""
    assert one.look(port, 2 * INTERVAL + 1, occupied=True) == ""
    assert one.due == 3 * INTERVAL
    assert "not heard for 3000 ms" in one.look(port, 3 * INTERVAL, occupied=True)


def test_who_is_heard_and_does_not_answer_is_dead_when_idle_and_full_when_occupied() -> None:
    for occupied in (False, True):
        one, port = watched()
        one.look(port, INTERVAL, occupied=occupied)
        one.heard(3 * INTERVAL - 1)
        why = one.look(port, 3 * INTERVAL, occupied=occupied)
        assert ("no answer to the canary" in why) == (not occupied)
        assert (one.stalled_since != 0) == occupied


def test_a_lost_canary_costs_no_peer_that_confirms() -> None:
    one, port = watched()
    one.look(port, INTERVAL, occupied=True)
    one.heard(3 * INTERVAL)
    one.confirmed_at = 2 * INTERVAL
    assert one.look(port, 3 * INTERVAL, occupied=True) == ""
    assert port.sent == 2, "another one flies"


def test_an_end_forgets_the_canary() -> None:
    one, port = watched()
    one.look(port, INTERVAL, occupied=True)
    one.end()
    assert (one.probe, one.stalled_since) == (0, 0)
