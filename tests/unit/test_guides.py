"""Every quoted block of the documentation is at least what it claims to be; tests/shell/test_guides.py runs them."""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shlex
import subprocess
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import click
import pytest

from entrepot.cli.main import cli
from entrepot.config.files import read
from entrepot.config.findings import Severity
from entrepot.simulation.__main__ import parser as simulation_parser
from guides import ROOT, SHELL, Block, all_blocks, pages

NOT_RUN: frozenset[str] = frozenset(
    {
        # Names of blocks; the pages say why. Nothing is added here: a block that is new is written so that it runs.
        "bench/README.md: make bench # five pairs of every row; about twenty minutes w",
    }
)

# What a fragment of activemq.xml or broker.xml stands in.
WITHIN = {
    "transportConnector": "transportConnectors",
    "networkConnector": "networkConnectors",
    "plugins": "",
    "address-settings": "core",
    "ha-policy": "core",
    "journal-retention-directory": "core",
    "connectors": "core",
    "cluster-user": "core",
    "cluster-password": "core",
    "cluster-connections": "core",
    "bridges": "core",
    "diverts": "core",
    "broker-connections": "core",
    "federations": "core",
    "grouping-handler": "core",
}
CLASSIC = "http://activemq.apache.org/schema/core"
DEFINES = {"dmz.password": "1", "guest.password": "2", "boss.password": "3", "shop.password": "4"}


def named(blocks: list[Block]) -> list[object]:
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in blocks]


def commands(block: Block, home: Path) -> list[list[str]]:
    """Let a shell run the block with programs that only write down what they are asked; return that."""
    log = home / "log"
    folder = home / "bin"
    folder.mkdir()
    for name in ("entrepot", "make", "pip", "python", "systemctl", "sudo"):
        shim = folder / name
        shim.write_text(
            f'#!/bin/sh\nprintf "%s\\0" {name} "$@" >>{shlex.quote(str(log))}; printf "\\1" >>{shlex.quote(str(log))}\n'
        )
        shim.chmod(0o755)
    (home / ".venv/bin").mkdir(parents=True)
    (home / ".venv/bin/activate").touch()
    done = subprocess.run(
        ["bash", "-e", "-c", block.script()],
        cwd=home,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    said = log.read_text() if log.exists() else ""
    return [entry.split("\0")[:-1] for entry in said.split("\1")[:-1]]


def check_entrepot(arguments: list[str], home: Path) -> None:
    """Let the command line read ``arguments`` and do nothing. Raises click.UsageError."""
    for word in arguments:
        if re.fullmatch(r"[\w.-]+\.(xml|conf)", word):
            (home / word).touch()  # a file that must exist
    if arguments[:1] == ["data"]:
        (home / "entrepot-data").mkdir(exist_ok=True)
    context = cli.make_context("entrepot", list(arguments))
    command: click.Command = cli
    while isinstance(command, click.Group) and context._protected_args:
        name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found is not None
        context = found.make_context(name, rest, parent=context)
        command = found


def check_pip(arguments: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert arguments[0] == "install"
    *others, ours = sorted(arguments[1:], key=lambda word: re.match(r"\.|entrepot", word) is not None)
    wanted = re.fullmatch(r"(?:\.|entrepot)(?:\[(\w+)\])?", ours)
    assert wanted is not None, arguments
    assert wanted[1] is None or wanted[1] in extras
    assert all(word.startswith("-") or re.fullmatch(r"[\w-]+==[\d.]+", word) for word in others), arguments


def check_python(arguments: list[str]) -> None:
    if arguments[:2] == ["-m", "entrepot.simulation"]:
        simulation_parser().parse_args(arguments[2:])
        return
    source = (ROOT / arguments[0]).read_text()
    ast.parse(source)
    for option in arguments[1:]:
        assert not option.startswith("--") or f'"{option}"' in source, f"{arguments[0]} has no {option}"


def check_make(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in [word for word in arguments if "=" not in word]:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"make has no target {target}"


def quoted(block: Block) -> bool:
    """Return whether a block of text quotes commands."""
    return block.language == "text" and bool(re.search(r"^(\$ )?(entrepot|pip) [a-z]", block.text, re.MULTILINE))


@pytest.mark.parametrize(
    "block", named([one for one in all_blocks(*SHELL, "text") if one.language != "text" or quoted(one)])
)
def test_every_command_is_one_that_its_program_knows(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = commands(block, tmp_path)
    assert found
    for program, *arguments in found:
        try:
            match program:
                case "entrepot":
                    check_entrepot(arguments, tmp_path)
                case "pip":
                    check_pip(arguments)
                case "python":
                    check_python(arguments)
                case "make":
                    check_make(arguments)
        except (click.UsageError, argparse.ArgumentError, SystemExit) as error:
            said = error.format_message() if isinstance(error, click.UsageError) else str(error)
            pytest.fail(f"{block.page}:{block.line}: {shlex.join([program, *arguments])}: {said}")


@pytest.mark.parametrize("block", named(all_blocks("python")))
def test_python_is_python(block: Block) -> None:
    compile(block.text, f"{block.page}:{block.line}", "exec")


@pytest.mark.parametrize("block", named(all_blocks("xml")))
def test_xml_is_what_the_broker_reads_without_a_warning(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    if re.match(r"(<\?[^>]*\?>\s*)*<(beans|broker|configuration)[\s>]", block.text):
        file.write_text(block.text)
        judge(file)
        return
    fragments = ElementTree.fromstring(f"<all>{block.text}</all>")
    alternatives = len({child.tag for child in fragments}) < len(fragments) and fragments[0].tag == "ha-policy"
    for fragment in [[child] for child in fragments] if alternatives else [list(fragments)]:
        file.write_text(whole(fragment))
        judge(file)


def whole(fragments: list[ElementTree.Element]) -> str:
    """Return a file that says what ``fragments`` say, and no more than it must."""
    inside = ""
    for child in fragments:
        container = WITHIN[child.tag]
        text = ElementTree.tostring(child, encoding="unicode")
        inside += f"<{container}>{text}</{container}>" if container not in ("", "core") else text
    if any(WITHIN[child.tag] == "core" for child in fragments):
        inside += "<security-enabled>false</security-enabled>"
        return f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{inside}</core></configuration>'
    return f'<broker xmlns="{CLASSIC}" brokerName="a" persistent="false">{inside}</broker>'


def judge(file: Path) -> None:
    reading = read(file, spoken=("openwire", "stomp", "http"), bridges=True, defines=DEFINES, environment={})
    said = [one.describe() for one in reading.findings.all if one.severity > Severity.NOTE]
    assert [one for one in said if "no client can connect" not in one] == []  # a fragment has no connectors


@pytest.mark.parametrize("block", named(all_blocks("toml", "json")))
def test_data_is_parsed(block: Block) -> None:
    {"toml": tomllib.loads, "json": json.loads}[block.language](block.text)


def test_every_language_is_tried_somehow() -> None:
    known = {*SHELL, "python", "xml", "toml", "json", "text", "diff", "yaml"}  # diffs: test_tutorials.py; yaml says who
    others = {block.language for block in all_blocks()} - known
    assert not {one for one in others if not one.startswith("{")}  # {toctree} and its like are for Sphinx
    assert len(pages()) > 30


def test_a_marker_belongs_to_a_block_and_means_something() -> None:
    for page in pages():
        text = (ROOT / page).read_text()
        marks = re.findall(r"<!-- (?:not run|run by)", text)
        assert len(marks) == sum(1 for block in all_blocks() if block.page == page and block.marker), page
    for block in all_blocks():
        if block.elsewhere:
            test = ROOT / block.elsewhere
            assert test.is_file(), f"{block.page}:{block.line} names {block.elsewhere}"
            assert f'"{block.page}"' in test.read_text(), f"{block.elsewhere} does not take the blocks of {block.page}"


def test_what_is_not_run_only_gets_less() -> None:
    assert {block.name for block in all_blocks() if block.marker.startswith("not run")} == NOT_RUN
