"""A shared secret is read from a file that others may not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cli.replication import _secret
from entrepot.io.secret_file import read_secret

GOOD = b"0123456789abcdef"


def secret(folder: Path, octets: bytes, mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_bytes(octets)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400])
def test_what_surrounds_a_secret_is_no_part_of_it(tmp_path: Path, mode: int) -> None:
    path = secret(tmp_path, b" " + GOOD + b"\n", mode)
    assert read_secret(str(path)) == GOOD
    assert _secret(path) == GOOD.decode()


def test_none_is_no_secret() -> None:
    assert read_secret("") == b""
    assert _secret(None) == ""


@pytest.mark.parametrize(
    ("octets", "mode", "why"),
    [(GOOD, 0o644, "everybody on this machine"), (GOOD, 0o602, "everybody"), (GOOD[:-1], 0o600, "15 octets")],
)
def test_what_others_know_or_can_guess_is_refused(tmp_path: Path, octets: bytes, mode: int, why: str) -> None:
    path = secret(tmp_path, octets, mode)
    for read in (lambda: read_secret(str(path)), lambda: _secret(path)):
        with pytest.raises(InvalidOption, match=why):
            read()


def test_a_secret_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="cannot be read"):
        _secret(tmp_path / "none")
    with pytest.raises(InvalidOption, match="is no text"):
        _secret(secret(tmp_path, b"\xff" * 16))
