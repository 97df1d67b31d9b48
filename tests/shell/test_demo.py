"""The story that `make demo` tells ends well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "demo" / "run.py"


def test_the_demo_loses_nothing_explains_what_is_stuck_and_leaves_nothing(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(DEMO)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Nothing that was promised was lost." in result.stdout
    assert "[conduit]" in result.stdout
    assert list(tmp_path.iterdir()) == []
