"""Unmodified Java clients: the same program against ActiveMQ Classic and against this broker, transcripts compared.

The program is `java/Exercise.java`, compiled here against the client of Debian's ``activemq`` package.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import classic
import ours
import pytest

SOURCES: Final = Path(__file__).with_name("java")
NEEDED: Final = (
    "activemq-client.jar",
    "activemq-openwire-legacy.jar",
    "geronimo-jms_1.1_spec.jar",
    "slf4j-api.jar",
    "hawtbuf.jar",
    "geronimo-j2ee-management-1.1-spec.jar",
    "geronimo-jta-1.2-spec.jar",
)
PATIENCE_S: Final = 300


def unavailable() -> str:
    """Return why Java clients cannot run here, or nothing."""
    if not shutil.which("javac"):
        return "no javac on the PATH; Debian: apt install default-jdk-headless"
    missing = [name for name in NEEDED if not (Path("/usr/share/java") / name).exists()]
    if missing:
        return f"no {', '.join(missing)} under /usr/share/java; Debian: apt install activemq"
    return classic.unavailable()


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


class Program:
    """One compiled Java program; `run` returns what it printed."""

    def __init__(self, classes: Path) -> None:
        self.path = ":".join([str(classes), *(f"/usr/share/java/{name}" for name in NEEDED)])
        sources = [str(source) for source in sorted(SOURCES.glob("*.java"))]
        subprocess.run(["javac", "-nowarn", "-cp", self.path, "-d", str(classes), *sources], check=True, timeout=120)

    def command(self, name: str, *arguments: str) -> list[str]:
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", self.path, name, *arguments]

    def run(self, name: str, *arguments: str) -> str:
        done = subprocess.run(
            self.command(name, *arguments), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def reference(program: Program, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ActiveMQ Classic makes of it, by feature."""
    broker = classic.Classic(tmp_path_factory.mktemp("classic"))
    broker.start().await_ready()
    try:
        return _features(program.run("Exercise", broker.url))
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def transcript(program: Program, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What this broker makes of it, by feature."""
    broker = ours.Entrepot(tmp_path_factory.mktemp("ours"))
    broker.start().await_ready()
    try:
        return _features(program.run("Exercise", broker.url))
    finally:
        broker.kill()


def _features(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split("## ")[1:]:
        name, _, lines = part.partition("\n")
        found[name] = lines
    return found


FEATURES: Final = [
    "types",
    "compression",
    "headers",
    "properties",
    "wire",
    "acknowledge",
    "individual",
    "optimized",
    "redelivery",
    "counters",
    "poison",
    "expired",
    "pull",
    "browse",
    "temporary",
    "durable",
    "noLocal",
    "exclusive",
    "priority",
    "groups",
    "wildcards",
    "composite",
    "virtual",
    "options",
    "selectors",
    "window",
    "local",
    "xa",
    "clientId",
    "asynchronous",
    "prefetch",
    "failover",
    "advisories",
    "sources",
]


def test_every_feature_is_compared(reference: dict[str, str]) -> None:
    assert [*FEATURES, "end"] == list(reference)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_java_client_sees_what_activemq_shows(
    feature: str, reference: dict[str, str], transcript: dict[str, str]
) -> None:
    wanted, seen = reference[feature], transcript.get(feature, "(not reached)")
    assert "THREW" not in wanted
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "ActiveMQ", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)


NEWER: Final = "6.1.6"
NOT_IN_NEWER: Final = ("wire",)  # the marshallers of old versions are a jar of ActiveMQ 5 alone

POM: Final = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>test</groupId><artifactId>test</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.activemq</groupId><artifactId>activemq-client</artifactId><version>{NEWER}</version>
</dependency></dependencies></project>
"""


def test_a_newer_client_sees_the_same(reference: dict[str, str], tmp_path: Path) -> None:
    """The same source in the names of ``jakarta.jms``, with ``activemq-client`` 6 from a Maven repository."""
    if not shutil.which("mvn"):
        pytest.skip("no mvn on the PATH; Debian: apt install maven")
    (tmp_path / "pom.xml").write_text(POM)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    fetched = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    if fetched.returncode != 0:
        pytest.skip(f"no Maven repository has activemq-client {NEWER}: {fetched.stdout[-300:]}")
    (tmp_path / "Exercise.java").write_text((SOURCES / "Exercise.java").read_text().replace("javax.jms", "jakarta.jms"))
    path = f"{tmp_path}:{tmp_path}/jars/*"
    subprocess.run(["javac", "-nowarn", "-cp", path, "-d", str(tmp_path), "Exercise.java"], cwd=tmp_path, check=True)
    wanted = [name for name in FEATURES if name not in NOT_IN_NEWER]
    broker = ours.Entrepot(tmp_path / "broker")
    broker.start().await_ready()
    try:
        command = ["java", "-XX:TieredStopAtLevel=1", "-cp", path, "Exercise", broker.url, *wanted]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    finally:
        broker.kill()
    assert done.returncode == 0, done.stdout[-3000:]
    seen = _features(done.stdout)
    for feature in wanted:
        assert _unnumbered(seen[feature]) == _unnumbered(reference[feature]).replace("javax.jms", "jakarta.jms"), (
            feature
        )


def _unnumbered(text: str) -> str:
    """Return ``text`` without the numbers that keep the names of one run apart."""
    return re.sub(r"\.\d+\b", ".N", text)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ours.Entrepot]:
    made = ours.Entrepot(tmp_path / "crash")
    made.start().await_ready()
    yield made
    made.kill()


def test_what_was_promised_survives_a_crash(program: Program, broker: ours.Entrepot) -> None:
    """Prepared branches, persistent messages and durable subscriptions, over a kill -9."""
    before = program.run("Crash", broker.url, "before")
    assert "prepared 0 prepared 0 prepared 0" in before
    broker.kill()
    broker.start().await_ready()
    after = program.run("Crash", broker.url, "after")
    assert after.splitlines() == [
        "found 3",
        "waiting [kept] hidden []",
        "committed [sent in a branch]",
        "settled []",
        "rolled back [wanted back] sent []",
        "durable [missed]",
        "found 0",
    ]
