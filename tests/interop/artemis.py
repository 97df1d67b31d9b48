"""A real Artemis broker for a test, embedded in a small Java program: its own directory, a free port, ended by its id.

The broker comes from a Maven repository, in the form that programs embed; `java/artemis/Artemis.java` starts it with
the ``broker.xml`` that is written here. What a test wants in that file beyond the defaults it passes as ``core``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import maven
from classic import free_port
from java_broker import HOST, JavaBroker
from java_clients import compiled

VERSION: Final = "2.42.0"
ARTIFACTS: Final = tuple(
    f"org.apache.activemq:{name}:{VERSION}"
    for name in ("artemis-server", "artemis-openwire-protocol", "artemis-stomp-protocol", "artemis-amqp-protocol")
)
SOURCE: Final = Path(__file__).parent / "java" / "artemis" / "Artemis.java"

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
      {rights}
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
      {settings}
    </address-settings>
    <addresses>
      <address name="ActiveMQ.DLQ"><anycast><queue name="ActiveMQ.DLQ"/></anycast></address>
      {addresses}
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
        class_path()
    except maven.Unavailable as why:
        return str(why)
    return ""


def class_path() -> str:
    """Return where broker and program are; compiles the program the first time."""
    jars = maven.jars(*ARTIFACTS)
    return f"{compiled({SOURCE.name: SOURCE.read_text()}, f'{jars}/*')}:{jars}/*"


class Artemis(JavaBroker):
    """One broker, whose acceptor speaks CORE, OpenWire and STOMP. `start` may be called again after `kill`."""

    called = "Artemis"

    def __init__(
        self,
        home: Path,
        *,
        name: str = "test",
        authenticated: bool = False,
        key_store: Path | None = None,
        core: str = "",
        settings: str = "",
        addresses: str = "",
        rights: str = "",
        acceptor: str = "",
    ) -> None:
        """``core``: elements for ``<core>``. ``acceptor``: options of the acceptor, with ``;`` between them.

        ``settings``, ``addresses`` and ``rights``: more address settings, addresses and security settings.

        ``authenticated``: the one user is app, with the password secret. ``key_store``: a PKCS#12 file with that
        password; the broker speaks TLS then.
        """
        super().__init__(home, free_port())
        self.name = name
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
            settings=settings,
            addresses=addresses,
            rights=rights,
        )
        (home / "broker.xml").write_text(text)

    @property
    def url(self) -> str:
        return f"tcp://{HOST}:{self.port}"

    def start(self) -> Artemis:
        self.led(class_path(), Artemis)
        self.run("-cp", class_path(), "Artemis", str(self.home / "broker.xml"), *self.users)
        return self
