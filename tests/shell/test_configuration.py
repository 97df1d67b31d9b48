"""`entrepot configuration` of brokers with files: lines, options before them, a change that is read again."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from entrepot.cli.managing import at_desk
from shell.consoles import Process, until

CLASSIC = """<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" persistent="false">
  <destinationPolicy><policyMap><policyEntries>
    <policyEntry queue="orders.&gt;" memoryLimit="{limit}"/>
  </policyEntries></policyMap></destinationPolicy>
  <networkConnectors>
    <networkConnector name="n" uri="static:(tcp://127.0.0.1:1)" password="sesame-{name}" autoStart="false"/>
  </networkConnectors>
  <transportConnectors><transportConnector name="s" uri="stomp://127.0.0.1:0?maximumConnections=9"/>
  </transportConnectors>
</broker></beans>
"""
ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>beta</name>
<persistence-enabled>false</persistence-enabled>
<security-enabled>false</security-enabled>
<configuration-file-refresh-period>100</configuration-file-refresh-period>
<acceptors><acceptor name="s">tcp://127.0.0.1:0?protocols=STOMP</acceptor></acceptors>
<address-settings>
<address-setting match="orders.#"><max-size-bytes>{limit}</max-size-bytes></address-setting></address-settings>
{more}</core></configuration>
"""


AGAIN = "<transaction-timeout>7000</transaction-timeout><global-max-size>48M</global-max-size>"


def run(*words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "entrepot", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def shown(broker: Process, *words: str) -> dict[str, dict[str, Any]]:
    lines = run("configuration", "show", *words, "--url", broker.facts["stomp"], "-o", "json").splitlines()
    return {row["setting"]: row for row in map(json.loads, lines)}


def classic(tmp_path: Path, name: str, limit: str, *more: str) -> Process:
    file = tmp_path / f"{name}.xml"
    file.write_text(CLASSIC.format(name=name, limit=limit))
    return Process(tmp_path, name, "run", str(file), *more)


def test_two_brokers_of_classic_differ_where_they_do(tmp_path: Path) -> None:
    one = classic(tmp_path, "alpha", "1mb")
    other = classic(tmp_path, "gamma", "1048576", "--memory-limit", "2gb", "--name", "delta")
    try:
        found = shown(one)
        limit = found["broker/destinationPolicy/policyMap/policyEntries/policyEntry[queue=orders.>]/memoryLimit"]
        assert (limit["where"], limit["value"], limit["source"]) == (f"{tmp_path / 'alpha.xml'}:4", "1mb", "file")
        assert found["broker/networkConnectors/networkConnector[n]/password"]["value"] == "****"
        assert "sesame" not in json.dumps([found, shown(other)])
        assert shown(other, "name", "delta")["--name"]["over"] == f"{tmp_path / 'gamma.xml'}:2"
        urls = ("--url", one.facts["stomp"], "--url", other.facts["stomp"], "-o", "json")
        rows = [json.loads(line) for line in run("configuration", "drift", *urls, code=1).splitlines()]
        assert {row["setting"] for row in rows} >= {"--memory-limit"}
        assert not [row for row in rows if "policyEntry" in row["setting"]]  # 1mb is 1048576
        table = list(csv.reader(io.StringIO(run("configuration", "drift", *urls[:-1], "csv", code=1))))
        assert table[0] == ["setting", *(urls[1], urls[3])]
        assert {row[0].lstrip("'") for row in table[1:]} == {row["setting"] for row in rows}
        own = [json.loads(line) for line in run("configuration", "drift", "--own", *urls, code=1).splitlines()]
        assert {row["setting"] for row in own if row["own"]} >= {"broker/brokerName", "--name"}
    finally:
        one.stop()
        other.stop()


def test_what_is_read_again_has_its_new_value_and_what_takes_a_restart_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(ARTEMIS.format(limit="1M", more=""))
    broker = Process(tmp_path, "beta", "run", str(file))
    whole = partial(
        at_desk, broker.facts["stomp"], lambda desk: desk.ask("broker", "describeAttributes", "globalMaxSize")
    )
    setting = "core/address-settings/address-setting[orders.#]/max-size-bytes"
    try:
        assert (shown(broker)[setting]["means"], shown(broker)[setting]["line"]) == ("1048576", 8)
        file.write_text("\n" + ARTEMIS.format(limit="2M", more=AGAIN))
        until(lambda: shown(broker, "max-size-bytes")[setting]["means"], lambda means: means == "2097152")
        assert shown(broker, "max-size-bytes")[setting]["line"] == 9
        assert whole() == {"globalMaxSize": 48 << 20}
        url = broker.facts["stomp"]
        told = subprocess.run(
            [sys.executable, "-m", "entrepot", "configuration", "show", "name", "--url", url],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert "takes a restart: transaction-timeout" in told.stderr
    finally:
        broker.stop()
