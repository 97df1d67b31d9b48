"""Tests of limits, of listeners and of turns bite: each planted bug makes the test fail that is about it.

That these tests pass without it is seen where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.core.events.facts import Fact, Hub
from entrepot.core.sending.flow import FlowControl
from entrepot.core.transactions.branches import _Committing, _Preparing, _RollingBack
from entrepot.core.transactions.carrying import PRIVATE, Transactions, Work
from entrepot.journal.limits import StoreLimits
from entrepot.journal.log import JournalCore
from entrepot.journal.space import Space
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.openwire.replaying import Replay
from entrepot.protocols.serving.session import ServerSession

from ..protocols.mqtt import test_rights as mqtt_rights
from ..protocols.openwire import test_advisories as advisories
from ..protocols.stomp import test_server as stomp
from . import test_disk_limits as limits
from .events import test_facts as listeners
from .transactions import test_carrying as carrying
from .transactions import test_large_branches as branches

pytestmark = pytest.mark.skipif(is_compiled(), reason="native callers do not see a replaced method")

MEASURE, PORTION, CLAIM, RESUME = StoreLimits.measure, Work.portion, ServerSession.claim, Replay.resume


def as_if_small(self: StoreLimits, stored: int, paged: int, disk: int, space: int) -> bool:
    return MEASURE(self, 0, paged, disk, space)


def as_if_empty(self: StoreLimits, stored: int, paged: int, disk: int, space: int) -> bool:
    return MEASURE(self, stored, paged, disk, 1 << 40)


def until_one_raises(self: Hub, fact: Fact) -> None:
    """Tells them as if none could raise; what is raised ends it for all behind."""
    for listener in self.listeners:
        if listener.kinds & fact.kind and (fact.asked or listener.always & fact.kind):
            try:
                listener.heard(fact)
            except ValueError:
                return


def whoever_asks(self: Hub, fact: Fact) -> None:
    for listener in self.listeners:
        if listener.kinds & fact.kind:
            listener.heard(fact)


def in_halves(self: Work, most: int) -> bool:
    """Says with each part of the bracket that this was all."""
    complete = PORTION(self, most)
    parts = self.host.journal.parts
    if parts.open and not parts.inside:
        parts.end()
        parts.begin(PRIVATE)
    return complete


def in_one_turn(self: Work, most: int) -> bool:
    self.patient = False
    while not PORTION(self, 1 << 30):
        pass
    return True


def forgets_the_rest(self: Replay) -> None:
    for _ in self.facts:  # what was not told in the first turn
        if self.waiting or any(read.deferral is not None for read in self.reads):
            continue
        RESUME(self)
        return


def never_over(self: Replay) -> None:
    self.whole = True  # type: ignore[misc]
    RESUME(self)


def steals_from_anybody(self: ServerSession, client_id: str, steal: bool) -> str:
    holder = self.broker.clients.held.get(client_id)
    if steal and holder is not None:
        holder.user = self.subject.name
    return CLAIM(self, client_id, steal)


def every_crash(how: str = "commit") -> None:
    for turns in range(0, 36, 4):
        branches.test_a_crash_while_it_is_promised_leaves_all_of_the_promise_or_nothing(turns)
        branches.test_a_crash_while_it_ends_leaves_the_promise_or_its_end(turns, how, restarted=False)


def over_turns() -> None:
    branches.test_a_large_branch_is_promised_and_ended_over_turns("commit")


BUGS: dict[str, tuple[type, str, Any, Callable[[], None]]] = {
    "what may be lost takes all of the disk": (
        Space, "temp_full", lambda self: False,
        lambda: limits.test_a_slow_reader_of_a_topic_never_makes_a_persistent_send_fail(durable=False),
    ),
    "a store that is full takes more": (
        StoreLimits, "measure", as_if_small, lambda: limits.test_producers_wait_where_the_store_is_full(rare=False),
    ),
    "a store that is full takes what has a group": (
        StoreLimits, "measure", as_if_small, lambda: limits.test_producers_wait_where_the_store_is_full(rare=True),
    ),
    "what must stay free is not looked at": (
        StoreLimits, "measure", as_if_empty, limits.test_what_must_stay_free_stops_all_that_is_sent,
    ),
    "who waits for the disk waits for ever": (
        FlowControl, "free_waiters", lambda self: None,
        lambda: limits.test_producers_wait_where_the_store_is_full(rare=False),
    ),
    "who reads no more keeps his share of the disk": (
        FlowControl, "free_waiters", lambda self: None, limits.test_a_reader_that_leaves_gives_its_share_back,
    ),
    "a listener that raises ends what others are told": (
        Hub, "_tell", until_one_raises, listeners.test_a_listener_that_raises_harms_no_other_and_is_reported,
    ),
    "listeners are told of every message": (
        Hub, "_tell", whoever_asks,
        listeners.test_single_messages_are_heard_of_where_the_policy_asks_or_the_listener_takes_all,
    ),
    "half of a promise is on disk": (Work, "portion", in_halves, every_crash),
    "a promise is made in one turn": (_Preparing, "portion", in_one_turn, over_turns),
    "a promise is kept in one turn": (_Committing, "portion", in_one_turn, over_turns),
    "a promise is taken back in one turn": (
        _RollingBack, "portion", in_one_turn,
        lambda: branches.test_a_large_branch_is_promised_and_ended_over_turns("roll back"),
    ),
    "a commit runs ahead of the disk": (
        JournalCore, "is_behind", lambda self: False, carrying.test_it_does_not_run_ahead_of_the_disk,
    ),
    "a commit that waited for the disk waits for ever": (
        Transactions, "go_on", lambda self: None, carrying.test_it_does_not_run_ahead_of_the_disk,
    ),
    "a new reader is told what was told in the first turn": (
        Replay, "resume", forgets_the_rest,
        advisories.test_a_new_reader_is_told_what_there_is_in_turns_and_its_end_behind_it,
    ),
    "a new reader is told all in one turn": (
        Replay, "resume", never_over, advisories.test_a_new_reader_is_told_what_there_is_in_turns_and_its_end_behind_it,
    ),
    "bodies of many are ahead of the disk, each by itself": (
        Inflow, "is_crowded", lambda self: False,
        stomp.test_bodies_of_many_connections_come_in_no_faster_than_the_disk_takes_them,
    ),
    "a client id is taken over by whoever says it": (
        ServerSession, "claim", steals_from_anybody,
        lambda: mqtt_rights.test_a_client_id_that_another_user_has_in_another_protocol_is_not_taken_over("stomp", 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, bug, test = BUGS[name]
    monkeypatch.setattr(owner, attribute, bug)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test()
