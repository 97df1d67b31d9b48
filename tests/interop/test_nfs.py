"""A pair on NFS version 4 for real: Debian's nfs-ganesha on loopback, mounted twice, as two machines would mount it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pairs import PATIENCE, ROUNDS_SLOW, BrokerProcess, Producer, free_port, kept, until

SERVER = shutil.which("ganesha.nfsd")
LEASE = 5  # s that the server keeps the locks of a client that is silent; more than a broker's lease here

CONFIGURATION = """
NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSV4 {{ RecoveryBackend = fs; RecoveryRoot = "{home}/state"; Grace_Period = {lease}; Lease_Lifetime = {lease}; }}
EXPORT {{
    Export_Id = 1; Path = "{home}/export"; Pseudo = "/store"; Protocols = 4;
    Access_Type = RW; Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = VFS; }}
}}
"""


def unavailable() -> str:
    """Return why NFS cannot be tried here, or nothing."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "mounting needs root on Linux"
    if "nfs4" not in Path("/proc/filesystems").read_text():
        return (
            "the kernel of this machine has no NFS client (nfs4 is not in /proc/filesystems), "
            "and no client in user space passes locks on to the server"
        )
    if SERVER is None:
        return "there is no NFS server to start (Debian: nfs-ganesha nfs-ganesha-vfs)"
    if shutil.which("mount.nfs4") is None:
        return "there is no mount.nfs4 (Debian: nfs-common)"
    return ""


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"NFS: {unavailable()}")


@pytest.fixture
def mounts(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    for name in ("export", "state", "one", "two"):
        (tmp_path / name).mkdir()
    port = free_port()
    (tmp_path / "ganesha.conf").write_text(CONFIGURATION.format(port=port, home=tmp_path, lease=LEASE))
    command = [str(SERVER), "-F", "-f", str(tmp_path / "ganesha.conf"), "-L", str(tmp_path / "ganesha.log")]
    server = subprocess.Popen([*command, "-p", str(tmp_path / "ganesha.pid")])
    made: list[Path] = []
    try:
        until(lambda: _listens(port), "the NFS server listens")
        for name in ("one", "two"):
            place = tmp_path / name
            # As two machines: without nosharecache both would look into one cache.
            options = f"port={port},vers=4.2,proto=tcp,hard,nosharecache,actimeo=1"
            command = ["mount", "-t", "nfs4", "-o", options, "127.0.0.1:/store", str(place)]
            subprocess.run(command, check=True, timeout=PATIENCE)
            made.append(place)
        yield made[0], made[1]
    finally:
        for place in made:
            subprocess.run(["umount", "--force", "--lazy", place], check=False)
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True


@pytest.mark.timeout(120 + 30 * ROUNDS_SLOW)
def test_a_pair_on_nfs_takes_over_and_loses_nothing(mounts: tuple[Path, Path], tmp_path: Path) -> None:
    more = ("--lease-duration", "2")
    brokers = [BrokerProcess(mounts[0] / "data", "alpha", tmp_path, *more)]
    made = list(brokers)
    try:
        until(brokers[0].serves, "alpha serves")
        brokers.append(BrokerProcess(mounts[1] / "data", "beta", tmp_path, *more))
        made.append(brokers[1])
        until(brokers[1].waits, "beta waits")
        producer = Producer([one.port for one in brokers], "/queue/nfs")
        for turn in range(ROUNDS_SLOW):
            producer.flow(200)
            brokers[0].kill()
            until(brokers[1].serves, "the backup takes over")
            producer.flow(200)
            brokers[1].pause()  # and now one that stands still for longer than its lease
            brokers[0] = BrokerProcess(mounts[turn % 2] / "data", f"again{turn}", tmp_path, *more)
            made.append(brokers[0])
            producer.ports = [one.port for one in brokers]
            until(brokers[0].serves, "the returned one takes over")
            brokers[1].resume()
            until(brokers[1].waits, "the one that stood still finds out")
        producer.stop()
        kept(producer, brokers[0].port)
    finally:
        for broker in made:
            broker.clear()
