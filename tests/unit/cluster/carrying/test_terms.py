"""What the retry and silence settings mean for a link, of a bridge as of an upstream."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cluster.carrying.options import CoreBridgeOptions
from entrepot.cluster.carrying.terms import ENDLESS, FASTEST
from entrepot.cluster.federation.options import UpstreamOptions

BOTH = pytest.mark.parametrize("made", [CoreBridgeOptions, UpstreamOptions])


@BOTH
def test_a_loss_is_a_failure_and_attempts_follow_it(made: type[CoreBridgeOptions | UpstreamOptions]) -> None:
    found = made(
        retry_interval=SECOND, retry_multiplier=2.0, retry_interval_max=4 * SECOND, attempts=3, attempts_first=0
    ).reconnection()
    assert (found.initial_delay, found.max_delay, found.exponential, found.multiplier) == (SECOND, 4 * SECOND, True, 2)
    assert (found.attempts_max, found.attempts_first) == (4, 1)
    endless = made(attempts=-1, attempts_first=-1, retry_interval=9 * SECOND, retry_interval_max=SECOND).reconnection()
    assert (endless.attempts_max, endless.attempts_first, endless.max_delay) == (0, 0, 9 * SECOND)


@BOTH
def test_the_shorter_silence_says_how_often_a_link_looks(made: type[CoreBridgeOptions | UpstreamOptions]) -> None:
    assert made(check_period=30 * SECOND, ttl=12 * SECOND).interval(3) == 4 * SECOND
    assert made(check_period=6 * SECOND, ttl=-1).interval(3) == 2 * SECOND
    assert made(check_period=-1, ttl=-1).interval(2) == ENDLESS // 2
    assert made(check_period=30 * MILLISECOND).interval(3) == FASTEST
    assert made(ttl=-1).time_to_live() == ENDLESS
    assert made(ttl=SECOND).time_to_live() == SECOND
