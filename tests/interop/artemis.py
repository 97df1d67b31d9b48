"""A real Artemis broker for a test, embedded in a small Java program: its own directory, a free port, ended by its id.

The broker comes from a Maven repository, in the form that programs embed; `java/artemis/Artemis.java` starts it with
the ``broker.xml`` that is written here. What a test wants in that file beyond the defaults it passes as ``core``.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

import maven
from classic import HOST, free_port

VERSION: Final = "2.42.0"
ARTIFACTS: Final = tuple(
    f"org.apache.activemq:{name}:{VERSION}"
    for name in ("artemis-server", "artemis-openwire-protocol", "artemis-stomp-protocol")
)
SOURCE: Final = Path(__file__).parent / "java" / "artemis" / "Artemis.java"
READY_PATIENCE_S: Final = 60.0

CONFIGURATION: Final = """\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>{name}</name>
    <persistence-enabled>true</persistence-enabled>
    <journal-type>NIO</journal-type>
    <paging-directory>{home}/paging</paging-directory>
    <bindings-directory>{home}/bindings</bindings-directory>
    <journal-directory>{home}/journal</journal-directory>
    <large-messages-directory>{home}/large-messages</large-messages-directory>
    <journal-file-size>1M</journal-file-size>
    <security-enabled>{secure}</security-enabled>
    <management-notification-address>activemq.notifications</management-notification-address>
    <connectors><connector name="self">tcp://{host}:{port}</connector></connectors>
    <acceptors><acceptor name="all">tcp://{host}:{port}?{acceptor}</acceptor></acceptors>
    <security-settings>
      <security-setting match="#">{permissions}</security-setting>
    </security-settings>
    <address-settings>
      <address-setting match="#">
        <dead-letter-address>ActiveMQ.DLQ</dead-letter-address>
        <expiry-address>ActiveMQ.DLQ</expiry-address>
        <redelivery-delay>0</redelivery-delay>
        <max-size-bytes>-1</max-size-bytes>
        <auto-create-queues>true</auto-create-queues>
        <auto-create-addresses>true</auto-create-addresses>
        <auto-delete-queues>false</auto-delete-queues>
        <auto-delete-addresses>false</auto-delete-addresses>
      </address-setting>
    </address-settings>
    <addresses>
      <address name="ActiveMQ.DLQ"><anycast><queue name="ActiveMQ.DLQ"/></anycast></address>
    </addresses>
    {core}
  </core>
</configuration>
"""
RIGHTS: Final = (
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "send",
    "consume",
    "browse",
    "manage",
)
PERMISSIONS: Final = "".join(f'<permission type="{right}" roles="all"/>' for right in RIGHTS)


def unavailable() -> str:
    """Return why Artemis cannot run here, or nothing. Fetches it the first time."""
    if not shutil.which("javac"):
        return "no javac on the PATH; Debian: apt install default-jdk-headless"
    try:
        _class_path()
    except maven.Unavailable as why:
        return str(why)
    return ""


def _class_path() -> str:
    """Return where broker and program are; compiles the program when it is older than its source."""
    jars = maven.jars(*ARTIFACTS)
    classes = maven.CACHE / "artemis-classes"
    compiled = classes / "Artemis.class"
    if not compiled.exists() or compiled.stat().st_mtime < SOURCE.stat().st_mtime:
        classes.mkdir(parents=True, exist_ok=True)
        command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCE)]
        subprocess.run(command, check=True, timeout=120)
    return f"{classes}:{jars}/*"


class Artemis:
    """One broker, whose acceptor speaks CORE, OpenWire and STOMP. `start` may be called again after `kill`."""

    def __init__(
        self,
        home: Path,
        *,
        name: str = "test",
        authenticated: bool = False,
        key_store: Path | None = None,
        core: str = "",
        acceptor: str = "",
    ) -> None:
        """``core``: elements for ``<core>``. ``acceptor``: options of the acceptor, with ``;`` between them.

        ``authenticated``: the one user is app, with the password secret. ``key_store``: a PKCS#12 file with that
        password; the broker speaks TLS then.
        """
        self.home = home
        self.name = name
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.users = ["app:secret"] if authenticated else []
        home.mkdir(parents=True, exist_ok=True)
        if key_store is not None:
            tls = f"sslEnabled=true;keyStorePath={key_store};keyStorePassword=secret;keyStoreType=PKCS12"
            acceptor = f"{tls};{acceptor}"
        text = CONFIGURATION.format(
            name=name,
            home=home,
            host=HOST,
            port=self.port,
            secure=str(authenticated).lower(),
            permissions=PERMISSIONS,
            acceptor=acceptor,
            core=core,
        )
        (home / "broker.xml").write_text(text)

    @property
    def url(self) -> str:
        return f"tcp://{HOST}:{self.port}"

    def start(self) -> Artemis:
        command = ["java", "-Xms64M", "-Xmx512M", "-XX:TieredStopAtLevel=1", "-cp", _class_path()]
        command += ["Artemis", str(self.home / "broker.xml"), *self.users]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home)
        return self

    def await_ready(self) -> Artemis:
        until = time.monotonic() + READY_PATIENCE_S
        while not self._answers():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Artemis did not start:\n{(self.home / 'log').read_text()[-3000:]}")
            time.sleep(0.05)
        return self

    def kill(self) -> None:
        """Kill -9."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def _answers(self) -> bool:
        """Say whether the acceptor takes connections; a port that the kernel joined to itself does not count."""
        try:
            with socket.create_connection((HOST, self.port), timeout=2) as link:
                return bool(link.getsockname() != link.getpeername())
        except OSError:
            return False
