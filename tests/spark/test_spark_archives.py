"""A cluster whose machines have no entrepot: executors get it in an archive (docs/spark.md, "On a cluster").

`make pipeline-archives` packs one with venv-pack and runs this; ENTREPOT_ARCHIVE names it. Each row tells which Python
and which copy of the package saw it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset
import pytest

from shell.daemon import Daemon, Wire
from spark.clusters import Standalone
from spark.soak_programs import unpacked

ARCHIVE = os.environ.get("ENTREPOT_ARCHIVE", "")
COUNT = 300
PATIENCE_S = 600

pytestmark = [
    pytest.mark.skipif(not ARCHIVE, reason="ENTREPOT_ARCHIVE names an archive: make pipeline-archives"),
    pytest.mark.timeout(1_200),
]

PROGRAM = '''
import sys
from entrepot import pipeline

url, home = sys.argv[1:]
spark = pipeline.session("archives")


def see(batches):
    """What runs on the executors, beside each message."""
    import sys
    import entrepot
    for batch in batches:
        for text in batch.column("text").to_pylist():
            import pyarrow as pa
            yield pa.RecordBatch.from_pydict({"text": [text], "python": [sys.prefix], "package": [entrepot.__file__]})


source = {"url": url, "queue": "in", "subscription": "s", "columns": "text"}
stream = spark.readStream.format("entrepot").options(**source).load()
seen = stream.mapInArrow(see, "text string, python string, package string")
query = seen.writeStream.format("parquet").option("path", f"{home}/landed")
query = query.option("checkpointLocation", f"{home}/checkpoint").trigger(availableNow=True).start()
query.awaitTermination()
landed = spark.read.parquet(f"{home}/landed")
written = landed.select("text").write.format("entrepot").options(url=url, queue="out").mode("append")
written.save()
spark.stop()
'''


def submit(command: list[str], environment: dict[str, str], home: Path) -> None:
    """Run a program of Spark to its end. Raises AssertionError with what it said, also when it does not come to one."""
    said = home / "submit.log"
    with said.open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment, cwd=home)
    try:
        code = process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    assert code == 0, f"ended with {code}\n{said.read_text(errors='replace')[-5_000:]}"


def test_executors_have_the_format_from_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # Spark gives the driver's to workers
    cluster = Standalone(tmp_path / "cluster")
    (tmp_path / "broker").mkdir()
    broker = Daemon(tmp_path / "broker")
    try:
        broker.start()
        wire = Wire(broker.port)
        for number in range(COUNT):
            headers = {"destination": "/queue/in", "persistent": "true"}  # without a length: a text
            assert wire.ask("SEND", headers, f"m{number}".encode()).command == "RECEIPT"
        wire.leave()
        (tmp_path / "program.py").write_text(PROGRAM)
        command = [str(unpacked() / "bin" / "spark-submit"), "--master", cluster.url]
        command += ["--archives", f"{ARCHIVE}#environment"]
        for key, value in {
            "spark.executor.memory": "768m", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false", "spark.cores.max": "2",
        }.items():  # fmt: skip
            command += ["--conf", f"{key}={value}"]
        command += [str(tmp_path / "program.py"), f"stomp://127.0.0.1:{broker.port}", str(tmp_path)]
        environment = {**os.environ, "SPARK_HOME": str(unpacked()), "PYSPARK_PYTHON": "./environment/bin/python"}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        submit(command, environment, tmp_path)
        assert sorted(frame.body.decode() for frame in Wire(broker.port).drain("/queue/out")) == sorted(
            f"m{number}" for number in range(COUNT)
        )
        table = pyarrow.dataset.dataset(tmp_path / "landed", exclude_invalid_files=True).to_table()
        work = str(tmp_path / "cluster")
        for name in ("python", "package"):
            assert all(str(one).startswith(work) for one in table.column(name).to_pylist()), table.column(name)[0]
    finally:
        cluster.stop()
        broker.stop()
