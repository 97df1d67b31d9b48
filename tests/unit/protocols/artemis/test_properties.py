"""Names of properties that are kept in both of their forms."""

from __future__ import annotations

from entrepot.protocols.artemis import properties
from entrepot.protocols.artemis.primitives import units_of_text


def test_names_that_are_kept_are_few_and_one_client_keeps_out_no_other() -> None:
    keys = properties._Keys()
    for number in range(4 * properties.KEYS_KEPT):
        name = f"name {number}"
        octets = keys.octets(name)
        assert octets == units_of_text(name)
        assert keys.octets(name) is octets, "the last one is kept, whatever came before it"
        assert keys.text(octets) == name
        assert len(keys._octets) == len(keys._texts) <= properties.KEYS_KEPT


def test_a_long_name_is_not_kept() -> None:
    keys = properties._Keys()
    name = "x" * (properties.KEY_UNITS_MAX + 1)
    assert keys.text(keys.octets(name)) == name
    assert name not in keys._octets
