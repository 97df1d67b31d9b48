"""A real ActiveMQ Classic broker for a test: its own directory, free ports, ended by its process id.

Debian's, which is 5.17.2; ``ACTIVEMQ_VERSION=6.1.8`` runs all tests beside that release, from a Maven repository.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Final

import maven
from java_broker import HOST, JavaBroker
from wires import Wire

JARS: Final = (
    "/usr/share/activemq/lib/*.jar",
    "/usr/share/activemq/lib/optional/*.jar",
    "/usr/share/java/activemq-spring.jar",
)
VERSION: Final = os.environ.get("ACTIVEMQ_VERSION", "")  # "": Debian's
NEWER: Final = "6.1.8"
PARTS: Final = ("broker", "console", "http", "jaas", "jdbc-store", "kahadb-store", "openwire-legacy", "spring", "stomp")
OF_OTHERS: Final = ("org.codehaus.jettison:jettison:1.5.4", "xpp3:xpp3:1.1.4c")  # what XStream uses, if it is there
TRANSFORMERS: Final = tuple(f"/usr/share/java/{name}.jar" for name in ("xstream", "jettison", "xpp3"))

CONFIGURATION: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="http://www.springframework.org/schema/beans
                           http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
                           http://activemq.apache.org/schema/core
                           http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" useJmx="false"
          dataDirectory="{home}/data" {attributes}>
    {policies}
    <persistenceAdapter><kahaDB directory="{home}/kahadb"/></persistenceAdapter>
    {plugins}
    <transportConnectors>
      <transportConnector name="openwire" uri="{listen}" {connector}/>
      {stomp}
    </transportConnectors>
  </broker>
</beans>
"""

AUTHENTICATION: Final = """\
<plugins><simpleAuthenticationPlugin><users>
  <authenticationUser username="app" password="secret" groups="users"/>
</users></simpleAuthenticationPlugin></plugins>
"""


def unavailable(version: str = VERSION) -> str:
    """Why ActiveMQ cannot run here, or nothing."""
    if not shutil.which("java"):
        return "no java on the PATH; Debian: apt install activemq"
    try:
        found = jars(version)
    except maven.Unavailable as error:
        return str(error)
    return "" if found else "no /usr/share/activemq/lib; Debian: apt install activemq"


def jars(version: str = VERSION) -> list[str]:
    """Return what such a broker is made of. Raises maven.Unavailable."""
    if version:
        wanted = [f"org.apache.activemq:activemq-{part}:{version}" for part in PARTS]
        return [str(jar) for jar in sorted(maven.jars(*wanted, *OF_OTHERS).glob("*.jar"))]
    root = Path("/")
    return [str(jar) for pattern in JARS for jar in sorted(root.glob(pattern.removeprefix("/")))]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Classic(JavaBroker):
    """One broker. `start` may be called again after `kill`: store and port stay."""

    called = "ActiveMQ"

    def __init__(
        self,
        home: Path,
        *,
        name: str = "test",
        authenticated: bool = False,
        key_store: Path | None = None,
        plugins: str = "",
        connector: str = "",
        attributes: str = "",
        policies: str = "",
        stomp: bool = False,
        transformers: bool = False,
        wire: Wire | None = None,
        version: str = VERSION,
    ) -> None:
        """``key_store``: a PKCS#12 file with the password ``secret``; the broker speaks TLS then.

        ``authenticated``: it knows one user; ``plugins``: others, as XML. ``connector``: further attributes of its
        transport connector, ``attributes`` of <broker>. ``policies``: a <destinationPolicy>. ``stomp``: it speaks that.
        ``transformers``: it has XStream, without which nothing is delivered to who asks for a transformation.
        ``wire``: it runs at the other end of it. ``version``: of a release, "" for Debian's.
        """
        super().__init__(home, free_port())
        if wire is not None:
            self.host, self.prefix = wire.there, wire.prefix
        self.name = name
        self.stomp_port = free_port() if stomp else 0
        home.mkdir(parents=True, exist_ok=True)
        text = CONFIGURATION.format(
            name=name,
            home=home,
            listen=f"{'ssl' if key_store else 'tcp'}://{self.host}:{self.port}",
            plugins=AUTHENTICATION if authenticated else plugins,
            connector=connector,
            attributes=attributes,
            policies=policies,
            stomp=f'<transportConnector name="stomp" uri="stomp://{HOST}:{self.stomp_port}"/>' if stomp else "",
        )
        self.java: list[str] = []
        self.jars = [*jars(version), *(TRANSFORMERS if transformers and not version else ())]
        if key_store is not None:
            store = {"keyStore": str(key_store), "keyStorePassword": "secret", "keyStoreType": "PKCS12"}
            self.java = [f"-Djavax.net.ssl.{key}={value}" for key, value in store.items()]
        (home / "activemq.xml").write_text(text)

    @property
    def url(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    def start(self) -> Classic:
        places = [f"-Dactivemq.{place}={self.home}" for place in ("home", "base", "conf", "data")]
        main = ["org.apache.activemq.console.Main", "start", f"xbean:{(self.home / 'activemq.xml').as_uri()}"]
        path = ":".join(self.jars)
        self.led(path, self._like)
        self.run(*self.java, "-cp", path, *places, *main)
        return self

    def _like(self, home: Path) -> Classic:
        """Return a plain one that is made of the same."""
        made = Classic(home)
        made.jars = self.jars
        return made

    def _greets(self, link: socket.socket) -> bool:
        return link.recv(16)[4:13] == b"\x01ActiveMQ"
