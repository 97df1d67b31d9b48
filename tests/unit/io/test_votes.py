"""What a voter has on disk: two places, each whole or known to be torn; never more than fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.base.errors import StoreUnusable
from entrepot.ha.votes import (
    OCTETS_MAX,
    SEATS_MAX,
    TEXT_MAX,
    Ballot,
    Kind,
    Request,
    Roster,
    Seat,
    Value,
    Verdict,
)
from entrepot.io.votes import PLACE, VoteFile

FIRST = Ballot(1, "a")


def founded(path: Path, *others: Seat) -> tuple[VoteFile, Roster]:
    """Return a voter of a register that has begun."""
    file = VoteFile(path)
    roster = Roster(1, (Seat("x:1", file.voter.state.store), *others))
    assert file.answer(Request(Kind.FOUND, roster=roster)).verdict is Verdict.YES
    assert file.answer(Request(Kind.PREPARE, 1, FIRST)).verdict is Verdict.YES
    return file, roster


@pytest.mark.parametrize("torn", [0, 1])
def test_one_place_that_is_torn_is_no_loss_and_both_are_refused(tmp_path: Path, torn: int) -> None:
    path = tmp_path / "r.votes"
    file, _ = founded(path)
    file.close()
    octets = bytearray(path.read_bytes())
    assert len(octets) == 2 * PLACE
    octets[torn * PLACE + 60] ^= 1
    path.write_bytes(octets)
    again = VoteFile(path)
    assert again.voter.state.promised == FIRST
    again.close()
    octets[(1 - torn) * PLACE + 60] ^= 1
    path.write_bytes(octets)
    with pytest.raises(StoreUnusable, match="neither of its two places is whole"):
        VoteFile(path)


def test_what_does_not_fit_is_not_promised_and_harms_nothing(tmp_path: Path) -> None:
    """Each part is within its bounds, and all of them together are larger than a place."""
    path = tmp_path / "r.votes"
    long = "\u20ac" * (TEXT_MAX - 2)  # six octets of JSON each
    seats = tuple(Seat(f"{long}:{at}", long) for at in range(SEATS_MAX))
    file, roster = founded(path, *seats[1:])
    following = Roster(2, seats)
    value = Value(1, FIRST, bytes(OCTETS_MAX), following)
    with pytest.raises(OSError, match="do not fit"):
        file.answer(Request(Kind.ACCEPT, 1, FIRST, value=value))
    small = value._replace(following=None)
    assert file.answer(Request(Kind.ACCEPT, 1, FIRST, value=small)).verdict is Verdict.YES
    file.close()
    assert path.stat().st_size == 2 * PLACE
    again = VoteFile(path)
    assert (again.voter.state.value, again.voter.state.roster) == (small, roster)
    again.close()
