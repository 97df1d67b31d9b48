"""Build entrepot: the modules marked [C] compiled by mypyc as one group, or all of it as plain Python.

``ENTREPOT_PURE=1`` asks for plain Python. Without it the build compiles when it can and falls back to plain Python
when it cannot (no compiler, no headers); ``ENTREPOT_REQUIRE_COMPILED=1`` makes that fallback an error.
``ENTREPOT_EXTENSIONS=FOLDER`` takes modules that were compiled before, by `tools/compiled_build.py`, from this source.
Either way the same ``.py`` files are installed; a compiled module shadows the file beside it. An install that is plain
says why in ``entrepot/plain.txt``, which `entrepot --version` and `entrepot run` read: pip shows nobody what we print.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from sysconfig import get_config_var
from typing import Any, cast

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from hot_modules import hot_modules, made_small  # noqa: E402 - the line above must come first

GENERATED_C = "build/mypyc"
PLAIN_NOTE = "entrepot/plain.txt"
# Type rules are for `make types`, which sees every optional package. pip builds where none of them is installed, and
# what stands for them there, Any, breaks rules in modules that are not compiled at all.
ANY_IS_FINE = [
    "--ignore-missing-imports",
    "--allow-subclassing-any",
    "--no-warn-return-any",
    "--no-warn-unused-ignores",
]


def switched_on(variable: str) -> bool:
    """Return whether the environment says yes."""
    return os.environ.get(variable, "").lower() not in {"", "0", "no", "false"}


REQUIRED = switched_on("ENTREPOT_REQUIRE_COMPILED")
PURE = switched_on("ENTREPOT_PURE")
COMPILED_BEFORE = os.environ.get("ENTREPOT_EXTENSIONS", "")

plain_because: list[str] = ["ENTREPOT_PURE asked for it"] if PURE else []


def say(text: str) -> None:
    """Print one line for whoever reads the build's output."""
    print(f"entrepot: {text}", file=sys.stderr)


def compiled_extensions() -> list[Extension]:
    """Return one extension per hot module plus the library they share, or nothing where mypyc cannot serve."""
    paths = hot_modules(ROOT)
    if not paths:
        return []
    try:
        from mypyc.build import mypycify  # noqa: PLC0415 - only a compiled build needs mypy
    except ImportError as error:
        return plain_instead(f"mypyc is not installed ({error})")
    os.chdir(ROOT)
    try:
        # One C file for each module, so that all processors compile: their definitions call one another across files as
        # fast as within one, because none is visible outside the library (flags below).
        options = ["--config-file=pyproject.toml", *ANY_IS_FINE, *paths]
        made = mypycify(options, group_name="entrepot", target_dir=GENERATED_C, multi_file=True)
    except SystemExit as stop:  # mypy leaves by SystemExit on a type error, which "except Exception" would miss
        return plain_instead(f"mypy found errors in the modules to compile, printed above (exit {stop.code})")
    extensions = cast("list[Extension]", made)
    for extension in extensions:
        extension.optional = not REQUIRED
        # A warning that a newer compiler invents must not cost a user the compiled build.
        # Debug symbols and warnings make the compiler take four times as long.
        flags = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        flags = ["-O2" if flag == "-O3" else flag for flag in flags]
        # Nothing throws through these modules, and tables for unwinding are a tenth of the library.
        extension.extra_compile_args = [
            *flags, "-g0", "-Wno-all", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"
        ]  # fmt: skip
    return extensions


def plain_instead(reason: str) -> list[Extension]:
    """Say why nothing is compiled, or stop when compiling was required."""
    if REQUIRED:
        raise SystemExit(f"entrepot: cannot compile: {reason}")
    say(f"building plain Python, five to twenty times slower: {reason}")
    plain_because.append(reason)
    return []


def extensions_compiled_before(folder: Path) -> list[Extension]:
    """Return one extension without sources for each module that ``folder`` holds; `BuildAllOrNothing` copies them."""
    suffix = str(get_config_var("EXT_SUFFIX"))
    files = sorted(folder.rglob(f"*{suffix}"))
    if not files:
        raise SystemExit(f"entrepot: {folder} holds no modules compiled for this interpreter (*{suffix})")
    names = (str(file.relative_to(folder)).removesuffix(suffix) for file in files)
    return [Extension(name.replace(os.sep, "."), sources=[]) for name in names]


class BuildSources(build_py):
    """Copies the sources, and leaves word why they are all that there is."""

    def run(self) -> None:
        """Copy; nothing of an earlier build in this folder stays, not the note and no module that has gone since."""
        if not self.editable_mode:
            shutil.rmtree(Path(self.build_lib, "entrepot"), ignore_errors=True)
        super().run()
        if plain_because and not self.editable_mode:
            leave_note(self.build_lib, plain_because[0])


def leave_note(build_lib: str, reason: str) -> None:
    """Write into the package why it is plain."""
    note = Path(build_lib, PLAIN_NOTE)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{reason}\n", encoding="utf-8")


def in_parallel(compile_all: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Return a `compile` of a C compiler with a file for each processor at a time, the largest first.

    What no message passes is made small (`tools/hot_modules.py` says what that is, and why).
    """

    def compile_one(path: str, options: dict[str, Any]) -> list[str]:
        flags = options.get("extra_postargs") or []
        if made_small(path):
            flags = ["-Os" if flag == "-O2" else flag for flag in flags]
        return compile_all([path], **{**options, "extra_postargs": flags})

    def compile_each(sources: list[str], **options: Any) -> list[str]:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            largest_first = sorted(sources, key=lambda path: -Path(path).stat().st_size)
            waiting = {path: pool.submit(compile_one, path, options) for path in largest_first}
            return [name for path in sources for name in waiting[path].result()]

    return compile_each


class BuildAllOrNothing(build_ext):
    """The modules of one group import the library they share, so half a group is worse than none of it."""

    def build_extensions(self) -> None:
        """Compile the files of an extension side by side, or copy what was compiled before."""
        if COMPILED_BEFORE:
            for extension in self.extensions:
                target = Path(self.get_ext_fullpath(extension.name))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(Path(COMPILED_BEFORE, target.relative_to(self.build_lib)), target)
            return
        self.compiler.compile = in_parallel(self.compiler.compile)
        super().build_extensions()

    def run(self) -> None:
        """Compile; when a part failed, take away the parts that did not."""
        for stale in Path(self.build_lib).rglob("*.so"):  # of an earlier build in this folder
            stale.unlink()
        super().run()
        outputs = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        if all(path.is_file() for path in outputs):
            return
        for path in outputs:
            path.unlink(missing_ok=True)
        say("building plain Python, five to twenty times slower: the C compiler failed, see above")
        if not self.inplace:  # the sources are not told: they may be compiled next time
            leave_note(self.build_lib, "the C compiler failed")


def extensions() -> list[Extension]:
    """Return what this build is to have compiled."""
    if PURE:
        return []
    return extensions_compiled_before(Path(COMPILED_BEFORE)) if COMPILED_BEFORE else compiled_extensions()


setup(
    ext_modules=extensions(),
    cmdclass={"build_py": BuildSources, "build_ext": BuildAllOrNothing},
)
