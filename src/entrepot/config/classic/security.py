"""``simpleAuthenticationPlugin``, the ``jaas`` plugins and ``authorizationPlugin`` (classic.md 7.1 and 7.3).

JAAS is read as far as its files go: modules with property files, for passwords and for certificates, and the guest.
What another module would decide (LDAP, classes) is refused: to leave one out could let somebody in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from entrepot.base.values import boolean_or
from entrepot.config.classic.policies import KIND_ROUTING, destinations, physical_name
from entrepot.config.jaas import Family, certificates, login, names, plain
from entrepot.config.model import BrokerConfig
from entrepot.config.reading import Bean, Reader
from entrepot.config.security import OPEN, RuleEntry, Security, SubjectEntry, UserEntry
from entrepot.core.security.access import ADMIN, READ, WRITE
from entrepot.model.address import Destination

DOMAIN: Final = "activemq-domain"
ASKING: Final = ("needClientAuth", "wantClientAuth")
CERTIFIED: Final = ("jaasCertificateAuthenticationPlugin", "jaasDualAuthenticationPlugin")
TLS_DOMAIN: Final = "activemq-ssl-domain"
GRANTS: Final = {"read": READ, "write": WRITE, "admin": ADMIN}
EVERYTHING: Final = ">"


def _kept(reader: Reader, password: str, options: Mapping[str, str]) -> str:
    """Return a password of ``users.properties``, which is the password itself unless the module decrypts."""
    if boolean_or(options.get("decrypt", ""), False):
        password = reader.sources.fill(password)
    reader.findings.hide(password)
    return plain(password)


FAMILY: Final = Family(
    properties="org.apache.activemq.jaas.PropertiesLoginModule",
    guest="org.apache.activemq.jaas.GuestLoginModule",
    certificates="org.apache.activemq.jaas.TextFileCertificateLoginModule",
    group="group",
    kept=_kept,
    others=("decrypt", "algorithm"),
)


def security(reader: Reader, plugins: list[Bean]) -> Security:
    """Return what the plugins say; open where there are none."""
    found = OPEN
    seen: dict[str, Bean] = {}
    for plugin in plugins:
        name = plugin.kind.name
        kind = "who comes in" if name.endswith("AuthenticationPlugin") else "what he may do"
        if name not in _READERS:
            continue
        if kind in seen:
            reader.error(plugin, f"<{seen[kind].kind.name}> says already {kind}", "take one of them out")
            continue
        seen[kind] = plugin
        found = _READERS[name](reader, plugin, found)
    if found.rules is not None and found.users is None:
        for plugin in plugins:
            if plugin.kind.name == "authorizationPlugin":
                reader.warn(
                    plugin,
                    "nobody has a group, so only what is given to * may be done by anybody",
                    "add a simpleAuthenticationPlugin",
                )
    return found


# -- who comes in ------------------------------------------------------------------------------------------------------


def _simple(reader: Reader, plugin: Bean, found: Security) -> Security:
    users: dict[str, UserEntry] = {}
    for bean in plugin.many("users"):
        name = bean.text("username")
        entry = UserEntry(name, plain(bean.text("password")), names(bean.text("groups")), bean.spot("username"))
        if not name:
            reader.error(bean, "it has no username", "give one")
        elif name in users:
            reader.error(bean, f"there are two users {name!r}", "take one out", "username")
        users[name] = entry
    user = plugin.text("anonymousUser", "anonymous")
    group = plugin.text("anonymousGroup", "anonymous")
    anonymous = SubjectEntry(user, (group,)) if plugin.get("anonymousAccessAllowed", False) else None
    return _with(found, Security(users=tuple(users.values()), anonymous=anonymous))


def _jaas(reader: Reader, plugin: Bean, found: Security) -> Security:
    realm = plugin.text("configuration", DOMAIN)
    directory = Path(reader.sources.directories.get("conf", "."))
    made = login(reader, plugin, FAMILY, realm, directory, "configuration")
    return found if made is None else _with(found, made)


def _jaas_certificates(reader: Reader, plugin: Bean, found: Security) -> Security:
    realm = plugin.text("configuration", DOMAIN)
    directory = Path(reader.sources.directories.get("conf", "."))
    made = certificates(reader, plugin, FAMILY, realm, directory, "configuration")
    return found if made is None else _with(found, Security(users=(), certified=made, passwords=False))


def _jaas_both(reader: Reader, plugin: Bean, found: Security) -> Security:
    directory = Path(reader.sources.directories.get("conf", "."))
    plain_realm = plugin.text("configuration", DOMAIN)
    tls_realm = plugin.text("sslConfiguration", TLS_DOMAIN)
    others = login(reader, plugin, FAMILY, plain_realm, directory, "configuration")
    made = certificates(reader, plugin, FAMILY, tls_realm, directory, "sslConfiguration")
    return found if others is None or made is None else _with(found, replace(others, certified=made))


def _with(found: Security, made: Security) -> Security:
    """Return both: who comes in from ``made``, what he may do from ``found``."""
    return replace(made, rules=found.rules, temporary=found.temporary)


def ask_for_certificates(reader: Reader, plugins: list[Bean], config: BrokerConfig) -> None:
    """Warn of users who are known by their certificates, when no connector asks for any."""
    asks = any(f"{option}=true" in one.uri for one in config.connectors for option in ASKING)
    for plugin in plugins:
        if config.security.certified is not None and not asks and plugin.kind.name in CERTIFIED:
            what = "no transport connector asks for certificates: nobody comes in over TLS"
            reader.warn(plugin, what, "add ?needClientAuth=true to the URI of an ssl: connector")


# -- what he may do ----------------------------------------------------------------------------------------------------


def _rights(reader: Reader, plugin: Bean, found: Security) -> Security:
    rules: list[RuleEntry] = []
    temporary: RuleEntry | None = None
    for table in plugin.many("map"):
        table.text("groupClass")
        for bean in table.many("authorizationEntries", "defaultEntry"):
            rules += _entries(reader, bean)
        one = table.one("tempDestinationAuthorizationEntry")
        if one is not None:
            temporary = RuleEntry(EVERYTHING, _grants(one), at=one.spot())
    return replace(found, rules=tuple(rules), temporary=temporary)


def _entries(reader: Reader, bean: Bean) -> list[RuleEntry]:
    grants = _grants(bean)
    places: list[Destination] = []
    given = 0
    for kind, routing in KIND_ROUTING.items():
        text = bean.text(kind)
        if text:
            given += 1
            places += destinations(reader, bean, text, routing, kind)
    nested = bean.one("destination")
    if nested is not None:
        given += 1
        places += destinations(reader, nested, physical_name(nested), KIND_ROUTING.get(nested.kind.name, 0))
    if given == 0:  # the entry by default, or one that was forgotten: Classic refuses the latter
        if bean.element.path.rpartition("/")[0].endswith("defaultEntry"):
            return [RuleEntry(EVERYTHING, grants, at=bean.spot())]
        reader.error(bean, "it says for no destination", "give queue or topic")
    return [RuleEntry(place.name, grants, place.routing, at=bean.spot()) for place in places]


def _grants(bean: Bean) -> tuple[tuple[str, int], ...]:
    bean.text("groupClass")
    found: dict[str, int] = {}
    for word, rights in GRANTS.items():
        for group in names(bean.text(word)):
            found[group] = found.get(group, 0) | rights
    return tuple(found.items())


_READERS: Final = {
    "simpleAuthenticationPlugin": _simple,
    "jaasAuthenticationPlugin": _jaas,
    "jaasCertificateAuthenticationPlugin": _jaas_certificates,
    "jaasDualAuthenticationPlugin": _jaas_both,
    "authorizationPlugin": _rights,
}
