from __future__ import annotations

import pytest
from click.testing import CliRunner

from entrepot.base.errors import InvalidOption
from entrepot.cli.main import cli
from entrepot.cli.run import read_settings


def test_settings_of_one_pattern_are_merged_and_a_pattern_may_hold_colons() -> None:
    assert read_settings(("a.>:x=1,y=2", "a.>:z=3", "a::b:x=1")) == {
        "a.>": {"x": "1", "y": "2", "z": "3"},
        "a::b": {"x": "1"},
    }


@pytest.mark.parametrize("text", ["", "a", "a:b", "x=1", ":x=1", "a:=1", "a:x=1,y"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        read_settings((text,))


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
