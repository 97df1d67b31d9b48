"""Users and rights in ``activemq.xml``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import AccessDenied, InvalidConfiguration, InvalidOption, UserUnknown
from entrepot.config.findings import Severity
from entrepot.config.login import parse as parse_login
from entrepot.config.security import CertificateEntry, Security, SubjectEntry, UserEntry, protect
from entrepot.core.security.access import Access
from entrepot.core.security.directory import Certified
from entrepot.model.address import parse
from entrepot.node import Node
from entrepot.node_options import NodeOptions
from kit import Rig, admitted

from .broker_xml import broker, errors, read, said

USERS = """<simpleAuthenticationPlugin anonymousAccessAllowed="true" anonymousGroup="guests"><users>
<authenticationUser username="app" password="secret" groups="shop, users"/>
<authenticationUser username="boss" password="manager" groups="admins"/>
</users></simpleAuthenticationPlugin>"""
RIGHTS = """<authorizationPlugin><map><authorizationMap><authorizationEntries>
<authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
<authorizationEntry queue="shop.>,store.>" read="shop" write="shop" admin="shop"/>
<authorizationEntry topic="news.>" read="*"/>
</authorizationEntries><tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read="admins"
write="admins" admin="admins"/></tempDestinationAuthorizationEntry></authorizationMap></map></authorizationPlugin>"""


def plugins(text: str) -> str:
    return broker(f"<plugins>{text}</plugins>")


def security(text: str) -> Security:
    reading = read(plugins(text))
    assert reading.config is not None, said(reading)
    return reading.config.security


def access(text: str) -> Access:
    made = Rig(disk=False).broker.access
    protect(security(text), made)
    return made


def test_a_broker_without_plugins_is_open() -> None:
    assert security("") == Security()


def test_users_are_let_in_by_name_and_password() -> None:
    found = security(USERS)
    assert found.users == (
        UserEntry("app", "plain:secret", ("shop", "users")),
        UserEntry("boss", "plain:manager", ("admins",)),
    )
    assert found.anonymous == SubjectEntry("anonymous", ("guests",))
    assert found.rules is None
    made = access(USERS)
    assert admitted(made, None, None).name == "anonymous"
    with pytest.raises(UserUnknown):
        admitted(made, "app", "guess")


def test_passwords_are_not_shown() -> None:
    reading = read(plugins(USERS + '<authorizationPlugin queue="secret"/>'))
    assert "secret" not in str(said(reading))
    assert "secret" not in repr(security(USERS))


def test_rights_are_those_of_the_entries() -> None:
    made = access(USERS + RIGHTS)
    app, boss, nobody = admitted(made, "app", "secret"), admitted(made, "boss", "manager"), admitted(made, None, None)
    for place in ("queue://shop.a", "queue://store.b"):
        made.send(app, parse(place))
        made.consume(boss, parse(place), False)
        with pytest.raises(AccessDenied):
            made.send(nobody, parse(place))
    made.send(boss, parse("queue://secret"))
    with pytest.raises(AccessDenied, match="read from: queue://secret"):
        made.consume(app, parse("queue://secret"), False)
    with pytest.raises(AccessDenied, match=r"create: topic://news\.today"):
        made.consume(nobody, parse("topic://news.today"), False)
    with pytest.raises(AccessDenied):
        made.create(app, parse("temp-queue://ID:1")[0])
    made.create(boss, parse("temp-queue://ID:1")[0])


def test_the_default_entry_holds_everywhere() -> None:
    made = access(
        USERS + "<authorizationPlugin><map><authorizationMap><defaultEntry>"
        '<authorizationEntry read="shop" write="shop" admin="shop"/></defaultEntry></authorizationMap></map>'
        "</authorizationPlugin>"
    )
    made.send(admitted(made, "app", "secret"), parse("queue://a,topic://b"))


def test_rights_without_users_are_reported() -> None:
    reading = read(plugins(RIGHTS))
    assert any("nobody has a group" in what for what in said(reading, Severity.WARNING))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (USERS + USERS, "says already who comes in"),
        (RIGHTS + RIGHTS, "says already what he may do"),
        (USERS.replace('"boss"', '"app"'), "two users 'app'"),
        (USERS.replace('username="boss" ', ""), "it has no username"),
        (RIGHTS.replace(' topic="news.>"', ""), "it says for no destination"),
        (RIGHTS.replace('topic="news.>"', 'tempQueue="x"'), "one entry for all"),
        ("<shiroPlugin/>", "Shiro cannot run here"),
        (
            "<authorizationPlugin><map><cachedLDAPAuthorizationMap/></map></authorizationPlugin>",
            "not looked up in LDAP",
        ),
    ],
)
def test_what_cannot_be_obeyed_is_an_error(text: str, says: str) -> None:
    assert any(says in what for what in errors(plugins(text)))


# -- JAAS --------------------------------------------------------------------------------------------------------------

PROPERTIES = """org.apache.activemq.jaas.PropertiesLoginModule {} debug=true
  org.apache.activemq.jaas.properties.user="users.properties"
  org.apache.activemq.jaas.properties.group="groups.properties";"""
GUEST = 'org.apache.activemq.jaas.GuestLoginModule sufficient org.apache.activemq.jaas.guest.group="strangers"{};'
JAAS = '<jaasAuthenticationPlugin configuration="domain"/>'


def jaas(tmp_path: Path, *modules: str) -> str:
    """Write the files of a realm; return the text of the XML to read."""
    entry = "\n".join(["/* two\nlines */ other { a.B optional; };", "domain {", *modules, "};"])
    (tmp_path / "login.config").write_text(entry)
    (tmp_path / "users.properties").write_text("app=secret\nboss: ma\\u006eager\n")
    (tmp_path / "groups.properties").write_text("# groups\nadmins=boss\nshop=app, boss\n")
    return plugins(JAAS)


def found(tmp_path: Path, *modules: str) -> Security:
    reading = read(
        jaas(tmp_path, *modules), defines={"java.security.auth.login.config": str(tmp_path / "login.config")}
    )
    assert reading.config is not None, said(reading)
    return reading.config.security


def wrong(tmp_path: Path, *modules: str) -> str:
    return str(
        errors(jaas(tmp_path, *modules), defines={"java.security.auth.login.config": str(tmp_path / "login.config")})
    )


def test_users_of_a_realm_come_from_its_property_files(tmp_path: Path) -> None:
    assert found(tmp_path, PROPERTIES.format("required")) == Security(
        users=(UserEntry("app", "plain:secret", ("shop",)), UserEntry("boss", "plain:manager", ("admins", "shop")))
    )


def test_a_guest_is_who_has_no_password_or_a_wrong_one(tmp_path: Path) -> None:
    guest = SubjectEntry("guest", ("strangers",))
    after = found(tmp_path, PROPERTIES.format("sufficient"), GUEST.format(""))
    assert (after.anonymous, after.stranger, len(after.users or ())) == (guest, guest, 2)
    careful = found(tmp_path, PROPERTIES.format("sufficient"), GUEST.format(" credentialsInvalidate=true"))
    assert (careful.anonymous, careful.stranger) == (guest, None)
    before = found(tmp_path, GUEST.format(" credentialsInvalidate=true"), PROPERTIES.format("requisite"))
    assert (before.anonymous, before.stranger, len(before.users or ())) == (guest, None, 2)
    alone = found(tmp_path, GUEST.format(""))
    assert (alone.users, alone.anonymous, alone.stranger) == ((), guest, guest)


CERTIFICATES = """org.apache.activemq.jaas.TextFileCertificateLoginModule required
  org.apache.activemq.jaas.textfiledn.user="certified.properties"
  org.apache.activemq.jaas.textfiledn.group="groups.properties";"""
ONLY_TLS = '<jaasCertificateAuthenticationPlugin configuration="domain"/>'


def certified(tmp_path: Path, plugin: str, *modules: str, tls: str = CERTIFICATES) -> Security:
    jaas(tmp_path, *modules)
    (tmp_path / "certified.properties").write_text("app=CN=app, O=Shop\nboss=/CN=b.*, O=Shop/\n")
    with (tmp_path / "login.config").open("a") as file:
        file.write("tls { " + tls + " };")
    reading = read(plugins(plugin), defines={"java.security.auth.login.config": str(tmp_path / "login.config")})
    assert reading.config is not None, said(reading)
    return reading.config.security


def test_users_are_known_by_their_certificates(tmp_path: Path) -> None:
    made = certified(tmp_path, ONLY_TLS, CERTIFICATES)
    assert made == Security(
        users=(),
        certified=(
            CertificateEntry("app", "CN=app, O=Shop", ("shop",)),
            CertificateEntry("boss", "/CN=b.*, O=Shop/", ("admins", "shop")),
        ),
        passwords=False,
    )
    access = Rig(disk=False).broker.access
    protect(made, access)
    assert admitted(access, None, None, "CN=app, O=Shop").name == "CN=app, O=Shop"
    assert list(admitted(access, "app", "any", "CN=bert, O=Shop").groups) == ["admins", "shop"]
    for certificate in ("CN=app", "CN=bert, O=Shop, C=DE", "", None):
        with pytest.raises(UserUnknown):
            admitted(access, "app", "secret", certificate)


def test_certificates_over_tls_and_passwords_without(tmp_path: Path) -> None:
    plugin = '<jaasDualAuthenticationPlugin configuration="domain" sslConfiguration="tls"/>'
    access = Rig(disk=False).broker.access
    protect(certified(tmp_path, plugin, PROPERTIES.format("required")), access)
    assert admitted(access, "app", "secret").name == "app"
    assert list(admitted(access, None, None, "CN=bert, O=Shop").groups) == ["admins", "shop"]
    with pytest.raises(UserUnknown):
        admitted(access, "app", "secret", "")


def test_certificates_that_nobody_asks_for_are_reported(tmp_path: Path) -> None:
    jaas(tmp_path, CERTIFICATES)
    (tmp_path / "certified.properties").write_text("app=CN=app\n")
    defines = {"java.security.auth.login.config": str(tmp_path / "login.config")}
    deaf = read(plugins(ONLY_TLS), defines=defines)
    assert any("asks for certificates" in what for what in said(deaf, Severity.WARNING))
    for option in ("needClientAuth", "transport.wantClientAuth"):
        place = f'<transportConnectors><transportConnector name="t" uri="ssl://0.0.0.0:1?{option}=true"/></transportConnectors>'
        asking = read(broker(f"<plugins>{ONLY_TLS}</plugins>", listen=place), defines=defines)
        assert not any("asks for certificates" in what for what in said(asking, Severity.WARNING))


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        ((PROPERTIES.format("required"),), "certificates need one module alone"),
        ((CERTIFICATES, GUEST.format("")), "certificates need one module alone"),
        ((CERTIFICATES.replace("textfiledn.group", "textfiledn.role"),), "has no option"),
        ((CERTIFICATES.replace("certified.properties", "none.properties"),), "cannot read"),
    ],
)
def test_what_certificates_cannot_mean_is_an_error(tmp_path: Path, modules: tuple[str, ...], says: str) -> None:
    jaas(tmp_path, *modules)
    (tmp_path / "certified.properties").write_text("app=CN=app\n")
    defines = {"java.security.auth.login.config": str(tmp_path / "login.config")}
    assert says in str(errors(plugins(ONLY_TLS), defines=defines))


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no pattern"):
        Certified("app", "/CN=(/")


def test_what_a_realm_cannot_mean_here_is_an_error(tmp_path: Path) -> None:
    assert "no entry 'domain'" in str(
        errors(
            plugins(JAAS),
            defines={"java.security.auth.login.config": str(_written(tmp_path / "l", "other { };"))},
        )
    )
    assert "cannot read" in str(
        errors(plugins(JAAS), defines={"java.security.auth.login.config": str(tmp_path / "no")})
    )
    assert "LDAPLoginModule is not known" in wrong(tmp_path, "org.apache.activemq.jaas.LDAPLoginModule required;")
    assert "has no option 'x'" in wrong(tmp_path, GUEST.format(" x=1"))
    assert "the guest comes first" in wrong(tmp_path, GUEST.format(""), PROPERTIES.format("required"))
    assert "mean nothing here" in wrong(tmp_path, PROPERTIES.format("required"), GUEST.format(""))
    assert "does not say" in wrong(tmp_path, "org.apache.activemq.jaas.PropertiesLoginModule required;")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text", ["a {", "a { b }", "a { b required }", "a { b maybe; };", 'a { b required c="d; };', "};"]
)
def test_a_broken_login_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration):
        parse_login(text)


@given(st.text(st.sampled_from('a{};="/*#\n '), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InvalidConfiguration):
        parse_login(text)


def test_a_connector_that_lets_links_be_stolen_says_so_to_its_listener() -> None:
    listen = (
        '<transportConnectors><transportConnector name="a" uri="tcp://127.0.0.1:0?maximumConnections=5" '
        'allowLinkStealing="true"/><transportConnector name="b" uri="stomp://127.0.0.1:0"/></transportConnectors>'
    )
    reading = read(broker(listen=listen))
    assert reading.config is not None
    assert not reading.findings.all
    assert [one.uri.endswith("allowLinkStealing=true") for one in reading.config.connectors] == [True, False]
    node = Node(NodeOptions(listen=[one.uri for one in reading.config.connectors]))
    assert [one.openwire.link_stealing for one in node.dialects] == [True, False]
    assert [one.stomp.link_stealing for one in node.dialects] == [True, False]
