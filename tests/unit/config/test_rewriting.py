"""Files of people, written anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrepot.config.rewriting import mode_of, rewrite


def test_a_file_is_written_whole_with_its_rights(tmp_path: Path) -> None:
    file = tmp_path / "users"
    rewrite(file, "one\n", 0o600)
    assert (file.read_text(), mode_of(file)) == ("one\n", 0o600)
    file.chmod(0o640)
    rewrite(file, "zwölf\n", mode_of(file))
    assert (file.read_text(encoding="utf-8"), mode_of(file)) == ("zwölf\n", 0o640)
    assert os.listdir(tmp_path) == ["users"]


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    rewrite(file, "one\n", 0o600)

    def fail(descriptor: int) -> None:
        raise OSError("no room")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no room"):
        rewrite(file, "two\n", 0o600)
    assert file.read_text() == "one\n"
    assert os.listdir(tmp_path) == ["users"]
