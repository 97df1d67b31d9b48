"""Brokers that others wrote behind the queries of the kill harness: a real ActiveMQ, a real Artemis (`soak_places.py`).

Producers send there. A broker of ours beside it brings what the queries read, and takes back what they write, as
docs/spark-on-activemq.md says. Both are killed. ``hop_forgets``: the broker beside keeps nothing on a disk, so what it
has acknowledged there is lost with it: the harness must see that.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Final

import classic
from artemis import Artemis
from classic import Classic
from ours import listens

from pairs import free_port
from shell.daemon import Daemon, Wire
from spark.soak_places import PATIENCE, QUEUES, Place, is_empty, until

CALM: Final = 8.0  # s without anything new: the hop has brought all
BESIDE: Final = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="beside" persistent="{persistent}">
  <persistenceAdapter><kahaDB directory="beside"/></persistenceAdapter>
  <networkConnectors>
    {forth}
    <networkConnector name="back" uri="static:({there})?initialReconnectDelay=100">
      <dynamicallyIncludedDestinations><queue physicalName="out"/></dynamicallyIncludedDestinations>
      <staticallyIncludedDestinations><queue physicalName="out"/></staticallyIncludedDestinations>
    </networkConnector>
  </networkConnectors>
  <transportConnectors><transportConnector name="stomp" uri="{listen}"/></transportConnectors>
</broker>
"""
DUPLEX: Final = """<networkConnector name="there" uri="static:({there})?initialReconnectDelay=100" duplex="true"
                      checkDuplicateMessagesOnDuplex="true">
      <excludedDestinations><queue physicalName="out"/></excludedDestinations>
    </networkConnector>"""
DRAW: Final = "activemq:({there})?retryInterval=100&maxRetryInterval=500&back=out"
REMEMBERS: Final = 'maxFailoverProducersToTrack="4096"'  # as the page says
ADDRESSES: Final = "".join(
    f'<address name="{name}"><anycast><queue name="{name}"/></anycast></address>' for name in (*QUEUES, "out")
)


class Foreign(Place):
    """One broker of theirs, and ours beside it."""

    faults = ("foreign", "beside", "hop")
    kinds = ("foreign", "worker", "beside", "driver", "hop", "driver-foreign", "beside", "driver-beside", "foreign")
    competes = False  # a consumer whose broker died does not know what it acknowledged: that is theirs, not ours
    more = {"demand": "true"}  # noqa: RUF012 - read, never changed

    def __init__(self, home: Path) -> None:
        self._port = free_port()
        self.url = f"stomp://127.0.0.1:{self._port}"
        self._seen = ""
        self._since = 0.0
        self._arrived: list[str] = []

    beside: Daemon

    def start(self) -> None:
        self.start_theirs()
        self.beside.start()

    def start_theirs(self) -> None:
        """Start it, and wait until it serves."""
        raise NotImplementedError

    def kill_theirs(self) -> None:
        raise NotImplementedError

    def theirs(self) -> int:
        """Return where it speaks STOMP."""
        raise NotImplementedError

    def stop(self) -> None:
        if self.beside.process is not None and self.beside.process.poll() is None:
            self.beside.kill()
        self.kill_theirs()

    def fault(self, kind: str, lots: random.Random) -> None:
        if kind in ("beside", "hop"):
            self.beside.kill()
        if kind in ("foreign", "hop"):
            self.kill_theirs()
            time.sleep(lots.uniform(0.0, 0.5))
            self.start_theirs()
        if kind in ("beside", "hop"):
            self.beside.start()

    def wire(self, lots: random.Random) -> Wire:
        return Wire(self.theirs())

    def settled(self, state: list[str]) -> bool:
        """Nothing waits beside, and nothing has come for a while: a look at theirs would be a consumer there."""
        if not is_empty(self._port, state, 2):
            self._since = 0.0
            return False
        if self._seen != state[-1] or not self._since:
            self._seen, self._since = state[-1], time.monotonic()
        return time.monotonic() - self._since > CALM

    def carried(self) -> list[str]:
        """Take what is in theirs, and wait for what is on its way back."""
        found: list[str] = []
        until(lambda: self._nothing_waits("out"), "all is back")
        found += self.taken("out")
        return found

    def left(self) -> list[str]:
        return self.taken("in")

    def taken(self, queue: str) -> list[str]:
        wire = Wire(self.theirs())
        wire.socket.settimeout(5)
        answer = wire.ask("SUBSCRIBE", {**self.destination(queue), "id": queue, "ack": "client-individual"})
        assert answer.command == "RECEIPT", answer
        found: list[str] = []
        try:
            while True:
                frame = wire.message()
                found.append(frame.body.decode())
                wire.say("ACK", {"id": frame.headers["ack"]})
        except TimeoutError:
            return found
        finally:
            wire.cut()

    def _nothing_waits(self, queue: str) -> bool:
        state: list[str] = []
        return is_empty(self._port, state, 0, (queue,))


class BesideClassic(Foreign):
    """ActiveMQ Classic, with a network both ways. ``duplex``: what is read comes over it, too."""

    duplex = True

    def __init__(self, home: Path, *, hop_forgets: bool = False) -> None:
        super().__init__(home)
        self._classic = Classic(home / "theirs", stomp=True, connector='auditNetworkProducers="true"')
        file = self._classic.home / "activemq.xml"
        file.write_text(file.read_text().replace("<kahaDB ", f"<kahaDB {REMEMBERS} "))
        place = home / "beside"
        place.mkdir()
        there = self._classic.url
        forth = DUPLEX.format(there=there) if self.duplex else ""
        persistent = str(not hop_forgets).lower()
        text = BESIDE.format(there=there, forth=forth, listen=self.url, persistent=persistent)
        (place / "beside.xml").write_text(text)
        draws = () if self.duplex else ("--connect", DRAW.format(there=there))
        self.beside = Daemon(place, "beside.xml", *draws, files=True)

    def start_theirs(self) -> None:
        self._classic.start()
        listens(classic.HOST, self._classic.stomp_port)
        until(self._greets, "ActiveMQ serves", PATIENCE)  # it closes those that come while it starts

    def kill_theirs(self) -> None:
        self._classic.kill()

    def theirs(self) -> int:
        return self._classic.stomp_port

    def _greets(self) -> bool:
        try:
            Wire(self._classic.stomp_port).cut()
        except OSError:
            return False
        return True


class DrawnClassic(BesideClassic):
    """ActiveMQ Classic, whose queues are drawn, and a network back."""

    duplex = False


class BesideArtemis(Foreign):
    """Artemis, whose queues are drawn, and a bridge back."""

    def __init__(self, home: Path, *, hop_forgets: bool = False) -> None:
        super().__init__(home)
        self._artemis = Artemis(home / "theirs", name="theirs", addresses=ADDRESSES)
        place = home / "beside"
        place.mkdir()
        connect = f"artemis:({self._artemis.url})?back=out&retryInterval=100&maxRetryInterval=500"
        words = ("--listen", self.url, "--name", "beside", "--connect", connect)
        self.beside = Daemon(place, *words, ephemeral=hop_forgets)

    def start_theirs(self) -> None:
        self._artemis.start().await_ready()

    def kill_theirs(self) -> None:
        self._artemis.kill()

    def theirs(self) -> int:
        return self._artemis.port

    def destination(self, queue: str) -> dict[str, str]:
        return {"destination": queue, "destination-type": "ANYCAST"}
