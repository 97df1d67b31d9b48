"""A candidate for a store: how it wins, keeps, loses and gives back the lease, without a lock and without a clock."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import Fault, InvalidOption
from entrepot.ha.candidate import (
    ASK_EVERY,
    HOLDS,
    LOOK_EVERY,
    TRANSITIONS,
    WAITS,
    AskBack,
    Candidate,
    Effect,
    GiveBack,
    Heed,
    Look,
    Lost,
    Memory,
    Recall,
    Sight,
    Sleep,
    State,
    Swap,
    System,
    Won,
)
from entrepot.ha.lease import BACKUP, PRECEDENCE, PRIMARY, LeaseOptions, Record, Rules
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.standing import Standing

LEASE = LeaseOptions(5 * SECOND)
PATIENCE = 5 * SECOND + 250 * MILLISECOND
NEW = Memory(0, 0, empty=True)


def candidate(**options: object) -> Candidate:
    mine = Record(name="beta", instance="b1", lease=LEASE.duration)
    return Candidate(mine, SharedStoreOptions(lease=LEASE, **options))  # type: ignore[arg-type]


def record(beat: int = 1, *, epoch: int = 3, name: str = "alpha", instance: str = "a1", **more: object) -> Record:
    return Record(name=name, instance=instance, epoch=epoch, beat=beat, lease=LEASE.duration, **more)  # type: ignore[arg-type]


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


def looks(one: Candidate, sight: Sight, now: int) -> list[Effect]:
    """Let it look at ``now``."""
    assert kinds(one.wake(now)) == [Look]
    return one.seen(sight, now)


def master(**options: object) -> Candidate:
    """Return one that won at 0 and holds."""
    one = candidate(**options)
    looks(one, Sight(None, 0), 0)
    one.recalled(NEW, 0, 0)
    assert kinds(one.swapped(1, 0)) == [Won, Sleep]
    return one


def test_a_new_store_is_taken_at_once_in_the_first_epoch() -> None:
    one = candidate()
    assert kinds(looks(one, Sight(None, 0), 0)) == [Recall]
    effects = one.recalled(NEW, 1, 1234)
    assert kinds(effects) == [Swap]
    assert (one.mine.epoch, one.mine.beat, one.mine.since) == (1, 1, 1234)
    won, sleep = one.swapped(1, 2)
    assert isinstance(won, Won)
    assert (won.grant.epoch, won.grant.asked, won.grant.why) == (1, 1, "the store is new")
    assert isinstance(sleep, Sleep)
    assert (sleep.until, sleep.watching) == (1 + SECOND, False)


@pytest.mark.parametrize(("remembered", "chosen"), [(0, 4), (3, 4), (9, 10)])
def test_the_epoch_is_one_more_than_whatever_the_lock_or_the_store_remembers(remembered: int, chosen: int) -> None:
    one = candidate()
    looks(one, Sight(record(released=True), 5), 0)
    one.recalled(Memory(remembered, 0, empty=False), 0, 0)
    assert one.mine.epoch == chosen


def test_a_holder_that_goes_on_renewing_is_waited_for() -> None:
    one = candidate()
    for beat in range(1, 100):
        (sleep,) = looks(one, Sight(record(beat), beat), beat * SECOND)
        assert isinstance(sleep, Sleep)
        assert (sleep.until, sleep.watching) == (beat * SECOND + LOOK_EVERY, True)
    assert one.holder is not None
    assert one.holder.name == "alpha"


def test_a_holder_without_a_sign_of_life_is_succeeded_after_its_lease_and_what_clocks_drift() -> None:
    one = candidate()
    looks(one, Sight(record(), 1), 0)
    assert kinds(looks(one, Sight(record(), 1), PATIENCE - 1)) == [Sleep]
    assert kinds(looks(one, Sight(record(), 1), PATIENCE)) == [Recall]


def test_a_lock_that_was_deleted_is_taken_when_its_last_holder_must_have_noticed() -> None:
    one, memory = candidate(), Memory(7, 10 * SECOND, empty=False)
    for at, next_ in ((0, Sleep), (PATIENCE, Sleep), (10 * SECOND + 500 * MILLISECOND, Swap)):
        assert kinds(looks(one, Sight(None, 0), at)) == [Recall]
        assert kinds(one.recalled(memory, at, 0)) == [next_]
    assert one.mine.epoch == 8


def test_a_claim_that_failed_begins_the_wait_for_a_deleted_lock_anew() -> None:
    """Somebody may have come and gone between two looks: found by the simulation of pairs, seed 137."""
    one = candidate()
    looks(one, Sight(None, 0), 0)
    one.recalled(NEW, 0, 0)
    assert kinds(one.swapped(-1, SECOND)) == [Look]  # another's was there, and is deleted by now
    assert kinds(one.seen(Sight(None, 2), 2 * SECOND)) == [Sleep]
    looks(one, Sight(None, 2), 9 * SECOND)
    assert kinds(one.recalled(Memory(1, 5 * SECOND, empty=False), 9 * SECOND, 0)) == [Sleep]


def test_a_master_that_came_and_went_between_two_looks_at_a_deleted_lock_begins_the_wait_anew() -> None:
    """The store remembers it, though the lock was deleted again: found by the simulation of pairs, seed 145."""
    one = candidate()
    for at, epoch, next_ in (
        (0, 7, Sleep),
        (PATIENCE - 1, 8, Sleep),
        (PATIENCE, 8, Sleep),
        (2 * PATIENCE - 2, 8, Sleep),
        (2 * PATIENCE - 1, 8, Swap),
    ):
        looks(one, Sight(None, 0), at)
        assert kinds(one.recalled(Memory(epoch, 5 * SECOND, empty=False), at, 0)) == [next_]


def test_a_claim_without_an_answer_counts_from_when_it_was_asked_for() -> None:
    one = candidate()
    looks(one, Sight(None, 0), 0)
    one.recalled(NEW, 0, 0)
    assert kinds(one.unanswered(SECOND)) == [Look]
    effects = one.seen(Sight(record(epoch=1, name="beta", instance="b1"), 8), 2 * SECOND)
    assert kinds(effects) == [Won, Sleep]
    assert one.tenure.until == LEASE.trusted
    assert one.version == 8


def test_a_claim_that_is_found_out_too_late_is_handed_back() -> None:
    one = candidate()
    looks(one, Sight(None, 0), 0)
    one.recalled(NEW, 0, 0)
    one.unanswered(SECOND)
    assert kinds(one.seen(Sight(record(epoch=1, name="beta", instance="b1"), 1), LEASE.trusted)) == [Swap]
    assert one.mine.released
    assert kinds(one.swapped(2, LEASE.trusted)) == [Sleep]
    assert not one.tenure.epoch


def test_renewals_go_on_and_each_counts_from_its_question() -> None:
    one = master()
    for second in range(1, 20):
        assert kinds(one.wake(second * SECOND)) == [Swap]
        assert kinds(one.swapped(second + 1, second * SECOND + 300 * MILLISECOND)) == [Sleep]
        assert one.tenure.until == second * SECOND + LEASE.trusted
    assert one.mine.beat == 20


@pytest.mark.parametrize("answered", [True, False])
def test_a_renewal_whose_fate_is_not_known_is_found_out_by_a_look(answered: bool) -> None:
    one = master()
    one.wake(SECOND)
    effects = one.swapped(-1, SECOND) if answered else one.unanswered(SECOND)
    assert kinds(effects) == [Look]
    assert kinds(one.seen(Sight(record(2, epoch=1, name="beta", instance="b1"), 6), SECOND)) == [Sleep]
    assert one.tenure.until == LEASE.trusted, "a renewal that is only seen extends nothing"
    (swap,) = one.wake(2 * SECOND)
    assert isinstance(swap, Swap)
    assert swap.version == 6


@pytest.mark.parametrize(
    ("there", "why"),
    [
        (Sight(record(epoch=2), 9), "belongs to broker alpha"),
        (Sight(None, 9), "belongs to nobody"),
        (Sight(record(epoch=1, name="beta", instance="b1"), 9, wrong="the lock file was deleted"), "was deleted"),
    ],
)
def test_a_lock_that_is_anothers_is_lost_for_good(there: Sight, why: str) -> None:
    one = master()
    one.wake(SECOND)
    one.swapped(-1, SECOND)
    assert kinds(one.seen(there, SECOND)) == [Lost]
    assert why in one.tenure.lost
    assert one.wake(2 * SECOND) == []
    assert one.release(2 * SECOND) == []


def test_a_service_that_does_not_answer_costs_the_lease_when_it_ends() -> None:
    one = master()
    one.wake(SECOND)
    now = SECOND
    effects = one.unanswered(now)
    for _ in range(100):
        if kinds(effects) == [Lost]:
            break
        now += 50 * MILLISECOND
        effects = one.unanswered(now) if kinds(effects) == [Look] else one.wake(now)
    assert now == LEASE.trusted
    assert one.state is State.LOST


def test_who_stood_still_for_longer_than_the_lease_does_not_renew() -> None:
    one = master()
    assert kinds(one.wake(LEASE.trusted)) == [Lost]


@pytest.mark.parametrize(
    ("options", "gave_back", "reserved"),
    [({}, False, ""), ({"failover_on_shutdown": False}, False, Rules.PAUSED), ({"part": BACKUP}, True, Rules.FAILBACK)],
)
def test_who_releases_says_for_whom(options: dict[str, object], gave_back: bool, reserved: str) -> None:
    one = master(**options)
    one.gave_back = gave_back
    assert kinds(one.release(SECOND)) == [Swap]
    assert (one.mine.released, one.mine.reserved) == (True, reserved)
    assert one.swapped(2, SECOND) == []
    assert one.state is State.ENDED


@pytest.mark.parametrize("hands_over", [False, True])
def test_a_store_that_was_given_away_waits_for_its_primary_and_one_that_was_not_for_anybody(hands_over: bool) -> None:
    for emptied, gave_back, reserved in (
        (True, False, Rules.PAUSED),
        (False, False, ""),  # whoever is there next goes on
        (True, True, Rules.FAILBACK),
    ):
        one = master(part=BACKUP, drains=True, failover_on_shutdown=hands_over)
        one.emptied, one.gave_back = emptied, gave_back
        one.release(SECOND)
        assert one.mine.reserved == reserved


def test_who_gives_away_what_it_took_over_heeds_its_primary_whatever_it_may() -> None:
    for drains in (False, True):
        one = master(part=BACKUP, drains=drains, allow_failback=False)
        one.wake(SECOND)
        assert (Heed in kinds(one.swapped(2, SECOND))) == drains


def test_a_release_that_was_refused_is_made_again_where_the_lock_is_still_ours() -> None:
    one = master()
    one.wake(SECOND)  # a renewal of which nobody waits for the answer any more
    one.release(SECOND)
    assert kinds(one.swapped(-1, SECOND)) == [Look]
    (swap,) = one.seen(Sight(record(2, epoch=1, name="beta", instance="b1"), 2), SECOND)
    assert isinstance(swap, Swap)
    assert swap.version == 2
    one.swapped(3, SECOND)
    assert one.state is State.ENDED


def test_who_withdraws_hands_back_what_it_won_at_the_same_moment() -> None:
    assert candidate().withdraw(0) == []
    assert kinds(master(failover_on_shutdown=False).withdraw(SECOND)) == [Swap]


def test_a_primary_asks_for_its_store_now_and_then() -> None:
    one = candidate(part=PRIMARY)
    asked = [at for at in range(0, 2 * SECOND, LOOK_EVERY) if AskBack in kinds(looks(one, Sight(record(at), at), at))]
    assert asked == list(range(0, 2 * SECOND, ASK_EVERY))


def test_a_backup_gives_back_what_it_is_asked_for_again() -> None:
    one = master(part=BACKUP, allow_failback=True)
    one.wake(SECOND)
    assert kinds(one.swapped(2, SECOND)) == [Heed, Sleep]
    assert one.asked(("p", 1)) == []
    assert one.asked(("p", 1)) == [], "it died"
    assert kinds(one.asked(("p", 2))) == [GiveBack]
    assert one.asked(("p", 3)) == []


# -- locks of the operating system ------------------------------------------------------------------------------------


def test_a_lock_of_the_system_that_keeps_others_out_proves_a_death() -> None:
    one = candidate()
    assert kinds(looks(one, Sight(record(place=5), 1, system=System.OTHERS, place=5), 0)) == [Sleep]
    assert kinds(looks(one, Sight(record(place=5), 2, system=System.PROVED, place=5), 1)) == [Recall]
    assert kinds(one.recalled(Memory(3, 5 * SECOND, empty=False), 1, 0)) == [Swap]


@pytest.mark.parametrize("place", [5, 6])
def test_one_that_is_not_known_to_and_one_on_another_file_prove_nothing_for_a_lease(place: int) -> None:
    one = candidate()
    system = System.OURS if place == 5 else System.PROVED
    for at, next_ in ((0, Sleep), (PATIENCE - 1, Sleep), (PATIENCE, Swap)):
        assert kinds(looks(one, Sight(record(place=5), 1, system=system, place=place), at)) == [Recall]
        assert kinds(one.recalled(Memory(3, 5 * SECOND, empty=False), at, 0)) == [next_]


def test_locks_that_keep_nobody_out_are_found_out() -> None:
    one = candidate()
    looks(one, Sight(record(1, place=5), 1, system=System.OURS, place=5), 0)
    one.recalled(Memory(3, 5 * SECOND, empty=False), 0, 0)
    one.wake(SECOND)
    with pytest.raises(InvalidOption, match="keep nobody out"):
        one.seen(Sight(record(2, place=5), 1, system=System.OURS, place=5), SECOND)


def test_a_released_lock_that_a_process_still_has_is_not_free() -> None:
    one = candidate()
    assert kinds(looks(one, Sight(record(released=True), 1, system=System.OTHERS), 0)) == [Sleep]


def test_the_file_of_a_broker_that_stood_alone_is_free() -> None:
    one = candidate()
    looks(one, Sight(None, 1, system=System.PROVED, place=5, stranger=True), 0)
    assert kinds(one.recalled(Memory(3, 5 * SECOND, empty=False), 0, 0)) == [Swap]


def test_a_twin_is_refused() -> None:
    one = candidate()
    looks(one, Sight(record(1, name="beta", instance="other"), 1), 0)
    one.wake(SECOND)
    with pytest.raises(InvalidOption, match="is called beta, too"):
        one.seen(Sight(record(2, name="beta", instance="other"), 2), SECOND)


# -- the table --------------------------------------------------------------------------------------------------------


def test_every_state_is_reached_and_has_a_kind() -> None:
    reached = set(TRANSITIONS.values()) | {State.WAITING}
    assert reached == set(State)
    ends = {State.LOST, State.ENDED, State.RELEASING, State.PARTING}
    assert set(WAITS) | set(HOLDS) | ends == set(State)


def test_what_cannot_happen_is_a_bug_of_the_shell() -> None:
    from entrepot.ha.candidate import Signal

    with pytest.raises(Fault, match="waiting was told"):
        candidate()._move(Signal.RENEW)


def test_whom_the_clients_of_the_last_master_know_is_let_go_first_and_not_for_ever() -> None:
    one, gone = candidate(), record(released=True, heir="c1")
    left = record(released=True, reserved=Rules.OTHERS, heir="c1")
    assert kinds(looks(candidate(), Sight(left, 1), 10)) == [Sleep], "an operator had it step down"
    assert kinds(looks(one, Sight(gone, 1), 10)) == [Sleep]
    assert kinds(looks(one, Sight(gone, 1), 9 + PRECEDENCE)) == [Sleep]
    assert kinds(looks(one, Sight(gone, 1), 10 + PRECEDENCE)) == [Recall], "he is gone, too"
    one.recalled(Memory(3, LEASE.duration, empty=False), 10 + PRECEDENCE, 0)
    assert one.mine.heir == "", "whom clients of this one know is not known yet"


def test_who_is_known_to_clients_goes_at_once_and_so_does_everybody_where_they_know_nobody() -> None:
    for heir in ("b1", ""):
        assert kinds(looks(candidate(), Sight(record(released=True, heir=heir), 1), 10)) == [Recall]


def test_the_time_in_which_another_goes_first_begins_anew_when_the_lock_was_taken_in_between() -> None:
    one, gone = candidate(), record(released=True, heir="c1")
    looks(one, Sight(gone, 1), 10)
    looks(one, Sight(record(), 2), 20)
    assert kinds(looks(one, Sight(gone, 3), 10 + PRECEDENCE)) == [Sleep]


def test_what_is_given_back_to_a_primary_is_not_kept_for_whom_clients_know() -> None:
    one, given = candidate(part=PRIMARY), record(released=True, reserved=Rules.FAILBACK, heir="c1")
    assert kinds(looks(one, Sight(given, 1), 10)) == [Recall]


def test_an_heir_whose_copy_does_not_count_any_more_is_not_waited_for() -> None:
    """He was dropped, and the primary ended before its next renewal named another: each other waited a second."""
    standing = Standing("copy-b", store="s")
    standing.won(3)
    for eligible, expected in (({"copy-b": 3}, Recall), ({"copy-b": 3, "copy-c": 3}, Sleep)):
        one = Candidate(
            Record(name="beta", instance="b1", lease=LEASE.duration), SharedStoreOptions(lease=LEASE), standing
        )
        gone = record(released=True, eligible=eligible, heir="copy-c")
        assert kinds(looks(one, Sight(gone, 1), 10)) == [expected]
