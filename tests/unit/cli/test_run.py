from __future__ import annotations

import pytest
from click.testing import CliRunner

from entrepot.cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ephemeral", "--data", "x"], "--data has no meaning"),
        (["--ephemeral", "--listen", "gopher://127.0.0.1:70"], "gopher"),
        (["--ephemeral", "--listen", "stomp://127.0.0.1:0?maximumConections=5"], "did you mean"),
        (["--ephemeral", "--set", "a:colour=red"], "no address setting"),
        (["--memory-limit", "much"], "no size"),
        (["--log-level", "loud"], "loud"),
    ],
)
def test_what_cannot_be_meant_ends_with_2_before_anything_is_opened(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["run", *arguments])
    assert result.exit_code == 2, result.output
    assert message in result.output


def test_what_it_connects_to_may_stand_in_the_environment() -> None:
    """There nobody else of the machine reads the password; several stand side by side."""
    both = "activemq:(tcp://a:1)?userName=me&password=secret artemis:(tcp://b:1)?colour=red"
    result = CliRunner().invoke(cli, ["run", "--ephemeral"], env={"ENTREPOT_CONNECT": both})
    assert result.exit_code == 2, result.output
    assert "colour" in result.output
    assert "secret" not in result.output
