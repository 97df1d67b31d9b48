"""Certificates that change while their listener is open: what is noticed, taken, and kept."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any, cast

import pytest

from entrepot.io.options import no_option, read
from entrepot.io.renewing import Renewal, renews
from entrepot.io.tcp import parse_place
from shell.certificates import Certificates


class Door:
    """A listener without a port."""

    def __init__(self, text: str, *, is_open: bool = True) -> None:
        self.options = read(parse_place(text), no_option)
        self.uri = "core+ssl://here"
        self.is_open = is_open
        self.listening = self
        self.context: ssl.SSLContext | None = None
        self.shown: list[ssl.SSLContext] = []

    async def renew(self, context: ssl.SSLContext) -> None:
        self.shown.append(context)


def door(files: Certificates, more: str = "&sslAutoReload=true", *, is_open: bool = True) -> Any:
    text = f"core+ssl://0.0.0.0:1?keyStorePath={files.server}&trustStorePath={files.authority}{more}"
    return Door(text, is_open=is_open)


@pytest.fixture
def files(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def other(folder: Path) -> Certificates:
    folder.mkdir()
    return Certificates(folder)


def replaced(path: Path, by: Path) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(by.read_bytes())
    os.replace(fresh, path)


def looked(*doors: Any, between: Any = lambda: None) -> list[int]:
    """Look twice, with something done before and between."""

    async def main() -> list[int]:
        renewal = Renewal(cast(Any, doors), 1_000_000)
        await renewal.start()
        found = [await renewal.look()]
        for act in between if isinstance(between, list) else [between]:
            act()
            found.append(await renewal.look())
        renewal.stop()
        return found

    return asyncio.run(main())


def test_only_who_wants_it_is_looked_at(files: Certificates) -> None:
    assert not renews(door(files, ""))
    assert not renews(door(files, "&sslAutoReload=false"))
    assert not renews(cast(Any, Door("core://0.0.0.0:1?sslAutoReload=true")))
    still = door(files, "")
    assert looked(still, between=lambda: replaced(files.server, files.client)) == [0, 0]
    assert not still.shown


def test_a_changed_file_is_shown_once(files: Certificates, tmp_path: Path) -> None:
    fresh = other(tmp_path / "fresh")
    here = door(files)
    acts = [
        lambda: replaced(files.server, fresh.server),
        lambda: None,
        lambda: replaced(files.authority, fresh.authority),
    ]
    assert looked(here, between=acts) == [0, 1, 0, 1]
    assert len(here.shown) == 2


def test_what_cannot_be_used_is_said_once_and_what_held_goes_on(
    files: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fresh = other(tmp_path / "fresh")
    here = door(files)
    half = lambda: files.server.write_bytes(fresh.server.read_bytes()[:200])  # noqa: E731
    acts = [half, lambda: None, files.server.unlink, lambda: replaced(files.server, fresh.server)]
    with caplog.at_level(logging.INFO, "entrepot.listener"):
        assert looked(here, between=acts) == [0, 0, 0, 0, 1]
    levels = [record.levelname for record in caplog.records]
    assert levels == ["ERROR", "ERROR", "INFO"], "half a file, no file, a good one"
    assert len(here.shown) == 1


def test_who_is_closed_shows_it_when_it_is_opened(files: Certificates, tmp_path: Path) -> None:
    fresh = other(tmp_path / "fresh")
    here = door(files, is_open=False)
    assert looked(here, between=lambda: replaced(files.server, fresh.server)) == [0, 1]
    assert not here.shown
    assert isinstance(here.context, ssl.SSLContext)
