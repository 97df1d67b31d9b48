"""Files within files, as XInclude has it."""

from __future__ import annotations

from pathlib import Path

from entrepot.config.files import read
from entrepot.config.model import BrokerConfig

ACCEPTOR = "<acceptors><acceptor name='a'>tcp://localhost:61616?protocols=CORE</acceptor></acceptors>"
XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'


def broker(home: Path, body: str) -> tuple[BrokerConfig | None, list[str]]:
    file = home / "broker.xml"
    file.write_text(
        f'<configuration xmlns="urn:activemq" {XI}><core xmlns="urn:activemq:core" {XI}>'
        f"<security-enabled>false</security-enabled>{ACCEPTOR}{body}</core></configuration>"
    )
    found = read(file, spoken=("core",))
    return found.config, [one.what for one in found.findings.errors]


def test_blocks_of_other_files_stand_where_they_are_included(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "addresses.xml").write_text(
        f'<addresses xmlns="urn:activemq:core" {XI}><address name="a"><anycast/></address>'
        '<xi:include href="one.xml"/></addresses>'
    )
    (tmp_path / "parts" / "one.xml").write_text(
        '<address xmlns="urn:activemq:core" name="b"><anycast><queue name="c"/></anycast></address>'
    )
    config, errors = broker(tmp_path, '<xi:include href="parts/addresses.xml"/>')
    assert errors == []
    assert config is not None
    assert ([one.name for one in config.destinations], [one.name for one in config.queues]) == (["a"], ["c"])


def test_what_cannot_be_included_is_said(tmp_path: Path) -> None:
    assert broker(tmp_path, '<xi:include href="nowhere.xml"/>')[1] == [
        "'nowhere.xml' cannot be included: cannot read it: No such file or directory"
    ]
    assert broker(tmp_path, "<xi:include/>")[1] == ["only whole XML files are included"]
    assert broker(tmp_path, '<xi:include href="b" xpointer="c"/>')[1] == ["only whole XML files are included"]
    assert "is not fetched" in broker(tmp_path, '<xi:include href="http://b/c"/>')[1][0]
    fallback = '<xi:include href="nowhere.xml"><xi:fallback><name>n</name></xi:fallback></xi:include>'
    config, errors = broker(tmp_path, fallback)
    assert errors == []
    assert config is not None
    assert config.broker.name == "n"


def test_a_circle_of_files_ends(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(f'<addresses xmlns="urn:activemq:core" {XI}><xi:include href="a.xml"/></addresses>')
    assert "files include one another too often" in broker(tmp_path, '<xi:include href="a.xml"/>')[1]
