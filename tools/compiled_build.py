"""Build ``build/compiled``: the package with its hot modules compiled, once per set of sources and never again.

Results are kept by a key over everything that can change the machine code: the modules to compile, all that they
import, ``setup.py``, the interpreter and mypy. An edit elsewhere (the command line, the
shell) only refreshes copies. Sources are compiled from a snapshot, because people may be editing meanwhile.

``python tools/compiled_build.py`` builds if needed, and exits 1 when the sources do not type-check or compile; with
``--launcher`` it also writes the development `entrepot` command beside the interpreter that runs it.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Final

from hot_modules import hot_modules
from source_tree import COMPILED, ROOT, SOURCE, STAMP, Stamp, mark, package_files, read_stamp

BUILD: Final = ROOT / "build"
EXTENSIONS: Final = BUILD / "extensions"
BUILD_INPUTS: Final = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "tools/hot_modules.py")
RESULTS_KEPT: Final = 4  # enough to go back and forth between two branches; a result takes a few MiB

LAUNCHER: Final = """\
#!{python}
# The development command: the compiled build while it matches the sources, else plain. Written by `make setup`.
import sys

sys.path.insert(0, {tools!r})
from hot_modules import hot_modules
from source_tree import import_root

sys.path[0] = str(import_root())
from entrepot.cli.main import main

sys.exit(main())
"""


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the build lock: two shells may run make in one checkout."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def module_file(source: Path, name: str) -> Path | None:
    """Return the file of a dotted name, or None when the name is not a module of ours."""
    path = source.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def imported_names(path: Path) -> Iterator[str]:
    """Yield every dotted name that a file imports from entrepot; some name things inside a module."""
    for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("entrepot"))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("entrepot"):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def with_everything_imported(source: Path, paths: list[Path]) -> list[Path]:
    """Return ``paths`` and all files of ours that they import, directly or not: constants and layouts are inlined."""
    found = dict.fromkeys(paths)
    waiting = list(paths)
    while waiting:
        for name in imported_names(waiting.pop()):
            file = module_file(source, name)
            if file is not None and file not in found:
                found[file] = None
                waiting.append(file)
    return sorted(found)


def build_key(tree: Path) -> str:
    """Return the hash of all that decides what the compiled modules of ``tree`` are."""
    hot = hot_modules(tree)
    digest = hashlib.sha256()
    for fact in (sys.version, sysconfig.get_platform(), version("mypy"), os.environ.get("CFLAGS", ""), *hot):
        digest.update(fact.encode() + b"\0")
    recipe = [tree / "setup.py", tree / "tools" / "hot_modules.py"]
    for path in [*recipe, *with_everything_imported(tree / "src", [tree / path for path in hot])]:
        digest.update(str(path.relative_to(tree)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def why_not_compile() -> str:
    """Return what this machine lacks to compile C for Python, or nothing."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler}) on this machine"
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        return f"the header {header} is missing (Debian: the package python3-dev)"
    return ""


def compile_into(tree: Path, target: Path) -> None:
    """Compile the hot modules of a snapshot. Raises SystemExit with the tool's words when they do not compile."""
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    command += ["--build-lib", str(target), "--build-temp", str(tree / "build" / "objects")]
    environment = {**os.environ, "ENTREPOT_REQUIRE_COMPILED": "1"}
    environment.pop("ENTREPOT_PURE", None)
    environment.pop("PYTHONPATH", None)  # mypy must see the snapshot and nothing else of ours
    result = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode:
        sys.stdout.write(result.stdout)
        raise SystemExit("the compiled build failed, see above; `make test-plain` works without it")


def extensions_for(tree: Path, key: str) -> Path:
    """Return the folder of compiled modules for ``key``, compiling them if that never happened."""
    folder = EXTENSIONS / key
    if folder.is_dir():
        os.utime(folder)
        return folder
    print(f"compiling {len(hot_modules(tree))} modules with mypyc...", flush=True)
    started = time.monotonic()
    output = tree / "build" / "output"
    output.mkdir(parents=True)
    compile_into(tree, output)
    EXTENSIONS.mkdir(exist_ok=True)
    output.rename(folder)
    print(f"compiled in {time.monotonic() - started:.0f} s, kept as build/extensions/{key}")
    by_age = sorted(EXTENSIONS.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[RESULTS_KEPT:]:
        shutil.rmtree(old)
    return folder


def mirror(files: dict[str, Path], target: Path) -> None:
    """Make ``target`` hold exactly ``files``: each replaced at once, and only where it differs; the rest removed."""
    for name, path in files.items():
        place = target / name
        if place.is_file() and place.read_bytes() == path.read_bytes():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(place.name + ".new")
        shutil.copy2(path, fresh)
        fresh.replace(place)
    for place in sorted(target.rglob("*"), reverse=True):
        if place.is_dir():
            if not any(place.iterdir()):
                place.rmdir()
        elif place != STAMP and place.parent.name != "__pycache__" and str(place.relative_to(target)) not in files:
            place.unlink()


def bring_up_to_date() -> Stamp:
    """Make ``build/compiled`` match the sources and return its stamp."""
    with one_at_a_time(), tempfile.TemporaryDirectory(prefix="snapshot-", dir=BUILD) as temporary:
        tree = Path(temporary)
        for name in BUILD_INPUTS:
            (tree / name).parent.mkdir(exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "*.pyc")
        shutil.copytree(SOURCE, tree / "src", ignore=ignored)
        files = package_files(tree / "src")
        marks = {name: mark(path) for name, path in files.items()}
        key, reason = build_key(tree), why_not_compile()
        if not reason:
            folder = extensions_for(tree, key)
            files |= {str(path.relative_to(folder)): path for path in folder.rglob("*.so")}
        stamp = Stamp(key=key, compiled=not reason, reason=reason, files=marks)
        if read_stamp() != stamp:
            STAMP.unlink(missing_ok=True)  # nobody may believe a copy that is half made
            mirror(files, COMPILED)
            STAMP.write_text(json.dumps(stamp, indent=1))
        return stamp


def write_launcher() -> None:
    """Put the development command beside the interpreter that runs this."""
    place = Path(sys.executable).with_name("entrepot")
    text = LAUNCHER.format(python=sys.executable, tools=str(ROOT / "tools"))
    if not place.is_file() or place.read_text() != text:
        place.write_text(text)
        place.chmod(place.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def main() -> None:
    """Build, and say in one line what there is."""
    stamp = bring_up_to_date()
    if "--launcher" in sys.argv[1:]:
        write_launcher()
    if stamp["compiled"]:
        print(f"build/compiled is up to date ({stamp['key']})")
    else:
        print(f"build/compiled holds plain Python: {stamp['reason']}")


if __name__ == "__main__":
    main()
