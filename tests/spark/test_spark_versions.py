"""Other versions of PySpark, each in an environment of its own: 4.1 works, reduced; what is older is refused by name.

`make pipeline-versions` makes the environments (two downloads of 450 MB) and runs this. CI tries the same code under
4.3, with a reader as 4.1 sees it (test_spark_source.py), and the rest with faked interfaces (tests/unit/pipeline).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from entrepot.pipeline import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
REDUCED = os.environ.get("ENTREPOT_PYTHON_SPARK41", "")
REFUSED = os.environ.get("ENTREPOT_PYTHON_SPARK40", "")

USE = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from entrepot.pipeline import cause_of
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
def told(use):
    try:
        use()
    except Exception as error:
        print("told:", cause_of(error))
given = {"url": "stomp://127.0.0.1:1", "queue": "q"}
told(lambda: spark.read.format("entrepot").options(**given).load().collect())
stream = spark.readStream.format("entrepot").options(**given, subscription="s").load()
told(lambda: stream.writeStream.format("memory").queryName("x").start().awaitTermination())
rows = spark.range(1).selectExpr("'a' AS text")
told(lambda: rows.write.format("entrepot").options(**given).mode("append").save())
print("others:", spark.read.format("csv").load(__file__).count() > 0)
"""


def run(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYSPARK_")}
    return subprocess.run(
        [python, *arguments], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT, env=environment
    )


@pytest.mark.skipif(not REDUCED, reason="ENTREPOT_PYTHON_SPARK41 names a Python with PySpark 4.1")
@pytest.mark.timeout(700)
def test_source_and_sink_under_41() -> None:
    files = ["tests/spark/test_spark_source.py", "tests/spark/test_spark_sink.py"]
    done = run(REDUCED, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=200", *files)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "PySpark 4.1 does not tell sources where a batch begins" in done.stdout


@pytest.mark.skipif(not REFUSED, reason="ENTREPOT_PYTHON_SPARK40 names a Python with PySpark 4.0")
def test_40_is_refused_whatever_is_asked_of_the_format_and_other_formats_are_left_alone(tmp_path: Path) -> None:
    program = tmp_path / "use.py"
    program.write_text(USE)
    done = run(REFUSED, str(program))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("told: PySpark 4.0") == 3, done.stdout
    assert "others: True" in done.stdout


def test_spark_finds_the_format_by_itself_and_is_not_told_again(spark: SparkSession) -> None:
    """Registering it anyway made Spark warn, in every session, that a data source was replaced."""
    known = sessions._is_known(spark)
    assert known
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spark.dataSource), "register", lambda *_: pytest.fail("it was registered again"))
        sessions.register(spark)
    assert not sessions._is_known(object())  # type: ignore[arg-type]
