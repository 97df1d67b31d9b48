"""Places of a range: what was written is read, and nonsense is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import MalformedFrame
from entrepot.protocols.stomp.located import FILES_MAX, ROW_OCTETS, File, Located, Locations

U31 = st.integers(0, 2**31 - 1)
U64 = st.integers(0, 2**64 - 1)
PLACES = st.lists(st.tuples(st.integers(0, 2**62), U31, st.integers(1, 2**31 - 1), st.integers(0, 100_000)), max_size=5)
FILES = st.lists(
    st.tuples(st.text(max_size=12).filter(lambda text: "\0" not in text) | st.just("a\udcff"), U64, U64, PLACES),
    max_size=4,
)


def written(files: list[tuple[str, int, int, list[tuple[int, int, int, int]]]]) -> bytes:
    made = Located()
    for path, device, inode, places in files:
        which = made.name(File(path, device, inode))
        for place in places:
            made.add(which, *place)
    assert int(made.count) == sum(len(places) for *_, places in files)
    return made.body()


def surrogates_pass(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


@given(FILES)
def test_what_was_written_is_read(files: list[tuple[str, int, int, list[tuple[int, int, int, int]]]]) -> None:
    files = [each for each in files if surrogates_pass(each[0])]
    read = Locations(written(files))
    assert [(each.path, each.device, each.inode) for each in read.files] == [each[:3] for each in files]
    rows = [(place, which) for which, each in enumerate(files) for place in each[3]]
    assert int(read.count) == len(rows)
    for row, (place, which) in enumerate(rows):
        assert (int(read.number(row)), int(read.offset(row)), int(read.length(row))) == place[:3]
        assert int(read.deliveries(row)) == min(place[3], 65_535)
        assert int(read.file(row)) == which


@given(FILES, st.data())
def test_half_of_it_is_refused_or_shorter(
    files: list[tuple[str, int, int, list[tuple[int, int, int, int]]]], data: st.DataObject
) -> None:
    whole = written([each for each in files if surrogates_pass(each[0])])
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        read = Locations(cut)
    except MalformedFrame:
        return
    assert (len(whole) - len(cut)) % ROW_OCTETS == 0
    assert int(read.count) == int(Locations(whole).count) - (len(whole) - len(cut)) // ROW_OCTETS


@given(st.binary(max_size=200))
def test_nonsense_raises_nothing_else(data: bytes) -> None:
    try:
        read = Locations(data)
    except MalformedFrame:
        return
    for row in range(int(read.count)):
        assert row < int(read.stretch(row, 100, 1000)) <= int(read.count)
        assert int(read.file(row)) < len(read.files)


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\0\1", b"\0\1\0\3ab", b"\0\0" + bytes(19), b"\0\0" + bytes(20), b"\0\1\0\0" + bytes(16) + bytes(20)],
)
def test_a_place_in_no_file_or_of_nothing_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        Locations(body)


def test_neighbours_are_read_at_once() -> None:
    made = Located()
    first = made.name(File("a", 1, 2))
    for number, offset in enumerate((100, 200, 350, 1000, 900, 2000)):
        made.add(first, number, offset, 100, 0)
    second = made.name(File("b", 1, 3))
    made.add(second, 9, 2100, 5000, 0)
    made.add(second, 10, 7100, 10, 0)
    read = Locations(made.body())
    assert int(read.stretch(0, 50, 1 << 20)) == 3, "the gap behind 450 is too wide"
    assert int(read.stretch(0, 1000, 1 << 20)) == 4, "900 is before 1000"
    assert int(read.stretch(0, 1000, 349)) == 2, "no more than so many octets"
    assert int(read.stretch(5, 1000, 1 << 20)) == 6, "another file"
    assert int(read.stretch(6, 0, 1)) == 7, "one that is longer comes alone"
    assert int(read.stretch(6, 0, 5010)) == 8
    assert FILES_MAX < 1 << 16
