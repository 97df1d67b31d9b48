"""Who waits for a shared store: a note counts while it changes, and only so many and so long ones are read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.lease import Record
from entrepot.ha.proposals import Named
from entrepot.ha.successors import FORGOTTEN, FRESH
from entrepot.io import waiting
from entrepot.io.waiting import FOLDER, NOTES_MAX, OCTETS_MAX, Looking, Waiting, Waits

PLACES = {"pair": "tcp://b:61616"}


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 100 * SECOND
        monkeypatch.setattr(waiting, "monotonic_ns", lambda: self.at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def waits(folder: Path, name: str) -> Waits:
    return Waits(folder, Record(name=name, instance=name), PLACES)


def test_who_waits_is_known_once_it_says_so_again_and_until_it_says_nothing(tmp_path: Path, clock: Clock) -> None:
    beta, roll = waits(tmp_path, "beta"), Looking(tmp_path)
    assert roll.look(clock.at) is None
    beta.say()
    assert roll.look(clock.at) is None, "it may be left from somebody who is gone"
    beta.say()
    assert roll.look(clock.at) is None, "it says so once a second"
    clock.at += SECOND
    beta.say()
    note = roll.look(clock.at)
    assert note is not None
    assert (note.who, note.connectors) == ("beta", PLACES)
    assert roll.look(clock.at + FRESH) == note
    assert roll.look(clock.at + FRESH + 1) is None
    roll.look(clock.at + FORGOTTEN + 1)
    roll.clear()
    assert list((tmp_path / FOLDER).iterdir()) == [], "nobody else would remove it"
    clock.at += 100 * SECOND
    beta.say()
    roll.look(clock.at)
    beta.over()
    assert list((tmp_path / FOLDER).iterdir()) == []
    assert roll.look(clock.at) is None


def test_who_waits_knows_of_the_others_before_it_serves_and_is_not_its_own_heir(tmp_path: Path, clock: Clock) -> None:
    beta, gamma = (Waiting(tmp_path, Record(name=name, instance=name), PLACES) for name in ("beta", "gamma"))
    for _ in range(2):
        beta.say()
        gamma.say()
        clock.at += SECOND
    assert beta._looking is not None
    note = beta._looking.look(clock.at)
    assert note is not None
    assert (note.who, beta._looking.first) == ("gamma", "gamma")


def test_whom_clients_know_stays_while_it_waits(tmp_path: Path, clock: Clock) -> None:
    both, roll = [waits(tmp_path, "gamma")], Looking(tmp_path)
    found = []
    for _ in range(4):
        for one in both:
            one.say()
        note = roll.look(clock.at)
        found.append(note and note.who)
        clock.at += SECOND
        if len(both) == 1 and note:
            both.append(waits(tmp_path, "beta"))
    assert found == [None, "gamma", "gamma", "gamma"]
    both[0].over()
    note = roll.look(clock.at)
    assert note is not None
    assert note.who == "beta"


def test_what_is_no_note_and_what_is_too_much_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / FOLDER
    folder.mkdir()
    whole = {"who": "x", "count": 1, "connectors": PLACES}
    texts = ["", "[]", "{}", "\xff", json.dumps({**whole, "connectors": [1]}), json.dumps({**whole, "count": "no"})]
    texts.append(json.dumps({**whole, "who": "x" * OCTETS_MAX}))
    for number, text in enumerate(texts):
        (folder / f"a{number}").write_text(text)
    (folder / "adir").mkdir()
    assert waiting._read(folder) == {}
    for number in range(2 * NOTES_MAX):
        (folder / f"0{number}").write_text(json.dumps(whole))
    assert len(waiting._read(folder)) == NOTES_MAX


def test_who_has_no_place_for_clients_says_nothing(tmp_path: Path) -> None:
    Waits(tmp_path, Record(name="beta", instance="beta"), {}).say()
    assert list(tmp_path.iterdir()) == []


def test_who_waits_for_its_own_store_says_so_and_is_known_before_others(tmp_path: Path, clock: Clock) -> None:
    """A backup told clients of another backup, gave the store back to its primary, and they found nobody."""
    both = [waits(tmp_path, "beta"), Waits(tmp_path, Record(name="gamma", instance="gamma"), PLACES, owns=True)]
    roll = Looking(tmp_path)
    for _ in range(2):
        for one in both:
            one.say()
        note = roll.look(clock.at)
        clock.at += SECOND
    assert note is not None
    assert (note.who, note.owns) == ("gamma", True)


def test_clients_are_told_who_waits_once_the_lock_names_him(tmp_path: Path, clock: Clock) -> None:
    told: list[object] = []
    named = [""]

    async def serve() -> None:
        serving = Waiting(tmp_path, Record(name="alpha", instance="alpha"), PLACES)
        beta = waits(tmp_path, "beta")
        for _ in range(2):
            serving.say()
            beta.say()
            clock.at += SECOND
        asked = asyncio.Event()

        def name(heir: str) -> str:
            if heir:
                asked.set()
            return named[-1]

        serving.serve(name, told.append)
        await asyncio.wait_for(asked.wait(), 20)
        assert told == []
        serving.answered(Named("beta"))
        assert told == [PLACES]
        assert serving.successor() == "beta"
        serving.over()
        serving.answered(Named(""))
        assert told == [PLACES], "it serves no more"

    asyncio.run(serve())
