"""Every element and attribute that Artemis 2.42 knows in its broker.xml has a fate here that is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from entrepot.config.artemis.elements import KINDS
from entrepot.config.vocabulary import Does, Kind

NAMES: Final = Path(__file__).parents[3] / "vectors" / "broker-xml-2.42.0.txt"
"""Made by ``tools/artemis_schema.py``."""
PATHS: Final = [line for line in NAMES.read_text().splitlines() if not line.startswith("#")]


def fate(path: str) -> Does | None:
    """Return what becomes of what stands at ``path``; None: nobody says."""
    kind: Kind = KINDS["core"]
    words = path.split("/")[1:]
    for at, word in enumerate(words):
        name = word.removeprefix("@")
        last = at == len(words) - 1
        attribute = kind.attributes.get(name)
        if attribute is not None:
            return attribute.does  # what is in it is part of its value
        slot = kind.slots.get(name)
        if slot is None:
            return None
        if slot.does is not Does.OBEYED or last:
            return slot.does
        kind = KINDS[slot.kinds[0]]
        if kind.does is not Does.OBEYED:
            return kind.does
    return None


def test_the_list_is_whole() -> None:
    assert len(PATHS) > 600
    assert {"core/name", "core/address-settings/address-setting/@match", "core/diverts/divert/exclusive"} <= set(PATHS)


def test_everything_has_a_fate() -> None:
    assert [path for path in PATHS if fate(path) is None] == []


@pytest.mark.parametrize("path", ["core/nothing", "core/address-settings/address-setting/ring", "core/@id"])
def test_what_artemis_does_not_know_has_none(path: str) -> None:
    assert fate(path) is None
