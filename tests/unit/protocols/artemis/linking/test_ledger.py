"""Packets that were sent, by message: what a confirmation, an answer and a return to the channel take off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.artemis.linking.ledger import ID_SPAN, Ledger

PACKETS = st.lists(st.integers(1, 5), min_size=1, max_size=20)


def as_int(count: int) -> int:
    """Return the id of the packet with that index as Java's int."""
    return (count + ID_SPAN // 2) % ID_SPAN - ID_SPAN // 2


def filled(packets: list[int], before: int = 0) -> Ledger:
    ledger = Ledger()
    ledger.written = before
    for number, count in enumerate(packets, 1):
        ledger.send(count, number)
    return ledger


@given(PACKETS, st.integers(0, ID_SPAN * 2), st.data())
def test_a_confirmation_ends_the_messages_that_are_whole_in_it(
    packets: list[int], before: int, data: st.DataObject
) -> None:
    ledger = filled(packets, before)
    done = data.draw(st.integers(0, sum(packets)))
    whole = sum(sum(packets[:end]) <= done for end in range(1, len(packets) + 1))
    assert ledger.confirmed(as_int(before + done - 1)) == whole
    left = [ledger.replied(0) for _ in range(len(packets) - whole)]
    assert left == list(range(whole + 1, len(packets) + 1))
    assert ledger.replied(0) == 0


@given(PACKETS, st.data())
def test_a_channel_goes_on_between_two_messages_and_not_within_one(packets: list[int], data: st.DataObject) -> None:
    ledger = filled(packets)
    done = data.draw(st.integers(0, sum(packets)))
    ends = {sum(packets[:end]) for end in range(len(packets) + 1)}
    assert ledger.resume(as_int(done - 1)) == (done in ends)
    assert ledger.written == done
    assert ledger.replied(0) == 0, "what was on its way is sent anew, and entered anew"


def test_an_answer_to_a_message_ends_those_before_it() -> None:
    ledger = filled([1, 3, 1, 1])
    assert ledger.replied(3) == 3
    assert ledger.replied(0) == 4


def test_what_was_received_is_counted_beyond_an_int_of_java() -> None:
    ledger = Ledger()
    assert ledger.last_received() == -1
    for received, last in ((1, 0), (ID_SPAN // 2, ID_SPAN // 2 - 1), (ID_SPAN // 2 + 1, -ID_SPAN // 2), (ID_SPAN, -1)):
        ledger.received = received
        assert ledger.last_received() == last
