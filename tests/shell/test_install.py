"""`pip install DIRECTORY`: what a user gets who has nothing of ours, and what he is told when it is not compiled."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrepot.base.compiled import is_compiled

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("ENTREPOT_", "PYTHONPATH", "CC", "CFLAGS"))
}
compiles = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
NEEDED = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE", "MANIFEST.in", "tools/hot_modules.py")
OF_ONE_MODULE = ("__init__.py", "py.typed", "base/__init__.py", "base/compiled.py")
SAY = "from entrepot.base.compiled import build_name; print(build_name())"


def sources(target: Path, *modules: str) -> Path:
    """Copy what a build needs to ``target``: with ``modules`` of the package alone, or with all of them."""
    for name in NEEDED + tuple(f"src/entrepot/{module}" for module in modules):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    if not modules:
        shutil.copytree(ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return target


def build(tree: Path, **environment: str) -> Path:
    """Build as pip does, with the packages of this interpreter, and return the folder that would be installed."""
    output = tree / "output"
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build", "--build-lib", str(output)],
        cwd=tree,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        timeout=120,
        check=True,
    )
    return output


def said(folder: Path) -> str:
    """Return what the package in ``folder`` says it is."""
    done = subprocess.run(
        [sys.executable, "-c", SAY], env={**ENVIRONMENT, "PYTHONPATH": str(folder)}, capture_output=True, check=True
    )
    return done.stdout.decode().strip()


@compiles
def test_a_build_leaves_its_reason_in_the_package_and_forgets_it(tmp_path: Path) -> None:
    tree = sources(tmp_path, *OF_ONE_MODULE)
    note = tree / "output" / "entrepot" / "plain.txt"
    assert said(build(tree, ENTREPOT_PURE="1")) == "plain Python"
    assert note.read_text() == "ENTREPOT_PURE asked for it\n"
    assert said(build(tree, CC="false")) == "plain Python"
    assert note.read_text() == "the C compiler failed\n"
    (tree / "output" / "entrepot" / "gone.py").touch()  # of an earlier version
    assert said(build(tree)) == "compiled (mypyc)"
    assert not note.exists()
    assert not (tree / "output" / "entrepot" / "gone.py").exists()


@compiles
def test_an_error_of_types_in_a_compiled_module_is_the_reason(tmp_path: Path) -> None:
    tree = sources(tmp_path, *OF_ONE_MODULE)
    with (tree / "src/entrepot/base/compiled.py").open("a") as module:
        module.write("\nWRONG: int = build_name()\n")
    output = build(tree)
    assert said(output) == "plain Python"
    assert "mypy found errors" in (output / "entrepot/plain.txt").read_text()
    with pytest.raises(subprocess.CalledProcessError):
        build(tree, ENTREPOT_REQUIRE_COMPILED="1")


WHOLE = os.environ.get("ENTREPOT_WHOLE_INSTALL", "")  # `make install-whole`


@compiles
@pytest.mark.timeout(900)
@pytest.mark.skipif(not is_compiled(), reason="takes the modules of the compiled build")
def test_pip_gives_the_compiled_build_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """All is as a user has it, and pip gets the compiler's packages by itself; but it compiles one module.

    Then the whole of it is installed with the modules that the compiled build has already, from the same sources.
    `make install-whole` has pip compile all of them: that takes minutes.
    """
    home = tmp_path / "venv"
    environment = {**ENVIRONMENT, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    kept = {} if WHOLE else {"ENTREPOT_EXTENSIONS": str(compiled_before())}

    def do(*command: str, **more: str) -> str:
        done = subprocess.run(
            [home / "bin" / command[0], *command[1:]],
            cwd=tmp_path,
            env={**environment, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=60)
    one, tree = sources(tmp_path / "one", *OF_ONE_MODULE), sources(tmp_path / "tree")
    do("pip", "install", "--no-deps", str(one), ENTREPOT_REQUIRE_COMPILED="1")
    assert do("python", "-c", SAY) == "compiled (mypyc)\n"
    do("pip", "install", "--upgrade", str(tree), ENTREPOT_PURE="1")
    assert "plain Python (ENTREPOT_PURE asked for it)" in do("entrepot", "--version")
    do("pip", "install", "--upgrade", "--no-deps", str(tree), ENTREPOT_REQUIRE_COMPILED="1", **kept)
    assert do("entrepot", "--version").endswith("compiled (mypyc)\n")
    program = "import asyncio, entrepot\nasync def main():\n    async with entrepot.Broker() as b: print(b.uris)\n"
    assert "auto://127.0.0.1:" in do("python", "-c", program + "asyncio.run(main())")
    do("pip", "uninstall", "--yes", "entrepot")
    assert not list(home.rglob("entrepot*")), "pip left something behind"


def compiled_before() -> Path:
    """Return where the compiled build that runs here keeps its modules."""
    made = subprocess.run(
        [sys.executable, "-c", "from compiled_build import *; print(EXTENSIONS / bring_up_to_date()['key'])"],
        cwd=ROOT / "tools",
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(made.stdout.splitlines()[-1])


@compiles
@pytest.mark.timeout(900)
@pytest.mark.skipif(not is_compiled(), reason="the wheel takes the modules of the compiled build")
def test_from_a_wheel_to_the_first_message_without_a_compiler(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "tools" / "wheels.py"],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    compiled, pure = (ROOT / line for line in made.stdout.splitlines() if line.startswith("dist/"))
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=60)
    environment = {**ENVIRONMENT, "PATH": str(home / "bin"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def do(*command: str) -> str:
        done = subprocess.run(
            [home / "bin" / command[0], *command[1:]],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    started = time.monotonic()
    do("pip", "install", "--quiet", str(compiled))
    with subprocess.Popen(
        [home / "bin" / "entrepot", "run", "--listen", "stomp://127.0.0.1:0"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stderr is not None
            url = next(found[0] for line in broker.stderr if (found := re.search(r"stomp://\S*:\d+", line)))
            do("entrepot", "send", "--url", url, "/queue/orders", "good morning")
            received = do("entrepot", "receive", "--url", url, "/queue/orders", "--count", "1")
        finally:
            broker.terminate()
    assert "good morning" in received
    assert time.monotonic() - started < 60  # 5 s on a machine that does nothing else, of which pip takes 3
    assert do("entrepot", "--version").endswith("compiled (mypyc)\n")
    do("pip", "install", "--quiet", "--force-reinstall", "--no-deps", str(pure))
    assert "plain Python" in do("entrepot", "--version")
