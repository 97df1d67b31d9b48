from __future__ import annotations

import errno
import io

import pytest

from entrepot.base.errors import CorruptJournal, Fault, InvalidOption, OperatorError, StorageFull, Unreachable
from entrepot.cli.errors import Failure, Misuse, explain


@pytest.mark.parametrize(
    ("error", "kind", "exit_code"),
    [
        (InvalidOption("bad", remedy="better"), Misuse, 2),
        (Unreachable("gone", remedy="look"), Failure, 1),
        (CorruptJournal("torn"), Failure, 1),
        (StorageFull("full"), Failure, 1),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), Failure, 1),
        (TimeoutError(), Failure, 1),
    ],
)
def test_every_failure_has_an_exit_code(error: Exception, kind: type[Failure], exit_code: int) -> None:
    failure = explain(error)
    assert type(failure) is kind
    assert failure.exit_code == exit_code


def test_our_own_bugs_are_not_worded_away() -> None:
    assert explain(Fault("impossible")) is None
    assert explain(ValueError("x")) is None


def test_a_failure_says_what_and_what_to_do() -> None:
    failure = explain(OperatorError("no such setting", remedy="use another", file="a.xml", line=3))
    assert failure is not None
    text = io.StringIO()
    failure.show(text)
    assert text.getvalue() == "entrepot: a.xml:3: no such setting [ENT-2000]\n  → use another\n"


def test_the_words_of_the_system_name_the_file() -> None:
    failure = explain(PermissionError(errno.EACCES, "Permission denied", "/var/x"))
    assert failure is not None
    assert failure.message == "Permission denied: /var/x"
    assert failure.remedy
