"""ActiveMQ Classic and this broker find each other by ActiveMQ's own datagrams, and bridge, each to the other."""

from __future__ import annotations

import socket
from pathlib import Path

import classic
import ours
import pytest
from test_network import PATIENCE, arrives, fresh, run

from entrepot.client.connection import connect


class Announced(ours.Entrepot):
    """This broker, announced and listening in a group."""

    beacon = ""

    def start(self) -> Announced:
        command = [ours.sys.executable, "-m", "entrepot", "run", "--name", self.name, "--ephemeral"]
        command += ["--listen", f"openwire://{ours.HOST}:{self.port}"]
        command += ["--announce", self.beacon, "--connect", self.beacon]
        with (self.home / "log").open("ab") as log:
            self.process = ours.subprocess.Popen(command, stdin=ours.subprocess.DEVNULL, stdout=log, stderr=log)
        return self


def multicast_works() -> bool:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.255.2.3") + b"\0\0\0\0")
            one.sendto(b"x", ("239.255.2.3", 9))
    except OSError:
        return False
    return True


def test_both_find_each_other_and_messages_go_both_ways(tmp_path: Path) -> None:
    if classic.unavailable():
        pytest.skip(classic.unavailable())
    if not multicast_works():
        pytest.skip("this machine has no network with multicast")
    port = classic.free_port()
    beacon = f"multicast://239.255.2.3:{port}?group=interop{port}"
    theirs = classic.Classic(tmp_path / "theirs", name="theirs")
    file = theirs.home / "activemq.xml"
    text = file.read_text().replace('name="openwire" uri=', f'name="openwire" discoveryUri="{beacon}" uri=')
    connector = f'<networkConnectors><networkConnector uri="{beacon}"/></networkConnectors>'
    file.write_text(text.replace("<transportConnectors>", connector + "<transportConnectors>"))
    mine = Announced(tmp_path / "mine", name="mine")
    mine.beacon = beacon

    async def main() -> None:
        for source, target in ((theirs, mine), (mine, theirs)):
            where = fresh()
            async with connect(target.url) as far, far.session() as reading, reading.consumer(where) as consumer:
                await arrives(source, where, consumer)
                async with connect(source.url) as near, near.session() as writing, writing.producer(where) as producer:
                    for number in range(20):
                        await producer.send(str(number))
                    for number in range(20):
                        message = await consumer.receive(PATIENCE)
                        assert message is not None
                        assert message.body == str(number)

    try:
        for broker in (theirs, mine):
            broker.start()
        for broker in (theirs, mine):
            broker.await_ready()
        run(main())
    finally:
        theirs.kill()
        mine.kill()
