from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.base.compiled import build_name, is_compiled
from entrepot.cli.build import described, slow_warning, why_plain

plain_only = pytest.mark.skipif(is_compiled(), reason="the compiled build has nothing to explain")


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "cc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CC", str(program))
    monkeypatch.delenv("ENTREPOT_PURE", raising=False)
    return program


def test_the_sources_have_no_reason(tmp_path: Path) -> None:
    assert why_plain(tmp_path) == ""
    assert described(tmp_path) == build_name()


@plain_only
def test_an_install_that_fell_back_says_why(tmp_path: Path, compiler: Path) -> None:
    (tmp_path / "plain.txt").write_text("the C compiler failed\n")
    assert described(tmp_path) == "plain Python (the C compiler failed)"
    said = slow_warning(tmp_path)
    assert "the C compiler failed" in said
    assert str(compiler) in said
    assert "ENTREPOT_REQUIRE_COMPILED=1 pip install" in said


@plain_only
def test_sources_that_could_be_compiled_say_how(tmp_path: Path, compiler: Path) -> None:
    assert "`make compiled`" in slow_warning(tmp_path)


def test_where_it_cannot_be_helped_or_is_meant_there_is_no_warning(
    tmp_path: Path, compiler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.txt").write_text("ENTREPOT_PURE asked for it\n")
    assert slow_warning(tmp_path) == ""
    (tmp_path / "plain.txt").unlink()
    compiler.unlink()
    assert slow_warning(tmp_path) == ""
    monkeypatch.delenv("CC")
    monkeypatch.setenv("ENTREPOT_PURE", "1")
    assert slow_warning(tmp_path) == ""


def test_a_compiled_build_does_not_warn(tmp_path: Path, compiler: Path) -> None:
    if is_compiled():
        assert slow_warning(tmp_path) == ""
