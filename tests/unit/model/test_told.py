"""What nodes of a cluster call each other's queues."""

from __future__ import annotations

from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.told import TOLD_MULTICAST, TOLD_REMOTE, TOLD_TEMPORARY, is_temporary, remote_as, told_as

ARTEMIS = 77  # it numbers its queues


def test_a_queue_that_lasts_has_one_id_whenever_it_was_made() -> None:
    assert told_as("Q", ANYCAST, False, 5) == told_as("Q", ANYCAST, False, 900)
    assert told_as("Q", ANYCAST, False, 5) != told_as("R", ANYCAST, False, 5)


def test_a_temporary_queue_has_an_id_of_its_own() -> None:
    one, other = told_as("T", MULTICAST, True, 5), told_as("T", MULTICAST, True, 900)
    assert one != other
    assert is_temporary(one)


def test_an_id_says_what_kind_of_queue_it_is() -> None:
    assert told_as("Q", ANYCAST, False, 0) & (TOLD_MULTICAST | TOLD_TEMPORARY | TOLD_REMOTE) == 0
    assert told_as("S", MULTICAST, False, 0) & TOLD_MULTICAST
    far = told_as("S", MULTICAST, True, 0)
    assert is_temporary(remote_as("S-node", MULTICAST, far))
    assert not is_temporary(remote_as("S-node", MULTICAST, ARTEMIS))
    assert remote_as("S-node", MULTICAST, far) & TOLD_REMOTE


def test_ids_fit_into_what_is_sent() -> None:
    for identity in (told_as("Q", MULTICAST, True, 1 << 60), remote_as("Q-node", MULTICAST, ARTEMIS)):
        assert 0 < identity < 1 << 63
