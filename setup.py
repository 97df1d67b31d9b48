"""Build entrepot: the modules marked [C] compiled by mypyc as one group, or all of it as plain Python.

``ENTREPOT_PURE=1`` asks for plain Python. Without it the build compiles when it can and falls back to plain Python
when it cannot (no compiler, no headers); ``ENTREPOT_REQUIRE_COMPILED=1`` makes that fallback an error.
``ENTREPOT_EXTENSIONS=FOLDER`` takes modules that were compiled before, by `tools/compiled_build.py`, from this source.
Either way the same ``.py`` files are installed; a compiled module shadows the file beside it. An install that is plain
says why in ``entrepot/plain.txt``, which `entrepot --version` and `entrepot run` read: pip shows nobody what we print.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from sysconfig import get_config_var
from typing import Any, cast

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from hot_modules import C_PREFIX, hot_modules, made_small  # noqa: E402 - the line above must come first

GENERATED_C = "build/mypyc"
TYPES = "build/types"
ONLY_TYPES = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__", "*.c", "*.h")
FAST, SMALL = "-O2", "-Os"  # docs/decisions/0018 has what others cost and bring
SHARED_HEADERS = ("__native_entrepot.h", "__native_internal_entrepot.h")  # of each C file of a module
PLAIN_NOTE = "entrepot/plain.txt"
# What runs when a module is loaded, a fifth of the C: small, apart from what runs again, and not inlined anywhere.
RUN_ONCE = re.compile(r"^char CPyDef_\w+_____top_level__\(void\) \{", re.MULTILINE)
ONLY_GNU = "#ifndef __GNUC__\n#define __attribute__(it)\n#endif\n"
# Type rules are for `make types`, which sees every optional package. pip builds where none of them is installed, and
# what stands for them there, Any, breaks rules in modules that are not compiled at all. Nor is any of them read here:
# with those of a developer's environment mypy would read four times as many files, and make the same C of them.
ANY_IS_FINE = [
    "--no-site-packages",
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
    if find_spec("mypyc") is None:
        return plain_instead("mypyc is not installed")
    os.chdir(ROOT)
    try:
        # One C file for each module, so that all processors compile: their definitions call one another across files as
        # fast as within one, because none is visible outside the library (flags below).
        options = ["--config-file=pyproject.toml", *ANY_IS_FINE, *paths]
        os.environ["MYPYPATH"] = with_types_of("msgspec")
        extensions = in_process_of_its_own(lambda: c_files(options))
    except ImportError as error:
        return plain_instead(f"mypyc is not installed ({error})")
    except SystemExit as stop:  # mypy leaves by SystemExit on a type error, which "except Exception" would miss
        return plain_instead(f"mypy found errors in the modules to compile, printed above (exit {stop.code})")
    for extension in extensions:
        extension.optional = not REQUIRED
        # A warning that a newer compiler invents must not cost a user the compiled build.
        # Debug symbols and warnings make the compiler take four times as long.
        flags = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
        flags = [FAST if flag == "-O3" else flag for flag in flags]
        # Nothing throws through these modules, and tables for unwinding are a tenth of the library.
        extension.extra_compile_args = [
            *flags, "-g0", "-Wno-all", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables"
        ]  # fmt: skip
    return extensions


def with_types_of(package: str) -> str:
    """Return a folder with nothing but a package that is installed, from whose classes ours are derived."""
    spec = find_spec(package)
    for place in spec.submodule_search_locations or () if spec else ():
        shutil.copytree(place, Path(TYPES, package), ignore=ONLY_TYPES, dirs_exist_ok=True)
    return TYPES


def c_files(options: list[str]) -> list[Extension]:
    """Have mypyc write the C files. Raises SystemExit on an error of types, after mypy has printed it."""
    from mypyc.build import mypycify  # noqa: PLC0415 - only a compiled build needs mypy

    made = mypycify(options, group_name="entrepot", target_dir=GENERATED_C, multi_file=True)
    for path in Path(GENERATED_C).glob(f"{C_PREFIX}*.c"):
        text = path.read_text(encoding="utf-8")
        marked = RUN_ONCE.sub(r"__attribute__((cold)) \g<0>", text, count=1)
        path.write_text(f"{ONLY_GNU}{marked}", encoding="utf-8")
    return cast("list[Extension]", made)


def in_process_of_its_own(make: Callable[[], list[Extension]]) -> list[Extension]:
    """Return what ``make`` returns, or raise what it raises; its memory goes with its process.

    mypy leaves a gigabyte of objects in circles behind. To look for garbage among them takes a quarter of its time, and
    to free them one by one as long again.
    """
    if not hasattr(os, "fork"):
        return make()
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with open(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if not told:
            raise SystemExit(os.waitstatus_to_exitcode(status))
        outcome = pickle.loads(told)
        if isinstance(outcome, BaseException):
            raise outcome
        return cast("list[Extension]", outcome)
    try:
        os.close(reading)
        gc.disable()
        outcome = make()
    except (Exception, SystemExit) as error:
        outcome = error
    try:
        with open(writing, "wb") as pipe:
            pickle.dump(outcome, pipe)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


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


def read_once(compiler: Any, level: str, flags: list[str], folders: list[str]) -> list[str]:
    """Return the flags with which C files take their 2 MB of headers from a file that the compiler has read already.

    Read for each of 240 files, the headers are a fifth of the work. A compiler that has no such files just reads them.
    """
    header = Path(GENERATED_C, f"shared{level}.h")
    header.write_text("".join(f'#include "{name}"\n' for name in SHARED_HEADERS), encoding="utf-8")
    command = [*compiler.compiler_so, *(f"-I{folder}" for folder in folders), *flags]
    command += ["-x", "c-header", str(header), "-o", f"{header}.gch"]
    read = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return ["-include", str(header)] if read.returncode == 0 else []


def in_parallel(compiler: Any) -> Callable[..., list[str]]:
    """Return a `compile` of a C compiler with a file for each processor at a time, the largest first.

    What no message passes is made small (`tools/hot_modules.py` says what that is, and why).
    """
    compile_all: Callable[..., list[str]] = compiler.compile

    def compile_one(path: str, options: dict[str, Any]) -> list[str]:
        return compile_all([path], **options)

    def compile_each(sources: list[str], **options: Any) -> list[str]:
        flags = options.get("extra_postargs") or []
        small = [SMALL if flag == FAST else flag for flag in flags]
        with_flags = {}
        folders = [*(options.get("include_dirs") or []), *compiler.include_dirs]
        for level, these in ((FAST, flags), (SMALL, small)):
            once = read_once(compiler, level, these, folders) if len(sources) > 1 else []
            with_flags[level] = {**options, "extra_postargs": [*these, *once]}
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            largest_first = sorted(sources, key=lambda path: -Path(path).stat().st_size)
            waiting = {}
            for path in largest_first:
                ours = Path(path).name.startswith(C_PREFIX)  # others are the runtime of mypyc
                chosen = (
                    with_flags[SMALL if made_small(path) else FAST] if ours else {**options, "extra_postargs": flags}
                )
                waiting[path] = pool.submit(compile_one, path, chosen)
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
        self.compiler.compile = in_parallel(self.compiler)
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
