"""Duplicate ids that another node gives: as an Artemis says them, and as ours does."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Refused
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.remembering import AT_ONCE, Remembering, remember_octets, remember_texts
from kit import Rig


def finish(work: Remembering) -> int:
    steps = 1
    while not work.step():
        steps += 1
    assert work.result() is None
    return steps


def known(rig: Rig, address: str) -> list[bytes]:
    return list(rig.broker.sending.duplicates.addresses[address].ids)


@pytest.mark.parametrize("said", ["k\0e\0y\0", "key"])
def test_an_id_that_was_text_is_known_without_the_zeros_that_artemis_has(said: str) -> None:
    rig = Rig()
    finish(remember_texts(rig.broker, Arguments("updateDuplicateIdCache", ["a", [said, ""]])))
    assert known(rig, "a") == [b"key"]


@pytest.mark.parametrize("said", ["\0\0", "a\0b", "a\0b\0c", "grün"])
def test_others_are_kept_as_they_are(said: str) -> None:
    rig = Rig()
    finish(remember_texts(rig.broker, Arguments("updateDuplicateIdCache", ["a", [said]])))
    assert known(rig, "a") == [said.encode()]


def test_they_come_in_steps_in_their_order_survive_and_the_oldest_go_first() -> None:
    rig = Rig({"a": {"id_cache": "1000"}})
    ids = [b"%04d" % number for number in range(1_300)]
    assert (
        finish(remember_octets(rig.broker, Arguments("x", ["a", [one.hex() for one in ids]]))) == 1_300 // AT_ONCE + 1
    )
    finish(remember_octets(rig.broker, Arguments("x", ["BRIDGE.a", ["00ff"]])))
    assert known(rig, "a") == ids[300:]
    rig.turn()
    rig.restart("kill")
    assert known(rig, "a") == ids[300:]
    assert known(rig, "BRIDGE.a") == [b"\0\xff"]


@pytest.mark.parametrize("values", [[], ["a"], ["a", "id"], ["a", [1]], [["a"], []], ["a\0b", ["00"]], ["a", ["xyz"]]])
def test_what_is_no_list_of_ids_is_refused(values: list[object]) -> None:
    with pytest.raises(Refused):
        remember_octets(Rig().broker, Arguments("rememberDuplicateIds", values))
