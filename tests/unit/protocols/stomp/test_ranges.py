"""Batches of leased messages: what is written is what is read, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.stomp.ranges import Range, decode, headers_of, properties_of, write_entry

NUMBERS = st.integers(0, 2**63 - 1)
ENTRIES = st.lists(
    st.tuples(
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.integers(0, 9),
        st.integers(0, 255),
        st.integers(0, 100_000),
        st.text(max_size=20),
        st.sampled_from(["/queue/a", "/queue/b", "/topic/\u00fc"]),
        st.binary(max_size=30),
        st.binary(max_size=300),
    ),
    max_size=8,
)


def write(entries: list[tuple]) -> bytes:
    writer = BytesWriter()
    for position, timestamp, expires, priority, flags, deliveries, identity, destination, lines, body in entries:
        write_entry(
            writer,
            position,
            timestamp,
            expires,
            priority,
            flags,
            deliveries,
            identity.encode(),
            destination.encode(),
            lines,
            body,
        )
    return writer.getvalue()


def rows(found: Range) -> list[tuple]:
    return list(
        zip(
            found.positions,
            found.timestamps,
            found.expirations,
            found.priorities,
            found.flags,
            found.deliveries,
            found.ids,
            found.destinations,
            found.headers,
            found.bodies,
            strict=True,
        )
    )


@given(ENTRIES)
def test_what_was_written_is_read(entries):
    expected = [(*entry[:5], min(entry[5], 65_535), *entry[6:]) for entry in entries]
    assert rows(decode(write(entries))) == expected
    both = decode(write(entries), decode(write(entries)))
    assert rows(both) == expected * 2
    assert len(both) == 2 * len(entries)


@given(ENTRIES.filter(bool), st.data())
def test_a_body_that_is_cut_is_refused(entries, data):
    whole = write(entries)
    ends = {0}
    for entry in entries:
        ends.add(max(ends) + len(write([entry])))
    cut = data.draw(st.integers(0, len(whole)).filter(lambda at: at not in ends))
    with pytest.raises(MalformedFrame):
        decode(whole[:cut])


def test_lengths_that_lie_are_refused():
    whole = bytearray(write([(0, 0, 0, 4, 0, 0, "id", "/queue/a", b"a:b\n", b"body")]))
    whole[36:40] = (1000).to_bytes(4, "big")
    with pytest.raises(MalformedFrame):
        decode(bytes(whole))


def test_headers_are_unescaped_and_properties_are_the_rest():
    lines = b"content-length:4\ncorrelation-id:c\nco\\clor:a\\\\n\\nb\\r\\c\nplain:x:y\nplain:second\n"
    assert headers_of(lines) == {
        "content-length": "4",
        "correlation-id": "c",
        "co:lor": "a\\n\nb\r:",
        "plain": "x:y",
    }
    assert properties_of(lines) == {"co:lor": "a\\n\nb\r:", "plain": "x:y"}
    assert headers_of(b"") == {}
