"""security-settings, login.config and its property files beside broker.xml: who comes in, and what he may do then."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

import pytest

from entrepot.base.errors import AccessDenied, UserUnknown
from entrepot.base.scram import DIGESTS, keys_of
from entrepot.config.artemis import interpret
from entrepot.config.artemis.masks import CODEC
from entrepot.config.findings import Findings, Severity
from entrepot.config.reading import Reading
from entrepot.config.security import OPEN, Security, SubjectEntry, protect
from entrepot.config.sources import Sources
from entrepot.config.xml import parse
from entrepot.core.operators.management import install
from entrepot.core.operators.rbac import Guard
from entrepot.core.security.access import Access
from entrepot.core.security.directory import Subject
from entrepot.core.security.passwords import Kept
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from kit import Rig, admitted

MODULES = "org.apache.activemq.artemis.spi.core.security.jaas"
PROPERTIES = f"""{MODULES}.PropertiesLoginModule sufficient
  debug=false reload=true
  org.apache.activemq.jaas.properties.user="artemis-users.properties"
  org.apache.activemq.jaas.properties.role="artemis-roles.properties";"""
GUEST = f"""{MODULES}.GuestLoginModule sufficient
  org.apache.activemq.jaas.guest.user="visitor" org.apache.activemq.jaas.guest.role="guests";"""
SALT = bytes(range(32))
HASH = hashlib.pbkdf2_hmac("sha1", b"s3cret", SALT, 1024, 64)
USERS = f"boss = ENC(1024:{SALT.hex().upper()}:{HASH.hex().upper()})\napp = plain word\n"
ROLES = "admins = boss\nshop = app, boss\n"
ALL = (
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "createDurableQueue",
    "deleteDurableQueue",
    "createAddress",
    "deleteAddress",
    "consume",
    "browse",
    "send",
    "manage",
)


def setting(match: str, **roles: str) -> str:
    """Return a setting: role -> the types that it has."""
    kinds: dict[str, list[str]] = {}
    for role, types in roles.items():
        for kind in types.split():
            kinds.setdefault(kind, []).append(role)
    inside = "".join(f'<permission type="{kind}" roles="{", ".join(held)}"/>' for kind, held in kinds.items())
    return f'<security-setting match="{match}">{inside}</security-setting>'


EVERYTHING = setting("#", admins=" ".join(ALL))


class Instance:
    """The `etc` of an instance of Artemis."""

    def __init__(self, place: Path) -> None:
        self.etc = place / "etc"
        self.etc.mkdir()
        self.write("login.config", f"activemq {{ {PROPERTIES} }};")
        self.write("artemis-users.properties", USERS)
        self.write("artemis-roles.properties", ROLES)

    def write(self, name: str, text: str) -> None:
        (self.etc / name).write_text(text)

    def read(self, settings: str = EVERYTHING, more: str = "") -> Reading:
        file = str(self.etc / "broker.xml")
        text = (
            '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
            f"<persistence-enabled>false</persistence-enabled>{more}"
            f"<security-settings>{settings}</security-settings>"
            '<acceptors><acceptor name="a">tcp://127.0.0.1:0?protocols=STOMP</acceptor></acceptors>'
            "</core></configuration>"
        )
        sources = Sources(Findings())
        sources.file = file
        return interpret(parse(text.encode(), file), sources, spoken=("stomp",))

    def security(self, settings: str = EVERYTHING) -> Security:
        reading = self.read(settings)
        assert reading.config is not None, said(reading, Severity.ERROR)
        return reading.config.security

    def access(self, settings: str = EVERYTHING) -> Access:
        broker = Rig(disk=False).broker
        install(broker)
        protect(self.security(settings), broker.access)
        return broker.access

    def errors(self, settings: str = EVERYTHING) -> list[str]:
        reading = self.read(settings)
        assert (reading.config is None) == bool(said(reading, Severity.ERROR))
        return said(reading, Severity.ERROR)


def said(reading: Reading, severity: Severity) -> list[str]:
    return [finding.what for finding in reading.findings if finding.severity is severity]


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    return Instance(tmp_path)


def queue(name: str) -> list[Destination]:
    return [Destination(name, ANYCAST)]


def topic(name: str) -> list[Destination]:
    return [Destination(name, MULTICAST)]


def refused(action: object) -> bool:
    assert callable(action)
    try:
        action()
    except AccessDenied:
        return True
    return False


def test_users_come_in_by_a_hash_of_artemis_or_a_plain_word(instance: Instance) -> None:
    access = instance.access()
    assert list(admitted(access, "boss", "s3cret").groups) == ["admins", "shop"]
    assert list(admitted(access, "boss", "s3cret").groups) == ["admins", "shop"], "recognised without the hash"
    assert list(admitted(access, "app", "plain word").groups) == ["shop"]
    for name, password in (("boss", "S3cret"), ("boss", "s3cret\0"), ("app", ""), ("x", "y"), (None, None)):
        with pytest.raises(UserUnknown):
            admitted(access, name, password)


def test_a_guest_is_who_gives_nothing_or_something_wrong(instance: Instance) -> None:
    instance.write("login.config", f"activemq {{ {PROPERTIES} {GUEST} }};")
    found = instance.security()
    assert found.anonymous == found.stranger == SubjectEntry("visitor", ("guests",))
    access = instance.access()
    assert admitted(access, "boss", "wrong").name == "visitor"
    assert admitted(access, "boss", "s3cret").name == "boss"


def test_the_domain_is_what_bootstrap_xml_says(instance: Instance) -> None:
    instance.write("login.config", f"other {{ {PROPERTIES} }};")
    assert any("no entry 'activemq'" in what for what in instance.errors())
    instance.write("bootstrap.xml", '<broker xmlns="http://x"><jaas-security domain="other"/></broker>')
    assert instance.errors() == []
    instance.write("bootstrap.xml", '<broker xmlns="http://x"><basic-security/></broker>')
    assert any("<basic-security>" in what for what in instance.errors())


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("login.config", "activemq { org.x.LDAPLoginModule required; };", "LDAPLoginModule is not known"),
        ("login.config", "activemq {", "is missing"),
        ("artemis-users.properties", "a = ENC(32c6f67dae6cd61b0a7ad1702033aa81e6b2a760123f4360)", "not hashed"),
        ("artemis-users.properties", "a = ENC(0:aa:bb)", "make no sense"),
        ("artemis-users.properties", "a = ENC(x:aa:bb)", "cannot be read"),
    ],
)
def test_what_would_let_somebody_else_in_or_nobody_is_an_error(
    instance: Instance, file: str, text: str, message: str
) -> None:
    instance.write(file, text)
    found = instance.errors()
    assert any(message in what for what in found), found


def test_a_password_that_a_codec_hid_is_read_if_the_module_names_the_codec(instance: Instance) -> None:
    pytest.importorskip("cryptography")
    option = f'org.apache.activemq.jaas.properties.password.codec="{CODEC};key=mykey"'
    instance.write("login.config", "activemq { " + PROPERTIES.rstrip(";") + f" {option}; }};")
    instance.write("artemis-users.properties", USERS + "hid = ENC(-7c27a4b22586ab06)\n")
    kept = {user.name: user.password for user in instance.security().users or ()}
    assert kept["hid"] == "plain:hello"
    assert kept["boss"].startswith("pbkdf2")
    instance.write("artemis-users.properties", USERS + "hid = ENC(12)\n")
    assert any("masked with another key" in what or "it " in what for what in instance.errors())


def test_a_role_of_another_system_stands_for_ours(instance: Instance) -> None:
    access = instance.access(setting("#", shop=" ".join(ALL)) + '<role-mapping from="app-users" to="shop, other"/>')
    access.send(Subject("x", ("app-users",)), queue("q"), "q")
    access.send(Subject("x", ("shop",)), queue("q"), "q")
    assert refused(lambda: access.send(Subject("x", ("other",)), queue("q"), "q"))


def test_files_that_are_not_there_are_an_error_that_says_where_they_were_looked_for(instance: Instance) -> None:
    (instance.etc / "artemis-roles.properties").unlink()
    assert any("artemis-roles.properties: No such file" in what for what in instance.errors())
    (instance.etc / "login.config").unlink()
    assert any("login.config: No such file" in what for what in instance.errors())


def test_a_broker_without_security_is_open_and_needs_no_files(instance: Instance) -> None:
    (instance.etc / "login.config").unlink()
    reading = instance.read(more="<security-enabled>false</security-enabled>")
    assert reading.config is not None
    assert reading.config.security == OPEN


def test_the_most_specific_setting_counts_and_nothing_is_inherited(instance: Instance) -> None:
    access = instance.access(EVERYTHING + setting("shop.#", shop=" ".join(ALL)) + setting("shop.secret.*", boss="send"))
    admin, app = Subject("a", ["admins"]), Subject("b", ["shop"])
    access.send(admin, queue("other"))
    access.send(app, queue("shop.orders"))
    assert refused(lambda: access.send(admin, queue("shop.orders")))
    assert refused(lambda: access.send(app, queue("shop.secret.x")))
    assert refused(lambda: access.send(app, queue("other")))
    assert refused(lambda: access.consume(app, topic("shop.#"), False)), "what is below is not the shop's"
    access.consume(app, topic("shop.orders.#"), False)


def test_what_no_setting_covers_is_nobodys(instance: Instance) -> None:
    access = instance.access(setting("a.#", admins=" ".join(ALL)))
    assert refused(lambda: access.send(Subject("a", ["admins"]), queue("b")))


def test_permissions_of_artemis_become_rights(instance: Instance) -> None:
    access = instance.access(
        setting(
            "#",
            makes="send createAddress createDurableQueue",
            half="send createAddress",
            reads="consume browse",
            plain="consume createNonDurableQueue createAddress",
            lasting="consume createDurableQueue deleteDurableQueue createAddress",
            runs="manage",
        )
    )
    who = {role: Subject(role, [role]) for role in ("makes", "half", "reads", "plain", "lasting", "runs")}
    access.send(who["makes"], queue("q"))
    assert refused(lambda: access.send(who["half"], queue("new")))
    access.send(who["half"], topic("t"))
    access.consume(who["plain"], topic("t"), False)
    assert refused(lambda: access.consume(who["plain"], topic("t"), True))
    access.consume(who["lasting"], topic("t"), True)
    assert refused(lambda: access.consume(who["reads"], topic("t"), False))
    access.send(who["runs"], queue("activemq.management"))
    assert refused(lambda: access.send(who["makes"], queue("activemq.management")))


def test_temporary_destinations_follow_the_setting_for_everything(instance: Instance) -> None:
    own = Destination("ID:x", ANYCAST, temporary=True)
    access = instance.access(setting("#", a="createNonDurableQueue createAddress send", b="send consume"))
    access.create(Subject("a", ["a"]), own)
    assert refused(lambda: access.create(Subject("b", ["b"]), own))
    assert refused(lambda: instance.access(setting("x", a=" ".join(ALL))).create(Subject("a", ["a"]), own))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('<security-setting match="a"><permission type="sned" roles="a"/></security-setting>', "no permission 'sned'"),
        ('<security-setting match="a"><permission type="send" roles="*"/></security-setting>', "would be everybody"),
        (setting("a", x="send") + setting("a", x="consume"), "two for 'a'"),
        (setting("a::q", x="send"), "one queue of an address"),
    ],
)
def test_settings_that_cannot_be_obeyed_are_errors(instance: Instance, settings: str, message: str) -> None:
    found = instance.errors(settings)
    assert any(message in what for what in found), found


def test_halves_and_what_has_no_meaning_are_named(instance: Instance) -> None:
    found = said(instance.read(setting("#", x="send createAddress view")), Severity.WARNING)
    assert any("x may make no queue" in what for what in found), found
    assert any("'view' has no meaning" in what for what in found), found
    made = instance.read(setting("#", x="send"))
    assert made.config is not None
    assert made.config.security.reloads, "reload=true"
    assert {"users.properties", "roles.properties"} <= {path.name.removeprefix("artemis-") for path in made.files}
    assert not any("may" in what for what in said(instance.read(), Severity.WARNING))


def test_single_operations_take_rights_of_their_own(instance: Instance) -> None:
    rules = setting("#", admins=" ".join(ALL)) + setting("mops.#", admins="view", shop="view")
    rules += setting("mops.queue.*.pause", admins="edit")
    reading = instance.read(rules, "<management-message-rbac>true</management-message-rbac>")
    assert reading.config is not None
    assert not [one for one in said(reading, Severity.WARNING) if "no meaning" in one]
    notices = reading.config.notices
    assert (notices.guarded, notices.management) == ("mops", "activemq.management")
    rig = Rig()
    protect(reading.config.security, rig.broker.access)
    guard = Guard(rig.broker, notices.guarded, notices.views)
    boss, app = rig.broker.access.named("boss"), rig.broker.access.named("app")
    guard.check([boss, app], "queue.orders", "getMessageCount")
    guard.check([boss], "queue.orders", "pause")
    for subjects, method in (([app], "pause"), ([boss, app], "pause"), ([boss], "removeAllMessages"), ([], "isPaused")):
        with pytest.raises(AccessDenied):
            guard.check(subjects, "queue.orders", method)
    with pytest.raises(AccessDenied, match=r"AMQ229032: User: nobody .*'VIEW' on address mops.broker.getName"):
        guard.check([rig.broker.access.named("nobody")], "broker", "getName")


def test_a_pattern_of_methods_that_is_none_is_an_error(instance: Instance) -> None:
    more = "<view-permission-method-match-pattern>(</view-permission-method-match-pattern>"
    assert any("no pattern" in what for what in said(instance.read(EVERYTHING, more), Severity.ERROR))


# -- SCRAM -------------------------------------------------------------------------------------------------------------

PROOFS = f"""{MODULES}.SCRAMPropertiesLoginModule required
  org.apache.activemq.jaas.properties.user="artemis-users.properties"
  org.apache.activemq.jaas.properties.role="artemis-roles.properties";"""
PROVED = f"activemq {{ {MODULES}.SCRAMLoginModule required; }};\n"


def _line(name: str, digest: str) -> str:
    """Return a line as `SCRAMPropertiesLoginModule` writes it: the server's key comes before the stored one."""
    keys = keys_of(digest, "s3cret", SALT)
    salt, server, stored = (b64encode(one).decode() for one in (keys.salt, keys.server, keys.stored))
    return f"{name}=ENC({salt}\\:4096\\:{server}\\:{stored})\n"


def _proofs(instance: Instance, users: str) -> None:
    instance.write("login.config", PROVED + f"amqp-sasl-scram {{ {PROOFS} }};")
    instance.write("artemis-users.properties", users)


def test_users_of_scram_are_read_with_their_keys(instance: Instance) -> None:
    lines = _line("boss|SHA256", "SHA-256") + _line("boss|SHA512", "SHA-512") + _line("a\\=2Cb", "SHA-512")
    _proofs(instance, lines + "app=plain word\n")
    users = {one.name: one for one in instance.security().users or ()}
    assert {name: one.groups for name, one in users.items()} == {
        "boss": ("admins", "shop"), "a,b": (), "app": ("shop",),
    }  # fmt: skip
    boss, other = Kept(users["boss"].password), Kept(users["a,b"].password)
    assert boss.matches("s3cret")
    assert not boss.matches("secret")
    for digest in DIGESTS:
        keys = boss.keys(digest, b"")
        assert keys is not None
        assert keys.text() == keys_of(digest, "s3cret", SALT).text()
    assert (other.keys("SHA-256", b"") is None, other.keys("SHA-512", b"") is None) == (True, False)
    assert Kept(users["app"].password).matches("plain word")


@pytest.mark.parametrize("line", ["x|SHA256=ENC(1)", "x|SHA1=ENC(a:1:b:c)", "x|SHA256=word", "x=ENC(AAAA:1:AAAA:AAAA)"])
def test_keys_that_cannot_be_read_are_said(instance: Instance, line: str) -> None:
    _proofs(instance, line + "\n")
    assert any("SCRAM" in one for one in instance.errors())


def test_who_has_proved_must_have_proved_somewhere(instance: Instance) -> None:
    instance.write("login.config", PROVED)
    assert any("SCRAM" in one for one in instance.errors())
