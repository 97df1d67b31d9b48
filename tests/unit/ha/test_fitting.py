"""Which replica belongs to a primary: who is of another pair, or of the same part, is told so and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import Refused
from entrepot.ha.fitting import identity, refuse_pair, refuse_store
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.stream import LAYOUT


def greeting(options: ReplicationOptions) -> dict[str, Any]:
    return {"name": "beta", **identity(options)}


@pytest.mark.parametrize(
    ("mine", "theirs", "why"),
    [
        ({"group": "red"}, {"group": "blue"}, "beta is of the group 'blue', alpha of the group 'red'"),
        ({"group": "red"}, {}, "beta is of no group, alpha of the group 'red'"),
        ({"owns": True}, {"owns": True}, "alpha and beta are both configured as the primary"),
    ],
)
def test_another_pair_and_a_second_primary_are_refused(mine: dict[str, Any], theirs: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        refuse_pair(greeting(ReplicationOptions(**theirs)), ReplicationOptions(**mine), "alpha")
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"group": "red", "owns": True}, {"group": "red"}),
        ({"owns": False}, {"owns": True}),  # the primary returns, and a backup serves
        ({"group": "red"}, {"group": "", "by_lock": True}),  # a hosted copy: its host was asked, whatever its group
    ],
)
def test_a_pair_is_one(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    refuse_pair(greeting(ReplicationOptions(**theirs)), ReplicationOptions(**mine), "alpha")


def test_an_older_broker_says_neither_and_fits() -> None:
    refuse_pair({"name": "beta"}, ReplicationOptions(group="red", owns=True), "alpha")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"store": "other"}, "beta has a store of its own, other; alpha has s"),
        ({"store": "", "files": {"1.seg": 5}}, "beta has a store of its own, never replicated"),
        ({"seen": 9}, "beta has seen epoch 9, alpha is primary of 3 only"),
        ({"copy": "a"}, "the data directory of beta is a copy of that of alpha, made by hand"),
        ({"files": []}, "speaks layout"),
    ],
)
def test_what_cannot_become_a_copy_is_refused(said: dict[str, Any], why: str) -> None:
    facts = {"layout": LAYOUT, "copy": "b", "name": "beta", "store": "s", "seen": 2, "files": {}, **said}
    with pytest.raises(Refused, match=why):
        refuse_store(facts, name="alpha", copy="a", store="s", epoch=3)
