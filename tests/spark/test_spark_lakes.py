"""Tables of Delta and Iceberg hold each message once, through drivers that are killed: docs/lakes.md, as it stands.

Both need a PySpark of their own (what CI has fits neither) and some fifteen sessions of Spark, so minutes:
`make pipeline-lakes` makes the environment and runs this. The jars are those that the page names.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import maven
import pyarrow.parquet
import pytest
from classic import free_port

import entrepot
from guides import blocks
from promises import never
from shell.daemon import Daemon, Wire
from spark.stand import QUICK
from spark.test_spark_landing import Land

PAGE: Final = "docs/lakes.md"
HERE: Final = "run by tests/spark/test_spark_lakes.py"
PYTHON: Final = os.environ.get("ENTREPOT_PYTHON_SPARK41", "")
PACKAGES: Final = re.compile(r"(?:io\.delta|org\.apache\.iceberg):[\w.:-]+")
PATIENCE_S: Final = 600
BATCH: Final = 100  # messages of a micro-batch: several of them, so that there is something to repeat
KILLS: Final = ("0:to_iceberg", "1:middle", "1:to_delta", "2:to_merged", "2:middle")
LAND_KILLS: Final = int(os.environ.get("ENTREPOT_ROUNDS", "2"))

pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="ENTREPOT_PYTHON_SPARK41 names a Python with PySpark 4.1"),
    pytest.mark.timeout(1_500),
]


@pytest.fixture(scope="module")
def jars() -> str:
    """The files of the packages that the page names; what they need and Spark has itself stays out."""
    found = set(PACKAGES.findall("".join(block.text for block in blocks(PAGE, "python"))))
    try:
        places = [maven.jars(package) for package in sorted(found)]
    except maven.Unavailable as unavailable:
        pytest.skip(str(unavailable))
    files = {path.name: path for place in places for path in place.glob("*.jar")}
    return ",".join(str(path) for name, path in sorted(files.items()) if name.startswith(("delta", "iceberg", "unity")))


def page(language: str, change: Callable[[str], str]) -> list[str]:
    """Return the blocks of the page that this file runs."""
    found = [block for block in blocks(PAGE, language) if block.marker == HERE]
    assert len(found) == len(blocks(PAGE, language)), "a block of the page is not run"
    return [change(block.text) for block in found]


def produce(port: int, queue: str, bodies: Iterable[object]) -> list[str]:
    """Send persistent texts; all are on disk when this returns."""
    sent = [str(body) for body in bodies]
    wire = Wire(port)
    for body in sent:
        assert wire.ask("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, body.encode()).command
    wire.leave()
    return sent


def broker(home: Path, *arguments: str) -> Daemon:
    (home / "broker").mkdir()
    return Daemon(home / "broker", *arguments).start()


def environment() -> dict[str, str]:
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return {**names, "PYTHONPATH": str(Path(entrepot.__file__).resolve().parents[1]), "PYSPARK_PYTHON": PYTHON}


def program(home: Path, jars: str, kills: list[str] | None, **replaced: str) -> subprocess.CompletedProcess[str]:
    """Run lake_driver.py once."""

    def change(text: str) -> str:
        text = re.sub(r'spark__jars__packages="[^"]*"', "spark__jars=JARS, **QUICK", text)
        for old, new in replaced.items():
            text = text.replace(PLACES[old], new)
        return f"JARS = {jars!r}\nQUICK = {quick!r}\n{text}"

    quick = {**QUICK, "spark__databricks__delta__snapshotPartitions": "2", "spark__driver__memory": "800m"}
    told = {"home": str(home), "kills": kills, "blocks": page("python", change)[:-1]}
    if kills is None:
        told["blocks"] = told["blocks"][:1]
    (home / "driver.json").write_text(json.dumps(told))
    command = [PYTHON, str(Path(__file__).with_name("lake_driver.py")), str(home / "driver.json")]
    return subprocess.run(
        command, cwd=home, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


PLACES: Final = {"url": "stomp://127.0.0.1:61613", "options": 'subscription="lakes"', "master": "local[2,4]"}


def test_the_recipes_hold_each_message_once_and_a_plain_append_does_not(tmp_path: Path, jars: str) -> None:
    daemon = broker(tmp_path)
    try:
        sent = produce(daemon.port, "orders", range(BATCH * len({kill[0] for kill in KILLS})))
        ends: list[int] = []
        while not ends or ends[-1] != 0:
            done = program(
                tmp_path,
                jars,
                list(KILLS),
                url=f"stomp://127.0.0.1:{daemon.port}",
                options=f'subscription="lakes", maxMessagesPerTrigger="{BATCH}"',
                master="local[1,4]",
            )
            assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr[-3_000:]
            ends.append(done.returncode)
            assert len(ends) <= len(KILLS) + 1, "it was killed more often than was said"
        assert ends == [-signal.SIGKILL] * len(KILLS) + [0]
        rows = json.loads((tmp_path / "rows").read_text())
        with never():
            for recipe in ("to_delta", "to_iceberg", "to_merged"):
                assert rows[recipe] == sorted(sent), recipe
        assert set(rows["plain"]) == set(sent)
        again = len(rows["plain"]) - len(sent)
        assert again >= BATCH * len(KILLS), "no batch was repeated: the kills came too late"
        print(f"{len(sent)} messages, {len(KILLS)} kills; the plain append has {len(rows['plain'])} rows")
    finally:
        daemon.stop()


class Lander(Land):
    """`entrepot pipeline land` under the other PySpark, with the file of the page."""

    def __init__(self, home: Path, text: str, metrics: int) -> None:
        self.home = home
        self.metrics = metrics
        self.process = None
        (home / "land.toml").write_text(text)

    def start(self) -> None:
        command = [PYTHON, "-m", "entrepot", "pipeline", "land", "land.toml"]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.home, env=environment(), stdout=log, stderr=log, start_new_session=True
            )


def last_of(checkpoint: Path, log: str) -> int:
    """Return the number of the last batch in a log of Spark's, -1 for none."""
    return max((int(path.name) for path in (checkpoint / log).glob("[0-9]*")), default=-1)


def idle(checkpoint: Path) -> bool:
    """Return whether no batch is under way behind the last one."""
    return 0 <= last_of(checkpoint, "commits") == last_of(checkpoint, "offsets")


def undone(checkpoint: Path) -> bool:
    """Take the last batch out of Spark's commit log: a kill between the table's commit and Spark's leaves just that.

    A no where a batch behind it had begun: the log has no holes.
    """

    if not idle(checkpoint):
        return False
    last = last_of(checkpoint, "commits")
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    return True


def test_the_supervisor_lands_in_both_through_kills(tmp_path: Path, jars: str) -> None:
    port = free_port()
    daemon = broker(tmp_path, "--listen", f"stomp://127.0.0.1:{port}")
    metrics = free_port()

    def change(text: str) -> str:
        text = re.sub(r'"spark.jars.packages" = "[^"]*"', f'"spark.jars" = "{jars}"', text)
        quick = {**QUICK, "spark__databricks__delta__snapshotPartitions": "2"}
        more = "\n".join(f'"{name.replace("__", ".")}" = "{value}"' for name, value in quick.items())
        head = f'metrics = "127.0.0.1:{metrics}"\nmemory = "800m"\n'
        return head + text.replace(PLACES["url"], f"stomp://127.0.0.1:{port}").replace("[spark]", f"[spark]\n{more}")

    (text,) = page("toml", change)
    land = Lander(tmp_path, text, metrics)
    flows = {"orders": "orders.delta", "prices": "orders.iceberg"}
    sent: list[int] = []
    repeated = dict.fromkeys(flows, 0)

    def more() -> None:
        fresh = range(len(sent), len(sent) + BATCH)
        for queue in flows.values():
            produce(port, queue, (f'{{"order": {number}}}' for number in fresh))
        sent.extend(fresh)

    def rows(flow: str) -> float:
        found = re.search(rf'rows_total{{flow="{flow}"}} ([0-9.]+)', land.asked("metrics")[1])
        return float(found.group(1)) if found else 0.0

    try:
        for queue in flows.values():
            produce(port, queue, ["no json"])
        for turn in range(LAND_KILLS):
            more()
            land.start()
            land.until(lambda: all(rows(flow) >= BATCH for flow in flows))
            if turn < LAND_KILLS - 1:
                more()  # the next batch may be under way when it dies, or not
            else:
                land.until(lambda: all(written(tmp_path / place, sent[-1]) for place in LANDED))
                land.until(lambda: all(idle(tmp_path / "data/checkpoints" / flow) for flow in flows))
            land.end(signal.SIGKILL)
            for flow in flows:
                repeated[flow] += undone(tmp_path / "data/checkpoints" / flow)
        more()
        land.start()
        land.until(lambda: all(written(tmp_path / place, sent[-1]) for place in LANDED))
        assert land.end(signal.SIGTERM) == 0  # behind the batch that it is in
        assert program(tmp_path, jars, None, master="local[1]").returncode == 0
        found: dict[str, Any] = json.loads((tmp_path / "rows").read_text())
        with never():
            for flow in flows:
                assert found[flow] == sent, flow
                assert found[f"{flow}-odd"] == [None], flow
        assert all(repeated.values()), repeated
        print(f"{len(sent)} messages each, {LAND_KILLS} kills; repeated although committed: {repeated}")
    finally:
        if land.process is not None and land.process.poll() is None:
            land.end(signal.SIGKILL)
        daemon.stop()


LANDED: Final = ("data/landed/orders", "data/warehouse/shop/prices/data")


def written(place: Path, order: int) -> bool:
    """Return whether a file of the table has ``order``, whether or not it is committed."""
    for path in place.rglob("*.parquet"):
        try:
            found = pyarrow.parquet.read_table(path, columns=["order"], partitioning=None)
        except (OSError, pyarrow.ArrowInvalid):  # under way
            continue
        if order in found.column("order").to_pylist():
            return True
    return False
