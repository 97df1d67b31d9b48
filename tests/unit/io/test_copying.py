"""The directory of a copy: what is kept aside of it is whole and on disk, and there is only so much of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.base.errors import StorageError
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import read_standing
from entrepot.io.copying import STANDING, CopyDirectory


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[CopyDirectory]:
    (tmp_path / "journal").mkdir()
    made = CopyDirectory(tmp_path, "beta", SharedStoreOptions(replication=ReplicationOptions(kept=2)))
    yield made
    made.release()


def _aside(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("oldreplica.*"))


def test_a_file_is_kept_once_as_it_was(copy: CopyDirectory, tmp_path: Path) -> None:
    file = tmp_path / "journal" / "1.seg"
    file.write_bytes(b"first")
    copy.greet()
    copy.keep("1.seg", 0)
    file.write_bytes(b"second")
    copy.keep("1.seg", 0)
    assert sorted(each.name for each in (tmp_path / "oldreplica.1").iterdir()) == ["1.seg", "differs"]
    assert copy.differed == "", "it is said when all is compared"
    copy.alike("alpha", 7)
    assert copy.differed == "1.seg from octet 0 on, 5 octets"
    assert (tmp_path / "oldreplica.1" / "1.seg").read_bytes() == b"first"


def test_the_oldest_goes_when_there_are_more_than_are_kept_and_the_log_says_so(
    copy: CopyDirectory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "journal" / "1.seg").write_bytes(b"octets")
    with caplog.at_level(logging.WARNING, "entrepot.ha"):
        for _ in range(3):
            copy.greet()
            copy.keep("1.seg", 0)
    assert _aside(tmp_path) == ["oldreplica.2", "oldreplica.3"]
    assert f"{tmp_path / 'oldreplica.1'} is deleted" in caplog.text


def test_what_cannot_be_kept_is_an_error(copy: CopyDirectory, tmp_path: Path) -> None:
    (tmp_path / "journal" / "1.seg").write_bytes(b"octets")
    copy.greet()
    copy.keep("1.seg", 0)
    (tmp_path / "oldreplica.1" / "2.seg.part").mkdir()
    (tmp_path / "journal" / "2.seg").write_bytes(b"octets")
    with pytest.raises(StorageError, match="cannot be kept aside"):
        copy.keep("2.seg", 0)
    assert not (tmp_path / "oldreplica.1" / "2.seg").exists()


def test_two_threads_may_write_the_standing(copy: CopyDirectory, tmp_path: Path) -> None:
    """Who keeps the lease and who follows wrote to the same draft, and one took it from the other."""
    failed: list[Exception] = []

    def persist() -> None:
        try:
            for number in range(50):
                copy.standing.claims(number)
                copy.persist(copy.standing)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=persist) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    assert read_standing((tmp_path / STANDING).read_bytes(), part="", boot="").claim < 50
