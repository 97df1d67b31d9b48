"""Make two wheels of the checkout in ``dist/``: one with the compiled modules, for this interpreter, and a pure one.

``python tools/wheels.py`` compiles only what `make setup` has not compiled yet. The compiled wheel carries the tag of
this machine (``linux_x86_64``): it runs where the C library is as new as here. Without a C compiler there is only the
pure one, and the exit code is 1 when ``ENTREPOT_REQUIRE_COMPILED`` is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from compiled_build import BUILD, BUILD_INPUTS, EXTENSIONS, bring_up_to_date
from source_tree import ROOT, SOURCE

DISTRIBUTION: Final = ROOT / "dist"
PACKED: Final = (*BUILD_INPUTS, "MANIFEST.in")


def copy_sources(tree: Path) -> None:
    """Copy what a wheel is made from, so that nothing of the build stays in the checkout."""
    for name in PACKED:
        (tree / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    shutil.copytree(SOURCE, tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "*.pyc"))


def build_wheel(tree: Path, **environment: str) -> Path:
    """Build one wheel from ``tree`` into ``dist/``. Raises SystemExit with pip's words when it cannot."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    command += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tree / "wheel"), str(tree)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ENTREPOT_", "PYTHONPATH"))}
    result = subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"the wheel could not be built:\n{result.stdout}{result.stderr}")
    (wheel,) = (tree / "wheel").iterdir()
    DISTRIBUTION.mkdir(exist_ok=True)
    return Path(shutil.move(wheel, DISTRIBUTION / wheel.name))


def main() -> None:
    """Build both and print their paths."""
    stamp = bring_up_to_date()
    kinds = [{"ENTREPOT_PURE": "1"}]
    if stamp["compiled"]:
        kinds.insert(0, {"ENTREPOT_EXTENSIONS": str(EXTENSIONS / stamp["key"])})
    else:
        print(f"only the pure wheel: {stamp['reason']}")
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="wheel-", dir=BUILD) as temporary:
            copy_sources(Path(temporary))
            print(build_wheel(Path(temporary), **kind).relative_to(ROOT))
    if not stamp["compiled"] and os.environ.get("ENTREPOT_REQUIRE_COMPILED"):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
