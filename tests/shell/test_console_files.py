"""Consoles that configurations describe: `entrepot run` starts them where the file says, with its TLS and its users."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

from shell.certificates import Certificates
from shell.consoles import Process, until

SHIPPED = Path("/usr/share/doc/activemq/examples/conf")
BROKER = "org.apache.activemq:type=Broker,brokerName=localhost"
NAME = f"/api/jolokia/read/{BROKER}/BrokerName"
MADE = f"/api/jolokia/exec/{BROKER}/addQueue(java.lang.String)/made"
OPEN = ("--ephemeral", "--listen", "auto://127.0.0.1:0")

shipped = pytest.mark.skipif(not SHIPPED.is_dir(), reason="no examples of ActiveMQ here; Debian: apt install activemq")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def asked(url: str, user: str = "", password: str = "", trust: ssl.SSLContext | None = None) -> tuple[int, Any]:
    """Return the status and the JSON of an answer; status 0 while nobody answers."""
    request = Request(url)
    if user:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
    try:
        with urlopen(request, timeout=20, context=trust) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)
    except urllib.error.URLError:
        return 0, None


def waits_for(url: str, *given: Any) -> tuple[int, Any]:
    return until(lambda: asked(url, *given), lambda answer: answer[0] != 0)


def shows_the_console_to_its_users(url: str, trust: ssl.SSLContext | None = None) -> None:
    """See that those of the shipped jetty-realm.properties come in, and what each of them may."""
    assert waits_for(url + NAME, "", "", trust)[0] == 401
    assert asked(url + NAME, "admin", "wrong", trust)[0] == 401
    for name in ("admin", "user"):
        status, told = asked(url + NAME, name, name, trust)
        assert (status, told["value"]) == (200, "localhost")
    assert asked(url + MADE, "user", "user", trust)[1]["status"] == 403
    assert asked(url + MADE, "admin", "admin", trust)[1]["status"] == 200


@shipped
def test_the_shipped_files_show_the_console_where_they_say(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(SHIPPED, conf)
    port = free_port()
    file = str(conf / "activemq-stomp.xml")
    broker = Process(tmp_path, "broker", "run", *OPEN, "-D", f"jetty.port={port}", file)
    try:
        shows_the_console_to_its_users(f"http://127.0.0.1:{port}")
    finally:
        broker.stop()
    told = (tmp_path / "broker.log").read_text()
    assert f"console of localhost: http://127.0.0.1:{port}\n" in told
    assert "jetty.xml:" in told


@shipped
def test_a_second_connector_serves_it_over_tls(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(SHIPPED, conf)
    made = Certificates(tmp_path)
    shutil.copy(made.server, conf / "broker.ks")
    port, secure = free_port(), free_port()
    text = (conf / "jetty-demo.xml").read_text()
    (conf / "jetty.xml").write_text(text.replace("8162", str(secure)))
    file = str(conf / "activemq-stomp.xml")
    broker = Process(tmp_path, "broker", "run", *OPEN, "-D", f"jetty.port={port}", file)
    try:
        trust = ssl.create_default_context(cafile=str(made.authority))
        shows_the_console_to_its_users(f"https://localhost:{secure}", trust)
        assert waits_for(f"http://127.0.0.1:{port}{NAME}")[0] == 401
    finally:
        broker.stop()


@shipped
def test_a_connector_that_needs_certificates_of_clients_lets_in_who_has_one(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(SHIPPED, conf)
    made = Certificates(tmp_path)
    shutil.copy(made.server, conf / "broker.ks")
    port, secure = free_port(), free_port()
    asks = f'<property name="needClientAuth" value="true"/><property name="trustStorePath" value="{made.authority}"/>'
    mark = '<property name="keyStorePassword"'
    text = (conf / "jetty-demo.xml").read_text().replace("8162", str(secure)).replace(mark, asks + mark)
    (conf / "jetty.xml").write_text(text)
    options = (*OPEN, "-D", f"jetty.port={port}", str(conf / "activemq-stomp.xml"))
    broker = Process(tmp_path, "broker", "run", *options)
    try:
        trust = ssl.create_default_context(cafile=str(made.authority))
        trust.load_cert_chain(made.client)
        shows_the_console_to_its_users(f"https://localhost:{secure}", trust)
        without = ssl.create_default_context(cafile=str(made.authority))
        with pytest.raises(OSError, match=r"certificate required|reset|EOF|closed"):
            urlopen(f"https://localhost:{secure}{NAME}", timeout=20, context=without)
    finally:
        broker.stop()


@shipped
@pytest.mark.parametrize("instead", ["place", "none"])
def test_the_option_goes_before_the_place_and_the_users_stay(tmp_path: Path, instead: str) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(SHIPPED, conf)
    written, given = free_port(), free_port()
    place = f"127.0.0.1:{given}" if instead == "place" else "none"
    options = (*OPEN, "-D", f"jetty.port={written}", "--console", place)
    broker = Process(tmp_path, "broker", "run", *options, str(conf / "activemq-stomp.xml"))
    try:
        if instead == "place":
            shows_the_console_to_its_users(f"http://127.0.0.1:{given}")
        assert asked(f"http://127.0.0.1:{written}{NAME}")[0] == 0
    finally:
        broker.stop()


@shipped
def test_check_says_what_is_done_otherwise(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(SHIPPED, conf)
    shutil.copy(conf / "jetty-demo.xml", conf / "jetty.xml")  # its key store is not there
    command = [sys.executable, "-m", "entrepot", "check", "-o", "json", str(conf / "activemq-stomp.xml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    warned = [one["what"] for one in found if one["file"] == str(conf / "jetty.xml") and one["severity"] == "warning"]
    assert any("the web application at '/demo' is not served here" in what for what in warned)
    assert any("the console is not opened at https://0.0.0.0:8162: cannot read" in what for what in warned), warned
    assert any("the console cannot ask this broker" in what for what in warned)
    assert "it starts" in done.stderr


def test_reports_are_where_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "reports" / "night").mkdir(parents=True)
    (tmp_path / "reports" / "night" / "report.html").write_text("<!doctype html><title>of the night</title>")
    (tmp_path / "broker.xml").write_text(
        "<?entrepot reports='reports'?><broker xmlns='http://activemq.apache.org/schema/core' persistent='false'>"
        "<transportConnectors><transportConnector uri='auto://127.0.0.1:0'/></transportConnectors></broker>"
    )
    port = free_port()
    broker = Process(tmp_path, "broker", "run", "--console", f"127.0.0.1:{port}", str(tmp_path / "broker.xml"))
    try:
        waits_for(f"http://127.0.0.1:{port}/api/jolokia/version")
        with urlopen(f"http://127.0.0.1:{port}/reports", timeout=20) as answer:
            assert "night" in answer.read().decode()
        with urlopen(f"http://127.0.0.1:{port}/reports/night/report.html", timeout=20) as answer:
            assert "of the night" in answer.read().decode()
    finally:
        broker.stop()
