"""`entrepot lease` beside a broker that does not know what was asked; the rest is in tests/shell/test_cli.py."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

import pytest
from click.testing import CliRunner

from entrepot.base.errors import ProtocolViolation
from entrepot.cli import lease
from entrepot.io import runtime

ASKED = {
    "until": ["attach", "/queue/q", "nightly", "--until", "1769860800000"],
    "octets": ["claim", "/queue/q", "nightly", "--epoch", "1", "--octets", "5"],
}


@pytest.mark.parametrize("bound", ASKED)
def test_a_broker_that_is_too_old_for_a_bound_is_said_to_be(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"receipt-id": "1", "epoch": "1", "base": "0", "tail": "7"}

    def run(asking: Coroutine[Any, Any, dict[str, str]]) -> dict[str, str]:
        asking.close()
        return answer

    monkeypatch.setattr(runtime, "run", run)
    told = CliRunner().invoke(lease.lease, ASKED[bound])
    assert isinstance(told.exception, ProtocolViolation)
    assert f"does not know --{bound}" in str(told.exception)
    answer[bound] = ASKED[bound][-1]
    told = CliRunner().invoke(lease.lease, [*ASKED[bound], "-o", "json"])
    assert told.exit_code == 0, told.exception
    assert json.loads(told.stdout)[bound] == int(ASKED[bound][-1])
