from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from entrepot.base.errors import InvalidConfiguration
from entrepot.cli.configuration import load, path_of
from entrepot.cli.main import cli

EXAMPLES = Path(__file__).parents[2] / "config" / "classic"
DOCUMENTED = Path(__file__).parents[3] / "docs" / "networks" / "conf"
GOOD = """<broker xmlns="http://activemq.apache.org/schema/core" persistent="false"><transportConnectors>
<transportConnector name="s" uri="stomp://127.0.0.1:0{options}"/></transportConnectors>{body}</broker>"""


def check(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", *arguments])


def test_a_good_file_starts_and_says_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text(GOOD.format(options="", body=""))
    result = check(str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert check("-o", "csv", str(file)).stdout == "severity,file,line,path,what,remedy\n"
    assert result.stderr == f"{file}: it starts; nothing to report\n"


def test_json_has_a_line_for_each_finding(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text(GOOD.format(options="?transport.trace=true", body="<plugins><destinationsPlugin/></plugins>"))
    result = check("-o", "json", str(file))
    assert result.exit_code == 0
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["severity"], row["line"]) for row in rows] == [("warning", 2), ("note", 2)]
    assert "transport.trace=true has no effect here" in rows[1]["what"]
    assert rows[0]["path"].endswith("plugins/destinationsPlugin")
    same = list(csv.DictReader(io.StringIO(check("-o", "csv", str(file)).stdout)))
    assert [row["what"] for row in same] == [row["what"] for row in rows]
    assert {row["file"] for row in same} == {str(file)}
    strict = check("-o", "json", "--strict", str(file))
    assert strict.exit_code == 1
    assert json.loads(strict.stdout.splitlines()[0])["severity"] == "error"


@pytest.mark.parametrize(
    "options", ["?maximumConections=1", "?maximumConnections=many", "?needClientAuth=true&amp;sslEnabled=true"]
)
def test_an_option_of_a_connector_that_does_not_work_is_an_error_with_its_line(tmp_path: Path, options: str) -> None:
    file = tmp_path / "a.xml"
    file.write_text(GOOD.format(options=options, body=""))
    result = check("-o", "json", str(file))
    assert result.exit_code == 1
    assert [json.loads(line)["line"] for line in result.stdout.splitlines() if '"error"' in line] == [2]


def test_what_is_no_file_or_no_xml_is_an_error_and_the_others_are_checked(tmp_path: Path) -> None:
    broken, good = tmp_path / "b.xml", tmp_path / "g.xml"
    broken.write_text("<broker>\n</beans>")
    good.write_text(GOOD.format(options="", body=""))
    result = check(str(tmp_path / "none.xml"), str(broken), str(good))
    assert result.exit_code == 1
    assert result.stderr.count("it does not start") == 2
    assert f"{good}: it starts" in result.stderr
    assert "not well-formed" in result.stdout


def test_placeholders_are_filled_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text(GOOD.format(options="?maximumConnections=${most}", body=""))
    assert check(str(file)).exit_code == 1
    assert check("-D", "most=5", str(file)).exit_code == 0
    assert check("-D", "most", str(file)).exit_code == 2


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b.xml", "a/b.xml"),
        ("file:a.xml", "a.xml"),
        ("file:///a/b.xml", "/a/b.xml"),
        ("xbean:a.xml", "a.xml"),
        ("xbean:file:/etc/a.xml", "/etc/a.xml"),
        ("xbean:file:./a.xml", "a.xml"),
    ],
)
def test_the_forms_of_a_start_uri(text: str, path: str) -> None:
    assert path_of(text) == Path(path)


@pytest.mark.parametrize("text", ["broker:(tcp://a:1)", "properties:file", "http://a/b.xml", "xbean:classpath:a.xml"])
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration):
        path_of(text)


def test_encrypted_values_take_the_password_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    around = f'''<bean class="x.EncryptablePropertyPlaceholderConfigurer">
        <property name="location" value="{EXAMPLES}/credentials-enc.properties"/></bean>'''
    file = tmp_path / "a.xml"
    body = GOOD.format(options="", body="").replace("persistent", 'brokerName="${activemq.password}" persistent')
    file.write_text(f'<beans xmlns="http://www.springframework.org/schema/beans">{around}{body}</beans>')
    assert check(str(file)).exit_code == 1
    monkeypatch.setenv("ACTIVEMQ_ENCRYPTION_PASSWORD", "activemq")
    config, _ = load(str(file), (), strict=False)
    assert config is not None
    assert config.broker.name == "manager"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-D", "a=b", "--ephemeral"], "there is none"),
        (["--strict", "--ephemeral"], "there is none"),
        (["broker:(tcp://a:1)"], "cannot be started from broker:"),
        (["none.xml"], "cannot read it"),
        ([str(EXAMPLES / "jdbc.xml"), "-D", "activemq.data=/none"], "it does not start"),
    ],
)
def test_run_refuses_what_check_refuses(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["run", *arguments])
    assert result.exit_code in (1, 2)
    assert message in result.output


RANKED = 'decreaseNetworkConsumerPriority="true"'


@pytest.mark.parametrize(("uri", "starts"), [("static:(tcp://b:1)", True), ("udp://b", False), ("gopher://x", False)])
def test_network_connectors_are_read_by_those_who_dial(tmp_path: Path, uri: str, starts: bool) -> None:
    file = tmp_path / "a.xml"
    body = f'<networkConnectors>\n<networkConnector name="n" uri="{uri}" {RANKED}/></networkConnectors>'
    file.write_text(GOOD.format(options="", body=body))
    result = check("-o", "json", str(file))
    assert (result.exit_code == 0) == starts, result.output
    if not starts:
        (row,) = [json.loads(line) for line in result.stdout.splitlines()]
        assert (row["severity"], row["line"]) == ("error", 3)


# -- several files, one network ---------------------------------------------------------------------------------------

MEMBER = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" persistent="false">
<networkConnectors>{connectors}</networkConnectors><transportConnectors>
<transportConnector name="o" uri="tcp://0.0.0.0:{port}"/></transportConnectors></broker>"""


def member(directory: Path, name: str, port: int, *to: str, attributes: str = "") -> str:
    connectors = "".join(f'<networkConnector name="to-{one}" uri="static:(tcp://{one})" {attributes}/>' for one in to)
    file = directory / f"{name}.xml"
    file.write_text(MEMBER.format(name=name, port=port, connectors=connectors))
    return str(file)


def test_several_files_are_one_network_with_a_drawing(tmp_path: Path) -> None:
    files = [member(tmp_path, "a", 61616, "b:61617", attributes='duplex="true"'), member(tmp_path, "b", 61617)]
    result = check(*files, "--svg", str(tmp_path / "n.svg"))
    assert result.exit_code == 0
    assert "network of 2: " in result.stderr
    assert f"a  openwire:61616  {files[0]}\n  <=> b  connector to-b:61617, TTL 1\n" in result.stdout
    assert (tmp_path / "n.svg").read_text().startswith("<svg ")


def test_json_of_a_network_has_lines_only_and_an_error_fails(tmp_path: Path) -> None:
    files = [member(tmp_path, "a", 61616, "b:61617", attributes='networkTTL="0"'), member(tmp_path, "b", 61617)]
    result = check("-o", "json", *files)
    assert result.exit_code == 1
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["file"], row["line"], row["what"]) for row in rows if row["severity"] == "error"] == [
        (files[0], 2, "messageTTL 0: no message may cross")
    ]
    assert "it starts" in result.stderr


def test_strict_takes_the_warnings_of_a_network_for_errors(tmp_path: Path) -> None:
    files = [member(tmp_path, "a", 61616, "b:61618"), member(tmp_path, "b", 61617)]
    assert check(*files).exit_code == 0
    assert check("--strict", *files).exit_code == 1


def test_machines_of_brokers_are_told(tmp_path: Path) -> None:
    files = [
        member(tmp_path, "a", 61616, "10.0.0.2:61617"),
        member(tmp_path, "b", 61617),
        member(tmp_path, "c", 61617, "a:61616"),
    ]
    assert "may be any of b, c" in check(*files).stdout
    assert "may be any of" not in check("--host", "b=10.0.0.2", *files).stdout
    assert check("--host", "b", *files).exit_code == 2


def test_a_path_is_followed_hop_by_hop(tmp_path: Path) -> None:
    files = [str(file) for file in sorted((DOCUMENTED / "chain").glob("*.xml"))]
    result = check("--path", "lisbon:paris", *files)
    assert "lisbon.xml:11, not queue Consumer.*.VirtualTopic.>): keeps" in result.output
    copied = []
    for file in map(Path, files):  # and where nobody drops what comes again
        (tmp_path / file.name).write_text(
            file.read_text().replace("<transportConnector ", '<transportConnector auditNetworkProducers="false" ')
        )
        copied.append(str(tmp_path / file.name))
    files = copied
    result = check("--path", "lisbon:paris", *files)
    assert result.exit_code == 0, result.output
    assert "path lisbon:paris: 2 hops" in result.output
    assert "  the weakest is hop 1, lisbon to madrid: may double" in result.output
    rows = list(csv.DictReader(io.StringIO(check("-o", "csv", "--path", "lisbon:paris", *files).stdout)))
    hops = [(row["path"], row["hop"], row["grade"], row["severity"]) for row in rows if row["hop"]]
    assert hops == [("lisbon:paris", "1", "may double", ""), ("lisbon:paris", "2", "may double", "")]
    rows = [json.loads(line) for line in check("-o", "json", "--path", "lisbon:paris", *files).stdout.splitlines()]
    found = [(row["hop"], row["from"], row["to"], row["grade"]) for row in rows if "hop" in row]
    assert found == [(1, "lisbon", "madrid", "may double"), (2, "madrid", "paris", "may double")]
    unknown = check("--path", "lisbon:rome", *files)
    assert unknown.exit_code != 0


def test_a_path_that_does_not_exist_fails(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = GOOD.format(options="", body="").replace("<broker ", f'<broker brokerName="{name}" ', 1)
        (tmp_path / f"{name}.xml").write_text(text)
    files = [str(tmp_path / "a.xml"), str(tmp_path / "b.xml")]
    assert check(*files).exit_code == 0
    result = check("--path", "a:b", *files)
    assert result.exit_code == 1
    assert "path a:b: there is no way" in result.output
