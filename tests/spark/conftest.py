"""One Spark for all tests of a run (it takes 6-10 s to start), and brokers that are processes of their own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install entrepot[spark]")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install entrepot[spark]")

sys.path.append(str(Path(__file__).parents[1] / "interop"))  # real brokers of others

from entrepot import pipeline
from entrepot.pipeline.sessions import environment_of
from shell.daemon import Daemon
from spark.stand import QUICK, Stand


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SparkSession, frozenset[str]]]:
    """A session, and the names in the environment of the format's workers before its first query."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {**QUICK, "spark__local__dir": str(tmp_path_factory.mktemp("spark"))}
    session = pipeline.session("entrepot-tests", master="local[2,4]", **settings)
    session.sparkContext.setLogLevel("OFF")
    yield session, frozenset(environment_of(session).keySet())
    session.stop()


@pytest.fixture(scope="session")
def spark(begun: tuple[SparkSession, frozenset[str]]) -> SparkSession:
    return begun[0]


@pytest.fixture(scope="session")
def furnished(begun: tuple[SparkSession, frozenset[str]]) -> frozenset[str]:
    return begun[1]


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("broker")).start()
    yield running
    assert running.stop() == 0, running.told()


@pytest.fixture
def stand(spark: SparkSession, daemon: Daemon, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stand]:
    """A queue of its own on the broker that all tests share."""
    made = Stand(spark, daemon, tmp_path, re.sub(r"\W+", "-", request.node.name))
    yield made
    made.close()
