"""Run the tests against one of the two builds, and remember which exact tree passed.

``python tools/run_tests.py plain|compiled [--unless-passed] [PYTEST ARGUMENT...]``

``ENTREPOT_WORKERS`` says how many tests of a whole run go at once, instead of one for each processor, and one more for
the compiled run, four at most.
``--unless-passed`` returns at once when this very tree passed whole in this mode before: `make check` after `make test`
need not run everything again. Tests start `python -m entrepot...` processes of the same build, through ``PYTHONPATH``.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

from compiled_build import bring_up_to_date, why_not_compile
from hot_modules import hot_modules
from source_tree import COMPILED, ROOT, SOURCE

PASSED: Final = ROOT / "build" / "passed"
TESTED: Final = ("src", "tests", "bench", "demo", "docs", "tools", "pyproject.toml", "requirements", "README.md")
# Of the plain run where there is a compiled one: ten times slower there, and nothing new.
HUNTS: Final = ("planted", "callers", "carried", "cluster_worlds", "networks", "seeds", "determinism")
# Of sources and pages, which are the same in both.
READERS: Final = ("test_decided", "test_mirrored", "test_structure", "test_tutorials", "base/test_log_events")
EXAMPLES: Final = "25"  # of a property on the plain build where there is a compiled run, which takes 100
LEFT_OUT: Final = (
    "interop",
    "shell",
    "spark",
    *(f"simulation/test_{name}.py" for name in HUNTS),
    *(f"unit/{name}.py" for name in READERS),
)
NOT_TESTED: Final = {"__pycache__", "entrepot.egg-info"}


def of_one_build() -> list[str]:
    """Return the unit tests whose subjects are never compiled: the compiled run runs the very same code.

    Folders, or their files where one asks which build it is: what that skips there runs here.
    """
    compiled = {str(place) for path in hot_modules(ROOT) for place in Path(path).relative_to("src/entrepot").parents}
    tests = ROOT / "tests" / "unit"
    folders = [place for place in sorted(tests.rglob("[a-z]*")) if place.is_dir()]
    found: list[Path] = []
    for folder in folders:
        if str(folder.relative_to(tests)) not in compiled:
            files = sorted(folder.glob("test_*.py"))
            same = [file for file in files if "is_compiled" not in file.read_text()]
            found += [folder] if len(same) == len(files) else same
    return [str(place.relative_to(ROOT / "tests")) for place in found]


def tree_hash() -> str:
    """Return a hash over every file that a test could depend on."""
    digest = hashlib.sha256(sys.version.encode())
    for top in TESTED:
        path = ROOT / top
        files = [path] if path.is_file() else sorted(entry for entry in path.rglob("*") if entry.is_file())
        for file in files:
            if not NOT_TESTED.intersection(file.parts):
                digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def run(mode: str, arguments: list[str], *, whole: bool) -> int:
    """Run pytest on the build called ``mode`` and return its exit code; ``whole``: it is everything, so in parallel."""
    root = COMPILED if mode == "compiled" else SOURCE
    environment = {**os.environ, "PYTHONPATH": str(root), "ENTREPOT_EXPECT_BUILD": mode}
    # Half of the time goes to waiting for processes and for disks: as many tests at once as there are processors, those
    # of one file (with Spark: of all files) one after another, because they share brokers and sessions. How they are
    # spread says tests/conftest.py.
    # The compiled run has one more than processors, because what it starts is waited for; the plain one only reckons.
    workers = os.environ.get("ENTREPOT_WORKERS") or str(min((os.cpu_count() or 1) + (mode == "compiled"), 4))
    spread = ["--numprocesses", workers, "--dist", "loadscope", "--no-loadscope-reorder", "-rR", "--durations=15"]
    if mode == "plain" and whole and not why_not_compile():
        environment.setdefault("ENTREPOT_EXAMPLES", EXAMPLES)
    command = [sys.executable, "-m", "pytest", "-o", f"pythonpath={root} tests", *(spread if whole else []), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main(mode: str, arguments: list[str]) -> int:
    """Build what ``mode`` needs, run, remember."""
    unless_passed = "--unless-passed" in arguments
    arguments = [argument for argument in arguments if argument != "--unless-passed"]
    if mode == "compiled":
        stamp = bring_up_to_date()
        if not stamp["compiled"]:
            print(f"the compiled run is left out: {stamp['reason']}")
            return 1 if os.environ.get("ENTREPOT_REQUIRE_COMPILED") else 0
    passed = PASSED / f"{mode}-{tree_hash()}"
    if unless_passed and passed.is_file():
        print(f"tests, {mode} build: this tree passed at {passed.read_text()}")
        return 0
    print(f"tests, {mode} build", flush=True)
    left_out: list[str] = []
    if mode == "plain" and not arguments and not why_not_compile():
        print("whole processes (shell, interop, spark), hunts, what reads sources and units of what is not compiled")
        print("are left to the compiled build")
        places = (*LEFT_OUT, *of_one_build())
        left_out = [word for place in places for word in ("--ignore", f"tests/{place}")]
    if arguments:
        return run(mode, arguments, whole=False)
    code = run(mode, left_out, whole=True)
    if code == 0 and passed.name == f"{mode}-{tree_hash()}":
        PASSED.mkdir(parents=True, exist_ok=True)
        for old in PASSED.glob(f"{mode}-*"):
            old.unlink()
        passed.write_text(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %Z}")
    return code


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in {"plain", "compiled"}:
        raise SystemExit("usage: python tools/run_tests.py plain|compiled [--unless-passed] [PYTEST ARGUMENT...]")
    raise SystemExit(main(sys.argv[1], sys.argv[2:]))
