"""What a test may never find, not even once: something promised that is lost, or comes twice.

Tests beside other programs are tried again when they fail (`conftest.py`), because a busy machine is late. A loss is
not late: it fails at once, and no second try hides it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PromiseBroken(AssertionError):
    """A broker did not keep a promise. A test that raises it is not tried again."""


@contextmanager
def never() -> Iterator[None]:
    """Make every AssertionError of the block final: raises PromiseBroken with its words."""
    try:
        yield
    except AssertionError as error:
        raise PromiseBroken(str(error)) from error
