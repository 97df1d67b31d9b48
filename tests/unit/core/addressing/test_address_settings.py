"""The declaration of what an operator may say about addresses."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.base.settings import Dialect
from entrepot.core.addressing.address_settings import OURS, AddressSettings, Full, read_settings


def test_each_family_has_defaults_of_its_own() -> None:
    classic = AddressSettings.defaults_in(Dialect.CLASSIC)
    artemis = AddressSettings.defaults_in(Dialect.ARTEMIS)
    assert set(classic) == set(artemis) == set(AddressSettings.__settings__)
    assert (classic["full"], artemis["full"], OURS.full) == (Full.BLOCK, Full.PAGE, Full.PAGE)
    assert (classic["dead_letter_address"], artemis["dead_letter_address"]) == ("ActiveMQ.DLQ", "")
    assert (classic["max_deliveries"], artemis["max_deliveries"], OURS.max_deliveries) == (-1, 10, 10)
    assert (artemis["auto_delete"], artemis["auto_delete_delay"]) == (True, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"max_deliveries": 3}, {"max_deliveries": 3}),
        ({"max-deliveries": "3"}, {"max_deliveries": 3}),
        ({"max-delivery-attempts": "-1"}, {"max_deliveries": -1}),
        ({"redelivery_delay": 20}, {"redelivery_delay": 20 * MILLISECOND}),
        ({"redelivery-delay": "2s"}, {"redelivery_delay": 2 * SECOND}),
        ({"expiry_ms": "2s"}, {"expiry_ms": 2000}),
        ({"memoryLimit": "64 mb"}, {"max_octets": 64 * 2**20}),
        ({"address-full-policy": "block"}, {"full": Full.BLOCK}),
        ({"exclusive": True}, {"exclusive": True}),
        ({"prioritizedMessages": "False"}, {"prioritized": False}),
        ({"redelivery_multiplier": 2}, {"redelivery_multiplier": 2.0}),
    ],
)
def test_a_setting_is_read_by_any_of_its_names(given: dict[str, object], expected: dict[str, object]) -> None:
    assert read_settings(given) == expected


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("full", "MAYBE", "use one of PAGE, BLOCK, FAIL, DROP"),
        ("queuePrefetch", "-1", "use 0 to 2147483647"),
        ("redelivery_jitter", "nan", "use 0.0 to 1.0"),
        ("max-size-bytes", "-2", "or -1 for no limit"),
        ("redelivery-delay", "1" * 19, "use 0 to "),
        ("queueBrowserPrefetch", "5", "did you mean queuePrefetch"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(name: str, text: str, remedy: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_settings({name: text})
    assert name.replace("_", "-") in caught.value.message.replace("_", "-")
    assert remedy in caught.value.remedy
