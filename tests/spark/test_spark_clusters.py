"""The pipeline on clusters: executors in processes of their own, which are killed, as are drivers and the broker.

Each run starts Spark anew for every driver that is killed: minutes. `make pipeline-clusters` runs them;
ENTREPOT_CLUSTER_ROUNDS says how many kills on each kind of cluster. What CI runs on local[2,4] is test_spark_soak.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark.clusters import Standalone
from spark.soak import CLUSTER_KINDS, Soak

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
