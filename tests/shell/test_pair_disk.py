"""A pair whose disk fails it: read-only, full, or with locks that reach no other machine. Real, as root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pairs import PATIENCE, ROUNDS_SLOW, BrokerProcess, Producer, Start, drain, kept, pair, until
from promises import never

QUEUE = "/queue/pair"
Bind = Callable[[Path, str], Path]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and attributes of files need root")


def immutable(place: Path, on: bool) -> None:
    """Let nobody write below ``place``, not even through files that are open already."""
    done = subprocess.run(["chattr", "-f", "-R", "+i" if on else "-i", str(place)], capture_output=True, check=False)
    if done.returncode and on:
        pytest.skip("this file system has no immutable files (chattr +i)")


@needs_root
@pytest.mark.skipif(shutil.which("chattr") is None, reason="there is no chattr (Debian: e2fsprogs)")
@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
def test_a_directory_that_becomes_read_only_loses_nothing(start: Start, tmp_path: Path) -> None:
    master, backup = pair(start, "--lease-duration", "1")
    producer = Producer([master.port, backup.port], QUEUE)
    data = tmp_path / "data"
    try:
        for turn in range(ROUNDS_SLOW):
            producer.flow(200)
            immutable(data, on=True)
            assert master.process.wait(PATIENCE) == 1, "it ends: what is on its disk cannot be known"
            assert backup.waits(), "it goes on waiting for a disk that it can use"
            immutable(data, on=False)
            until(backup.serves, "the backup takes over")
            master, backup = backup, start(f"again{turn}", "--lease-duration", "1")
            producer.ports = [master.port, backup.port]
            until(backup.waits, "the dead one returns")
    finally:
        immutable(data, on=False)
    producer.stop()
    kept(producer, master.port)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, with room for seven segments."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=224m", "none", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path) -> Path:
    """Take all the space that is left, as somebody else's file."""
    ballast = place / "somebody else's"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 20)) > 0:
                pass
        except OSError:
            return ballast
    raise AssertionError("it never became full")


@needs_root
@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
def test_a_master_that_dies_on_a_full_disk_is_succeeded_and_loses_nothing(start: Start, small: Path) -> None:
    def begin(name: str) -> BrokerProcess:
        return start(name, data=small / "data")

    master = begin("alpha")
    until(master.serves, "alpha serves")
    backup = begin("beta")
    until(backup.waits, "beta waits")
    for turn in range(ROUNDS_SLOW):
        producer = Producer([master.port, backup.port], QUEUE, size=20_000, label=f"r{turn}.")
        producer.flow(200)
        ballast = fill(small)
        until(lambda one=producer: "ENT-4002" in one.refused, "the disk is full")
        master.kill()
        until(backup.serves, "the backup takes over, full disk or not")
        ballast.unlink()
        producer.flow(200)
        producer.stop()
        kept(producer, backup.port)
        master, backup = backup, begin(f"again{turn}")
        until(backup.waits, "the dead one returns")


@pytest.fixture
def bind(tmp_path: Path) -> Iterator[Bind]:
    """Mounts a directory a second time through FUSE, as another machine would, with or without shared locks."""
    if shutil.which("bindfs") is None:
        pytest.skip("there is no bindfs to make file systems with (Debian: bindfs)")
    if not Path("/dev/fuse").exists():
        pytest.skip("the kernel of this machine has no FUSE (/dev/fuse)")
    made: list[Path] = []

    def mount(source: Path, option: str) -> Path:
        place = tmp_path / f"machine{len(made)}"
        place.mkdir()
        command = ["bindfs", "--no-allow-other", *option.split(), "-o", "attr_timeout=0,entry_timeout=0"]
        done = subprocess.run([*command, str(source), str(place)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot mount with FUSE here: {done.stderr.strip()}")
        made.append(place)
        return place

    yield mount
    for place in made:
        subprocess.run(["umount", "--lazy", place], check=True)


@needs_root
def test_locks_that_no_other_machine_sees_are_found_out(start: Start, bind: Bind, tmp_path: Path) -> None:
    """Two mounts of one directory, each with locks of its own, as NFS without its lock service would be."""
    store = tmp_path / "store"
    store.mkdir()
    master = start("alpha", "--lease-duration", "1", data=bind(store, "") / "data")
    until(master.serves, "alpha serves")
    stranger = start("beta", "--lease-duration", "1", data=bind(store, "") / "data")
    assert stranger.process.wait(PATIENCE) == 2
    assert "locks keep nobody out" in stranger.text()
    assert "broker alpha" in stranger.text()
    producer = Producer([master.port], QUEUE)
    producer.flow(100)
    producer.stop()
    kept(producer, master.port)
    assert master.facts()["master"]["epoch"] == 1


@needs_root
@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
def test_a_pair_on_a_file_system_that_each_reaches_by_a_way_of_its_own(
    start: Start, bind: Bind, tmp_path: Path
) -> None:
    """Two mounts of one directory with locks that both see: over FUSE, which counts as another machine's."""
    store = tmp_path / "store"
    store.mkdir()
    places = [bind(store, "--enable-lock-forwarding --multithreaded") / "data" for _ in range(2)]
    master = start("alpha", "--lease-duration", "1", data=places[0])
    until(master.serves, "alpha serves")
    backup = start("beta", "--lease-duration", "1", data=places[1])
    until(backup.waits, "beta waits")
    producer = Producer([master.port, backup.port], QUEUE)
    for turn in range(ROUNDS_SLOW):
        producer.flow(200)
        master.kill()
        until(backup.serves, "the backup takes over")
        places.reverse()
        master, backup = backup, start(f"again{turn}", "--lease-duration", "1", data=places[1])
        producer.ports = [master.port, backup.port]
        until(backup.waits, "the dead one returns")
    producer.stop()
    found = drain(master.port, QUEUE, awaited=producer.promised)
    with never():
        assert all(found.get(body) == 1 for body in producer.promised)
