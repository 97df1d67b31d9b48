"""Nodes that find each other where a stack of JGroups says: processes, in a directory and in a multicast group."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from pairs import free_port

PATIENCE_S: Final = 60.0
STACK: Final = '<config xmlns="urn:org:jgroups">{}<pbcast.GMS/></config>'
NODE: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><persistence-enabled>false</persistence-enabled>
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="self">tcp://127.0.0.1:{port}</connector></connectors>
<acceptors><acceptor name="core">tcp://127.0.0.1:{port}?protocols=CORE</acceptor></acceptors>
<broadcast-groups><broadcast-group name="b"><broadcast-period>200</broadcast-period>
<jgroups-file>stack.xml</jgroups-file><jgroups-channel>{channel}</jgroups-channel><connector-ref>self</connector-ref>
</broadcast-group></broadcast-groups>
<discovery-groups><discovery-group name="d"><jgroups-file>stack.xml</jgroups-file>
<jgroups-channel>{channel}</jgroups-channel></discovery-group></discovery-groups>
<cluster-connections><cluster-connection name="c"><connector-ref>self</connector-ref>
<discovery-group-ref discovery-group-name="d"/></cluster-connection></cluster-connections></core></configuration>
"""


@pytest.mark.parametrize("way", ["FILE_PING", "MPING"])
def test_nodes_of_a_channel_meet_and_those_of_another_do_not(tmp_path: Path, way: str) -> None:
    share = tmp_path / "share"
    found = {
        "FILE_PING": f'<TCP/><FILE_PING location="{share}"/>',
        "MPING": f'<TCP/><MPING mcast_port="{free_port()}"/>',
    }
    (tmp_path / "stack.xml").write_text(STACK.format(found[way]))
    logs: list[Path] = []
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for name, channel in (("a", "one"), ("b", "one"), ("x", "other")):
            file = tmp_path / f"{name}.xml"
            file.write_text(NODE.format(name=name, port=free_port(), channel=channel))
            logs.append(tmp_path / f"{name}.log")
            with logs[-1].open("wb") as log:
                command = [sys.executable, "-m", "entrepot", "run", str(file)]
                processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        until = time.monotonic() + PATIENCE_S
        while not all("met the node" in one.read_text() for one in logs[:2]):
            assert time.monotonic() < until, [one.read_text() for one in logs]
            assert all(one.poll() is None for one in processes), [one.read_text() for one in logs]
            time.sleep(0.05)
        assert "met the node" not in logs[2].read_text()
        for one in processes:
            one.terminate()
            assert one.wait(PATIENCE_S) == 0
        assert not list(share.rglob("*.announcement"))
    finally:
        for one in processes:
            if one.poll() is None:
                one.kill()
                one.wait()
