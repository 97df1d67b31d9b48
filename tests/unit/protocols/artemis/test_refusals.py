"""Errors as codes of Artemis: the nearest class above one that is not named; a refusal's own code first."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AccessDenied, DuplicateRejected, EntrepotError, InvalidSelector, Refused, StorageFull
from entrepot.protocols.artemis.refusals import CODES, GENERIC, MAX_CONSUMERS, CoreRefused, code_of


class Nearby(StorageFull):
    """One that no table knows."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidSelector("x"), 103),
        (AccessDenied("x"), 105),
        (DuplicateRejected("x"), 113),
        (Nearby("x"), 210),
        (Refused("x"), GENERIC),
        (EntrepotError("x"), 0),
        (CoreRefused("x", MAX_CONSUMERS), MAX_CONSUMERS),
    ],
)
def test_each_error_has_a_code(error: EntrepotError, code: int) -> None:
    assert code_of(error) == code


def test_an_error_is_not_hidden_by_one_above_it() -> None:
    assert all(code_of(kind.__new__(kind)) == code for kind, code in CODES.items())
