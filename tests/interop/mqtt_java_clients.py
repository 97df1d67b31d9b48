"""MQTT clients in Java, unmodified: Eclipse Paho's of MQTT 3.1.1 and 5, HiveMQ's of both; and the brokers beside.

`java/mqtt/Conversation.java` is what they do, the same for each; what one printed is what the test compares.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Final

import maven
from classic import free_port
from java_clients import SOURCES, compiled, run
from ours import Entrepot, listens

HOST: Final = "127.0.0.1"
LIBRARIES: Final = (
    "org.eclipse.paho:org.eclipse.paho.client.mqttv3:1.2.5",
    "org.eclipse.paho:org.eclipse.paho.mqttv5.client:1.2.5",
    "com.hivemq:hivemq-mqtt-client:1.3.10",
)
CLIENTS: Final = ("paho3", "paho5", "hive3", "hive5")
MOSQUITTO: Final = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
PLUGIN: Final = "mosquitto_dynamic_security.so"  # its file of rights does not look at subscriptions
RIGHTS: Final = """\
user app clients plain:secret
user guest guests plain:secret
allow clients all >
allow guests read,write,create,delete topic://open.>
allow guests read,write,create,delete topic://mark.>
"""


class Program:
    """The conversation; `transcript` returns what one client told. Raises maven.Unavailable."""

    def __init__(self) -> None:
        jars = maven.jars(*LIBRARIES)
        sources = {each.name: each.read_text() for each in sorted((SOURCES / "mqtt").glob("*.java"))}
        self.path = f"{compiled(sources, f'{jars}/*')}:{jars}/*"

    def transcript(self, client: str, port: int) -> list[str]:
        options = ("-XX:TieredStopAtLevel=1", "-Xmx256M", "-Dfile.encoding=UTF-8")
        return run(["java", *options, "-cp", self.path, "Conversation", str(port), client]).splitlines()


class Mosquitto:
    """Mosquitto, with the same users and rights."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def up(self) -> Mosquitto:
        assert MOSQUITTO is not None
        plugin = next(Path("/usr/lib").rglob(PLUGIN))
        (self.home / "rights.json").write_text(json.dumps(_rights()))
        lines = (
            f"user {getpass.getuser()}",  # root's Mosquitto becomes somebody who cannot read here
            "set_tcp_nodelay true",
            f"listener {self.port} {HOST}",
            f"plugin {plugin}",
            f"plugin_opt_config_file {self.home}/rights.json",
        )
        (self.home / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        with (self.home / "log").open("wb") as log:
            command = [MOSQUITTO, "-c", str(self.home / "mosquitto.conf")]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        listens(HOST, self.port)
        return self

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def unavailable() -> str:
    """Return why the clients cannot run here, or nothing."""
    return "" if shutil.which("javac") else "no javac on the PATH; Debian: apt install default-jdk-headless"


def unavailable_mosquitto() -> str:
    """Return why it cannot run here, or nothing."""
    if MOSQUITTO is None:
        return "no mosquitto; Debian: apt install mosquitto"
    return "" if any(Path("/usr/lib").rglob(PLUGIN)) else f"no {PLUGIN} under /usr/lib"


def ours(home: Path) -> tuple[Entrepot, int]:
    """Return this broker, up, and its port of MQTT."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "users.conf").write_text(RIGHTS)
    port = free_port()
    listen = f"--listen=mqtt://{HOST}:{port}"
    broker = Entrepot(home, arguments=(listen, "--users", str(home / "users.conf"))).start().await_ready()
    listens(HOST, port)
    return broker, port


def _rights() -> dict[str, object]:
    """Return the document of the plugin, which says the same."""
    salt, rounds = b"twelve bytes", 101  # it takes no other length
    kinds = ("publishClientSend", "publishClientReceive", "subscribePattern")
    topics = {"app": ("#",), "guest": ("open/#", "mark/#")}
    user = {
        "password": base64.b64encode(hashlib.pbkdf2_hmac("sha512", b"secret", salt, rounds)).decode(),
        "salt": base64.b64encode(salt).decode(),
        "iterations": rounds,
    }
    return {
        "defaultACLAccess": {**dict.fromkeys(kinds, False), "unsubscribe": True},
        "clients": [{"username": name, "roles": [{"rolename": name}], **user} for name in topics],
        "roles": [
            {
                "rolename": name,
                "acls": [{"acltype": kind, "topic": one, "allow": True} for kind in kinds for one in own],
            }
            for name, own in topics.items()
        ],
    }
