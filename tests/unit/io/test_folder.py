"""Announcements in a directory, as JGroups' FILE_PING has it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.base.errors import OperatorError
from entrepot.io import folder
from entrepot.io.folder import Folder


def test_members_hear_each_other_and_who_goes_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "LOOK_S", 0.001)
    place = tmp_path / "share" / "channel"

    async def act() -> list[bytes]:
        heard: list[bytes] = []
        enough = asyncio.Event()

        def hear(data: bytes, name: str) -> None:
            heard.append(data)
            if len(heard) == 2:
                enough.set()

        listener = await Folder(place, "a", hear).open()
        speaker = await Folder(place, "b").open()
        (place / "huge").write_bytes(bytes(70_000))
        (place / "huge").rename(place / "huge.announcement")  # else its beginning may be read
        speaker.say(b"one")
        while b"one" not in heard:
            await asyncio.sleep(0)
        while not enough.is_set():
            speaker.say(b"two")
            await asyncio.sleep(0)
        speaker.close()
        listener.close()
        return heard

    assert asyncio.run(asyncio.wait_for(act(), 30)) == [b"one", b"two"]
    assert [one.name for one in place.iterdir() if one.suffix == ".announcement"] == ["huge.announcement"]


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot meet others"):
        asyncio.run(Folder(tmp_path / "file" / "x", "a").open())
