"""bootstrap.xml: which broker.xml it starts, where the console is, who comes in; and what closes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.artemis.bootstrap import Bootstrap
from entrepot.config.artemis.bootstrap_elements import KINDS
from entrepot.config.console import ConsoleSettings, ConsoleTls
from entrepot.config.files import read
from entrepot.config.findings import Findings, Severity
from entrepot.config.reading import Reading
from entrepot.config.sources import Sources
from entrepot.config.xml import parse

CORE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>x</name>
  <persistence-enabled>false</persistence-enabled><security-enabled>{secure}</security-enabled>
  <acceptors><acceptor name="a">tcp://127.0.0.1:0</acceptor></acceptors></core></configuration>"""
LOGIN = """activemq {{ org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule sufficient
    org.apache.activemq.jaas.properties.user="artemis-users.properties"
    org.apache.activemq.jaas.properties.role="artemis-roles.properties"; {more} }};"""
GUEST = """org.apache.activemq.artemis.spi.core.security.jaas.GuestLoginModule sufficient
    org.apache.activemq.jaas.guest.user="v" org.apache.activemq.jaas.guest.role="amq";"""
APP = '<app name="console" url="console" war="console.war"/>'
SERVER = '<server configuration="file:./broker.xml"/>'


class Etc:
    """The directory of an instance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "etc"
        self.folder.mkdir()
        self.write("broker.xml", CORE.format(secure="false"))
        self.write("login.config", LOGIN.format(more=""))
        self.write("artemis-users.properties", "boss=opensesame\n")
        self.write("artemis-roles.properties", "amq=boss\n")

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def read(self, file: str = "broker.xml") -> Reading:
        return read(self.folder / file, spoken=("core", "openwire", "stomp", "amqp", "mqtt"))

    def console(self, web: str, server: str = SERVER, *, start: str = "broker.xml") -> ConsoleSettings | None:
        """Return the console that ``web`` describes, with no error about it."""
        self.write("bootstrap.xml", starting(server + '<jaas-security domain="activemq"/>' + web))
        self.reading = self.read(start)
        assert self.reading.config is not None, self.said(None)
        return self.reading.config.console

    def said(self, severity: Severity | None = Severity.WARNING) -> list[str]:
        """Return what is said of bootstrap.xml."""
        file = str(self.folder / "bootstrap.xml")
        found = [one for one in self.reading.findings if one.file == file and severity in (None, one.severity)]
        assert all(one.line and one.path for one in found)
        return [one.what for one in found]


def starting(inside: str) -> str:
    return f'<broker xmlns="http://activemq.apache.org/schema">{inside}</broker>'


def bound(attributes: str = "", inside: str = APP, uri: str = "https://0.0.0.0:8443", web: str = "") -> str:
    binding = f'<binding name="artemis" uri="{uri}" {attributes}>{inside}</binding>'
    return f'<web path="web" rootRedirectLocation="console" {web}>{binding}</web>'


@pytest.fixture
def etc(tmp_path: Path) -> Etc:
    return Etc(tmp_path)


@pytest.mark.parametrize("start", ["broker.xml", "bootstrap.xml"])
def test_the_console_is_where_its_bindings_say(etc: Etc, start: str) -> None:
    tls = 'keyStorePath="/k.p12" keyStorePassword="secret" clientAuth="true" trustStorePath="/t.p12" '
    tls += 'trustStorePassword="secret2" includedTLSProtocols="TLSv1.3"'
    second = f'<binding name="plain" uri="http://localhost:8161">{APP}</binding></web>'
    console = etc.console(bound(tls).replace("</web>", second), start=start)
    assert console is not None
    assert [str(place) for place in console.places] == ["https://0.0.0.0:8443", "http://localhost:8161"]
    assert console.places[0].tls == ConsoleTls(
        certificate="/k.p12",
        password="secret",
        trust="/t.p12",
        trust_password="secret2",
        need_client=True,
        protocols="TLSv1.3",
    )
    assert etc.said(None) == []
    assert etc.reading.files[0] == etc.folder / "broker.xml"
    assert "secret" not in repr(console)


def test_older_files_bind_one_place_on_web_itself(etc: Etc) -> None:
    apps = '<app url="activemq-branding" war="b.war"/><app url="artemis-plugin" war="p.war"/>'
    console = etc.console(f'<web bind="http://localhost:8161" path="web">{apps}<app url="console" war="c.war"/></web>')
    assert console is not None
    assert [str(place) for place in console.places] == ["http://localhost:8161"]
    assert etc.said(None) == []


def test_without_web_there_is_no_console(etc: Etc) -> None:
    assert etc.console("") is None
    assert etc.said(None) == []


def test_users_are_the_brokers_and_those_of_login_config_where_it_asks_nobody(etc: Etc) -> None:
    console = etc.console(bound(uri="http://localhost:1"))
    assert console is not None
    assert console.realm is not None
    assert [(user.name, user.password) for user in console.realm.users] == [("boss", "plain:opensesame")]
    etc.write("login.config", LOGIN.format(more=GUEST))
    console = etc.console(bound(uri="http://localhost:1"))
    assert console is not None
    assert console.realm is None
    etc.write("broker.xml", CORE.format(secure="true"))
    console = etc.console(bound(uri="http://localhost:1"))
    assert console is not None
    assert console.realm is None


def test_passwords_are_read_by_the_codec_that_a_binding_names(etc: Etc) -> None:
    pytest.importorskip("cryptography")
    masked = hidden("opensesame", "bindings")
    codec = "org.apache.activemq.artemis.utils.DefaultSensitiveStringCodec;key=bindings"
    console = etc.console(bound(f'keyStorePath="k" keyStorePassword="ENC({masked})" passwordCodec="{codec}"'))
    assert console is not None
    assert console.places[0].tls is not None
    assert console.places[0].tls.password == "opensesame"


def hidden(password: str, key: str) -> str:
    """Return what `artemis mask` prints."""
    from cryptography.hazmat.decrepit.ciphers.algorithms import Blowfish
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import ECB

    octets = password.encode()
    count = 8 - len(octets) % 8
    machine = Cipher(Blowfish(key.encode()), ECB()).encryptor()
    made = machine.update(octets + bytes([count]) * count) + machine.finalize()
    return format(int.from_bytes(made, "big", signed=True), "x")


@pytest.mark.parametrize(
    ("web", "message"),
    [
        (bound('sniHostCheck="true"'), "sniHostCheck"),
        (bound('excludedCipherSuites="x"'), "excludedCipherSuites"),
        (bound('http2="true"'), "HTTP/1.1 is spoken"),
        (bound(web='customizer="a.B"'), "a Java class cannot be loaded here"),
        (bound(web='keyStorePath="/k"'), "keyStorePath has no effect: the bindings say it"),
        (bound(inside=APP + '<app name="other" url="other" war="o.war"/>'), "'other' is not served here"),
        (bound() + "<component/>", "<component> has no effect here"),
        (bound() + bound(uri="ftp://a:1"), "is no place"),
        (bound() + bound(uri="http://a"), "is no place"),
        (bound() + bound(uri="nonsense"), "this place is not opened: invalid URI"),
        (bound() + bound('includedTLSProtocols="TLSv1"'), "no version of TLS"),
        (bound() + '<web path="web"/>', "nothing says where"),
    ],
)
def test_what_is_not_done_as_written_is_named_and_the_console_starts(etc: Etc, web: str, message: str) -> None:
    console = etc.console(web)
    assert console is not None
    assert len(console.places) == 1
    assert any(message in what for what in etc.said()), etc.said()


@pytest.mark.parametrize(
    ("web", "message"),
    [
        (bound(inside=APP + '<app url="metrics" war="m.war"/>'), "metrics are at /metrics here"),
        (bound(inside=""), "the console is served here too"),
        (bound(web='maxThreads="5"'), "maxThreads"),
        (bound().replace("</web>", '<request-log filename="x"/></web>'), "<request-log> has no effect here"),
    ],
)
def test_what_makes_no_difference_is_a_note(etc: Etc, web: str, message: str) -> None:
    assert etc.console(web) is not None
    assert etc.said() == []
    assert any(message in what for what in etc.said(Severity.NOTE)), etc.said(None)


@pytest.mark.parametrize(
    ("web", "message"),
    [
        (bound('allowed="10.0.0.0/8"'), "<binding> has no attribute 'allowed'"),
        (bound('clientAuth="perhaps"'), "'perhaps' does not fit"),
        (bound('keyStorePassword="${nobody}"'), "nobody says what"),
        (bound('keyStorePassword="ENC(1)" passwordCodec="a.B"'), "is a Java class"),
        (bound().replace("</web>", "<guard/></web>"), "<web> holds no <guard>"),
    ],
)
def test_what_may_guard_it_and_is_not_understood_closes_it(etc: Etc, web: str, message: str) -> None:
    pytest.importorskip("cryptography")
    assert etc.console(web) is None
    assert any(message in what and "no console is started" in what for what in etc.said()), etc.said()


def test_users_that_cannot_be_read_close_it(etc: Etc) -> None:
    etc.write("login.config", "activemq { a.LdapLoginModule required; };")
    assert etc.console(bound()) is None
    assert any("LdapLoginModule is not known" in what for what in etc.said())


def test_a_file_that_is_about_another_broker_starts_nothing(etc: Etc) -> None:
    assert etc.console(bound(), '<server configuration="file:/x/other.xml"/>') is None
    assert etc.said() == ["the console is not started: this file is about other.xml"]


@pytest.mark.parametrize(
    "written",
    [
        "file:${artemis.instance}/etc/broker.xml",
        "${artemis.URI.instance}/etc/broker.xml",
        "file:${artemis.instance.etc}/broker.xml",
        "broker.xml",
    ],
)
def test_it_names_the_file_as_the_start_script_fills_it_in(etc: Etc, written: str) -> None:
    etc.write("bootstrap.xml", starting(f'<server configuration="{written}"/>'))
    assert etc.read("bootstrap.xml").config is not None


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("", "it does not say which configuration to start"),
        ('<server configuration="http://x/broker.xml"/>', "is not a file of this machine"),
        ('<server configuration="${nobody.says}"/>', "nobody says what"),
        ('<server configuration="file:./none.xml"/>', "cannot read it"),
    ],
)
def test_a_file_that_starts_nothing_that_is_here_is_refused(etc: Etc, server: str, message: str) -> None:
    etc.write("bootstrap.xml", starting(server))
    with pytest.raises(InvalidConfiguration, match=message) as refused:
        etc.read("bootstrap.xml")
    assert refused.value.remedy
    assert refused.value.file


def test_one_that_is_no_xml_is_an_error_of_its_own_line(etc: Etc) -> None:
    file = etc.write("bootstrap.xml", "<broker>\n<web</broker>")
    (found,) = [one for one in etc.read().findings.errors if one.file.endswith(file.name)]
    assert found.line == 2


def test_the_domain_is_that_of_the_usual_entry_unless_it_is_said() -> None:
    root = parse(b"<broker/>", "b.xml")
    assert Bootstrap(root, Path("b.xml")).domain() == "activemq"
    assert KINDS["jaas-security"].attributes["domain"]
    sources = Sources(Findings(), environment={"ARTEMIS_INSTANCE": "/inst"})
    Bootstrap(root, Path("/x/etc/b.xml")).place(sources)
    assert sources.fill("${artemis.instance}") == "/inst"
