"""Identities that a person can read in a log."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from entrepot.model.ids import NodeIdentity, connection_id, fresh_node_id, fresh_uuid, message_id_prefix
from journals import Lots


def test_a_node_id_is_its_name_and_a_random_tail():
    first = fresh_node_id("my broker/1", Lots(1))
    assert first.startswith("my-broker-1-")
    assert len(first) == len("my-broker-1-") + 10
    assert first == fresh_node_id("my broker/1", Lots(1))
    assert first != fresh_node_id("my broker/1", Lots(2))
    assert fresh_node_id("", Lots(1)).startswith("broker-")


def test_ids_of_messages_and_connections_carry_the_node():
    assert message_id_prefix("n-1") == "ID:n-1:-1:1:"
    assert connection_id("n-1", 7) == "ID:n-1-c7"


def test_a_uuid_is_a_random_one_of_rfc_9562():
    octets = fresh_uuid(Lots(1))
    made = UUID(bytes=octets)
    assert (made.version, made.variant) == (4, RFC_4122)
    assert octets == fresh_uuid(Lots(1))
    assert octets != fresh_uuid(Lots(2))
    assert NodeIdentity("n-1", octets).uuid_text == str(made)


def test_an_identity_that_is_not_known_yet_is_empty():
    assert (NodeIdentity().uuid_text, NodeIdentity().message_prefix) == ("", "")
    assert NodeIdentity("n-1").message_prefix == "ID:n-1:-1:1:"
