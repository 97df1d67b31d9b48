"""jetty.xml, as activemq.xml imports it: where the console is, over which TLS, who comes in; and what closes it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.classic.jetty import CONNECTORS, NO_EFFECT, STRUCTURE, read
from entrepot.config.classic.jetty_login import KNOWN
from entrepot.config.console import ConsoleRealm, ConsoleTls, ConsoleUser, strangers
from entrepot.config.findings import Findings, Severity
from entrepot.config.security import OPEN, Security, UserEntry
from entrepot.config.sources import Sources

from .broker_xml import said
from .jetty_xml import GUARDED, HASHED, JAAS, PLAIN, PORT, Conf, constraint, jetty, secure

LOGIN = """activemq { org.apache.activemq.jaas.PropertiesLoginModule required
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.group="groups.properties"; };"""


@pytest.fixture
def conf(tmp_path: Path) -> Conf:
    return Conf(tmp_path)


# -- places ------------------------------------------------------------------------------------------------------------


def test_the_console_is_where_the_shipped_file_says_and_nothing_is_otherwise(conf: Conf) -> None:
    console, what = conf.console(jetty())
    assert console is not None
    assert [str(place) for place in console.places] == ["http://127.0.0.1:8161"]
    assert (console.file, what) == (str(conf.folder / "jetty.xml"), [])


@pytest.mark.parametrize(
    ("resource", "file"),
    [("${activemq.conf}/jetty.xml", "jetty.xml"), ("file:${activemq.base}/conf/jetty-own.xml", "jetty-own.xml")],
)
def test_an_import_is_found_by_placeholders_and_file(conf: Conf, resource: str, file: str) -> None:
    conf.write(file, jetty())
    reading = conf.read(around=f'<import resource="{resource}"/>')
    assert reading.config is not None
    assert reading.config.console is not None


def test_what_the_command_line_says_goes_before_the_bean_for_the_port(conf: Conf) -> None:
    console, _ = conf.console(jetty(), defines={"jetty.port": "18161", "jetty.host": "::1"})
    assert console is not None
    assert str(console.places[0]) == "http://[::1]:18161"


def test_a_bean_for_the_port_that_says_nothing_is_everywhere(conf: Conf) -> None:
    console, _ = conf.console(jetty(port='<bean class="org.apache.activemq.web.WebConsolePort"/>'))
    assert console is not None
    assert str(console.places[0]) == "http://0.0.0.0:8161"


def test_a_second_connector_speaks_tls_with_the_store_that_it_names(conf: Conf) -> None:
    inside = """<property name="needClientAuth" value="true"/><property name="trustStorePath" value="file:/ca.pem"/>
      <property name="includeProtocols"><list><value>TLSv1.3</value></list></property>"""
    console, what = conf.console(jetty(connectors=PLAIN + secure(inside)))
    assert console is not None
    assert [str(place) for place in console.places] == ["http://127.0.0.1:8161", "https://0.0.0.0:8162"]
    store = str(conf.folder / "broker.ks")
    expected = ConsoleTls(
        certificate=store, password="password", trust="/ca.pem", need_client=True, protocols="TLSv1.3"
    )
    assert (console.places[1].tls, what) == (expected, [])
    assert "password" not in repr(console)


def test_old_connectors_have_the_store_on_themselves(conf: Conf) -> None:
    old = """<bean class="org.eclipse.jetty.server.ssl.SslSelectChannelConnector">
      <property name="port" value="8162"/><property name="keystore" value="/a.ks"/>
      <property name="password" value="secret"/><property name="keyPassword" value="secret"/></bean>"""
    console, what = conf.console(jetty(connectors=old))
    assert console is not None
    assert console.places[0].tls == ConsoleTls(certificate="/a.ks", password="secret")
    assert what == []


@pytest.mark.parametrize(
    ("connectors", "message"),
    [
        (PLAIN + secure('<property name="certAlias" value="x"/>'), "certAlias is not done here"),
        (PLAIN + secure('<property name="excludeCipherSuites" value="x"/>'), "excludeCipherSuites is not done here"),
        (PLAIN + secure('<property name="keyStoreType" value="JKS"/>'), "keyStoreType has no effect here"),
        (PLAIN + secure('<property name="endpointIdentificationAlgorithm" value="x"/>'), "has no property"),
        (PLAIN + secure('<property name="needClientAuth" value="perhaps"/>'), "use true or false"),
        (PLAIN + secure('<property name="includeProtocols" value="TLSv1"/>'), "no version of TLS"),
        (PLAIN + secure('<property name="excludeProtocols" value="TLSv1.2,TLSv1.3"/>'), "no version of TLS"),
        (PLAIN + secure('<property name="keyManagerPassword" value="other"/>'), "the key and its store have different"),
        (PLAIN + secure('<property name="trustStorePath" value="http://x/a"/>'), "is not a file of this machine"),
        (PLAIN + secure(more='<property name="port" value="82000"/>'), "'82000' is no port"),
        (PLAIN + secure(more='<property name="port" value="${nobody.says}"/>'), "nobody says what"),
        (PLAIN + secure(more='<property name="idleTimeout" value="5"/>'), "idleTimeout has no effect here"),
        (PLAIN + secure(more='<property name="connectionFactories" value="5"/>'), "has no property"),
    ],
)
def test_what_a_connector_says_and_nobody_does_is_named_and_the_others_open(
    conf: Conf, connectors: str, message: str
) -> None:
    console, what = conf.console(jetty(connectors=connectors))
    assert console is not None
    assert any(message in one for one in what), what
    closed = "is not opened" in "".join(what)
    assert len(console.places) == (1 if closed else 2)


def test_a_connector_that_no_server_has_is_not_opened(conf: Conf) -> None:
    console, what = conf.console(jetty(more=PLAIN.replace('"Connector"', '"Loose"')))
    assert console is not None
    assert len(console.places) == 1
    assert what == ["the connector 'Loose' is not opened: no server has it"]


# -- who comes in ------------------------------------------------------------------------------------------------------


def test_users_are_those_of_the_realm_and_forms_take_a_role_of_their_own(conf: Conf) -> None:
    console, _ = conf.console(jetty())
    assert console is not None
    assert console.realm == ConsoleRealm(
        users=(ConsoleUser("admin", "plain:admin", ("admin",)), ConsoleUser("user", "plain:user", ("user",))),
        enters=(("user", "admin"),),
        changes=(("admin",),),
    )


def test_users_may_be_those_of_login_config(conf: Conf) -> None:
    conf.write("login.config", LOGIN)
    conf.write("users.properties", "boss=secret\n")
    conf.write("groups.properties", "admins=boss\n")
    console, what = conf.console(jetty(service=JAAS))
    assert console is not None
    assert console.realm is not None
    assert console.realm.users == (ConsoleUser("boss", "plain:secret", ("admins",)),)
    assert what == []


def test_without_a_login_the_users_are_the_brokers(conf: Conf) -> None:
    off = constraint("securityConstraint", "user", "/", asks="false")
    console, what = conf.console(jetty(guarded=off))
    assert console is not None
    assert (console.realm, what) == (None, [])


def test_a_login_for_some_paths_is_one_for_all(conf: Conf) -> None:
    console, what = conf.console(jetty(guarded=constraint("c", "admin", "/admin/*")))
    assert console is not None
    assert console.realm is not None
    assert console.realm.enters == (("admin",),)
    assert what == ["the login is asked for in all of the console, not on some of its paths alone"]


def test_a_user_whose_password_cannot_be_compared_is_named_with_his_line(conf: Conf) -> None:
    realm = conf.write("jetty-realm.properties", "admin: admin, admin\nold: CRYPT:adpexzg3FUZAk, user\n")
    conf.write("jetty.xml", jetty())
    reading = conf.read()
    (found,) = [one for one in reading.findings if one.file == str(realm)]
    assert (found.line, found.severity) == (2, Severity.WARNING)
    assert found.what == "the user 'old' does not come in: his password is hashed by CRYPT:, which is not computed here"
    assert found.remedy == "write it as MD5: or as it is"


def test_a_user_whom_the_broker_does_not_know_is_named(conf: Conf) -> None:
    body = """<plugins><simpleAuthenticationPlugin><users>
      <authenticationUser username="admin" password="0ther" groups="a"/>
      <authenticationUser username="guest" password="gu3st" groups="a"/>
      </users></simpleAuthenticationPlugin></plugins>"""
    conf.write("jetty.xml", jetty())
    conf.write("jetty-realm.properties", "admin: admin, admin\nguest: gu3st, user\n")
    found = said(conf.read(body), Severity.WARNING)
    assert len(found) == 1
    assert "user 'admin' is not one of the broker's, or has another password there" in found[0]


def test_strangers_are_those_that_a_guarded_broker_does_not_know() -> None:
    realm = ConsoleRealm(users=(ConsoleUser("a", "plain:x"), ConsoleUser("b", "md5:0"), ConsoleUser("c", "plain:x")))
    known = Security(users=(UserEntry("a", "plain:x"), UserEntry("b", "plain:z")))
    assert strangers(realm, known) == ["c"]
    assert strangers(realm, OPEN) == []


# -- what closes it ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (jetty(more='<bean class="org.x.InetAccessHandler"/>'), "the Java bean org.x.InetAccessHandler"),
        (jetty(more='<import resource="more.xml"/>'), "<import> is not understood"),
        (jetty(service=""), "there is no login service"),
        (jetty(service=HASHED + JAAS), "there are two login services"),
        (jetty(service=HASHED.replace("jetty-realm", "none")), "cannot read"),
        (jetty(service=JAAS), "login.config"),
        (jetty(service='<bean class="x.HashLoginService"/>'), "it does not say in which file the users are"),
        (jetty(guarded=constraint("c", "a", "/", asks="perhaps")), "authenticate: use true or false"),
        (jetty(guarded=GUARDED.replace('ref="securityC', 'ref="c')), "the constraint of this mapping is not there"),
        (
            jetty(guarded=constraint("c", "a", "/", more='<property name="dataConstraint" value="2"/>')),
            "the property 'dataConstraint' of Constraint",
        ),
        (jetty(connectors=""), "it opens no place"),
        ("<beans", "it is not well-formed XML"),
        (
            '<beans><bean class="org.apache.activemq.spring.jetty.JettyServerBean"/></beans>',
            "JettyServerBean is put together from files in Jetty's own language",
        ),
    ],
)
def test_what_may_guard_it_and_is_not_understood_closes_it_and_the_broker_starts(
    conf: Conf, text: str, message: str
) -> None:
    console, what = conf.console(text)
    assert console is None
    assert any("no console is started by this file" in one and message in one for one in what), what
    assert all(one.remedy for one in conf.reading.findings if one.severity is Severity.WARNING)


def test_other_beans_are_named_and_what_they_lead_to_is_read(conf: Conf) -> None:
    more = """<bean class="org.eclipse.jetty.rewrite.handler.RewriteHandler"><property name="rules"><list>
        <bean class="org.eclipse.jetty.rewrite.handler.HeaderPatternRule"/>
        <bean class="org.eclipse.jetty.rewrite.handler.RedirectPatternRule"/></list></property>
        <property name="handler"><bean class="org.eclipse.jetty.webapp.WebAppContext">
          <property name="contextPath" value="/demo"/></bean></property></bean>
      <bean class="org.eclipse.jetty.server.handler.DefaultHandler"><property name="odd" value="1"/></bean>"""
    console, what = conf.console(jetty(more=more))
    assert console is not None
    assert what == [
        "RewriteHandler has no effect here: the console sends security headers of its own",
        "the RedirectPatternRule is not followed here",
        "the web application at '/demo' is not served here",
        "odd of DefaultHandler has no effect here",
    ]


def test_a_second_import_and_one_from_elsewhere_are_named(conf: Conf) -> None:
    conf.write("jetty.xml", jetty())
    around = '<import resource="jetty.xml"/><import resource="jetty.xml"/><import resource="classpath:jetty.xml"/>'
    found = said(conf.read(around=around), Severity.WARNING)
    assert len(found) == 2
    assert any("there is a console already" in what for what in found)
    assert any("'classpath:jetty.xml' is not a file of this machine" in what for what in found)


def test_a_realm_that_is_read_again_takes_a_restart(conf: Conf) -> None:
    again = HASHED.replace("</bean>", '<property name="hotReload" value="true"/></bean>')
    console, what = conf.console(jetty(service=again, port=PORT))
    assert console is not None
    assert what == ["hotReload has no effect here: a change of the users takes a restart"]


def test_a_bean_is_of_one_sort() -> None:
    sorts = [*CONNECTORS, *NO_EFFECT, *STRUCTURE, *KNOWN]
    assert len(sorts) == len(set(sorts))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 60), st.integers(0, 4), st.sampled_from(["", "x", '"', "<bean/>", "${a}", "#{b}", "true", ","]))
def test_no_slip_in_a_file_breaks_the_reader(conf: Conf, place: int, length: int, put: str) -> None:
    words = jetty(connectors=PLAIN + secure()).split('"')
    path = conf.write("jetty.xml", '"'.join([*words[:place], put, *words[place + length :]]))
    sources = Sources(Findings())
    sources.place(path)
    with suppress(InvalidConfiguration):
        console = read(path, sources)
        assert console is not None or any(one.severity is Severity.WARNING for one in sources.findings)
