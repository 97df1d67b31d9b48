"""Places where somebody answers Jolokia: a real ActiveMQ and a real Artemis with Jolokia's own agent, and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import artemis
import classic
import maven
import ours
import pytest
from classic import NEWER, free_port
from java_broker import HOST

from entrepot import blocking

AGENT: Final = "org.jolokia:jolokia-agent-jvm:2.2.9:jar:javaagent"
MANAGED: Final = '<managementContext><managementContext createConnector="false"/></managementContext>'
USER: Final = ("app", "secret")
NAME: Final = "ref"
FAMILIES: Final = ("classic", "artemis")
PLACES: Final = {"classic": "api/jolokia", "artemis": "console/jolokia"}


def agent() -> Path:
    """Return the agent. Raises maven.Unavailable."""
    return maven.file(AGENT)


@contextmanager
def talking(url: str, user: str = "", password: str = "") -> Iterator[None]:
    """Have a client that did the same to each: three messages wait, a durable subscription has one."""
    login = {"user": user, "password": password} if user else {}
    with blocking.connect(url, client_id="ref-client", **login) as connection, connection.session() as session:
        producer = session.producer("queue://orders")
        for number in range(3):
            producer.send(f"m{number}", properties={"n": number})
        session.consumer("topic://news", durable="sub")
        session.producer("topic://news").send("hello")
        yield


@contextmanager
def real(
    family: str, home: Path, monkeypatch: pytest.MonkeyPatch, *, authenticated: bool = False
) -> Iterator[tuple[str, str]]:
    """Have a real broker; yields where its Jolokia is, and its own URL. ``authenticated``: both know only `USER`."""
    port = free_port()
    login = ",user={},password={}".format(*USER) if authenticated else ""
    try:
        options = f"-javaagent:{agent()}=port={port},host={HOST},discoveryEnabled=false{login} -Djmx=true"
    except maven.Unavailable as why:
        pytest.skip(str(why))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    if family == "artemis":
        broker: Any = artemis.Artemis(home, name=NAME, authenticated=authenticated)
    else:
        broker = classic.Classic(home, name=NAME, version=NEWER, authenticated=authenticated)
        file = home / "activemq.xml"
        text = file.read_text().replace('useJmx="false"', 'useJmx="true"')
        file.write_text(text.replace("<persistenceAdapter>", MANAGED + "<persistenceAdapter>"))
    broker.start()
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")  # what else runs Java has no agent
    try:
        broker.await_ready()
        yield f"http://{HOST}:{port}/jolokia/", broker.url
    finally:
        broker.kill()


@contextmanager
def own(family: str, home: Path, *, authenticated: bool = False) -> Iterator[tuple[str, str]]:
    """Have ours; yields as `real`."""
    port = free_port()
    home.mkdir(parents=True, exist_ok=True)
    if authenticated:
        broker = ours.configured(home, name=NAME, plugins=classic.AUTHENTICATION)
    else:
        broker = ours.Entrepot(home, name=NAME)
    broker.arguments = (*broker.arguments, "--console", f"{HOST}:{port}")
    broker.start()
    try:
        ours.listens(HOST, port)
        yield f"http://{HOST}:{port}/{PLACES[family]}", broker.url
    finally:
        broker.kill()
