"""Configurations side by side: what differs, what one lacks, what has to differ; asked for page by page."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from entrepot.management.drift import ABSENT, Setting, Settings, differences, settings_of, where


class Broker:
    """Answers as `describeConfiguration` does; ``shrinks``: it is read again between two pages."""

    def __init__(self, count: int, *, shrinks: bool = False) -> None:
        self.count = count
        self.shrinks = shrinks
        self.asked: list[dict[str, Any]] = []

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        wanted = json.loads(str(values[0]))
        self.asked.append(wanted)
        assert (resource, operation) == ("broker", "describeConfiguration")
        rows = [{"setting": f"s{at}", "value": "v", "means": "", "source": "file", "file": "f", "line": at, "over": ""}
                for at in range(self.count)][wanted["skip"] : wanted["skip"] + wanted["most"]]  # fmt: skip
        count = self.count
        if self.shrinks:
            self.count = 0
        return {"rows": rows, "count": count, "files": ["f"], "family": "classic", "pending": []}


def told(*rows: tuple[str, str] | Setting, family: str = "classic") -> Settings:
    made = [one if isinstance(one, Setting) else Setting(one[0], one[1], file="f.xml", line=3) for one in rows]
    return Settings(made, len(made), ["f.xml"], family, [])


def test_it_is_asked_page_by_page_up_to_what_is_wanted() -> None:
    broker = Broker(1_234)
    found = asyncio.run(settings_of(broker, ["a"], "file"))
    assert (len(found.rows), found.count) == (1_234, 1_234)
    assert [one["skip"] for one in broker.asked] == [0, 500, 1_000]
    assert broker.asked[0]["search"] == ["a"]
    bounded = asyncio.run(settings_of(Broker(1_234), most=600))
    assert (len(bounded.rows), bounded.count) == (600, 1_234)
    assert len(asyncio.run(settings_of(Broker(1_234, shrinks=True))).rows) == 500


def test_what_means_the_same_does_not_differ() -> None:
    one, other = told(Setting("limit", "1 kb", "1024")), told(("limit", "1024"))
    assert differences({"a": one, "b": other}) == []


def test_what_one_lacks_is_told() -> None:
    found = differences({"a": told(("x", "1"), ("y", "1")), "b": told(("y", "2"))})
    assert [(one.setting, one.lacks, one.own) for one in found] == [("x", ["b"], False), ("y", [], False)]
    assert (found[0].shown("a"), found[0].shown("b")) == ("1  (f.xml:3)", ABSENT)


def test_what_has_to_differ_is_told_apart() -> None:
    def broker(name: str, port: int, option: str = "x=1") -> Settings:
        return told(
            ("broker/brokerName", name), ("broker/dataDirectory", f"/data/{name}"),
            ("broker/transportConnectors/transportConnector[ow]/uri", f"tcp://{name}.example:{port}?{option}"),
            ("broker/destinationPolicy/x", f"DLQ.{name}"),
        )  # fmt: skip

    assert all(one.own for one in differences({"a": broker("alpha", 1), "b": broker("beta", 2)}))
    found = differences({"a": broker("alpha", 1), "b": broker("beta", 2, "x=2")})
    assert [one.setting for one in found if not one.own] == ["broker/transportConnectors/transportConnector[ow]/uri"]


def test_where_it_is_said_is_one_text() -> None:
    assert where("file", "a.xml", 7) == "a.xml:7"
    assert where("option", "", 0, "a.xml:7") == "option, in place of a.xml:7"
    assert where("file", "the command line", 0) == "the command line"
