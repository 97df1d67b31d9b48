"""Files that are looked at again and again: what counts as a change, what is read then, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import pytest

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.config.findings import Findings, Severity
from entrepot.config.model import BrokerConfig, BrokerSettings
from entrepot.config.reading import Reading
from entrepot.io.reloading import FAILED, Origin, Reloader


class World:
    """A file whose text is the name of a broker; ``wrong`` in it is an error, ``torn`` is no file at all."""

    def __init__(self, place: Path) -> None:
        self.file = place / "broker.xml"
        self.part = place / "part.xml"
        self.file.write_text("first")
        self.part.write_text("")
        self.held: list[str] = []
        self.restart: list[str] = []
        self.refused = ""
        self.reloader = Reloader(Origin(self.read, self.read()), 0.01, self.apply)

    def read(self) -> Reading:
        text = self.file.read_text()
        findings = Findings()
        if text == "torn":
            raise InvalidConfiguration("it ends too early", file=str(self.file), line=7)
        if "wrong" in text:
            findings.add(Severity.ERROR, str(self.file), 3, "core/name", "this is wrong", "right it")
        if "odd" in text:
            findings.add(Severity.WARNING, str(self.file), 4, "core/name", "this is odd")
        config = None if findings.errors else BrokerConfig(broker=BrokerSettings(name=text))
        files = (self.file, self.part) if "alone" not in text else (self.file,)
        return Reading(config, findings, files=files)

    async def apply(self, config: BrokerConfig) -> list[str]:
        if self.refused:
            raise InvalidOption(self.refused)
        self.held.append(config.broker.name)
        return self.restart

    def look(self) -> bool:
        return asyncio.run(self.reloader.look())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def later(file: Path) -> None:
    """Touch ``file``; clocks of file systems are coarse."""
    facts = file.stat()
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1_000_000))


def test_nothing_is_read_while_nothing_changes(world: World) -> None:
    assert not world.look()
    assert world.held == []


def test_a_change_is_read_once_and_so_is_a_touch_and_a_part_of_it(world: World) -> None:
    world.file.write_text("second")
    assert (world.look(), world.look()) == (True, False)
    later(world.file)
    assert (world.look(), world.look()) == (True, False)
    world.part.write_text("x")
    assert (world.look(), world.look()) == (True, False)
    assert world.held == ["second"] * 3


@pytest.mark.parametrize(("text", "place"), [("wrong", "broker.xml:3"), ("torn", "broker.xml:7")])
def test_what_is_wrong_is_said_once_with_its_line_and_the_next_change_is_read(
    world: World, caplog: pytest.LogCaptureFixture, text: str, place: str
) -> None:
    world.file.write_text(text)
    assert not world.look()
    assert not world.look()
    (told,) = [one.getMessage() for one in caplog.records]
    assert told.startswith(FAILED)
    assert place in told
    world.file.write_text("right again")
    assert world.look()
    assert world.held == ["right again"]


def test_a_configuration_that_the_broker_refuses_changes_nothing_and_is_said(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.refused = "no such thing"
    world.file.write_text("second")
    assert not world.look()
    assert "no such thing" in caplog.text


def test_what_takes_a_restart_is_named_and_a_warning_is_not_repeated(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.restart = ["acceptor artemis"]
    with caplog.at_level(logging.INFO):
        world.file.write_text("odd")
        world.look()
        world.file.write_text("odd too")
        world.look()
    texts = [one.getMessage() for one in caplog.records]
    assert sum("takes a restart: acceptor artemis" in one for one in texts) == 2
    assert sum("this is odd" in one for one in texts) == 1


def test_files_that_are_not_part_of_it_any_more_are_not_looked_at(world: World) -> None:
    world.file.write_text("alone")
    assert world.look()
    world.part.write_text("whatever")
    assert not world.look()


def test_a_file_that_is_gone_and_comes_back_is_a_change(world: World) -> None:
    world.part.unlink()
    assert world.look()
    world.part.write_text("")
    assert world.look()


def test_it_looks_by_itself_until_it_is_stopped(world: World) -> None:
    async def main() -> None:
        world.reloader.start()
        world.file.write_text("by itself")
        async with asyncio.timeout(10):
            while not world.held:
                await asyncio.sleep(0.01)
        world.reloader.stop()

    asyncio.run(main())
    assert world.held == ["by itself"]


@pytest.mark.parametrize("period", [0, 3600])
def test_it_reads_everything_again_when_it_is_asked_changed_or_not(tmp_path: Path, period: int) -> None:
    world = World(tmp_path)
    reloader = Reloader(Origin(world.read, world.read()), period, world.apply)

    async def main() -> None:
        reloader.start()
        reloader.ask()
        async with asyncio.timeout(10):
            while len(world.held) < 1:
                await asyncio.sleep(0.01)
        world.file.write_text("second")
        reloader.ask()
        async with asyncio.timeout(10):
            while len(world.held) < 2:
                await asyncio.sleep(0.01)
        assert not await reloader.look(), "that change is known"
        reloader.stop()

    asyncio.run(main())
    assert world.held == ["first", "second"]
