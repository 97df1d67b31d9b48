"""A pair whose store is on a file system that a process of its own serves: it hangs, comes back late, or dies.

bindfs stands for the file server: each broker has a mount of its own, as each machine would have, and the locks of both
meet in the directory below. What a mount does, its process does; so when that process stands still, every call of that
broker into its file system hangs, as with an NFS server that does not answer, and what was under way arrives when it
goes on. sshfs, where it is installed, is the same over a real protocol, but each mount has locks of its own: so the
lock is in SQLite there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.io.ledger import Ledger
from pairs import ROUNDS_SLOW, Producer, Start, kept, until

QUEUE = "/queue/pair"
LEASE = ("--lease-duration", "1")


SFTP_SERVERS = ("/usr/lib/openssh", "/usr/libexec/openssh", "/usr/libexec", "/usr/lib/ssh")  # Debian, Fedora, BSD, SUSE
UNCACHED = "direct_io,dir_cache=no,attr_timeout=0,entry_timeout=0,negative_timeout=0"


class FileServer:
    """One mount of ``source``, as bindfs makes it, and the process that serves it."""

    def __init__(self, source: Path, place: Path) -> None:
        place.mkdir()
        self.place = place
        self.log = place.with_suffix(".log")
        self.made: list[subprocess.Popen[bytes]] = []
        self.begin(source)
        mounting = self.made[-1]
        until(lambda: os.path.ismount(place) or mounting.poll() is not None, "it is mounted")
        if mounting.poll() is not None:
            pytest.skip(f"cannot mount with FUSE here: {self.log.read_text().strip()}")

    def begin(self, source: Path) -> None:
        options = ["--no-allow-other", "--enable-lock-forwarding", "--multithreaded"]
        self.run("bindfs", "-f", *options, "-o", "attr_timeout=0,entry_timeout=0", str(source), str(self.place))

    def run(self, *command: str, wire: socket.socket | None = None) -> None:
        with self.log.open("ab") as log:
            ends = subprocess.DEVNULL if wire is None else wire
            self.made.append(subprocess.Popen(command, stdin=ends, stdout=log if wire is None else wire, stderr=log))

    def hang(self) -> None:
        self.made[0].send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.made[0].send_signal(signal.SIGCONT)

    def die(self) -> None:
        for process in self.made:
            process.kill()
            process.wait()

    def clear(self) -> None:
        """Without its process a broker that hangs in a call into it could not even be killed."""
        self.die()
        subprocess.run(["umount", "--lazy", self.place], check=False, capture_output=True)


class SftpServer(FileServer):
    """A server of the SFTP protocol, which hangs, and sshfs, its client, with a wire between the two."""

    def begin(self, source: Path) -> None:
        near, far = socket.socketpair()
        self.run(str(sftp_server()), "-e", wire=far)
        self.run("sshfs", "-f", "-o", f"passive,{UNCACHED}", f"server:{source}", str(self.place), wire=near)
        near.close()
        far.close()


def sftp_server() -> str | None:
    return shutil.which("sftp-server", path=os.pathsep.join((os.environ["PATH"], *SFTP_SERVERS)))


def why_not(kind: type[FileServer]) -> str:
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path("/dev/fuse").exists():
        return "the kernel of this machine has no FUSE (/dev/fuse)"
    if kind is SftpServer:
        found = shutil.which("sshfs") and sftp_server()
        return "" if found else "there is no sshfs, or no sftp-server (Debian: sshfs openssh-sftp-server)"
    return "" if shutil.which("bindfs") else "there is no bindfs to make file systems with (Debian: bindfs)"


Serve = Callable[[], FileServer]


@pytest.fixture
def kind() -> type[FileServer]:
    return FileServer


@pytest.fixture
def serve(tmp_path: Path, kind: type[FileServer]) -> Iterator[Serve]:
    """Serves one directory, at another place each time."""
    if reason := why_not(kind):
        pytest.skip(reason)
    store = tmp_path / "store"
    store.mkdir()
    made: list[FileServer] = []

    def begin() -> FileServer:
        made.append(kind(store, tmp_path / f"machine{len(made)}"))
        return made[-1]

    yield begin
    for server in made:
        server.clear()


def lockers(tmp_path: Path, locker: str) -> tuple[str, ...]:
    return LEASE if locker == "file" else (*LEASE, "--locker", f"sqlite:{tmp_path}/lock.db")


@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
@pytest.mark.parametrize(
    ("kind", "locker"),
    [(FileServer, "file"), (FileServer, "sqlite"), (SftpServer, "sqlite")],
    ids=["bindfs-file", "bindfs-sqlite", "sshfs-sqlite"],
)
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
