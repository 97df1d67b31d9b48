"""Users by their certificates, at ActiveMQ Classic and here: what an unmodified Java client sees of them."""

from __future__ import annotations

import difflib
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import classic
import java_clients
import ours
import pytest

from shell.certificates import Certificates

ONLY: Final = '<jaasCertificateAuthenticationPlugin configuration="certificates"/>'
BOTH: Final = '<jaasDualAuthenticationPlugin configuration="passwords" sslConfiguration="certificates"/>'
RIGHTS: Final = """\
<authorizationPlugin><map><authorizationMap><authorizationEntries>
  <authorizationEntry queue="SHOP.>" read="shop" write="shop" admin="shop"/>
  <authorizationEntry topic="ActiveMQ.Advisory.>" read="shop" write="shop" admin="shop"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin>
"""
LOGIN: Final = """\
certificates {
    org.apache.activemq.jaas.TextFileCertificateLoginModule required
        org.apache.activemq.jaas.textfiledn.user="certified.properties"
        org.apache.activemq.jaas.textfiledn.group="groups.properties";
};
passwords {
    org.apache.activemq.jaas.PropertiesLoginModule required
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="groups.properties";
};
"""

pytestmark = pytest.mark.skipif(bool(java_clients.unavailable()), reason=f"Java clients: {java_clients.unavailable()}")


@pytest.fixture(scope="module")
def program() -> java_clients.Program:
    return java_clients.Program()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificates of a server and a client, and the authority of both, as Java keeps them."""
    home = tmp_path_factory.mktemp("files")
    made = Certificates(home)
    trust = ["keytool", "-importcert", "-noprompt", "-alias", "a", "-file", str(made.authority), "-keystore"]
    trust += [str(home / "trust.p12"), "-storetype", "PKCS12", "-storepass", "secret"]
    client = ["openssl", "pkcs12", "-export", "-in", str(made.client), "-out", str(home / "client.p12")]
    client += ["-passout", "pass:secret"]
    for command in (trust, client):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return home


def transcripts(program: java_clients.Program, home: Path, files: Path, plugin: str) -> list[list[str]]:
    """Return what the program sees of ActiveMQ and of this broker, which run side by side."""
    plugins = f"<plugins>{plugin}{RIGHTS}</plugins>"
    tls: dict[str, int] = {}
    brokers: list[classic.Classic | ours.Entrepot] = [
        classic.Classic(home / "classic", plugins=plugins),
        ours.configured(home / "ours", plugins=plugins),
    ]
    for broker in brokers:
        tls[broker.home.name] = classic.free_port()
        context = (
            f'<sslContext><sslContext keyStore="{files}/server.p12" keyStorePassword="secret" '
            f'trustStore="{files}/trust.p12" trustStorePassword="secret"/></sslContext>'
        )
        place = f"ssl://{classic.HOST}:{tls[broker.home.name]}?wantClientAuth=true"
        text = (broker.home / "activemq.xml").read_text()
        text = text.replace("<transportConnectors>", f"{context}<transportConnectors>")
        text = text.replace(
            "</transportConnectors>", f'<transportConnector name="tls" uri="{place}"/></transportConnectors>'
        )
        (broker.home / "activemq.xml").write_text(text)
        (broker.home / "login.config").write_text(LOGIN)
        (broker.home / "certified.properties").write_text("app=/CN=cl.*t/\nother=CN=other\n")
        (broker.home / "users.properties").write_text("app=secret\n")
        (broker.home / "groups.properties").write_text("shop=app\n")
        if isinstance(broker, classic.Classic):
            broker.java += [f"-Djava.security.auth.login.config={broker.home / 'login.config'}"]
        else:
            broker.by_file = True

    def run(broker: classic.Classic | ours.Entrepot) -> list[str]:
        try:
            broker.start().await_ready()
            stores = [str(files / name) for name in ("client.p12", "server.p12")]
            secure = f"ssl://{classic.HOST}:{tls[broker.home.name]}"
            trust = str(files / "trust.p12")
            return program.run("Certified", secure, broker.url, trust, *stores, "none").splitlines()
        finally:
            broker.kill()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, brokers))


@pytest.mark.parametrize("plugin", [ONLY, BOTH], ids=["certificates alone", "passwords without TLS"])
def test_who_comes_in_by_which_certificate(
    program: java_clients.Program, tmp_path: Path, files: Path, plugin: str
) -> None:
    wanted, seen = transcripts(program, tmp_path, files, plugin)
    assert seen == wanted, "\n".join(difflib.unified_diff(wanted, seen, "ActiveMQ", "entrepot", lineterm=""))
    assert "client.p12: sends to SHOP.own" in seen
    assert "server.p12: in" not in seen
    assert ("plain with a password: in" in seen) == (plugin == BOTH)
