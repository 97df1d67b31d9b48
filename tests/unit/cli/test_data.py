"""`entrepot data` over journals laid out here, octet by octet: whole, torn, and damaged in the middle."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from librt.strings import BytesWriter

from entrepot.cli.main import cli
from entrepot.journal.index import segment_name
from entrepot.journal.record import SEAL, batch_head, frame, write_message, write_meta
from entrepot.model.message import Message
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE

NAME = segment_name(1, 1, 1, 0)


def meta() -> bytes:
    body = BytesWriter()
    write_meta(body, 1, 1, 0, 0, 1_700_000_000_000, "node-7")
    return body.getvalue()


def stored(number: int) -> bytes:
    message = Message(STOMP_LANGUAGE, "orders", b"\nbody\0")
    message.number = number
    message.durable = True
    body = BytesWriter()
    write_message(body, message, [16], False)
    return body.getvalue()


def segment(batches: list[list[bytes]]) -> bytes:
    """Lay out batches; each claims that all before it were on disk."""
    octets = b""
    for sequence, records in enumerate(batches, 1):
        writer = BytesWriter()
        for body in records:
            frame(writer, body)
        laid_out = writer.getvalue()
        octets += batch_head(len(laid_out), len(records), sequence, sequence - 1, 1, len(octets)) + laid_out
    return octets


WHOLE = segment([[meta()], [stored(1), stored(2)], [stored(3)], [bytes([SEAL])]])


def directory_with(path: Path, octets: bytes) -> Path:
    (path / "journal").mkdir()
    (path / "journal" / NAME).write_bytes(octets)
    (path / "LOCK").write_text("")
    return path


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["data", *arguments])


def test_a_whole_journal(tmp_path: Path) -> None:
    result = ask("check", str(directory_with(tmp_path, WHOLE)), "--output", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "node": "node-7",
        "segments": 1,
        "octets": len(WHOLE),
        "messages": 3,
        "documents": 0,
        "torn": "",
        "bodies": 0,
        "lost": 0,
        "orphans": 0,
        "leftovers": 0,
    }


def test_a_torn_tail_is_reported_is_no_failure_and_is_not_cut(tmp_path: Path) -> None:
    written = segment([[meta()], [stored(1)], [stored(2)]])
    octets = written[:-5] + bytes(64)
    result = ask("check", str(directory_with(tmp_path, octets)))
    assert result.exit_code == 0
    assert "torn tail" in result.stderr
    assert (tmp_path / "journal" / NAME).read_bytes() == octets
    assert [path.name for path in (tmp_path / "journal").iterdir()] == [NAME]


def test_damage_in_the_middle_fails_and_says_where(tmp_path: Path) -> None:
    at = len(segment([[meta()]]))
    damaged = bytearray(WHOLE)
    damaged[at + 50] ^= 1
    result = ask("check", str(directory_with(tmp_path, bytes(damaged))))
    assert result.exit_code == 1
    assert f"{NAME}:{at}" in result.stderr
    assert "entrepot data print" in result.stderr


def test_print_goes_on_behind_the_damage(tmp_path: Path) -> None:
    first, second = len(segment([[meta()]])), len(segment([[meta()], [stored(1), stored(2)]]))
    damaged = bytearray(WHOLE)
    damaged[first + 50] ^= 1
    result = ask("print", str(directory_with(tmp_path, bytes(damaged))), "-o", "json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"segment": NAME, "offset": first, "damaged": second - first} in rows
    assert [row["batch"] for row in rows if "batch" in row] == [1, 3, 4]
    assert [row["record"].split()[0] for row in rows if "record" in row] == ["META", "MESSAGE", "SEAL"]


def test_print_shows_every_record_with_its_place(tmp_path: Path) -> None:
    directory = directory_with(tmp_path, WHOLE)
    lines = ask("print", str(directory)).stdout.splitlines()
    assert sum(" batch " in line for line in lines) == 4
    assert sum("MESSAGE" in line and "'orders'" in line for line in lines) == 3
    assert ask("print", str(directory), "--segment", NAME).stdout.splitlines() == lines
    assert ask("print", str(directory), "--segment", "other").exit_code == 1


def test_a_running_broker_is_not_disturbed(tmp_path: Path) -> None:
    directory = directory_with(tmp_path, WHOLE)
    with (directory / "LOCK").open("r+") as lock:
        lock.write("broker main, process 7\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = ask("check", str(directory))
    assert result.exit_code == 1
    assert "broker main, process 7" in result.stderr


@pytest.mark.parametrize("command", ["check", "print"])
def test_a_directory_without_a_journal(tmp_path: Path, command: str) -> None:
    result = ask(command, str(tmp_path))
    assert result.exit_code == 1
    assert "holds no journal" in result.stderr
    assert list(tmp_path.iterdir()) == []
