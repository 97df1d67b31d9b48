"""The blocks of docs/recipes.md run as they stand, but for places; those of Avro where its package fits PySpark."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import maven
import pytest

import entrepot
from entrepot.pipeline.landing.configuration import Flow
from entrepot.pipeline.landing.flows import shaped
from guides import Block, blocks
from spark.stand import QUICK, Stand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = "docs/recipes.md"
HERE: Final = "run by tests/spark/test_guide_of_recipes.py"
PYTHON: Final = os.environ.get("ENTREPOT_PYTHON_SPARK41", "")
PACKAGE: Final = re.compile(r"org\.apache\.spark:spark-avro[\w.:-]+")
NO_UTF8: Final = b'{"order": 3, "customer": "\xff"}'
DEEP: Final = b'{"order": ' + b"[" * 5000  # deeper than Spark's reader goes
LARGE: Final = b'{"order": 5000000000, "customer": "Ada", "currency": "EUR"}'
RECORD: Final = '{"type": "record", "name": "O", "fields": [{"name": "order", "type": "int"}]}'


def programs() -> tuple[list[Block], list[Block]]:
    """Return the blocks of JSON, and those of Avro."""
    found = blocks(PAGE, "python")
    assert {block.marker for block in found} == {HERE}
    at = next(number for number, block in enumerate(found) if "avro" in block.text)
    return found[:at], found[at:]


def send(stand: Stand, queue: str, body: bytes, **headers: str) -> None:
    """Send octets: with a length, as many clients do."""
    fields = {"destination": f"/queue/{queue}", "persistent": "true", "content-length": str(len(body)), **headers}
    assert stand.wire().ask("SEND", fields, body).command == "RECEIPT"


def test_json(stand: Stand, tmp_path: Path) -> None:
    names: dict[str, Any] = {}

    def run(*words: str) -> None:
        """Run the blocks as far as the one that has ``words``."""
        while waiting:
            block = waiting.pop(0)
            text = block.text.replace("stomp://127.0.0.1:61613", stand.url)
            text = re.sub(r'(f?)"data/', rf'\1"{tmp_path}/data/', text)
            exec(compile("\n" * block.line + text, PAGE, "exec"), names)
            if all(word in block.text for word in words):
                return

    waiting = programs()[0]
    stand.queue = "orders"
    stand.produce(['{"order": 1, "customer": "Ada"}', '{"order": 2, "price": 3}', "no json", '{"order": "x"}'])
    for body in (NO_UTF8, DEEP, LARGE, b'{"order": 4}'):
        send(stand, "orders", body)
    run("query = start(orders")
    names["query"].processAllAvailable()
    run("query.stop()")
    send(stand, "orders", LARGE)
    names["query"].processAllAvailable()
    names["query"].stop()
    run("table =")
    found = {row["order"]: (row["customer"], row["currency"]) for row in names["table"].collect()}
    assert found == {1: ("Ada", None), 2: (None, None), 4: (None, None), 5_000_000_000: ("Ada", "EUR")}
    (dead,) = [row for row in stand.browse(queue="orders.unread").collect() if row["body"] == NO_UTF8]
    assert dead["correlation_id"].startswith("ID:")
    assert stand.browse(queue="orders.unread").count() == 5
    run("rescued")
    assert names["rescued"].awaitTermination(60)
    assert [row["order"] for row in stand.spark.read.parquet(f"{tmp_path}/data/rescued").collect()] == [5_000_000_000]
    send(stand, "results.raw", b'{"price": 2.5}')
    send(stand, "results.raw", NO_UTF8)
    run("try_variant_get")
    assert sorted(str(row["price"]) for row in names["prices"].collect()) == ["2.5", "None"]
    run()
    assert {"order": 1, "customer": "Ada"} in [json.loads(text) for text in stand.left(queue="results")]


@pytest.mark.parametrize("columns", [("body", "text"), ("text",)])
def test_what_is_no_json_lands_beside_what_is(spark: SparkSession, columns: tuple[str, ...]) -> None:
    bodies = [b'{"order": 1}', b"no json", NO_UTF8, DEEP]
    rows = [(body, body.decode(errors="replace")) for body in bodies]
    frame = spark.createDataFrame(rows, "body binary, text string").select(*columns)
    found = shaped(frame, Flow("orders", "orders", parse="json", schema="order int")).collect()
    whole = columns[0] == "body"  # in a text U+FFFD is a letter like others
    assert [row["order"] for row in found] == [1, None, None if whole else 3, None]
    assert [row["parsed"] for row in found] == [True, False, not whole, False]
    assert [row[columns[0]] for row in found] == [row[0 if whole else 1] for row in rows]


def test_avro_without_its_package_is_said_in_a_sentence(spark: SparkSession) -> None:
    from entrepot.pipeline.causes import told_apart

    frame = spark.createDataFrame([(b"\x02",)], "body binary")
    with pytest.raises(Exception, match="AVRO_NOT_LOADED") as missing:
        shaped(frame, Flow("orders", "orders", parse="avro", schema=RECORD))
    said = str(told_apart(missing.value))
    assert "spark-avro, is missing" in said
    assert "docs/recipes.md" in said


DRIVER: Final = """
import json
from pyspark.sql import functions as f
QUICK = {quick}
{page}
{landing}
query = start(orders, "avro")
query.processAllAvailable()
query.stop()
landed = spark.read.parquet("data/orders").orderBy("order").collect()
from entrepot.pipeline.landing.configuration import Flow
from entrepot.pipeline.landing.flows import shaped
bodies = spark.createDataFrame([(bytes.fromhex(one),) for one in {bodies}], "body binary")
shapes = shaped(bodies, Flow("o", "o", parse="avro", schema=FIRST)).collect()
print("found:", json.dumps([[[row.order, row.customer, row.currency] for row in landed],
                            [[row.order, row.parsed] for row in shapes]]))
"""
ADA: Final = b"\x0e\x06Ada"  # order 7
EVE: Final = b"\x10\x06Eve\x06USD"  # order 8, of the second schema
SHORT: Final = b"\x0e\x06A"
VAST: Final = b"\x0e\x80\x80\x80\x80\x08"  # says that 1 GiB of text follows: more than Java has here


@pytest.mark.skipif(not PYTHON, reason="ENTREPOT_PYTHON_SPARK41 names a Python with PySpark 4.1")
@pytest.mark.timeout(400)
def test_avro(stand: Stand, tmp_path: Path) -> None:
    json_blocks, avro_blocks = programs()
    (package,) = set(PACKAGE.findall("".join(block.text for block in avro_blocks)))
    try:
        jar = maven.file(f"{package}:jar")
    except maven.Unavailable as unavailable:
        pytest.skip(str(unavailable))
    for body, schema in ((ADA, "1"), (EVE, "2"), (SHORT, "1"), (VAST, "1"), (ADA, "3")):
        send(stand, "orders.avro", body, schema=schema)
    (landing,) = [block.text for block in json_blocks if "def land(" in block.text]
    bodies = [body.hex() for body in (ADA, SHORT, VAST)]
    text = DRIVER.format(
        quick={name: value for name, value in QUICK.items() if "JavaOptions" not in name}
        | {"spark__driver__memory": "600m"},
        page="".join(block.text for block in avro_blocks),
        landing=landing.replace("query = start(orders", "# ").replace("orders.unread", "avro.unread"),
        bodies=bodies,
    )
    text = re.sub(r'spark__jars__packages="[^"]*"', f'spark__jars="{jar}", **QUICK', text)
    (tmp_path / "recipe.py").write_text(text.replace("stomp://127.0.0.1:61613", stand.url))
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    source = str(Path(entrepot.__file__).resolve().parents[1])
    done = subprocess.run(
        [PYTHON, "recipe.py"],
        cwd=tmp_path,
        env={**names, "PYTHONPATH": source, "PYSPARK_PYTHON": PYTHON},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    landed, shapes = json.loads(done.stdout.partition("found:")[2])
    assert landed == [[7, "Ada", "EUR"], [8, "Eve", "USD"]]
    assert shapes == [[7, True], [None, False], [None, False]]
    assert stand.browse(queue="avro.unread").count() == 3
    (made,) = stand.browse(queue="results.avro").collect()
    assert (made["body"], made["text"], made["properties"]["schema"]) == (ADA, None, "1")
