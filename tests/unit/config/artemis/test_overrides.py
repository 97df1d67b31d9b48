"""Broker properties: values beside the file, by the names of Artemis' beans (artemis.md 8.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.config.files import read
from entrepot.config.reading import Reading
from entrepot.model.address import ANYCAST, MULTICAST

FILE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>file</name>
<security-enabled>false</security-enabled>
<acceptors><acceptor name="all">tcp://localhost:61616?protocols=CORE;anycastPrefix=q/</acceptor></acceptors>
<address-settings>
  <address-setting match="a.#"><redelivery-delay>5</redelivery-delay></address-setting>
  <address-setting match="old.#"><redelivery-delay>5</redelivery-delay></address-setting>
</address-settings>
<addresses><address name="orders"><multicast><queue name="all"/></multicast></address></addresses>
</core></configuration>"""


def made(home: Path, *properties: str, **defines: str) -> Reading:
    file = home / "broker.xml"
    file.write_text(FILE)
    given = home / "broker.properties"
    given.write_text("\n".join(properties))
    return read(file, spoken=("core",), properties=[given], defines=defines)


def test_single_values_win_over_the_file_and_the_command_line_over_all(tmp_path: Path) -> None:
    found = made(tmp_path, "name=property", "globalMaxSize=5M", "maxDiskUsage=80")
    assert found.config is not None
    assert found.config.broker.name == "property"
    assert found.config.usage.memory_limit == 5 << 20
    assert found.config.usage.disk_percent_max == 80
    again = made(tmp_path, "name=property", **{"brokerconfig.name": "line"})
    assert again.config is not None
    assert again.config.broker.name == "line"


def test_members_of_lists_are_changed_made_and_removed(tmp_path: Path) -> None:
    found = made(
        tmp_path,
        'addressSettings."a.#".redeliveryDelay=7',
        'addressSettings."b.c".maxSizeMessages=9',
        'addressSettings."b.c".addressFullMessagePolicy=FAIL',
        'addressSettings."old.#"=-',
        'addressConfigurations."orders".queueConfigs."one".routingType=ANYCAST',
        'addressConfigurations."orders".queueConfigs."one".filterString=n > 1',
        'addressConfigurations."orders".queueConfigs."all".durable=false',
        "divertConfigurations.d.address=orders",
        "divertConfigurations.d.forwardingAddress=copies",
        "acceptorConfigurations.all.params.port=61617",
        "acceptorConfigurations.all.extraParams.multicastPrefix=t/",
    )
    assert [one.what for one in found.findings.errors] == []
    config = found.config
    assert config is not None
    settings = {one.pattern: one.settings for one in config.policies}
    assert settings["a.#"]["redelivery_delay"] == 7_000_000
    assert (settings["b.c"]["max_messages"], settings["b.c"]["full"].name) == (9, "FAIL")
    assert "old.#" not in settings
    queues = {one.name: one for one in config.queues}
    assert (queues["one"].routing, queues["one"].selector, queues["all"].routing) == (ANYCAST, "n > 1", MULTICAST)
    assert not queues["all"].durable
    assert [(one.name, one.address) for one in config.diverts] == [("d", "orders")]
    (connector,) = config.connectors
    assert "localhost:61617" in connector.uri
    assert "anycastPrefix" in connector.uri
    assert "multicastPrefix" in connector.uri


def test_rights_are_given_and_taken(tmp_path: Path) -> None:
    found = made(tmp_path, 'securityRoles."a.#".clerks.send=true', 'securityRoles."a.#".clerks.nothing=true')
    assert [one.what for one in found.findings.errors] == [
        f'the property securityRoles."a.#".clerks.nothing of {tmp_path / "broker.properties"}: it is no right of a role'
    ]


def test_json_and_directories_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "1.properties").write_text("name=first")
    (folder / "2.json").write_text('{"name": "second", "addressSettings": {"x.#": {"noExpiry": true}}}')
    (folder / "readme.txt").write_text("name=third")
    file = tmp_path / "broker.xml"
    file.write_text(FILE)
    found = read(file, spoken=("core",), properties=[folder])
    assert found.config is not None
    assert found.config.broker.name == "second"
    assert {one.pattern: one.settings for one in found.config.policies}["x.#"] == {"no_expiry": True}


@pytest.mark.parametrize(
    "line",
    [
        "nothing=1",
        "nothing.x=1",
        'addressSettings."a.#".nothing=1',
        "addressSettings=1",
        'addressSettings."a.#"=1',
        'addressSettings."a=1',
        "acceptorConfigurations.all.params.port=x",
        "acceptorConfigurations.all.port=1",
        "addressSettings.a.redeliveryDelay=soon",
        "addressConfigurations.orders.queueConfigs.one=1",
    ],
)
def test_what_is_not_known_or_wrong_is_an_error(tmp_path: Path, line: str) -> None:
    assert made(tmp_path, line).findings.errors


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(FILE)
    assert read(file, spoken=("core",), properties=[tmp_path / "none"]).findings.errors


def test_where_the_journal_keeps_what_it_lets_go_of_is_one_element_of_the_file(tmp_path: Path) -> None:
    found = made(tmp_path, "journalRetentionDirectory=/kept", "journalRetentionMaxBytes=5M")
    assert found.config is not None
    assert found.config.serving.retention is not None
    assert (found.config.serving.retention.directory, found.config.serving.retention.limit) == ("/kept", 5 << 20)
