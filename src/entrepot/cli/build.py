"""Which build runs, why it is the plain one where it could be compiled, and what to do about that.

pip shows nobody what a build prints, so an install that fell back to plain Python leaves its reason in ``plain.txt``
beside the package (`setup.py`), and the command line passes it on.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

import entrepot
from entrepot.base.compiled import build_name, is_compiled

PACKAGE: Final = Path(entrepot.__file__).parent
ASKED: Final = "ENTREPOT_PURE"


def why_plain(package: Path = PACKAGE) -> str:
    """Return why the install in ``package`` is plain, "" where nobody wrote it down: compiled, or run from sources."""
    try:
        return (package / "plain.txt").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def described(package: Path = PACKAGE) -> str:
    """Return the build in a few words for ``--version``, with the reason where it is plain by an accident."""
    reason = "" if is_compiled() else why_plain(package)
    return f"{build_name()} ({reason})" if reason else build_name()


def c_compiler() -> str:
    """Return where this machine has a C compiler, "" where it has none."""
    import shutil  # noqa: PLC0415 - half a MB, with what it compresses with, that no compiled broker needs

    names = [shlex.split(os.environ["CC"])[0]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    return next((found for name in names if (found := shutil.which(name))), "")


def slow_warning(package: Path = PACKAGE) -> str:
    """Return what to tell somebody who starts a broker: "" where it is compiled, cannot be, or is plain by wish."""
    if is_compiled() or os.environ.get(ASKED):
        return ""
    reason = why_plain(package)
    compiler = c_compiler()
    if not compiler or ASKED in reason:
        return ""
    slow = "this is plain Python, five to twenty times slower than the compiled build"
    if reason:
        remedy = "`ENTREPOT_REQUIRE_COMPILED=1 pip install --force-reinstall ...` compiles it or shows what fails"
        return f"{slow}; when it was installed, {reason}; a C compiler is here now ({compiler}): {remedy}"
    return f"{slow}, run from its sources; a C compiler is here ({compiler}): `make compiled` uses it"
