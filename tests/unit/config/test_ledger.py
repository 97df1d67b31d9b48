"""Where each setting of a configuration is said, and that no line shows a secret."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from entrepot.base.provenance import DEFAULT, OPTION, PROGRAM, Said
from entrepot.cli.arguments import read_settings
from entrepot.cli.given import options_of
from entrepot.cli.run import run
from entrepot.config.files import read
from entrepot.config.ledger import EMPTY, Ledger, effective, hidden, of_program
from entrepot.config.lines import ledger_of
from entrepot.config.model import BrokerConfig, changes
from entrepot.io.places import SPOKEN
from entrepot.management.configured import Configured

CLASSIC = """<beans xmlns="http://www.springframework.org/schema/beans"><broker xmlns="http://activemq.apache.org/schema/core"
  brokerName="alpha"
  persistent="false">
 <destinationPolicy><policyMap><policyEntries>
  <policyEntry queue=">" memoryLimit="1mb"/>
  <policyEntry topic=">"
      memoryLimit="1048576"/>
 </policyEntries></policyMap></destinationPolicy>
 <networkConnectors>
  <networkConnector name="n" uri="static:(tcp://b:61616)" userName="u" password="sesame-pass"/>
 </networkConnectors>
 <plugins><simpleAuthenticationPlugin><users>
  <authenticationUser username="a" password="${PASSWORD_OF_A}" groups="g"/>
 </users></simpleAuthenticationPlugin></plugins>
 <transportConnectors><transportConnector name="ow" uri="tcp://0.0.0.0:61616?maximumConnections=7"/></transportConnectors>
</broker></beans>"""
ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<name>beta</name>
<persistence-enabled>false</persistence-enabled>
<security-enabled>false</security-enabled>
<acceptors><acceptor name="all">tcp://0.0.0.0:61616?trustStorePassword=sesame-store</acceptor></acceptors>
<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="addresses.xml"/>
</core></configuration>"""
INCLUDED = """<address-settings xmlns="urn:activemq:core">

<address-setting match="orders.#"><max-size-bytes>10M</max-size-bytes></address-setting></address-settings>"""


def config_of(tmp_path: Path, text: str, **more: str) -> BrokerConfig:
    path = tmp_path / "broker.xml"
    path.write_text(text)
    found = read(path, spoken=SPOKEN, bridges=True, defines=more, environment={"PASSWORD_OF_A": "sesame-a"})
    assert found.config is not None, [finding.describe() for finding in found.findings]
    return found.config


def lines(config: BrokerConfig, *options: Said) -> dict[str, Said]:
    found = list(effective(options, config.ledger))
    known = {one.setting: one for one in found}
    assert len(known) == len(found)
    return known


def test_each_setting_of_classic_has_its_line(tmp_path: Path) -> None:
    found = lines(config_of(tmp_path, CLASSIC))
    assert (found["broker/brokerName"].value, found["broker/brokerName"].line) == ("alpha", 2)
    policies = "broker/destinationPolicy/policyMap/policyEntries/policyEntry"
    queue, topic = found[f"{policies}[queue=>]/memoryLimit"], found[f"{policies}[topic=>]/memoryLimit"]
    assert (queue.value, queue.line, topic.value, topic.line) == ("1mb", 5, "1048576", 7)
    assert queue.means == (topic.means or topic.value)
    assert found["broker/schedulerSupport"].source == DEFAULT
    assert found["addresses by default/max_octets"].source == DEFAULT
    assert not [name for name in found if policies in name and found[name].source == DEFAULT]


def test_artemis_says_in_which_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "addresses.xml").write_text(INCLUDED)
    config = config_of(tmp_path, ARTEMIS, **{"brokerconfig.maxDiskUsage": "80"})
    found = lines(config)
    limit = found["core/address-settings/address-setting[orders.#]/max-size-bytes"]
    assert (Path(limit.file).name, limit.line, limit.value, limit.means) == ("addresses.xml", 3, "10M", "10485760")
    acceptor = found["core/acceptors/acceptor[all]"]
    assert (acceptor.value, acceptor.line) == ("tcp://0.0.0.0:61616?trustStorePassword=****", 5)
    usage = found["core/max-disk-usage"]
    assert (usage.value, usage.file, usage.line) == ("80", "the command line", 0)
    assert (found["core/management-address"].value, found["core/management-address"].source) == (
        "activemq.management", DEFAULT,
    )  # fmt: skip
    assert len(config.ledger.files) >= 2


def test_no_secret_is_in_any_line(tmp_path: Path) -> None:
    (tmp_path / "addresses.xml").write_text(INCLUDED)
    for text in (CLASSIC, ARTEMIS):
        shown = "\n".join(f"{one.setting} {one.value} {one.means}" for one in config_of(tmp_path, text).ledger.lines)
        assert "sesame" not in shown
        assert "****" in shown


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("uri", "tcp://u:hid@den@h:1", "tcp://u:****@h:1"),
        ("uri", "static:(tcp://a:1,tcp://u:pw@b:2)", "static:(tcp://a:1,tcp://u:****@b:2)"),
        ("uri", "ssl://h:1?keyStorePassword=pw&x=1", "ssl://h:1?keyStorePassword=****&x=1"),
        ("uri", "postgresql://me:pw@db/x?sslpassword=pw", "postgresql://me:****@db/x?sslpassword=****"),
        ("keyStorePassword", "pw", "****"),
        ("password", "", ""),
        ("text", "a" * 2_000, "a" * 1_000 + "..."),
    ],
)
def test_what_is_called_a_secret_is_hidden(name: str, text: str, shown: str) -> None:
    assert hidden(name, text) == shown


def test_an_option_goes_before_the_file_and_says_so(tmp_path: Path) -> None:
    config = config_of(tmp_path, CLASSIC)
    options = [
        Said("--name", "", "gamma", source=OPTION),
        Said("--listen", "1", "tcp://x:1", source=OPTION),
        Said("--data", "", "entrepot-data", source=DEFAULT),
    ]
    found = lines(config, *options)
    assert "broker/brokerName" not in found
    assert found["--name"].over == f"{tmp_path / 'broker.xml'}:2"
    assert found["--listen/1"].over.endswith(":15")
    assert not [name for name in found if "transportConnector" in name]
    assert "--data" not in found  # the file decides
    assert "--data" in {one.setting for one in effective(options, EMPTY)}


def test_where_it_is_said_is_no_change(tmp_path: Path) -> None:
    one, other = config_of(tmp_path, CLASSIC), config_of(tmp_path, "\n\n" + CLASSIC)
    assert changes(one, other) == []
    assert (one.security, one.policies) == (other.security, other.policies)
    assert Ledger() == one.ledger
    assert hash(Ledger()) == hash(one.ledger)
    assert repr(one.ledger) == "Ledger()"
    assert ledger_of.__doc__


def test_the_command_line_is_told_option_by_option(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Said] = []

    @click.command(params=run.params)
    @click.pass_context
    def told(ctx: click.Context, **given: object) -> None:
        seen.extend(options_of(ctx, read_settings(ctx.params["settings"])))

    arguments = ["--name", "x", "--set", "a.>:max_deliveries=3", "-D", "my.password=hush", "-D", "a=b"]
    arguments += ["--listen", "tcp://u:hush@h:1", "--locker", "postgresql://u:hush@h/d"]
    done = CliRunner().invoke(told, arguments)
    assert done.exit_code == 0, done.output
    found = {one.setting: one for one in seen}
    assert (found["--name"].value, found["--name"].source) == ("x", OPTION)
    assert (found["--set[a.>]/max_deliveries"].value, found["-D/a"].value) == ("3", "b")
    assert found["--memory-limit"].source == DEFAULT
    assert found["--ephemeral"].value == "false"
    assert "hush" not in str(seen)
    assert "--ports-file" not in found


def test_a_program_has_said_what_it_embeds() -> None:
    found = of_program("x", None, ["tcp://u:pw@h:1"], 7)
    assert [(one.setting, one.value) for one in found][-1] == ("listen[1]", "tcp://u:****@h:1")
    assert {one.source for one in found} == {PROGRAM}


def test_a_broker_tells_its_files_and_what_takes_a_restart(tmp_path: Path) -> None:
    config = config_of(tmp_path, CLASSIC)
    configured = Configured(lambda: config)
    config.ledger.pending = ("store segment",)
    assert configured.origin() == {
        "files": [str(tmp_path / "broker.xml")], "family": "classic", "pending": ["store segment"],
    }  # fmt: skip
    configured.said = [Said("--name", "", "x", source=OPTION)]
    assert [one.value for one in configured.lines()].count("alpha") == 0
    bare = Configured(lambda: None)
    assert bare.origin()["files"] == []
    assert {one.source for one in bare.lines()} == {DEFAULT}
