"""Settings by pattern: what is merged, what is refused, and what holds for queues or topics alone."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.core.policy import MILLISECOND, Policies
from entrepot.model.address import ANYCAST, MULTICAST


def test_the_more_specific_pattern_wins_setting_by_setting() -> None:
    policies = Policies()
    policies.add("orders.>", {"max_deliveries": "3", "redelivery_delay": "50"})
    policies.add("orders.eu", {"max_deliveries": "7"})
    policies.add(">", {"max_deliveries": "1", "prioritized": "false"})
    policy = policies.of("orders.eu")
    assert (policy.max_deliveries, policy.redelivery_delay, policy.prioritized) == (7, 50 * MILLISECOND, False)
    assert policies.of("orders.us").max_deliveries == 3
    assert policies.of("other").max_deliveries == 1


def test_an_entry_for_topics_leaves_queues_of_the_same_name_alone() -> None:
    policies = Policies()
    policies.add(">", {"memoryLimit": "3mb"})
    policies.add(">", {"memoryLimit": "1mb"}, ANYCAST)
    policies.add("a", {"memoryLimit": "2mb"}, MULTICAST)
    mib = 1024 * 1024
    assert policies.of("a", ANYCAST).max_octets == mib
    assert policies.of("a", MULTICAST).max_octets == 2 * mib
    assert policies.of("b", MULTICAST).max_octets == 3 * mib
    assert policies.of("a").max_octets == mib, "untyped is taken for a queue"


def test_a_later_entry_is_heard_although_the_answer_was_cached() -> None:
    policies = Policies()
    assert policies.of("a", MULTICAST).pending_limit == -1
    policies.add("a", {"pending_limit": "5"}, MULTICAST)
    assert (policies.of("a", MULTICAST).pending_limit, policies.of("a", ANYCAST).pending_limit) == (5, -1)


@pytest.mark.parametrize("settings", [{"nonsense": "1"}, {"max_deliveries": "many"}, {"full": "EXPLODE"}])
def test_what_is_no_setting_is_refused_when_it_is_added(settings: dict[str, str]) -> None:
    with pytest.raises(InvalidOption):
        Policies().add("a", settings)
