"""What a scheduler runs and hears: a program that lands once, and how much waits. The program here is one of ours."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from entrepot.base.errors import OperatorError, Unreachable
from entrepot.pipeline.landing import outside
from entrepot.pipeline.landing.outside import Landing, waiting


def program(home: Path, text: str) -> list[str]:
    (home / "program.py").write_text(text)
    return [sys.executable, str(home / "program.py")]


def test_it_hears_rows_and_passes_on_the_log(tmp_path: Path) -> None:
    text = """
import os, sys
assert sys.argv[1:] == ["pipeline", "land", "land.toml", "--once", "--output", "json"], sys.argv
print('{"flow": "orders", "state": "done", "rows": 7, "batches": 1, "why": ""}')
for line in range(10_000):  # more than a pipe holds: who does not read both hangs
    print("line", line, os.environ["LAND_PASSCODE"], file=sys.stderr)
print('{"flow": "prices", "state": "done", "rows": 0, "batches": 0, "why": ""}')
"""
    log: list[str] = []
    made = Landing("land.toml", program=program(tmp_path, text), environment={"LAND_PASSCODE": "pw"}, say=log.append)
    rows = made.run()
    assert [(row["flow"], row["rows"]) for row in rows] == [("orders", 7), ("prices", 0)]
    assert (len(log), log[-1]) == (10_000, "line 9999 pw")


def test_what_it_says_of_a_failure_is_raised(tmp_path: Path) -> None:
    text = "import sys; print('noise', file=sys.stderr); sys.exit('entrepot: not all has landed: orders failed: gone')"
    with pytest.raises(OperatorError, match=r"^not all has landed: orders failed: gone"):
        Landing("land.toml", program=program(tmp_path, text)).run()
    text = "import sys; print('java says no', file=sys.stderr); sys.exit(3)"
    with pytest.raises(OperatorError, match="ended with 3: java says no"):
        Landing("land.toml", program=program(tmp_path, text)).run()
    with pytest.raises(OperatorError, match="cannot be started"):
        Landing("land.toml", program=[str(tmp_path / "none")]).run()


@pytest.mark.parametrize("obeys", [True, False])
def test_one_that_is_stopped_ends_in_order_or_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, obeys: bool
) -> None:
    handler = "sys.exit('entrepot: not all has landed: orders stopped')" if obeys else "None"
    text = f"""
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: {handler})
print("runs", file=sys.stderr, flush=True)
while True:
    time.sleep(0.05)
"""
    monkeypatch.setattr(outside, "STOP_PATIENCE", 20.0 if obeys else 0.5)
    runs = threading.Event()
    made = Landing("land.toml", program=program(tmp_path, text), say=lambda line: runs.set())
    made.stop()  # nothing runs yet
    ended: list[str] = []

    def run() -> None:
        with pytest.raises(OperatorError) as error:
            made.run()
        ended.append(error.value.message)

    thread = threading.Thread(target=run)
    thread.start()
    assert runs.wait(30)
    time.sleep(0.1)
    made.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert ("orders stopped" in ended[0]) is obeys
    made.stop()  # it is over


def test_how_much_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import os, sys
assert sys.argv[1:] == ["queue", "show", "orders", "--output", "json"], sys.argv
assert os.environ["ENTREPOT_URL"] == "stomp://me:pw@broker:61613"
"""
    url = "stomp://me:pw@broker:61613"
    assert waiting("orders", url, program=program(tmp_path, text + "print('{\"messages\": 12}')")) == 12
    gone = "sys.exit('entrepot: there is no queue orders [ENT-3002]')"
    assert waiting("orders", url, program=program(tmp_path, text + gone)) == 0
    for said, kind in (("no broker answers [ENT-2006]", Unreachable), ("may not manage [ENT-3003]", OperatorError)):
        with pytest.raises(kind, match=said.partition(" [")[0]):
            waiting("orders", url, program=program(tmp_path, text + f"sys.exit('entrepot: {said}')"))
    monkeypatch.setattr(outside, "ASK_PATIENCE", 0.3)
    with pytest.raises(Unreachable, match="nobody told"):
        waiting("orders", url, program=program(tmp_path, "import time; time.sleep(60)"))
