from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from entrepot.cli.main import cli
from entrepot.io.leases import LOCK
from entrepot.io.ledger import Ledger

OWN = "entrepot"  # where a broker keeps its store in the directory that activemq.xml names


@pytest.mark.parametrize("place", ["", OWN])
def test_the_directory_of_the_xml_is_as_good_as_the_store_in_it(tmp_path: Path, place: str) -> None:
    store = tmp_path / place
    store.mkdir(exist_ok=True)
    (store / LOCK).write_bytes(b"")
    for command in ("status", "history"):
        done = CliRunner().invoke(cli, ["ha", command, str(tmp_path)])
        assert done.exit_code == 1
        assert str(store) in done.output, "it looked where the lock is"
        assert "has no lock" not in done.output
    assert Ledger(store).read() == []


def test_a_directory_without_a_store_is_named_as_it_was_given(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["ha", "status", str(tmp_path)])
    assert f"{tmp_path} has no lock" in done.output
