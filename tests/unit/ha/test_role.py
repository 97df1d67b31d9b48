"""The table of roles: the order of effects is the safety of a pair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import Fault
from entrepot.ha.role import TRANSITIONS, Effect, Role, RoleCore, Signal


def test_a_life_in_good_order() -> None:
    core = RoleCore()
    assert core.signal(Signal.WON) == (Effect.OPEN_STORE,)
    assert core.signal(Signal.RECOVERED) == (Effect.OPEN_PORTS,)
    assert core.confirming
    assert core.signal(Signal.STOP) == (Effect.CLOSE_PORTS, Effect.CLOSE_STORE, Effect.RELEASE)
    assert core.confirming, "what the disk still answers is confirmed while the ports close"
    core.signal(Signal.DONE)
    assert core.role is Role.STOPPED
    assert core.ended


def test_who_gives_away_what_it_took_over_opens_no_port() -> None:
    core = RoleCore()
    core.signal(Signal.WON)
    assert core.signal(Signal.DRAINS) == ()
    assert core.confirming, "what is at the other broker is settled here"
    assert core.signal(Signal.STOP) == (Effect.CLOSE_PORTS, Effect.CLOSE_STORE, Effect.RELEASE)
    core.signal(Signal.DONE)
    assert core.role is Role.STOPPED


def test_who_lost_the_lease_confirms_nothing_and_begins_anew() -> None:
    core = RoleCore()
    core.signal(Signal.WON)
    core.signal(Signal.RECOVERED)
    effects = core.signal(Signal.LOST)
    assert effects[0] is Effect.STOP_CONFIRMING
    assert not core.confirming
    assert core.signal(Signal.DONE) == (Effect.REJOIN,)
    assert core.role is Role.BACKUP


def test_whatever_cannot_come_is_a_fault() -> None:
    with pytest.raises(Fault, match="backup was told 'recovered'"):
        RoleCore().signal(Signal.RECOVERED)


def test_the_table_as_a_whole() -> None:
    for (role, signal), (_, effects) in TRANSITIONS.items():
        where = f"{role.value} on {signal.value}"
        if Effect.RELEASE in effects:
            assert effects.index(Effect.CLOSE_PORTS) < effects.index(Effect.CLOSE_STORE) < len(effects) - 1, where
            assert effects[-1] is Effect.RELEASE, where
        if signal is Signal.LOST and effects:
            assert effects[0] is Effect.STOP_CONFIRMING, where
        if signal is Signal.LOST:
            assert Effect.RELEASE not in effects, where
            assert Effect.CLOSE_STORE not in effects, where
        if role is not Role.BACKUP and role is not Role.FENCED:
            assert Effect.REJOIN not in effects, where
    for role in Role:
        assert (role, Signal.STOP) in TRANSITIONS, f"{role.value} can always be stopped"


@given(st.lists(st.sampled_from(list(Signal)), max_size=12))
def test_ports_are_never_opened_without_the_lease(signals: list[Signal]) -> None:
    core = RoleCore()
    held = False
    for signal in signals:
        try:
            effects = core.signal(signal)
        except Fault:
            continue
        if signal is Signal.WON:
            held = True
        if signal is Signal.LOST or Effect.RELEASE in effects:
            held = False
        assert held or Effect.OPEN_PORTS not in effects
        assert held or core.role is not Role.PRIMARY
