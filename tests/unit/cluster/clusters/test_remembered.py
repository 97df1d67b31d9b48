"""What a node that gives all away tells of duplicate ids, to one of ours and to an Artemis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.remembered import AT_ONCE, Remembered
from kit import Rig


class Asked(Asking):
    """Notes what is asked, and answers when it is told to."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, list[str]]] = []
        self.waiting: list[Callable[[bool, object], None]] = []

    def operation(
        self, resource: str, name: str, arguments: Sequence[object], answer: Callable[[bool, object], None]
    ) -> None:
        address, ids = arguments
        assert resource == "broker"
        assert isinstance(address, str)
        assert isinstance(ids, list)
        self.said.append((name, address, ids))
        self.waiting.append(answer)


def rig_with(**caches: list[bytes]) -> Rig:
    rig = Rig()
    duplicates = rig.broker.sending.duplicates
    rig.journal.begin()
    for address, ids in caches.items():
        for one in ids:
            duplicates.remember(address, one, 10_000, True)
    rig.journal.end()
    return rig


def test_portions_follow_each_other_and_the_end_is_known() -> None:
    rig = rig_with(a=[b"%d" % number for number in range(AT_ONCE + 1)], b=[b"\xff"])
    asked = Asked()
    told = Remembered(rig.broker, asked, ours=True)
    while asked.waiting:
        assert len(asked.waiting) == 1
        assert not told.done
        asked.waiting.pop()(True, None)
    assert [(address, len(ids)) for _, address, ids in asked.said] == [("a", AT_ONCE), ("a", 1), ("b", 1)]
    assert asked.said[2] == ("rememberDuplicateIds", "b", ["ff"])
    assert (told.done, told.told, told.refused) == (True, AT_ONCE + 2, "")


def test_an_artemis_hears_texts_both_ways_that_it_may_have_them_and_nothing_else() -> None:
    caches = {"a": [b"key", b"\0\1\2", "grün".encode()], "BRIDGE.a": [b"0123"]}
    asked = Asked()
    told = Remembered(rig_with(**caches).broker, asked, ours=False)
    assert asked.said == [("updateDuplicateIdCache", "a", ["key", "k\0e\0y\0"])]
    asked.waiting.pop()(True, None)
    assert (told.done, told.unsaid) == (True, 3)


@pytest.mark.parametrize("ours", [True, False])
def test_a_refusal_ends_it_and_is_told(ours: bool) -> None:
    asked = Asked()
    told = Remembered(rig_with(a=[b"1"], b=[b"2"]).broker, asked, ours=ours)
    asked.waiting.pop()(False, "no right")
    assert (told.done, told.refused, len(asked.said)) == (True, "no right", 1)


def test_where_none_are_known_nothing_is_asked() -> None:
    asked = Asked()
    assert Remembered(Rig().broker, asked, ours=True).done
    assert asked.said == []


def test_ids_that_a_node_of_the_cluster_gave_are_not_told() -> None:
    """A message for two nodes has one id: the other one took its own copy for a repetition, and it was lost."""
    asked = Asked()
    told = Remembered(rig_with(**{"BRIDGE.a": [b"n" * 24, b"n" * 24 + b"Q"]}).broker, asked, ours=True)
    asked.waiting.pop()(True, None)
    assert [ids for _, _, ids in asked.said] == [[(b"n" * 24 + b"Q").hex()]]
    assert told.done


def test_what_comes_while_ids_are_told_is_told_next() -> None:
    rig = rig_with(a=[b"1"])
    asked = Asked()
    told = Remembered(rig.broker, asked, ours=True)
    rig.broker.sending.duplicates.remember("a", b"2", 10_000, False)
    asked.waiting.pop()(True, None)
    assert told.more()
    asked.waiting.pop()(True, None)
    assert [ids for _, _, ids in asked.said] == [[b"1".hex()], [b"2".hex()]]
    assert not told.more()
