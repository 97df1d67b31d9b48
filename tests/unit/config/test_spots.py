"""Users and rules know the file and line where they are written, in whatever file of either family that is."""

from __future__ import annotations

from pathlib import Path

from entrepot.base.provenance import Said, Spot
from entrepot.config.files import read
from entrepot.config.security import Security
from entrepot.io.places import SPOKEN

LOGIN = """activemq {{
  {module} required
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.{groups}="groups.properties";
}};
"""
ARTEMIS = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<persistence-enabled>false</persistence-enabled>
<acceptors><acceptor name="all">tcp://127.0.0.1:0</acceptor></acceptors>
<security-settings>
 <security-setting match="#">
  <permission type="send" roles="ops"/>
 </security-setting>
 <security-setting match="orders.#"><permission type="send" roles="shop"/></security-setting>
</security-settings></core></configuration>"""
CLASSIC = """<beans xmlns="http://www.springframework.org/schema/beans"><broker xmlns="http://activemq.apache.org/schema/core"
  persistent="false"><plugins>
  {login}
  <authorizationPlugin><map><authorizationMap><authorizationEntries>
    <authorizationEntry queue="&gt;" read="ops" write="ops" admin="ops"/>
    <authorizationEntry topic="a" read="shop"/>
  </authorizationEntries><tempDestinationAuthorizationEntry>
    <tempDestinationAuthorizationEntry read="ops" write="ops" admin="ops"/>
  </tempDestinationAuthorizationEntry></authorizationMap></map></authorizationPlugin>
 </plugins><transportConnectors><transportConnector name="s" uri="stomp://127.0.0.1:0"/></transportConnectors>
</broker></beans>"""
SIMPLE = """<simpleAuthenticationPlugin><users>
   <authenticationUser username="a" password="sesame" groups="ops"/></users></simpleAuthenticationPlugin>"""


def security_of(directory: Path, text: str, name: str, **defines: str) -> Security:
    (directory / name).write_text(text)
    found = read(directory / name, spoken=SPOKEN, bridges=True, defines=defines, environment={})
    assert found.config is not None, [finding.describe() for finding in found.findings]
    return found.config.security


def spots(entries: object) -> list[tuple[str, int]]:
    return [(Path(one.at.file).name, one.at.line) for one in entries]  # type: ignore[attr-defined]


def jaas(directory: Path, module: str, groups: str) -> None:
    (directory / "login.config").write_text(LOGIN.format(module=module, groups=groups))
    (directory / "users.properties").write_text("# who comes in\nboss = sesame\n\napp=sesame\n")
    (directory / "groups.properties").write_text("ops=boss\nshop=app\n")


def test_of_classic(tmp_path: Path) -> None:
    found = security_of(tmp_path, CLASSIC.format(login=SIMPLE), "activemq.xml")
    assert spots(found.users or ()) == [("activemq.xml", 4)]
    assert spots(found.rules or ()) == [("activemq.xml", 6), ("activemq.xml", 7)]
    assert found.temporary is not None
    assert spots([found.temporary]) == [("activemq.xml", 9)]


def test_of_jaas_in_either_family(tmp_path: Path) -> None:
    jaas(tmp_path, "org.apache.activemq.jaas.PropertiesLoginModule", "group")
    plugin = '<jaasAuthenticationPlugin configuration="activemq"/>'
    found = security_of(tmp_path, CLASSIC.format(login=plugin), "activemq.xml")
    assert spots(found.users or ()) == [("users.properties", 2), ("users.properties", 4)]
    jaas(tmp_path, "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule", "role")
    found = security_of(tmp_path, ARTEMIS, "broker.xml")
    assert spots(found.users or ()) == [("users.properties", 2), ("users.properties", 4)]
    rules = [one for one in found.rules or () if one.at.file]
    assert sorted(dict.fromkeys(spots(rules))) == [("broker.xml", 5), ("broker.xml", 8)]


def test_of_broker_properties_it_is_said_who_says_it(tmp_path: Path) -> None:
    jaas(tmp_path, "org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule", "role")
    given = {'brokerconfig.securityRoles."new.#".shop.send': "true"}
    found = security_of(tmp_path, ARTEMIS, "broker.xml", **given)
    assert ("the command line", 0) in spots(found.rules or ())


def test_a_setting_has_one_whole_name() -> None:
    assert [Said(*one).setting for one in (("a/b", "c", ""), ("--x", "", ""), ("", "c", ""))] == ["a/b/c", "--x", "c"]
    assert Spot("f", 3).fields() == {"file": "f", "line": 3}
