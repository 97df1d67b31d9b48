"""The configuration in pages: bounded, searched, chosen by where a setting is said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from entrepot.base.errors import Refused
from entrepot.base.provenance import DEFAULT, Said
from entrepot.core.operators.census import Census, Written
from entrepot.core.operators.control import DESCRIBED_MOST
from entrepot.core.operators.controls import control
from entrepot.core.operators.settings_page import SOURCES
from kit import Rig
from steps import stepped, usual

MANY = 10_000


class Long(Written):
    """10,000 address settings of five values each."""

    def lines(self) -> Iterable[Said]:
        for number in range(MANY):
            place = f"core/address-settings/address-setting[a.{number:05}]"
            for name in ("match", "max-size-bytes", "page-size-bytes", "max-delivery-attempts", "expiry-address"):
                yield Said(place, name, "10M", "10485760", file="etc/broker.xml", line=number)
        yield Said("core", "name", "x", source=DEFAULT)


class Here(Census):
    written = Long()


def told(wanted: object, *, flood: bool = False) -> tuple[Any, list[float]]:
    rig = Rig()
    rig.broker.effort.alone = not flood
    return stepped(control(rig.broker, Here(), "broker").call("describeConfiguration", [wanted]))


def test_an_answer_is_bounded_and_so_is_a_step() -> None:
    found, times = told({})
    assert (found["count"], len(found["rows"])) == (5 * MANY + 1, DESCRIBED_MOST)
    assert usual(times) < 1
    assert len(told({}, flood=True)[1]) < len(times) / 10  # turns are few then
    assert len(json.dumps(found)) < 200_000
    assert (found["files"], found["family"], found["pending"]) == ([], "", [])


def test_it_is_searched_and_chosen() -> None:
    found, _ = told({"search": ["a.00007]", "MAX"]})
    assert [row["setting"].rpartition("/")[2] for row in found["rows"]] == ["max-size-bytes", "max-delivery-attempts"]
    assert found["rows"][0] == {
        "setting": "core/address-settings/address-setting[a.00007]/max-size-bytes",
        "value": "10M", "means": "10485760", "source": "file", "file": "etc/broker.xml", "line": 7, "over": "",
    }  # fmt: skip
    found, _ = told({"source": "default"})
    assert [row["setting"] for row in found["rows"]] == ["core/name"]
    found, _ = told({"skip": 5 * MANY, "most": 3})
    assert [row["setting"] for row in found["rows"]] == ["core/name"]


@pytest.mark.parametrize("wanted", [{"source": "elsewhere"}, {"search": 7}, {"skip": -1}, {"most": "x"}, {"source": 3}])
def test_what_there_is_not_is_refused(wanted: dict[str, object]) -> None:
    with pytest.raises(Refused):
        told(wanted)
    assert "file" in SOURCES
