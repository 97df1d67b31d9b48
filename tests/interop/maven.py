"""Java libraries from a Maven repository, copied once into ``build/maven`` and taken from there afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).resolve().parents[2] / "build" / "maven"
PATIENCE_S: Final = 180
POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>test</groupId><artifactId>test</artifactId><version>1</version><dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY: Final = """
<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>"""


class Unavailable(Exception):
    """Why there are no libraries."""


def jars(*wanted: str) -> Path:
    """Return a directory that holds ``wanted`` (``group:artifact:version``) and all they need at run time.

    Raises Unavailable.
    """
    dependencies = ""
    for each in wanted:
        group, artifact, version = each.split(":")
        dependencies += DEPENDENCY.format(group=group, artifact=artifact, version=version)
    pom = POM.format(dependencies=dependencies)
    place = CACHE / hashlib.sha256(pom.encode()).hexdigest()[:16]
    if place.is_dir():
        return place
    if not shutil.which("mvn"):
        raise Unavailable("no mvn on the PATH; Debian: apt install maven")
    work = CACHE / f"{place.name}.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "pom.xml").write_text(pom)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        shutil.rmtree(work, ignore_errors=True)
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr[-300:])
        raise Unavailable(f"no Maven repository has {', '.join(wanted)}: {said[:400]}")
    try:
        (work / "jars").rename(place)
    except OSError:  # another test run was quicker
        assert place.is_dir()
    shutil.rmtree(work, ignore_errors=True)
    return place


def file(wanted: str) -> Path:
    """Return one artifact (``group:artifact:version:type``, then a classifier or none) alone. Raises Unavailable."""
    group, artifact, version, kind, *rest = wanted.split(":")
    place = CACHE / f"{'-'.join([artifact, version, *rest])}.{kind}"
    if place.exists():
        return place
    if not shutil.which("mvn"):
        raise Unavailable("no mvn on the PATH; Debian: apt install maven")
    folder = CACHE / f"file.{os.getpid()}"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={wanted}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise Unavailable(f"no Maven repository has {wanted} of {group}: {done.stdout[-300:]}")
    next(folder.iterdir()).rename(place)
    shutil.rmtree(folder)
    return place
