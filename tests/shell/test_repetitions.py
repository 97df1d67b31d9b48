"""What a killed broker sends again over its bridge, and the other one drops: real processes, real files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pairs import free_port
from promises import never
from shell.daemon import Daemon, Wire

MESSAGES = 6_000
KILLS = 3


def waiting(broker: Daemon, queue: str) -> int:
    rows = asked(broker, "queue", "list", "-o", "json")
    return next((int(row["messages"]) for row in rows if row["name"] == queue), 0)


def asked(broker: Daemon, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "entrepot", *words],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "ENTREPOT_URL": f"stomp://127.0.0.1:{broker.port}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("duplex", ["false", "true"])
def test_a_sender_that_is_killed_doubles_nothing(tmp_path: Path, duplex: str) -> None:
    """It settles in batches: what the other broker had and its own journal had not noted goes again after each kill."""
    port = free_port()
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    far = Daemon(tmp_path / "far", "--name", "far", "--listen", f"openwire://127.0.0.1:{port}").start()
    link = f"static:(tcp://127.0.0.1:{port})?name=toFar&duplex={duplex}&initialReconnectDelay=50&networkTTL=1"
    near = Daemon(tmp_path / "near", "--name", "near", "--connect", link).start()
    try:
        wire = Wire(near.port)
        for number in range(MESSAGES):
            wire.say("SEND", {"destination": "/queue/Q", "persistent": "true"}, f"{number}".encode())
        wire.send("/queue/Q", b"last", persistent="true")
        wire.cut()
        seen: Counter[bytes] = Counter()
        consumer = Wire(far.port)
        consumer.subscribe("/queue/Q", ack="auto")
        for _ in range(KILLS):
            for _ in range(MESSAGES // (KILLS + 2)):
                seen[consumer.message().body] += 1
            near.kill()
            near.start()
        until = time.monotonic() + 60
        while len(seen) < MESSAGES + 1:
            seen[consumer.message().body] += 1
            assert time.monotonic() < until
        time.sleep(1)
        rows = asked(far, "queue", "list", "-o", "json")
        (row,) = [one for one in rows if one["name"] == "Q"]
        assert waiting(near, "Q") == 0
        with never():
            assert len(seen) == MESSAGES + 1
            assert sum(seen.values()) == MESSAGES + 1, Counter(seen.values())
        assert row["accepted"] == MESSAGES + 1
        assert row["repeated"] > 0
        told = r"message.duplicate Q code=\S+ why=another broker sent the same copy again id=(\S+)"
        said = re.findall(told, far.told())
        assert 0 < len(said) <= row["repeated"]
        (answer, *_) = asked(far, "where", "-o", "json", said[-1])
        assert answer["repeated"][0]["address"] == "Q"
    finally:
        near.stop()
        far.stop()


REPLAYING = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}">
<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" enableAudit="false"><networkBridgeFilterFactory>
<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/></networkBridgeFilterFactory></policyEntry>
</policyEntries></policyMap></destinationPolicy>
<persistenceAdapter><kahaDB directory="{directory}"/></persistenceAdapter>
<networkConnectors>{connectors}</networkConnectors>
<transportConnectors>
<transportConnector name="openwire" uri="tcp://127.0.0.1:{port}" auditNetworkProducers="true"/>
<transportConnector name="stomp" uri="stomp://127.0.0.1:0"/></transportConnectors></broker>"""


@pytest.mark.parametrize("duplex", [False, True])
def test_messages_follow_a_consumer_that_moves_to_and_fro_although_ids_are_audited(
    tmp_path: Path, duplex: bool
) -> None:
    """The files that lost all twenty: replay, and every comparison that Classic has switched on."""
    ports = {"a": free_port(), "b": free_port()}
    brokers: dict[str, Daemon] = {}
    try:
        for name, other in (("b", "a"), ("a", "b")):
            more = f'duplex="{str(duplex).lower()}" checkDuplicateMessagesOnDuplex="true" networkTTL="5"'
            uri = f"static:(tcp://127.0.0.1:{ports[other]})?initialReconnectDelay=50"
            dials = name == "a" or not duplex
            connector = f'<networkConnector name="to-{other}" uri="{uri}" {more}/>' if dials else ""
            home = tmp_path / name
            home.mkdir()
            file = home / "activemq.xml"
            file.write_text(
                REPLAYING.format(name=name, directory=home / "kahadb", connectors=connector, port=ports[name])
            )
            brokers[name] = Daemon(home, str(file), files=True).start()
        at = {name: broker.port for name, broker in brokers.items()}
        wire = Wire(at["a"])
        for number in range(20):
            wire.send("/queue/Q", f"{number}".encode(), persistent="true")
        for name in "bab":
            reader = Wire(at[name])
            reader.subscribe("/queue/Q", ack="client-individual")
            bodies = {reader.message().body for _ in range(20)}
            assert bodies == {f"{number}".encode() for number in range(20)}, name
            reader.cut()
    finally:
        for broker in brokers.values():
            broker.stop()
