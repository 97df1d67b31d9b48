"""Which of its two builds is running: compiled by mypyc, or plain Python. [C]

This module is compiled with the rest of its group, all or none, so what it says of itself holds for every hot module.
"""

from __future__ import annotations

from typing import Final

COMPILED: Final[bool] = not __file__.endswith(".py")
"""A compiled module is loaded from a shared library; a plain one from its source file."""


def is_compiled() -> bool:
    """Return whether the hot modules run as machine code."""
    return COMPILED


def build_name() -> str:
    """Return the running build in two words, for banners, ``--version`` and bug reports."""
    return "compiled (mypyc)" if COMPILED else "plain Python"
