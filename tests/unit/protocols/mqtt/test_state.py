"""Sessions of MQTT apart from connections: packet identifiers, and what a restart finds."""

from __future__ import annotations

from entrepot.protocols.mqtt.schema import KEEPS_FOR_EVER, PACKET_IDS, V5
from entrepot.protocols.mqtt.state import Filed, Flight, MqttState, state_of


def fly(state: MqttState, queue: int, number: int) -> int:
    """Put a PUBLISH of QoS 1 on its way and return its identifier."""
    packet_id = int(state.take_id())
    state.flights[packet_id] = Flight(packet_id, number, queue, 1)
    return packet_id


def test_an_identifier_is_not_given_again_while_it_is_in_use() -> None:
    state = MqttState("c", "", V5)
    state.releasing[2] = False
    assert [fly(state, 1, number) for number in range(3)] == [1, 3, 4]
    del state.flights[3]
    assert state.take_id() == 5, "the youngest that are free come last: who confirms late is not misunderstood"


def test_identifiers_begin_again_behind_the_last_and_may_run_out() -> None:
    state = MqttState("c", "", V5)
    state.last_id = PACKET_IDS - 1
    assert [fly(state, 1, number) for number in range(2)] == [PACKET_IDS, 1]
    state.releasing.update(dict.fromkeys(range(2, PACKET_IDS), True))
    assert state.take_id() == 0
    del state.releasing[77]
    assert state.take_id() == 77


def test_what_went_back_to_a_queue_and_did_not_come_again_makes_room_when_there_is_none() -> None:
    state = MqttState("c", "", V5)
    for number in range(PACKET_IDS):
        fly(state, 1, number)
    state.land()
    assert len(state.returned) == PACKET_IDS
    del state.returned[(1, 0)]  # came again, and flies
    assert state.take_id() == 2
    assert list(state.flights) == [1]


def test_a_restart_finds_what_the_record_says() -> None:
    state = MqttState("c", "ann", V5)
    state.expiry, state.ended = 30, 1234
    state.subscriptions = {"a/#": Filed(2, 7), "b": Filed(0, 0)}
    again = state_of("c", state.record())
    assert again.record() == state.record()
    assert (again.persistent, again.keeps_for_ever(), again.connected) == (True, False, False)
    again.expiry = KEEPS_FOR_EVER
    assert again.keeps_for_ever()
