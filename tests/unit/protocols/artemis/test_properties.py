"""Names of properties that are kept in both of their forms."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from entrepot.base.errors import MalformedFrame
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


def octets_of(said: dict[str, object]) -> bytes:
    """Return properties as they travel, behind something else."""
    out = BytesWriter()
    out.write(b"head")
    properties.write_entries(out, said)
    return out.getvalue()


AT = 4


def test_what_is_written_besides_stands_around_and_is_counted() -> None:
    more = properties.Entries()
    more.add(properties.entry("c", 3))
    more.add_octets(properties.entry("d", b"")[:-4], b"four")
    more.add_numbered(properties.entry("e", b"")[:-4], b"five", 5, b"!")
    first = properties.entry("a", 1)
    wanted = {"a": 1, "b": 2, "c": 3, "d": b"four", "e": b"five" + (5).to_bytes(8, "big") + b"!"}
    out = BytesWriter()
    properties.write_entries(out, {"b": 2}, first, more)
    assert properties.read_properties(out.getvalue(), 0) == wanted
    assert list(properties.read_properties(out.getvalue(), 0)) == list(wanted)
    assert properties.read_properties(more.behind(octets_of({"a": 1, "b": 2}), AT), AT) == wanted
    assert properties.read_properties(more.behind(octets_of({}), AT), AT).keys() == {"c", "d", "e"}
    more.clear()
    assert more.behind(octets_of({"a": 1}), AT) == octets_of({"a": 1})
    more.replaced.append("a")
    assert more.behind(octets_of({"a": 1}), AT) == octets_of({})


def test_a_property_is_found_without_opening_the_others() -> None:
    octets = octets_of({"a": "x", "bb": 2, "c": None})
    for name, value in (("a", "x"), ("bb", 2), ("c", None), ("b", None)):
        assert properties.value_of(octets, AT, properties.key_octets(name)) == value
        assert (properties.find(octets, AT, properties.key_octets(name)) >= 0) == (name != "b")
    few = [properties.key_octets(name) for name in ("c", "bb", "a")]
    assert properties.has_only(octets, AT, few)
    assert not properties.has_only(octets, AT, few[1:])
    assert properties.has_only(octets_of({}), AT, [])


def test_properties_that_end_anywhere_are_refused_in_words() -> None:
    octets = octets_of({"a": "x", "bb": 2})
    for length in range(AT, len(octets)):
        for look in (lambda data: properties.find(data, AT, b"zz"), lambda data: properties.has_only(data, AT, FEW)):
            with pytest.raises(MalformedFrame):
                look(octets[:length])


FEW = [properties.key_octets(name) for name in ("a", "bb")]


def test_the_first_few_are_kept() -> None:
    octets = octets_of({"a": 1, "b": 2})
    second = AT + 5 + len(properties.entry("a", 1))
    assert properties.with_first(octets, AT, second, 1) == octets_of({"a": 1})
    assert properties.with_first(octets, AT, AT + 5, 0) == octets_of({})
