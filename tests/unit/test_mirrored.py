"""Every module has a test of its own, or stands in `tests/mirrored.toml` with what tests it instead."""

from __future__ import annotations

import pytest

from mirrored import RECORD, ROOT, Group, groups, reached, shrunk, without_a_test
from structure import module_name, modules

STALE_MAX = 10  # entries that have a test by now: a few more or less do not matter


def test_the_list_has_little_that_is_tested_or_gone() -> None:
    before, after = RECORD.read_text().split(), shrunk(RECORD.read_text()).split()
    assert len(before) - len(after) <= STALE_MAX, "well done: run `python tests/mirrored.py`"


@pytest.mark.parametrize("group", groups(), ids=lambda group: f"{group.folder}/{(*group.names.split(), 'nothing')[0]}")
def test_what_is_said_to_test_a_module_is_there_and_loads_it(group: Group) -> None:
    assert group.modules, "all of it is tested or gone: take the group out"
    assert len(group.why) > 20
    assert [place for place in group.by if not (ROOT / place).exists()] == []
    found = reached(group.by)
    assert [module for module in group.modules if module_name(module) not in found] == []


def test_the_search_bites() -> None:
    assert "base/uri.py" in modules()
    assert "base/uri.py" not in without_a_test()
    assert "entrepot.base.uri" in reached(["tests/unit/base/test_uri.py"])
    assert "entrepot.protocols.mqtt.server" not in reached(["tests/unit/base/test_uri.py"])
