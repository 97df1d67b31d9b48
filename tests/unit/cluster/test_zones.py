"""Where a client belongs, by rule."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cluster.zones import ZoneRules, check_zone


def test_the_first_rule_that_fits_counts() -> None:
    rules = ZoneRules(["ams=10.1.0.0/16,client:ams-*", "fra=10.0.0.0/8,user:fra-*,fd00::/8"])
    assert rules.zone("x", "", "10.1.2.3:5000") == "ams"
    assert rules.zone("x", "", "10.2.2.3:5000") == "fra"
    assert rules.zone("x", "", "[fd00::1]:5000") == "fra"
    assert rules.zone("ams-7", "fra-1", "192.168.1.1:1") == "ams"
    assert rules.zone("7", "fra-1", "192.168.1.1:1") == "fra"
    assert rules.zone("7", "me", "192.168.1.1:1") == ""
    assert rules.zone("7", "me", "a path of a socket") == ""
    assert ZoneRules().zone("7", "me", "10.1.2.3:1") == ""


@pytest.mark.parametrize("text", ["ams", "ams=", "=10.0.0.0/8", "a b=10.0.0.0/8", "ams=10.0.0.0/99", "ams=colour:red"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        ZoneRules([text])


def test_names_of_zones() -> None:
    assert check_zone("eu-west_1.a") == "eu-west_1.a"
    with pytest.raises(InvalidOption):
        check_zone("a,b")
