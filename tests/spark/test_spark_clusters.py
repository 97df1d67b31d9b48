"""The pipeline on clusters: executors in processes of their own, which are killed, as are drivers and the broker.

Each run starts Spark anew for every driver that is killed: minutes. `make pipeline-clusters` runs them;
ENTREPOT_CLUSTER_ROUNDS says how many kills on each kind of cluster. What CI runs on local[2,4] is test_spark_soak.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from entrepot.protocols.stomp.frames import encode_frame
from shell.daemon import Daemon, Wire
from spark.clusters import Standalone
from spark.soak import CLUSTER_KINDS, Soak

PROGRAMS = Path(__file__).resolve().parents[2] / "pipeline"

ROUNDS = int(os.environ.get("ENTREPOT_CLUSTER_ROUNDS", "0"))

pytestmark = [
    pytest.mark.skipif(not ROUNDS, reason="minutes: ENTREPOT_CLUSTER_ROUNDS says how many kills"),
    pytest.mark.timeout(600 + 60 * ROUNDS),
]


@pytest.mark.parametrize("master", ["local[2,4]", "local-cluster[2,1,1024]"])
def test_kills_in_one_machine(tmp_path: Path, master: str) -> None:
    soak = Soak(tmp_path, ROUNDS, seed=3, master=master, kinds=CLUSTER_KINDS, say=print)
    soak.run()
    if master != "local[2,4]":
        assert soak.killed_executors


def test_kills_under_a_standalone_master_with_two_workers(tmp_path: Path) -> None:
    cluster = Standalone(tmp_path / "cluster")
    try:
        soak = Soak(
            tmp_path / "soak",
            ROUNDS,
            seed=3,
            master=cluster.url,
            kinds=CLUSTER_KINDS,
            workers=cluster.pids,
            say=print,
        )
        soak.run()
        assert soak.killed_executors
    finally:
        cluster.stop()


def test_the_programs_under_spark_submit(tmp_path: Path) -> None:
    """Archive on the cluster, then replay from there: two drivers, each with executors in other processes."""
    cluster = Standalone(tmp_path / "cluster")
    (tmp_path / "broker").mkdir()
    broker = Daemon(tmp_path / "broker").start()
    url = f"stomp://127.0.0.1:{broker.port}"
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", cluster.url]
    for key, value in {
        "spark.executor.memory": "768m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }.items():  # fmt: skip
        submit += ["--conf", f"{key}={value}"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    try:
        wire = Wire(broker.port)
        headers = {"destination": "/queue/orders", "persistent": "true"}
        for number in range(500):
            wire.socket.sendall(encode_frame("SEND", headers, f"m{number}".encode()))
        wire.leave()
        root = str(tmp_path / "archive")
        for words in (
            ["archive.py", "--to", root, "--queue", "orders", "--compact"],
            ["replay.py", root, "--queue", "again"],
        ):
            command = [*submit, str(PROGRAMS / words[0]), *words[1:], "--url", url, "--output", "json"]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=300, check=False, env=environment, cwd=tmp_path
            )
            assert done.returncode == 0, done.stdout + done.stderr[-3_000:]
            told = json.loads(done.stdout.splitlines()[-1])
            assert told["title"].startswith(("500 messages archived", "replay "))
        texts = [frame.body.decode() for frame in Wire(broker.port).drain("/queue/again")]
        assert sorted(texts) == sorted(f"m{number}" for number in range(500))
    finally:
        broker.stop()
        cluster.stop()
