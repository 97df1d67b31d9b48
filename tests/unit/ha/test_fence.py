"""The fence: it stands exactly as long as the lease, and falls for good."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.ha.fence import UNANSWERED, LeaseFence
from entrepot.ha.lease import Grant, LeaseOptions, Tenure


def test_it_stands_as_long_as_the_lease() -> None:
    tenure = Tenure(LeaseOptions(2 * SECOND))
    tenure.won(Grant(7, 10 * SECOND, "it is new"))
    clock = [10 * SECOND]
    fence = LeaseFence(tenure, lambda: clock[0])
    assert fence.holds()
    clock[0] = tenure.until - 1
    assert fence.holds()
    clock[0] = tenure.until
    assert not fence.holds()
    assert fence.why() == UNANSWERED


def test_it_falls_with_a_lease_that_is_lost_and_says_why() -> None:
    tenure = Tenure(LeaseOptions(2 * SECOND))
    tenure.won(Grant(7, 10 * SECOND, "it is new"))
    fence = LeaseFence(tenure, lambda: 10 * SECOND)
    tenure.lose("the lock file was deleted")
    assert not fence.holds()
    assert fence.why() == "the lock file was deleted"
