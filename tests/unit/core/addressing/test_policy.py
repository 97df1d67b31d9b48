"""Settings by pattern (classic.md 4.16, artemis.md 4.2)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Unit
from entrepot.core.addressing.address_settings import FULL_BLOCK, SLOW_KILL, AddressSettings, Full
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.core.addressing.queue_settings import QueueSettings
from entrepot.core.addressing.upkeep_settings import UpkeepSettings


def test_settings_merge_from_the_least_to_the_most_specific():
    policies = Policies()
    policies.add("A.*", {"max_deliveries": "3", "redelivery_delay": "10"})
    policies.add("#", {"max_deliveries": "1", "exclusive": "true", "redelivery_delay": "1"})
    policies.add("A.B", {"redelivery_delay": "20"})
    found = policies.of("A.B")
    assert (found.max_deliveries, found.redelivery_delay, found.of_created.exclusive) == (3, 20_000_000, True)
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
        ("last_value", "maybe"),
        ("ring_size", "-2"),
    ],
)
def test_a_bad_setting_is_refused_and_changes_nothing(name, text):
    policies = Policies()
    with pytest.raises(InvalidOption):
        policies.add("#", {name: text})
    assert policies.of("Q").max_deliveries == 10


def test_every_setting_is_an_attribute_of_its_own():
    for declared in AddressSettings.settings():
        if declared.name not in UpkeepSettings.__settings__:  # those of upkeep are asked seldom, and of `given`
            others = NOTHING_ALONE.get(declared.name, {})
            policy = Policy(AddressSettings(**others))
            changed = Policy(AddressSettings(**others, **{declared.name: other_value(declared)}))
            assert different(changed, policy) == {CALLED.get(declared.name, declared.name)}


def test_every_setting_of_queues_is_one_of_their_traits():
    words = {"purge_on_no_consumers": "purges", "last_value": "last_value_key"}
    for declared in QueueSettings.settings():
        policy, changed = Policy(), Policy(AddressSettings(**{declared.name: other_value(declared)}))
        name = words.get(declared.name, declared.name)
        if name == "auto_delete":
            assert changed.of_auto_created.auto_delete
            assert not changed.of_created.auto_delete
        elif name == "auto_delete_created":
            assert changed.of_created.auto_delete
            assert not changed.of_auto_created.auto_delete
        else:
            for one, other in ((changed.of_created, policy.of_created), (changed.of_auto_created, policy.of_created)):
                assert getattr(one, name) != getattr(other, name), name


NOTHING_ALONE = {
    "page_messages": {"page_full": Full.FAIL},
    "page_octets": {"page_full": Full.FAIL},
    "slow_unit": {"slow_threshold": 5},
}
CALLED = {"slow_threshold": "slow_rate", "slow_unit": "slow_rate", "slow_check_s": "slow_check"}


def different(one, other):
    """Return the settings of which two policies differ, as they call them."""
    names = {CALLED.get(declared.name, declared.name) for declared in AddressSettings.settings()}
    return {name for name in names if hasattr(one, name) and getattr(one, name) != getattr(other, name)}


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


def test_the_default_prefetch_goes_by_what_is_read():
    policy = Policy(AddressSettings(queue_prefetch=1, topic_prefetch=2, durable_prefetch=3))
    assert policy.default_prefetch(topic=False, durable=False) == 1
    assert policy.default_prefetch(topic=True, durable=False) == 2
    assert policy.default_prefetch(topic=True, durable=True) == 3
