"""A DAG of a real Airflow: its sensor waits for messages, its operator lands them, and a task sees how many.

`make pipeline-extras` brings Airflow in an environment of its own, and names the Python that has Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("airflow.sdk", reason="make pipeline-extras has it")

import entrepot
from entrepot.base.errors import OperatorError
from guides import blocks
from shell.daemon import Daemon, Wire

SPARK = os.environ.get("ENTREPOT_PYTHON_SPARK", "")
COUNT = 120
PAGE = "docs/airflow.md"
CHANGED = {  # what a page cannot know
    "/etc/entrepot/land.toml": "{home}/land.toml",
    '["/opt/entrepot/bin/entrepot"]': '["{spark}", "-m", "entrepot"]',
    "at_least=1000,": "at_least={count}, poke_interval=1, timeout=120,",
    'mode="reschedule"': 'mode="poke"',  # `airflow dags test` has no scheduler
    "    arrived >> landed\n": """
    from airflow.sdk import task

    @task
    def tell(rows):
        with open("{home}/told", "a") as file:
            print(*rows.items(), file=file)

    arrived >> landed
    tell(landed.output)
""",
}
LAND = """
checkpoints = "{home}/state"
master = "local[1,4]"
memory = "600m"
[source]
url = "{url}"
[spark]
"spark.sql.shuffle.partitions" = 1
[[land]]
name = "orders"
path = "{home}/data"
parse = "json"
schema = "order int"
[land.source]
queue = "orders"
passcode = "${{LAND_PASSCODE}}"
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "broker").mkdir()
    running = Daemon(tmp_path / "broker").start()
    yield running
    running.stop()


def send(broker: Daemon, first: int, count: int) -> None:
    wire = Wire(broker.port)
    for number in range(first, first + count):
        wire.send("/queue/orders", b'{"order": %d}' % number, persistent="true")
    wire.leave()


@pytest.mark.timeout(900)
def test_a_dag_waits_for_messages_and_lands_them(tmp_path: Path, broker: Daemon) -> None:
    assert SPARK, "ENTREPOT_PYTHON_SPARK names a Python that has Spark: make pipeline-extras"
    url = f"stomp://127.0.0.1:{broker.port}"
    (tmp_path / "land.toml").write_text(LAND.format(home=tmp_path, url=url))
    (tmp_path / "dags").mkdir()
    (block,) = blocks(PAGE, "python")
    text = block.text
    for here, instead in CHANGED.items():
        assert here in text, here
        text = text.replace(here, instead.format(home=tmp_path, spark=SPARK, count=COUNT))
    (tmp_path / "dags" / "nightly.py").write_text(text)
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW_CONN_BROKER": f"stomp://lander:pw@127.0.0.1:{broker.port}",
        "PYTHONPATH": str(Path(entrepot.__file__).resolve().parent.parent),
    }
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env=environment, check=True, capture_output=True, timeout=300)
    send(broker, 0, COUNT - 1)
    rest = threading.Timer(15.0, send, (broker, COUNT - 1, 1))  # the sensor has looked before that
    rest.start()
    command = [*airflow, "dags", "test", "nightly"]
    for _ in range(2):
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400
        )
        assert done.returncode == 0, done.stdout[-5_000:]
        rest.join()
        send(broker, COUNT, COUNT)  # the next run lands these, and no other
    assert (tmp_path / "told").read_text() == f"('orders', {COUNT})\n" * 2


def test_a_task_that_is_killed_ends_the_landing_in_order(tmp_path: Path) -> None:
    from entrepot.airflow import LandOperator

    program = tmp_path / "program.py"
    program.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit('entrepot: not all has landed: orders stopped'))\n"
        f"pathlib.Path({str(tmp_path / 'runs')!r}).touch()\n"
        "time.sleep(60)\n"
    )
    operator = LandOperator(task_id="landed", config="land.toml", program=[sys.executable, str(program)])

    def kill() -> None:
        while not (tmp_path / "runs").exists():
            time.sleep(0.05)
        operator.on_kill()

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(OperatorError, match="orders stopped"):
        operator.execute({})


def test_the_sensor_asks_again_while_nobody_answers(broker: Daemon) -> None:
    from entrepot.airflow import MessagesSensor

    url = f"stomp://127.0.0.1:{broker.port}"
    sensor = MessagesSensor(task_id="arrived", queue_name="orders", url=url, at_least=2)
    assert sensor.poke({}) is False  # there is no queue yet
    send(broker, 0, 1)
    assert sensor.poke({}) is False
    send(broker, 1, 1)
    assert sensor.poke({}) is True
    broker.stop()
    assert sensor.poke({}) is False
