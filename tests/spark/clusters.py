"""A standalone cluster of Spark on loopback: a master and two workers, as processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from entrepot.pipeline import ensure_java
from spark.soak_programs import unpacked

PATIENCE = 300.0  # s, on a machine that does much else
CLASS = "org.apache.spark.deploy."


class Standalone:
    """``url`` is for the driver; ``pids`` are the workers, whose children are the executors."""

    def __init__(self, home: Path, workers: int = 2) -> None:
        ensure_java()
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._launch("master.Master", "--port", port)
        end = time.monotonic() + PATIENCE
        while not answers(port):
            assert self._processes[0].poll() is None, self.told()
            assert time.monotonic() < end, self.told()
            time.sleep(0.1)
        for number in range(workers):
            work = home / f"worker-{number}"
            self._launch("worker.Worker", "--cores", 1, "--memory", "1g", "--work-dir", work, self.url)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes[1:]]

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)

    def told(self) -> str:
        return (self.home / "log").read_text(errors="replace")[-3_000:]

    def _launch(self, name: str, *words: Any) -> None:
        home = unpacked()
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m"}
        command = [str(home / "bin" / "spark-class"), CLASS + name, "--host", "127.0.0.1", "--webui-port", "0"]
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *map(str, words)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        self._processes.append(process)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
