"""`entrepot simulate`: a user's own files as a simulated network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from entrepot.cli.simulate import STATEMENT, simulate

BROKER = """<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" dataDirectory="data">{connectors}
<transportConnectors><transportConnector name="openwire" uri="tcp://127.0.0.1:{port}"/></transportConnectors>
</broker></beans>
"""
CONNECTOR = """<networkConnectors><networkConnector name="nc" uri="static:(tcp://127.0.0.1:{port})" networkTTL="{ttl}"/>
</networkConnectors>"""
PORTS = {"a": 61616, "b": 61617, "c": 61618}


def chain(folder: Path, ttl: int) -> list[str]:
    """Write the files of a chain a, b, c."""
    files = []
    for name, beyond in (("a", "b"), ("b", "c"), ("c", "")):
        connectors = CONNECTOR.format(port=PORTS[beyond], ttl=ttl) if beyond else ""
        file = folder / f"{name}.xml"
        file.write_text(BROKER.format(name=name, port=PORTS[name], connectors=connectors))
        files.append(str(file))
    return files


def run(files: list[str], *arguments: str) -> Result:
    return CliRunner().invoke(simulate, [*arguments, "--send", "queue://orders@a", "--messages", "8", *files])


def test_what_is_sent_at_one_end_arrives_at_the_other_though_the_middle_dies(tmp_path: Path) -> None:
    done = run(chain(tmp_path, 2), "--read", "queue://orders@c", "--kill", "b", "-o", "json")
    assert done.exit_code == 0, done.output
    outcome: dict[str, Any] = json.loads(done.stdout)
    (arrival,) = outcome["arrivals"]
    assert (arrival["sent"], arrival["arrived"], list(arrival["places"])) == (8, 8, ["c"])
    assert list(outcome["hops"]) == ["2"]
    assert outcome["stuck"] == []


def test_what_is_stuck_is_said_to_be_and_why(tmp_path: Path) -> None:
    done = run(chain(tmp_path, 1), "--read", "queue://orders@c")
    assert done.exit_code == 1
    assert "8 sent, 8 confirmed, 0 arrived: nowhere" in done.output
    assert "stuck: 8 in orders of a" in done.output
    assert "c has consumers 2 hops away, and consumerTTL on the way is 1" in done.output
    assert STATEMENT in done.output


def test_the_same_seed_is_the_same_run_and_another_is_not(tmp_path: Path) -> None:
    files = chain(tmp_path, 2)
    first, again = (run(files, "--read", "queue://orders@c", "--kill", "b").output for _ in range(2))
    other = run(files, "--read", "queue://orders@c", "--kill", "b", "--first", "2").output
    assert first == again
    assert first.splitlines()[0].split()[-1] != other.splitlines()[0].split()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kill", "z"), "no file describes a broker called 'z'"),
        (("--read", "queue://orders"), "is not DEST@BROKER"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = run(chain(tmp_path, 2), *arguments)
    assert done.exit_code != 0
    assert message in f"{done.output} {done.exception}"
