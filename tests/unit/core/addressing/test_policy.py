"""Settings by pattern (classic.md 4.16, artemis.md 4.2)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Unit
from entrepot.core.addressing.address_settings import FULL_BLOCK, SLOW_KILL, AddressSettings
from entrepot.core.addressing.policy import Policies, Policy


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
    [
        ("nonsense", "1"),
        ("full", "MAYBE"),
        ("max_octets", "many"),
        ("exclusive", "yes"),
        ("max_deliveries", "3.5"),
        ("max_octets", str(2**63)),
        ("redelivery_jitter", "1.5"),
        ("last_value", "true"),
    ],
)
def test_a_bad_setting_is_refused_and_changes_nothing(name, text):
    policies = Policies()
    with pytest.raises(InvalidOption):
        policies.add("#", {name: text})
    assert policies.of("Q").max_deliveries == 10


def test_every_setting_is_an_attribute_of_its_own():
    policy = Policy()
    for declared in AddressSettings.settings():
        changed = Policy(AddressSettings(**{declared.name: other_value(declared)}))
        assert getattr(changed, declared.name) != getattr(policy, declared.name), declared.name
        assert [
            one.name for one in AddressSettings.settings() if getattr(changed, one.name) != getattr(policy, one.name)
        ] == [declared.name]


def other_value(declared):
    found = OTHERS.get(declared.unit) or other_word(declared)
    return found if declared.high is None else min(found, declared.high)


def other_word(declared):
    if isinstance(declared.default, bool):
        return not declared.default
    return list(type(declared.default))[-1]


OTHERS = {Unit.COUNT: 77, Unit.DURATION: 77, Unit.MILLISECONDS: 77, Unit.OCTETS: 77, Unit.FACTOR: 0.5, Unit.TEXT: "x"}


def test_addresses_that_the_same_patterns_cover_share_a_policy():
    policies = Policies()
    policies.add("a.*", {"exclusive": "true"})
    assert policies.of("a.b") is policies.of("a.c")
    assert policies.of("a.b") is not policies.of("b")
    policies.add("a.b", {"max_deliveries": "3"})
    assert (policies.of("a.b").max_deliveries, policies.of("a.c").max_deliveries) == (3, 10)


def test_the_cache_of_names_does_not_grow_for_ever():
    policies = Policies()
    for number in range(30_000):
        policies.of(f"client.{number}")
    assert len(policies.merged) <= 10_001


def test_a_misspelt_setting_is_refused_with_a_suggestion():
    with pytest.raises(InvalidOption) as caught:
        Policies().add("#", {"max_deliverie": "3"})
    assert "did you mean max_deliveries" in caught.value.remedy
