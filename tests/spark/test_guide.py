"""The blocks of docs/spark.md run as they stand, in their order, but for places: whoever copies them has a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from guides import blocks
from spark.stand import Stand

HERE = "run by tests/spark/test_guide.py"
PAGE = "docs/spark.md"


def test_the_page_is_a_program(stand: Stand, tmp_path: Path, capfd: Any) -> None:
    stand.queue = "orders"
    stand.produce(f'{{"order": {number}, "customer": {number % 3}}}' for number in range(1000))
    names: dict[str, Any] = {}
    found = [block for block in blocks(PAGE, "python") if block.marker == HERE]
    assert len(found) == len(blocks(PAGE, "python")), "a block of the page is not run"
    for block in found:
        first = block.text.split(" ", 1)[0]
        if first in ("customers", "held", "def"):  # what was there is landed by now
            stand.produce(f'{{"order": {number}, "customer": 1}}' for number in range(50))
        text = block.text.replace("stomp://127.0.0.1:61613", stand.url).replace('"data/', f'"{tmp_path}/data/')
        before = names.get("query")
        exec(compile("\n" * block.line + text, PAGE, "exec"), names)
        if names["query"] is not before and names["query"].isActive:
            names["query"].processAllAvailable()
            names["query"].stop()
    assert "1000 orders landed in" in capfd.readouterr().out
    assert names["landed"].count() == 1000
    assert len(stand.left(queue="results")) == 1000
    assert len(stand.left(queue="orders.enriched")) == 50
    assert names["frame"].schema == stand.browse().schema
    assert stand.spark.read.parquet(f"{tmp_path}/data/orders-of-2026-11-21").count() == 50
    assert len(stand.left(queue="out")) == 50
