"""A compaction that waits for a replica that copies, and ends while its file is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from entrepot.ha.catchup import CatchUp
from entrepot.ha.follower import Stage
from entrepot.ha.replication import Replication
from entrepot.simulation.coinciding import is_copied, is_read_soon
from entrepot.simulation.replicas import Replicas


def replicating(stage: Stage, catch_up: CatchUp) -> Replication:
    return cast(Replication, SimpleNamespace(followers=[SimpleNamespace(stage=stage, catch_up=catch_up)]))


def test_it_waits_until_the_new_file_is_read() -> None:
    catch_up = CatchUp()
    copying = replicating(Stage.COPYING, catch_up)
    assert is_copied(copying)
    assert not is_copied(replicating(Stage.IN_SYNC, catch_up))
    assert not is_read_soon(copying), "there is no such file"
    catch_up.wrote("1.seg.tmp", 0, 100)
    assert is_read_soon(copying)
    assert not is_read_soon(replicating(Stage.JOINING, catch_up))
    assert catch_up.next({"1.seg.tmp": 100}) is not None
    catch_up.wrote("1.seg.tmp", 100, 100)
    assert not is_read_soon(copying), "now is the moment"


def test_a_file_gets_its_name_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    genuine = CatchUp.renamed

    def renamed(self: CatchUp, scratch: str, name: str) -> None:
        found.extend(piece.name for piece in self.reading if piece.name == scratch)
        genuine(self, scratch, name)

    monkeypatch.setattr(CatchUp, "renamed", renamed)
    assert Replicas(156).run() == []
    assert found
