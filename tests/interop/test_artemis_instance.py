"""An instance that ``artemis create`` made, unmodified: run by its ``bootstrap.xml``, its console is where it says."""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import urllib.error
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import maven
from classic import free_port
from java_clients import finished

from shell.certificates import PASSWORD, Certificates
from shell.consoles import Process, until

VERSION: Final = "2.42.0"
COMMAND: Final = f"org.apache.activemq:artemis-cli:{VERSION}"
QUESTION: Final = '/console/jolokia/read/org.apache.activemq.artemis:broker="0.0.0.0"/Name'
FEW: Final = tuple(f"--no-{protocol}-acceptor" for protocol in ("amqp", "hornetq", "mqtt", "stomp"))
PATIENCE_S: Final = 60


def unavailable() -> str:
    if not shutil.which("java"):
        return "no java on the PATH; Debian: apt install default-jre-headless"
    try:
        maven.jars(COMMAND)
    except maven.Unavailable as why:
        return str(why)
    return ""


pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"the artemis command line: {unavailable()}")


class Instance:
    """One instance, with a user admin whose password is opensesame."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.etc = folder / "instance" / "etc"
        self.http = free_port()
        self.log = folder / "broker.log"
        self.folder = folder
        home = folder / "home"
        home.mkdir()
        command = ["java", "-XX:TieredStopAtLevel=1", f"-Dartemis.home={home}", "-cp", f"{maven.jars(COMMAND)}/*"]
        command += ["org.apache.activemq.artemis.cli.Artemis", "create", str(self.etc.parent), "--no-autotune"]
        command += ["--user", "admin", "--password", "opensesame", "--require-login", "--http-port", str(self.http)]
        command += ["--default-port", str(free_port()), *FEW, *options]
        finished(command, check=True, capture_output=True, timeout=PATIENCE_S)

    def run(self, file: str) -> Process:
        return Process(self.folder, "broker", "run", str(self.etc / file))


def asked(url: str, password: str, trust: ssl.SSLContext | None = None) -> tuple[int, Any]:
    """Return the status and the JSON of an answer to admin; status 0 while nobody answers."""
    given = base64.b64encode(f"admin:{password}".encode()).decode()
    try:
        with urlopen(Request(url, headers={"Authorization": f"Basic {given}"}), timeout=20, context=trust) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
    except urllib.error.URLError:
        return 0, None


def answers(url: str, trust: ssl.SSLContext | None = None) -> None:
    """See that the console is there, and knows the users of the instance."""
    place = url + QUESTION.replace('"', "%22")
    status, told = until(lambda: asked(place, "opensesame", trust), lambda answer: answer[0] != 0)
    assert (status, told.get("value")) == (200, "0.0.0.0"), told
    assert asked(place, "wrong", trust)[0] == 401


@pytest.mark.parametrize("file", ["bootstrap.xml", "broker.xml"])
def test_an_instance_has_its_console_where_it_was_created(tmp_path: Path, file: str) -> None:
    instance = Instance(tmp_path)
    broker = instance.run(file)
    try:
        answers(f"http://localhost:{instance.http}")
    finally:
        broker.stop()
    assert "bootstrap.xml" not in instance.log.read_text(), "something in it is done otherwise"


def test_an_instance_with_a_key_store_has_it_over_tls(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    instance = Instance(tmp_path, "--ssl-key", str(made.store), "--ssl-key-password", PASSWORD.decode())
    broker = instance.run("bootstrap.xml")
    try:
        answers(f"https://localhost:{instance.http}", ssl.create_default_context(cafile=str(made.authority)))
    finally:
        broker.stop()
    assert "bootstrap.xml" not in instance.log.read_text(), "something in it is done otherwise"
