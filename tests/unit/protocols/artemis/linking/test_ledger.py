"""Packets that were sent, by message: what a confirmation, an answer and a return to the channel take off."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.artemis.linking.ledger import ID_SPAN, Ledger

PACKETS = st.lists(st.sampled_from((1, 1, 1, 2, 5)), min_size=1, max_size=20)


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


class Single:
    """The same, a message at a time: packets, as (first, last, number)."""

    def __init__(self) -> None:
        self.written = 0
        self.spans: list[tuple[int, int, int]] = []

    def send(self, packets: int, number: int) -> None:
        self.spans.append((self.written, self.written + packets - 1, number))
        self.written += packets

    def replied(self, number: int) -> int:
        if number == 0:
            return self.spans.pop(0)[2] if self.spans else 0
        self.spans = [span for span in self.spans if span[2] > number]
        return number

    def confirmed(self, done: int) -> int:
        found = [number for _, last, number in self.spans if last < done]
        self.spans = [span for span in self.spans if span[1] >= done]
        return found[-1] if found else 0

    def resume(self, done: int) -> bool:
        whole = not any(first < done <= last for first, last, _ in self.spans)
        self.written = done
        self.spans.clear()
        return whole


STEPS = st.lists(
    st.tuples(st.sampled_from(("send", "send", "send", "skip", "post", "replied", "oldest", "confirmed", "resume")),
              st.integers(0, 30)),
    max_size=60,
)  # fmt: skip


@given(STEPS)
def test_messages_of_one_packet_are_counted_together_as_if_each_were_alone(steps: list[tuple[str, int]]) -> None:
    ledger, single = Ledger(), Single()
    number = 0
    for step, amount in steps:
        if step == "send":
            number += 1
            packets = 1 + amount // 25
            ledger.send(packets, number)
            single.send(packets, number)
        elif step == "skip":  # a number that is no message's
            number += 1
        elif step == "post":  # a packet that is none
            ledger.written += 1
            single.written += 1
        elif step == "replied" and number > 0:
            wanted = max(1, number - amount)
            assert ledger.replied(wanted) == single.replied(wanted)
        elif step == "oldest":
            assert ledger.replied(0) == single.replied(0)
        else:
            done = max(0, single.written - amount)
            if step == "resume":
                assert ledger.resume(as_int(done - 1)) == single.resume(done)
            elif step == "confirmed":
                assert ledger.confirmed(as_int(done - 1)) == single.confirmed(done)
        assert ledger.written == single.written
    left = [span[2] for span in single.spans]
    assert [ledger.replied(0) for _ in range(len(left) + 1)] == [*left, 0]
