"""A pair whose store is on a file system that a process of its own serves: it hangs, comes back late, or dies.

bindfs stands for the file server: each broker has a mount of its own, as each machine would have, and the locks of both
meet in the directory below. What a mount does, its process does; so when that process stands still, every call of that
broker into its file system hangs, as with an NFS server that does not answer, and what was under way arrives when it
goes on. sshfs, where it is installed, is the same over a real protocol, but has no locks.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.io.ledger import Ledger
from pairs import ROUNDS_SLOW, Producer, Start, kept, until

QUEUE = "/queue/pair"
LEASE = ("--lease-duration", "1")


class FileServer:
    """The process behind one mount of ``source``."""

    def __init__(self, source: Path, place: Path) -> None:
        place.mkdir()
        self.place = place
        command = ["bindfs", "-f", "--no-allow-other", "--enable-lock-forwarding", "--multithreaded"]
        command += ["-o", "attr_timeout=0,entry_timeout=0", str(source), str(place)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        until(lambda: os.path.ismount(place) or self.process.poll() is not None, "it is mounted")
        if self.process.poll() is not None:
            assert self.process.stdout is not None
            pytest.skip(f"cannot mount with FUSE here: {self.process.stdout.read().decode().strip()}")

    def hang(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def die(self) -> None:
        self.process.kill()
        self.process.wait()

    def clear(self) -> None:
        """Without its process a broker that hangs in a call into it could not even be killed."""
        self.die()
        subprocess.run(["umount", "--lazy", self.place], check=False, capture_output=True)


Serve = Callable[[], FileServer]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves one directory, at another place each time."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    if shutil.which("bindfs") is None:
        pytest.skip("there is no bindfs to make file systems with (Debian: bindfs)")
    if not Path("/dev/fuse").exists():
        pytest.skip("the kernel of this machine has no FUSE (/dev/fuse)")
    store = tmp_path / "store"
    store.mkdir()
    made: list[FileServer] = []

    def begin() -> FileServer:
        made.append(FileServer(store, tmp_path / f"machine{len(made)}"))
        return made[-1]

    yield begin
    for server in made:
        server.clear()


def lockers(tmp_path: Path, locker: str) -> tuple[str, ...]:
    return LEASE if locker == "file" else (*LEASE, "--locker", f"sqlite:{tmp_path}/lock.db")


@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
@pytest.mark.parametrize("locker", ["file", "sqlite"])
def test_a_file_system_that_hangs_for_longer_than_the_lease(
    start: Start, serve: Serve, tmp_path: Path, locker: str
) -> None:
    """The master cannot write, not even its lease: another one takes over, and what arrives late is refused."""
    more = lockers(tmp_path, locker)
    server, other = serve(), serve()
    master = start("alpha", *more, data=server.place / "data")
    until(master.serves, "alpha serves")
    backup = start("beta", *more, data=other.place / "data")
    until(backup.waits, "beta waits")
    ports = [master.port, backup.port]
    producers = [Producer(ports, f"{QUEUE}.0")]
    for turn in range(2 * ROUNDS_SLOW):
        producers[-1].flow(200)
        if turn % 2 == 0:  # nothing is under way, so what hangs is the first write of the next producer
            producers[-1].stop()
            server.hang()
            producers.append(Producer(ports, f"{QUEUE}.{turn + 1}"))
        else:
            server.hang()  # whatever is under way
        until(backup.serves, "the backup takes over")
        producers[-1].flow(200)
        server.go_on()
        until(master.waits, "the one whose file system hung finds out, and becomes a backup")
        server, other = other, server
        master, backup = backup, master
    producers[-1].flow(200)
    producers[-1].stop()
    master.kill()
    until(backup.serves, "the backup takes over, from all that was written late as well")
    assert "that a former master wrote too late" in master.text() + backup.text()
    for producer in producers:
        kept(producer, backup.port)
    epochs = [line["epoch"] for line in Ledger(tmp_path / "store" / "data").read() if line["event"] == "master"]
    assert epochs == list(range(1, 2 * ROUNDS_SLOW + 3))


@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
@pytest.mark.parametrize("locker", ["file", "sqlite"])
def test_a_file_system_that_dies(start: Start, serve: Serve, tmp_path: Path, locker: str) -> None:
    """Every call fails from one moment to the next, as with a mount whose server is gone for good."""
    more = lockers(tmp_path, locker)
    server, other = serve(), serve()
    master = start("alpha", *more, data=server.place / "data")
    until(master.serves, "alpha serves")
    backup = start("beta", *more, data=other.place / "data")
    until(backup.waits, "beta waits")
    producer = Producer([master.port, backup.port], QUEUE)
    for turn in range(ROUNDS_SLOW):
        producer.flow(200)
        server.die()
        assert master.process.wait(30) == 1, "it ends: what is on its disk cannot be known"
        assert re.search(r"ENT-4\d\d\d", master.text())
        until(backup.serves, "the backup takes over")
        producer.flow(200)
        server, other = other, serve()
        master, backup = backup, start(f"again{turn}", *more, data=other.place / "data")
        producer.ports = [master.port, backup.port]
        until(backup.waits, "the dead one returns")
    producer.stop()
    kept(producer, master.port)
