from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cli.arguments import read_connectors, read_draws, read_settings


def test_settings_of_one_pattern_are_merged_and_a_pattern_may_hold_colons() -> None:
    assert read_settings(("a.>:x=1,y=2", "a.>:z=3", "a::b:x=1")) == {
        "a.>": {"x": "1", "y": "2", "z": "3"},
        "a::b": {"x": "1"},
    }


@pytest.mark.parametrize("text", ["", "a", "a:b", "x=1", ":x=1", "a:=1", "a:x=1,y"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        read_settings((text,))


def test_an_artemis_is_drawn_from_and_any_other_broker_is_bridged_to() -> None:
    texts = ("static:(tcp://a:61616)", "artemis:(tcp://b:61616)?name=west", "static:(tcp://c:61616)")
    assert len(read_connectors(texts, duplex=True)) == 2
    assert [one.options.name for one in read_draws(texts)] == ["west"]
    with pytest.raises(InvalidOption, match="--duplex is about"):
        read_connectors(texts[1:2], duplex=True)
