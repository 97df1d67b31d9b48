"""The lock of a shared directory: what is believed of a lock, and what is left behind when taking it fails."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contending import Contender
from entrepot.base.environment import SECOND, Instant
from entrepot.base.errors import InvalidOption, StoreLost
from entrepot.ha.lease import LeaseOptions, Record
from entrepot.ha.options import SharedStoreOptions
from entrepot.io import leases
from entrepot.io.leases import LOCK, FileLock, Mount, Waiter, find_mount, me, now
from entrepot.io.ledger import Ledger

OPTIONS = LeaseOptions(2 * SECOND)
LATER: Instant = 3 * SECOND  # more than any patience with a lease of 2 s
Make = Callable[[str], Contender]


@pytest.fixture
def contender(tmp_path: Path) -> Make:
    def make(name: str) -> Contender:
        mine = me(name, store="", options=OPTIONS)
        return Contender(tmp_path, FileLock(tmp_path, lambda: None), mine, SharedStoreOptions(lease=OPTIONS))

    return make


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every directory be on a file system of other machines."""
    monkeypatch.setattr(leases, "mount_of", lambda directory: Mount(remote=True, lockless=""))


@pytest.fixture
def lockless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every lock be granted, as where each machine has locks of its own."""
    monkeypatch.setattr(leases.fcntl, "flock", lambda descriptor, how: None)


MOUNTS = r"""
/dev/vda / ext4 rw 0 0
files:/srv /mnt/a nfs4 rw,vers=4.2,hard,local_lock=none 0 0
files:/srv /mnt/b nfs rw,vers=3,hard,nolock 0 0
files:/srv /mnt/c nfs rw,vers=3,hard,local_lock=all 0 0
files:/srv /mnt/with\040space cifs rw,nobrl 0 0
/dev/fuse /mnt/f fuse.sshfs rw 0 0
""".strip()


@pytest.mark.parametrize(
    ("path", "remote", "lockless"),
    [
        ("/var/lib/entrepot", False, ""),
        ("/mnt/a", True, ""),
        ("/mnt/a/store", True, ""),
        ("/mnt/ab", False, ""),
        ("/mnt/b/store", True, "nolock"),
        ("/mnt/c", True, "local_lock=all"),
        ("/mnt/with space/x", True, "nobrl"),
        ("/mnt/f", True, ""),
    ],
)
def test_what_a_directory_is_mounted_on(path: str, remote: bool, lockless: str) -> None:
    assert find_mount(MOUNTS, path) == Mount(remote=remote, lockless=lockless, fuse=path == "/mnt/f")


@pytest.mark.parametrize("fuse", [True, False])
def test_no_thread_sleeps_for_a_lock_of_fuse(contender: Make, monkeypatch: pytest.MonkeyPatch, fuse: bool) -> None:
    """It would keep everybody from replacing the lock of a holder that hangs."""
    monkeypatch.setattr(leases, "mount_of", lambda directory: Mount(remote=True, lockless="", fuse=fuse))
    made: list[int] = []
    monkeypatch.setattr(leases, "Waiter", lambda descriptor, wake: made.append(descriptor) or Waiter(descriptor, wake))
    holder, waiting = contender("alpha"), contender("beta")
    assert holder.attempt(now()) is not None
    assert waiting.attempt(now()) is None
    assert bool(made) is not fuse
    holder.release(now())
    end = time.monotonic() + 10
    while waiting.attempt(now()) is None:
        assert time.monotonic() < end
    for each in (holder, waiting):
        each.close()


def test_a_mount_without_locks_is_refused(contender: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "mount_of", lambda directory: Mount(remote=True, lockless="nolock"))
    with pytest.raises(InvalidOption, match="mounted with nolock: a lock on it is seen by this machine only"):
        contender("alpha")


def test_a_local_lock_that_is_free_proves_that_the_holder_is_dead(contender: Make) -> None:
    one, other = contender("one"), contender("other")
    assert one.attempt(0) is not None
    one.close()  # as its death would
    grant = other.attempt(0)
    assert grant is not None
    assert grant.epoch == 2
    assert "ended without handing over" in grant.why


def test_a_remote_lock_that_refused_us_once_proves_it_too(contender: Make, remote: None) -> None:
    one, other = contender("one"), contender("other")
    assert one.attempt(0) is not None
    assert other.attempt(0) is None
    one.close()
    assert _attempts(other, 0)


def test_a_remote_lock_that_never_refused_anybody_proves_nothing_for_a_lease(contender: Make, remote: None) -> None:
    one, other = contender("one"), contender("other")
    assert one.attempt(0) is not None
    one.close()
    assert other.attempt(0) is None
    assert other.attempt(2 * SECOND) is None
    assert other.attempt(LATER) is not None


def test_a_remote_lock_that_was_handed_back_is_free_at_once(contender: Make, remote: None) -> None:
    one, other = contender("one"), contender("other")
    assert one.attempt(0) is not None
    one.release(0)
    assert other.attempt(0) is not None


def test_locks_that_keep_nobody_out_are_found_out_before_harm_is_done(
    contender: Make, remote: None, lockless: None
) -> None:
    one, other = contender("one"), contender("other")
    assert one.attempt(0) is not None
    assert other.attempt(0) is None
    one.renew(SECOND)
    with pytest.raises(InvalidOption, match="keep nobody out"):
        other.attempt(SECOND)
    one.renew(SECOND)  # it did not notice anything


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_claim_that_fails_leaves_the_lock_free(contender: Make, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    one = contender("one")
    written = one.lock._write  # type: ignore[attr-defined]

    def fails(descriptor: int, record: Record, *, sync: bool) -> None:
        raise OSError(number, "as the disk says")

    monkeypatch.setattr(one.lock, "_write", fails)
    for _ in range(2):
        with pytest.raises(OSError, match="as the disk says"):
            one.attempt(0)
    monkeypatch.setattr(one.lock, "_write", written)
    assert one.attempt(0) is not None


def test_a_replacement_that_fails_leaves_nothing_behind(
    contender: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one, other = contender("one"), contender("other")
    assert one.attempt(0) is not None
    assert other.attempt(0) is None
    before = sorted(path.name for path in tmp_path.iterdir())
    written = other.lock._write  # type: ignore[attr-defined]

    def fails(descriptor: int, record: Record, *, sync: bool) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(other.lock, "_write", fails)
    with pytest.raises(OSError, match="no space left"):
        other.attempt(LATER)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    monkeypatch.setattr(other.lock, "_write", written)
    assert other.attempt(LATER) is not None
    assert one.lock.replaced()
    with pytest.raises(StoreLost, match="replaced by broker other"):
        one.renew(SECOND)
    assert [line["epoch"] for line in Ledger(tmp_path).read()] == [1, 3]  # the second was claimed, and not won
    assert (tmp_path / LOCK).exists()


def _attempts(lease: Contender, at: Instant) -> bool:
    """Say whether the lease is won at the next looks: a thread that waits for the lock may have it for a moment."""
    return any(lease.attempt(at) is not None for _ in range(1000))
