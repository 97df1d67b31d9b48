from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from entrepot import __version__
from entrepot.base.compiled import build_name
from entrepot.cli.main import COMMANDS, cli


def test_the_version_names_the_build() -> None:
    result = CliRunner().invoke(cli, ["--version"])
    assert result.output == f"entrepot {__version__}, {build_name()}\n"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.get_short_help_str()
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts} has no help"


def test_all_commands_are_listed() -> None:
    output = CliRunner().invoke(cli, ["--help"]).output
    for name in COMMANDS:
        assert f"\n  {name} " in output


@pytest.mark.parametrize("arguments", [["sing"], ["send"], ["send", "--colour"], ["perf", "--kind", "pile"]])
def test_misuse_ends_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert "_ENTREPOT_COMPLETE" in result.output


def test_perf_without_anybody_is_misuse() -> None:
    result = CliRunner().invoke(cli, ["perf", "-p", "0", "-c", "0"])
    assert result.exit_code == 2


def test_browsing_a_topic_is_misuse() -> None:
    result = CliRunner().invoke(cli, ["browse", "/topic/news"])
    assert result.exit_code == 2


def test_the_start_imports_no_more_than_it_needs() -> None:
    # On the path from exec to the first accepted connection: rich alone costs 100 ms.
    # `shutil` brings what it compresses with: half a MB of a broker that rests.
    heavy = ("rich", "asyncio", "shutil", "lzma")
    code = f"import entrepot.cli.main, entrepot.cli.run, sys; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
