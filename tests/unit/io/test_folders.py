"""The directory of a store: which files are where, and what a new epoch throws away."""

from __future__ import annotations

from pathlib import Path

from entrepot.io.folders import Folders, clear_nests
from entrepot.journal.ports import SCRATCH


def test_each_kind_of_file_has_its_place(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    folders = Folders(tmp_path / "store", 3)
    try:
        assert folders.path("0000000000000001.seg") == folders.journal / "0000000000000001.seg"
        assert folders.path("x" + SCRATCH) == folders.journal / "epoch-3" / ("x" + SCRATCH)
        assert folders.path("12.blob") == folders.bodies / "12.blob"
        assert not list(folders.journal.glob("probe*"))
        assert 0 < folders.free() <= folders.capacity()
        for name in ("7.blob", "12.blob", "x.blob", "9.tmp"):
            (folders.bodies / name).touch()
        assert folders.blobs() == [7, 12]
        folders.sync()
        folders.sync(bodies=True)
    finally:
        folders.close()


def test_nobody_else_may_look_into_it(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    folders = Folders(tmp_path / "store", 0)
    folders.close()
    assert {path.stat().st_mode & 0o077 for path in (folders.journal, folders.bodies)} == {0}


def test_a_new_epoch_removes_the_scratch_files_of_all_others_and_nothing_else(tmp_path: Path) -> None:
    for name in ("epoch-1/a", "epoch-1/b", "epoch-22/c", "left" + SCRATCH, "0000000000000001.seg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    clear_nests(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["0000000000000001.seg"]
