"""Users and rights of one ``activemq.xml``, at ActiveMQ Classic and here: what an unmodified Java client sees of them.

The transcripts of `java/Security.java` must be the same. Where this broker is stricter on purpose (docs/security.md)
the program does not go; `tests/unit/core/security/test_access.py` does.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import classic
import java_clients
import ours
import pytest

PLUGINS: Final = """\
<plugins>
<simpleAuthenticationPlugin><users>
  <authenticationUser username="boss" password="manager" groups="admins,shop"/>
  <authenticationUser username="app" password="secret" groups="shop"/>
  <authenticationUser username="poor" password="church" groups="mice"/>
</users></simpleAuthenticationPlugin>
<authorizationPlugin><map><authorizationMap><authorizationEntries>
  <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
  <authorizationEntry topic=">" read="admins" write="admins" admin="admins"/>
  <authorizationEntry queue="SHOP.>" admin="shop"/>
  <authorizationEntry queue="SHOP.own" read="shop" write="shop"/>
  <authorizationEntry queue="SHOP.tx" read="shop" write="shop"/>
  <authorizationEntry queue="SHOP.in.>" write="shop"/>
  <authorizationEntry queue="SHOP.out.>" read="shop"/>
  <authorizationEntry queue="LOCKED.>" read="shop" write="shop"/>
  <authorizationEntry topic="LOCKED.>" read="shop" write="shop"/>
  <authorizationEntry topic="SHOP.>" read="shop" write="shop" admin="shop"/>
  <authorizationEntry topic="ActiveMQ.Advisory.>" read="shop" write="shop" admin="shop"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin>
</plugins>
"""
REALM: Final = '<plugins><jaasAuthenticationPlugin configuration="users-of-files"/></plugins>'
LOGIN: Final = """\
users-of-files {
    org.apache.activemq.jaas.PropertiesLoginModule sufficient
        org.apache.activemq.jaas.properties.user="users.properties"
        org.apache.activemq.jaas.properties.group="groups.properties";
    org.apache.activemq.jaas.GuestLoginModule sufficient
        credentialsInvalidate=true
        org.apache.activemq.jaas.guest.user="visitor"
        org.apache.activemq.jaas.guest.group="visitors";
};
"""

pytestmark = pytest.mark.skipif(bool(java_clients.unavailable()), reason=f"Java clients: {java_clients.unavailable()}")


@pytest.fixture(scope="module")
def program() -> java_clients.Program:
    return java_clients.Program()


def transcripts(program: java_clients.Program, home: Path, plugins: str, *arguments: str) -> tuple[str, str]:
    """Return what the program sees of ActiveMQ and of this broker, which run side by side."""
    reference = classic.Classic(home / "classic", plugins=plugins)
    mine = ours.configured(home / "ours", plugins=plugins)
    for broker in (reference, mine):
        (broker.home / "login.config").write_text(LOGIN)
        (broker.home / "users.properties").write_text("app=secret\n")
        (broker.home / "groups.properties").write_text("shop=app\n")
    reference.java += [f"-Djava.security.auth.login.config={reference.home / 'login.config'}"]

    def run(broker: classic.Classic | ours.Entrepot) -> str:
        try:
            broker.start().await_ready()
            return program.run("Security", broker.url, *arguments)
        finally:
            broker.kill()

    with ThreadPoolExecutor(2) as pool:
        wanted, seen = pool.map(run, (reference, mine))
    return wanted, seen


def test_users_and_rights_are_those_of_activemq(program: java_clients.Program, tmp_path: Path) -> None:
    wanted, seen = transcripts(program, tmp_path, PLUGINS)
    assert seen.splitlines() == wanted.splitlines()
    for proof in ("[app] or password is invalid", "write to: queue://SECRET.new", "create: queue://LOCKED.new"):
        assert proof in wanted


def test_a_realm_of_files_with_a_guest_lets_in_whom_activemq_does(
    program: java_clients.Program, tmp_path: Path
) -> None:
    wanted, seen = transcripts(program, tmp_path, REALM, "admission")
    assert seen.splitlines() == wanted.splitlines()
    assert "without: " in wanted
