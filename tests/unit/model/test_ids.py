"""Identities that a person can read in a log."""

from __future__ import annotations

from entrepot.model.ids import connection_id, fresh_node_id, message_id_prefix
from journals import Lots


def test_a_node_id_is_its_name_and_a_random_tail():
    first = fresh_node_id("my broker/1", Lots(1))
    assert first.startswith("my-broker-1-")
    assert len(first) == len("my-broker-1-") + 10
    assert first == fresh_node_id("my broker/1", Lots(1))
    assert first != fresh_node_id("my broker/1", Lots(2))
    assert fresh_node_id("", Lots(1)).startswith("broker-")


def test_ids_of_messages_and_connections_carry_the_node():
    assert message_id_prefix("n-1") == "ID:n-1:"
    assert connection_id("n-1", 7) == "ID:n-1-c7"
