"""The commands of docs/pipeline.md and docs/audit.md as they stand, but for places, on the Spark of all tests."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet
import pytest
from classic import free_port
from click.testing import CliRunner

from entrepot import pipeline
from entrepot.cli.main import cli
from entrepot.cli.spark import SETTINGS
from guides import blocks
from shell.daemon import Daemon, Wire
from spark.stand import PATIENCE, Stand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE: Final = "run by tests/spark/test_guide_of_jobs.py"
PAGES: Final = ("docs/pipeline.md", "docs/audit.md")
JOBS: Final = ("archive", "replay", "audit", "report", "plan")
ODD: Final = {"kind": "refund", "version": "1"}


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands use the Spark that is there: one that starts takes half a minute, and would end this one."""

    @contextlib.contextmanager
    def theirs(*_: Any) -> Iterator[SparkSession]:
        made = spark.newSession()
        for name, value in SETTINGS.items():
            with contextlib.suppress(Exception):  # some are not of a session, but of Spark
                made.conf.set(name.replace("__", "."), value)
        pipeline.register(made)
        yield made

    for job in JOBS:
        monkeypatch.setattr(f"entrepot.cli.pipeline_{job}.spark_session", theirs)


def lines(page: str, **places: str) -> list[list[str]]:
    """Return the commands of the one block of a page, in words."""
    (block,) = [one for one in blocks(page, "console") if one.marker == HERE]
    script = block.script()
    for old, new in {"/data/archive": places["home"], "/var/trace": places["home"], "2026-": "2020-"}.items():
        script = script.replace(old, new)
    return [shlex.split(line, comments=True) for line in script.splitlines()]


def told(words: list[str], url: str = "") -> str:
    """Run a command of ours; return what it wrote."""
    assert words[0] == "entrepot"
    done = CliRunner().invoke(cli, words[1:], env={"ENTREPOT_URL": url} if url else {})
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.output


def interrupt_when(holds: Any) -> threading.Thread:
    """Press Ctrl-C when ``holds``."""

    def press() -> None:
        end = time.monotonic() + PATIENCE
        while not holds() and time.monotonic() < end:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    return thread


def archived(home: Path) -> int:
    files = [path for path in home.rglob("*.parquet") if "_entrepot" not in path.parts]
    return sum(pyarrow.parquet.read_metadata(path).num_rows for path in files)


def test_archive_and_replay(stand: Stand, tmp_path: Path) -> None:
    home = tmp_path / "archive"
    install, now, follow, count, again, letters = lines(PAGES[0], home=str(home))
    assert install[0] == "pip"
    stand.queue = "orders"
    stand.produce(["a", "b", "c"], **ODD)
    told(now, stand.url)
    assert archived(home) == 3
    stand.produce(["d"])
    pressing = interrupt_when(lambda: archived(home) == 4)
    told(follow, stand.url)
    pressing.join(PATIENCE)
    assert archived(home) == 4
    assert "3" in told(count, stand.url)
    assert stand.left(queue="again") == []
    told(again, stand.url)
    assert sorted(stand.left(queue="again")) == ["a", "b", "c"]
    stand.queue = "ActiveMQ.DLQ"
    stand.produce(["dead"], **ODD)
    told([*now[:5], "--queue", "ActiveMQ.DLQ"], stand.url)
    told(letters, stand.url)
    (letter,) = stand.wire().drain("/queue/test")
    assert (letter.body, letter.headers["version"]) == (b"dead", "2")


def test_traces_are_shown_proved_audited_reported_and_planned(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    run, show, *rest = lines(PAGES[1], home=str(traces))
    assert run[:2] == ["entrepot", "run"]
    port = free_port()
    north = _broker(tmp_path, run[2:], "--listen", f"tcp://127.0.0.1:{port}")
    south = _broker(tmp_path, ["--name", "south", *run[4:]], "--connect", f"static:(tcp://127.0.0.1:{port})")
    try:
        wire = Wire(north.port)
        for number in range(50):
            wire.send("/queue/orders", f"{number}".encode(), persistent="true")
        seen = [frame.headers["message-id"] for frame in Wire(south.port).drain("/queue/orders")]
        seen += [frame.headers["message-id"] for frame in Wire(north.port).drain("/queue/orders")]
        assert len(seen) == 50
        wire.leave()
    finally:
        north.stop()
        south.stop()
    assert seen[0] in told([*show[:-1], seen[0]])
    for words in rest:
        at = words.index("--to") + 1 if "--to" in words else 0
        words[at : at + 1] = [str(tmp_path / words[at])] if at else words[:1]
        assert told(words)
    assert {path.parent.name for path in tmp_path.glob("*/report.html")} == {"audit", "report", "plan"}


def _broker(home: Path, words: list[str], *more: str) -> Daemon:
    place = home / words[1]
    place.mkdir()
    return Daemon(place, *words, *more).start()


def test_no_block_of_these_pages_is_left_out() -> None:
    for page in PAGES:
        assert [one.marker for one in blocks(page, "console") if one.marker] == [HERE]
