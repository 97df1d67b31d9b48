"""Settings by pattern (classic.md 4.16, artemis.md 4.2)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.core.policy import FULL_BLOCK, SETTINGS, SLOW_KILL, Policies, Policy, apply


def test_settings_merge_from_the_least_to_the_most_specific():
    policies = Policies()
    policies.add("A.*", {"max_deliveries": "3", "redelivery_delay": "10"})
    policies.add("#", {"max_deliveries": "1", "exclusive": "true", "redelivery_delay": "1"})
    policies.add("A.B", {"redelivery_delay": "20"})
    found = policies.of("A.B")
    assert (found.max_deliveries, found.redelivery_delay, found.exclusive) == (3, 20_000_000, True)
    assert policies.of("C").max_deliveries == 1
    policies.add("C", {"max_deliveries": "7"})
    assert policies.of("C").max_deliveries == 7, "what was looked up before is looked up again"


def test_both_dialects_name_a_setting():
    policies = Policies()
    policies.add("#", {"max-delivery-attempts": "4", "address-full-policy": "block", "memoryLimit": "64 mb"})
    policies.add("#", {"slow-consumer-policy": "KILL", "max-size-bytes": "-1"})
    found = policies.of("Q")
    assert (found.max_deliveries, found.full, found.slow) == (4, FULL_BLOCK, SLOW_KILL)
    assert found.max_octets > 1 << 60


@pytest.mark.parametrize(
    ("name", "text"),
    [("nonsense", "1"), ("full", "MAYBE"), ("max_octets", "many"), ("exclusive", "yes"), ("max_deliveries", "3.5")],
)
def test_a_bad_setting_is_refused_and_changes_nothing(name, text):
    policies = Policies()
    with pytest.raises(InvalidOption):
        policies.add("#", {name: text})
    assert policies.of("Q").max_deliveries == 10


def test_every_setting_is_an_attribute():
    policy = Policy()
    samples = {"octets": "1k", "full": "PAGE", "ms": "5", "bool": "true", "int": "3", "ns-ms": "5", "float": "1.5"}
    for setting in SETTINGS:
        assert hasattr(policy, setting.name)
        apply(policy, setting.name, {**samples, "text": "x", "slow": "KILL", "recall": "LAST"}[setting.kind])


def test_the_cache_of_names_does_not_grow_for_ever():
    policies = Policies()
    for number in range(30_000):
        policies.of(f"client.{number}")
    assert len(policies.merged) <= 10_001


def test_a_misspelt_setting_is_refused_with_a_suggestion():
    with pytest.raises(InvalidOption) as caught:
        apply(Policy(), "max_deliverie", "3")
    assert "did you mean 'max_deliveries'?" in caught.value.remedy
