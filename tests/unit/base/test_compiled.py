from __future__ import annotations

import os
from types import FunctionType

import pytest

from entrepot.base import compiled


def test_it_knows_what_its_own_functions_are() -> None:
    # mypyc makes builtin functions; only an interpreted module has real ones.
    assert compiled.is_compiled() == (not isinstance(compiled.is_compiled, FunctionType))


def test_the_name_agrees() -> None:
    assert compiled.build_name().startswith("compiled" if compiled.is_compiled() else "plain")


@pytest.mark.skipif("ENTREPOT_EXPECT_BUILD" not in os.environ, reason="run by hand, no build was asked for")
def test_the_build_that_was_asked_for_is_the_one_that_runs() -> None:
    assert compiled.is_compiled() == (os.environ["ENTREPOT_EXPECT_BUILD"] == "compiled")
