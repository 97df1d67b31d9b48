"""Staged commits in a damaged journal: what may have been published is kept, and nothing of it comes twice unasked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from entrepot.base.errors import StageError
from entrepot.cli.main import cli
from entrepot.core.operators.upkeep import Retry, publish_stages
from entrepot.core.stages.stage import STAGE_AGE_MS
from entrepot.journal.index import segment_range
from entrepot.journal.record import (
    BATCH_HEAD,
    DELETE,
    MOVE,
    PUT,
    RECORD_HEAD,
    batch_length,
    head_valid,
)
from kit import Rig
from staging import publish, send, write

QUEUE = "salvaged.staged"


class Damaged:
    """A broker that published batches, whose journal somebody damages then."""

    def __init__(self, tmp_path: Path, rig: Rig) -> None:
        rig.restart("close")
        self.before, self.after = tmp_path / "before", tmp_path / "after"
        self.folder = self.before / "journal"
        self.folder.mkdir(parents=True)
        assert rig.disk is not None
        for name, content in rig.disk.medium.durable.items():
            (self.folder / name).write_bytes(content)

    def places(self, kind: int) -> list[tuple[Path, int, int, int]]:
        """Return (file, where its batch begins, where the record begins, where it ends) of records of ``kind``."""
        found = []
        for path in sorted(self.folder.glob("*.seg")):
            octets = path.read_bytes()
            first = segment_range(path.name)[0]
            at = 0
            while head_valid(octets, at, first, at):
                end = at + BATCH_HEAD + int(batch_length(octets, at))
                place = at + BATCH_HEAD
                while place < end:
                    following = place + RECORD_HEAD + int.from_bytes(octets[place : place + 4], "big")
                    if octets[place + RECORD_HEAD] == kind:
                        found.append((path, at, place, following))
                    place = following
                at = end
        return found

    def flip(self, path: Path, place: int) -> None:
        octets = bytearray(path.read_bytes())
        octets[place] ^= 1
        path.write_bytes(octets)

    def wipe(self, path: Path, begin: int) -> None:
        """Put zeros in the place of a batch."""
        octets = bytearray(whole := path.read_bytes())
        end = begin + BATCH_HEAD + int(batch_length(whole, begin))
        octets[begin:end] = bytes(end - begin)
        path.write_bytes(octets)

    def salvage(self) -> tuple[Rig, list[dict[str, Any]]]:
        """Return a broker on what was saved, and the list of losses."""
        done = CliRunner().invoke(cli, ["data", "salvage", str(self.before), str(self.after), "--output", "json"])
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert rows, done.output
        files = {path.name: path.read_bytes() for path in (self.after / "journal").glob("*.seg")}
        rig = Rig(files=files)
        rig.turn()
        return rig, rows


def published(count: int = 20, batches: int = 1) -> Rig:
    rig = Rig()
    rig.send("Q", "first")
    for batch in range(batches):
        write(rig, f"p{batch}", [f"{batch}.{number}" for number in range(count)], batch=batch)
        rig.broker.stages.decide("s", batch, [f"p{batch}"])
        rig.sync()
        assert publish(rig, f"p{batch}", batch=batch).count == count
        rig.send("Q", f"behind {batch}")
    return rig


def test_what_a_lost_move_had_published_waits_in_a_queue_and_can_be_sent_to_its_place(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, published())
    ((path, _, place, _),) = damaged.places(MOVE)
    damaged.flip(path, place + RECORD_HEAD + 5)
    rig, rows = damaged.salvage()
    assert {"queue": QUEUE, "staged": 20} in [{key: row.get(key) for key in ("queue", "staged")} for row in rows]
    assert rig.broker.stages.of("s") == []
    for how in ("kill", "close"):
        rig.restart(how)
    assert rig.queue(QUEUE).count == 20
    retry = Retry(rig.broker, QUEUE)
    while not retry.step().done:
        rig.turn()
    rig.turn()
    assert rig.bodies("Q") == ["first", "behind 0", *[f"0.{number}" for number in range(20)]]
    assert rig.bodies(QUEUE) == []
    assert publish(rig, "p0").count == 20, "a repeat of the driver sends nothing"
    assert rig.bodies("Q") == []


def test_what_expires_waits_there_without_end(tmp_path: Path) -> None:
    rig = Rig()
    write(rig, "a", ["1"] * 20, ttl=60_000)
    publish(rig, "a")
    damaged = Damaged(tmp_path, rig)
    ((path, _, place, _),) = damaged.places(MOVE)
    damaged.flip(path, place + RECORD_HEAD + 5)
    rig, _ = damaged.salvage()
    rig.wait(100_000)
    assert len(rig.bodies(QUEUE)) == 20


def test_a_stage_whose_publication_is_lost_with_its_batch_is_not_dropped_by_the_next_batch(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, published())
    ((path, begin, _, _),) = damaged.places(MOVE)
    damaged.wipe(path, begin)
    rig, rows = damaged.salvage()
    assert [row for row in rows if row.get("sink") == "s"], rows
    for how in ("kill", "close"):
        rig.restart(how)
    rig.wall += 2 * STAGE_AGE_MS
    rig.wait(120_000)
    write(rig, "p1", ["next"], batch=1)
    with pytest.raises(StageError, match="was salvaged") as refused:
        publish(rig, "p1", batch=1)
    assert "entrepot stage publish s --batch 0" in str(refused.value.remedy)
    assert [stage.part for stage in rig.broker.stages.of("s", 0)] == ["p0"]
    assert publish_stages(rig.broker, "s", 0, []) == 20
    rig.turn()
    assert publish(rig, "p0").count == 20
    publish(rig, "p1", batch=1)
    assert rig.bodies("Q") == ["first", "behind 0", *[f"0.{number}" for number in range(20)], "next"]
    assert QUEUE not in rig.broker.table.queues


def test_an_operator_names_parts_where_nothing_was_decided_here(tmp_path: Path) -> None:
    rig = Rig()
    write(rig, "a", ["1"] * 20)
    write(rig, "b", ["1"] * 20)
    publish(rig, "b")
    damaged = Damaged(tmp_path, rig)
    ((path, begin, _, _),) = damaged.places(MOVE)
    damaged.wipe(path, begin)
    rig, _ = damaged.salvage()
    assert sorted(stage.part for stage in rig.broker.stages.of("s")) == ["a", "b"]
    with pytest.raises(StageError, match="was not decided here"):
        publish_stages(rig.broker, "s", 0, [])
    assert publish_stages(rig.broker, "s", 0, ["b"]) == 20
    assert rig.broker.stages.of("s") == []
    assert len(rig.bodies("Q")) == 20


def test_a_stage_behind_which_its_sink_went_on_is_taken_apart(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, published(batches=2))
    (path, begin, _, _), _ = damaged.places(MOVE)
    damaged.wipe(path, begin)
    rig, rows = damaged.salvage()
    rig.restart("kill")
    assert rig.broker.stages.of("s") == []
    write(rig, "p2", ["next"], batch=2)
    publish(rig, "p2", batch=2)
    assert rig.bodies(QUEUE) == [f"0.{number}" for number in range(20)]
    assert rig.bodies("Q") == ["first", "behind 0", *[f"1.{number}" for number in range(20)], "behind 1", "next"]
    assert any(row.get("queue") == QUEUE for row in rows)


def test_a_stage_of_which_a_piece_is_lost_is_taken_apart(tmp_path: Path) -> None:
    rig = Rig()
    rig.broker.stages.document_runs = 3
    stage = rig.broker.stages.open("s", 0, "a")
    for number in range(6):
        send(rig, stage, [f"{number}"], "P" if number % 2 else "Q")
    rig.broker.stages.close(stage)
    rig.turn()
    rig.send("Q", "behind")
    damaged = Damaged(tmp_path, rig)
    runs = [each for each in damaged.places(PUT) if each[0].read_bytes()[each[2] + RECORD_HEAD + 1] == 17]
    path, _, place, _ = runs[2]
    damaged.flip(path, place + RECORD_HEAD + 40)
    rig, _ = damaged.salvage()
    rig.restart("kill")
    assert rig.broker.stages.of("s") == []
    assert rig.bodies(QUEUE) == [f"{number}" for number in range(6)]


def test_what_was_not_closed_and_what_lies_behind_the_damage_is_as_it_was(tmp_path: Path) -> None:
    rig = Rig()
    rig.send_all("Q", ["first", "second"])
    write(rig, "a", ["1"] * 20)
    write(rig, "open", ["2"] * 20, close=False)
    damaged = Damaged(tmp_path, rig)
    path = damaged.places(PUT)[0][0]
    octets = path.read_bytes()
    damaged.flip(path, octets.index(b'"second"'))
    rig, rows = damaged.salvage()
    assert not any("staged" in row or "sink" in row for row in rows)
    assert QUEUE not in rig.broker.table.queues
    publish(rig, "a")
    assert rig.bodies("Q") == ["first", *["1"] * 20]
    write(rig, "b", ["1"], batch=1)
    publish(rig, "b", batch=1)
    assert rig.bodies("Q") == ["1"]


def test_documents_that_were_deleted_by_what_is_lost_do_not_bring_a_published_stage_back(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, published())
    for path, _, place, _ in damaged.places(DELETE):
        damaged.flip(path, place + RECORD_HEAD + 2)
    rig, _ = damaged.salvage()
    rig.restart("kill")
    assert rig.broker.stages.of("s") == []
    assert QUEUE not in rig.broker.table.queues
    assert publish(rig, "p0").count == 20
    assert rig.bodies("Q") == ["first", *[f"0.{number}" for number in range(20)], "behind 0"]
