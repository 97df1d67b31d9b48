"""Telegraf's own inputs, built from its module, ask a console; what they ask by Jolokia a real broker answers alike."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("uvicorn")

import artemis
import classic
import go_clients
import jolokias
from classic import NEWER

from shell.consoles import until

GATHERING_S: Final = 60
EXAMPLE: Final = "plugins/inputs/jolokia2_agent/examples/activemq.conf"
ARTEMIS: Final = """
[[inputs.jolokia2_agent]]
  urls = ["http://localhost:8161/api/jolokia"]
  username = "admin"
  password = "admin"
  [[inputs.jolokia2_agent.metric]]
    name     = "broker"
    mbean    = "org.apache.activemq.artemis:broker=*"
    paths    = ["TotalMessageCount", "TotalConsumerCount", "AddressMemoryUsagePercentage", "Active", "Version"]
    tag_keys = ["broker"]
  [[inputs.jolokia2_agent.metric]]
    name     = "address"
    mbean    = "org.apache.activemq.artemis:address=*,broker=*,component=addresses"
    paths    = ["MessageCount", "NumberOfMessages", "QueueCount", "RoutedMessageCount", "Paused"]
    tag_keys = ["broker", "address"]
  [[inputs.jolokia2_agent.metric]]
    name     = "queue"
    mbean    = "org.apache.activemq.artemis:component=addresses,subcomponent=queues,queue=*,*"
    paths    = ["MessageCount", "ConsumerCount", "DeliveringCount", "MessagesAdded", "MessagesAcknowledged", "Durable"]
    tag_keys = ["broker", "address", "queue", "routing-type"]
"""
PLACES: Final = ("orders", "news")
DIFFERENT: Final = {"topic": {"QueueSize"}}
"""What waits for durable subscriptions: a real ActiveMQ counts nothing, this broker what is not acknowledged."""
FEEDS: Final = """
[[inputs.activemq]]
  url = "{}"
  username = "{}"
  password = "{}"
  webadmin = "admin"
"""


@cache
def program() -> Path:
    try:
        return go_clients.program(go_clients.TELEGRAF, go_clients.TELEGRAF_S)
    except go_clients.Unavailable as why:
        pytest.skip(str(why))


def gathered(configuration: str) -> list[dict[str, Any]]:
    """Return what Telegraf makes of what is answered: metrics, and errors."""
    done = subprocess.run(
        [program()], input=configuration, capture_output=True, text=True, timeout=GATHERING_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def of(found: list[dict[str, Any]], kind: str, /, **tags: str) -> dict[str, Any]:
    """Return the fields of the one metric with these tags."""
    (one,) = [each for each in found if each.get("name") == kind and tags.items() <= each["tags"].items()]
    return dict(one["fields"])


def comparable(found: list[dict[str, Any]]) -> dict[str, object]:
    """Return metrics by name and tags: of `PLACES` with their values, of the broker by what they are called.

    Totals of a broker count what its own clients of management and its advisories do.
    """
    shown: dict[str, object] = {}
    for one in found:
        tags = {name: value for name, value in one.get("tags", {}).items() if name != "jolokia_agent_url"}
        key = f"{one.get('name')} {json.dumps(tags, sort_keys=True)}"
        if one.get("name") == "broker":
            shown[key] = sorted(one["fields"])
        elif tags.get("destinationName", tags.get("address")) in PLACES:
            other = DIFFERENT.get(one["name"], set())
            shown[key] = {name: value for name, value in one["fields"].items() if name not in other}
    return shown


def asked(family: str, place: str) -> str:
    """Return a configuration for a place: Telegraf's own example, and one of the same form for Artemis."""
    text = ARTEMIS
    if family == "classic":
        text = (go_clients.module(go_clients.TELEGRAF, "github.com/influxdata/telegraf") / EXAMPLE).read_text()
    user, password = jolokias.USER
    for before, now in (
        ("http://localhost:8161/api/jolokia", place.rstrip("/")),
        ('username = "admin"', f'username = "{user}"'),
        ('password = "admin"', f'password = "{password}"'),
    ):
        assert before in text
        text = text.replace(before, now)
    return text


def test_its_input_for_activemq_reads_the_feeds(tmp_path: Path) -> None:
    program()
    with (
        jolokias.own("classic", tmp_path, authenticated=True) as (place, url),
        jolokias.talking(url, *jolokias.USER),
    ):
        console = place.removesuffix("/api/jolokia")
        found = until(
            lambda: gathered(FEEDS.format(console, *jolokias.USER)),
            lambda seen: '"dispatched_counter": 1' in json.dumps(seen),
        )
        refused = gathered(FEEDS.format(console, jolokias.USER[0], "wrong"))
    assert [one for one in found if "error" in one] == []
    assert of(found, "activemq_queues", name="orders") == {
        "size": 3, "consumer_count": 0, "enqueue_count": 3, "dequeue_count": 0,
    }  # fmt: skip
    assert of(found, "activemq_topics", name="news")["enqueue_count"] == 1
    told = of(found, "activemq_subscribers", client_id="ref-client", subscription_name="sub", destination_name="news")
    assert told == {
        "pending_queue_size": 0, "dispatched_queue_size": 1, "dispatched_counter": 1, "enqueue_counter": 1,
        "dequeue_counter": 0,
    }  # fmt: skip
    assert [list(one) for one in refused] == [["error"]]
    assert "401" in refused[0]["error"]


@pytest.mark.parametrize("family", jolokias.FAMILIES)
def test_its_input_for_jolokia_reads_what_a_real_broker_shows(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = artemis.unavailable() if family == "artemis" else classic.unavailable(NEWER)
    if absent:
        pytest.skip(absent)
    program()
    shown = []
    for place, home in ((jolokias.own, "ours"), (jolokias.real, "real")):
        more = (monkeypatch,) if place is jolokias.real else ()
        with (
            place(family, tmp_path / home, *more, authenticated=True) as (at, url),  # type: ignore[operator]
            jolokias.talking(url, *jolokias.USER),
        ):
            found = gathered(asked(family, at))
        assert [one for one in found if "error" in one] == []
        shown.append(comparable(found))
    ours, real = shown
    assert len(real) == {"classic": 3, "artemis": 5}[family], real
    assert ours == real
