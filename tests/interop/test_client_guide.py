"""The examples of the client guide run as they stand with every broker; tests/guides.py tells of other pages."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from classic import Classic
from ours import Entrepot

from guides import blocks

EXAMPLES = [block.text for block in blocks("docs/client.md", "python") if "test_client_streams" not in block.elsewhere]


def test_the_guide_has_examples() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(broker: Classic | Entrepot, number: int) -> None:
    environment = {**os.environ, "ENTREPOT_URL": broker.url}
    command = [sys.executable, "-c", EXAMPLES[number]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
