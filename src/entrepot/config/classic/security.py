"""``simpleAuthenticationPlugin``, ``jaasAuthenticationPlugin`` and ``authorizationPlugin`` (classic.md 7.1 and 7.3).

JAAS is read as far as its files go: modules with property files, and the guest. What another module would decide (LDAP,
certificates, classes) is refused: to leave one out could let somebody in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidConfiguration
from entrepot.config import properties
from entrepot.config.classic.login import Module
from entrepot.config.classic.login import parse as parse_login
from entrepot.config.classic.policies import KIND_ROUTING, destinations, physical_name
from entrepot.config.reading import Bean, Reader
from entrepot.config.security import OPEN, RuleEntry, Security, SubjectEntry, UserEntry
from entrepot.core.access import ADMIN, READ, WRITE
from entrepot.core.passwords import PLAIN
from entrepot.model.address import Destination

LOGIN_FILE: Final = "java.security.auth.login.config"
DOMAIN: Final = "activemq-domain"
PROPERTIES: Final = "org.apache.activemq.jaas.PropertiesLoginModule"
GUEST: Final = "org.apache.activemq.jaas.GuestLoginModule"
USER_FILE: Final = "org.apache.activemq.jaas.properties.user"
GROUP_FILE: Final = "org.apache.activemq.jaas.properties.group"
GUEST_USER: Final = "org.apache.activemq.jaas.guest.user"
GUEST_GROUP: Final = "org.apache.activemq.jaas.guest.group"
KNOWN: Final = {
    PROPERTIES: (USER_FILE, GROUP_FILE, "baseDir", "debug", "reload", "decrypt", "algorithm"),
    GUEST: (GUEST_USER, GUEST_GROUP, "credentialsInvalidate", "debug"),
}
OUGHT: Final = "use a PropertiesLoginModule, a GuestLoginModule, or simpleAuthenticationPlugin"
GRANTS: Final = {"read": READ, "write": WRITE, "admin": ADMIN}
EVERYTHING: Final = ">"


def kept(password: str) -> str:
    """Return a password of a file of ActiveMQ, which is always the password itself, as ours are kept."""
    return f"{PLAIN}:{password}"


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
        entry = UserEntry(name, kept(bean.text("password")), _names(bean.text("groups")))
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
    named = reader.sources.defines.get(LOGIN_FILE)
    path = Path(named) if named else Path(reader.sources.directories.get("conf", ".")) / "login.config"
    try:
        modules = parse_login(_text_of(path)).get(realm)
        if modules is None:
            raise InvalidConfiguration(f"{path} has no entry {realm!r}", remedy="name one of its entries")
        made = _of_modules(reader, plugin, modules, path.parent)
    except InvalidConfiguration as error:
        remedy = error.remedy or f"put it there, or say where it is: -D {LOGIN_FILE}=FILE"
        reader.error(plugin, f"{path}: {error.message}", remedy, "configuration")
        return found
    return _with(found, made)


def _of_modules(reader: Reader, plugin: Bean, modules: list[Module], directory: Path) -> Security:
    """Return what the modules of one entry decide together. Raises InvalidConfiguration for what is not said here."""
    for module in modules:
        if module.name not in KNOWN:
            raise InvalidConfiguration(f"the module {module.name} is not known here", remedy=OUGHT)
        for option in module.options:
            if option not in KNOWN[module.name]:
                what = f"line {module.line}: {module.name} has no option {option!r} here"
                raise InvalidConfiguration(what, remedy=OUGHT)
    kinds = [module.name for module in modules]
    if kinds == [PROPERTIES]:
        return Security(users=_of_properties(reader, plugin, modules[0], directory))
    if kinds == [GUEST]:
        guest, only_without = _of_guest(modules[0])
        return Security(users=(), anonymous=guest, stranger=None if only_without else guest, names_suffice=True)
    if kinds == [PROPERTIES, GUEST] and modules[0].flag == "sufficient" and modules[1].flag != "optional":
        guest, only_without = _of_guest(modules[1])
        users = _of_properties(reader, plugin, modules[0], directory)
        return Security(users=users, anonymous=guest, stranger=None if only_without else guest, names_suffice=True)
    if kinds == [GUEST, PROPERTIES] and modules[0].flag == "sufficient" and modules[1].flag != "optional":
        guest, only_without = _of_guest(modules[0])
        if only_without:
            users = _of_properties(reader, plugin, modules[1], directory)
            return Security(users=users, anonymous=guest, names_suffice=True)
        raise InvalidConfiguration(
            "the guest comes first: nobody would be anybody else", remedy="set credentialsInvalidate=true on it"
        )
    raise InvalidConfiguration(
        "these modules with these flags mean nothing here",
        remedy="one module alone, or a sufficient PropertiesLoginModule and behind it a sufficient GuestLoginModule",
    )


def _of_guest(module: Module) -> tuple[SubjectEntry, bool]:
    """Return the guest, and whether only those are guests who give no password."""
    name = module.options.get(GUEST_USER, "guest")
    group = module.options.get(GUEST_GROUP, "guests")
    return SubjectEntry(name, (group,)), module.options.get("credentialsInvalidate", "false") == "true"


def _of_properties(reader: Reader, plugin: Bean, module: Module, directory: Path) -> tuple[UserEntry, ...]:
    if module.options.get("reload", "false") == "true":
        reader.warn(plugin, "a change of the users takes a restart", "restart the broker", "configuration")
    base = Path(module.options.get("baseDir", "") or directory)
    groups: dict[str, list[str]] = {}
    for group, (members, _) in properties.parse(_text_of(base / _need(module, GROUP_FILE))).items():
        for name in _names(members):
            groups.setdefault(name, []).append(group)
    users: list[UserEntry] = []
    for name, (password, _) in properties.parse(_text_of(base / _need(module, USER_FILE))).items():
        if module.options.get("decrypt", "false") == "true":
            password = reader.sources.fill(password)
        reader.findings.hide(password)
        users.append(UserEntry(name, kept(password), tuple(groups.get(name, ()))))
    return tuple(users)


def _need(module: Module, option: str) -> str:
    if option not in module.options:
        raise InvalidConfiguration(f"line {module.line}: {module.name} does not say {option}", remedy="name the file")
    return module.options[option]


def _text_of(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidConfiguration(f"cannot read {path}: {error.strerror}", remedy="check the name") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")  # what Java says these files are in


def _with(found: Security, made: Security) -> Security:
    """Return both: who comes in from ``made``, what he may do from ``found``."""
    return Security(
        users=made.users,
        anonymous=made.anonymous,
        stranger=made.stranger,
        names_suffice=made.names_suffice,
        rules=found.rules,
        temporary=found.temporary,
    )


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
            temporary = RuleEntry(EVERYTHING, _grants(one))
    return Security(
        users=found.users,
        anonymous=found.anonymous,
        stranger=found.stranger,
        names_suffice=found.names_suffice,
        rules=tuple(rules),
        temporary=temporary,
    )


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
            return [RuleEntry(EVERYTHING, grants)]
        reader.error(bean, "it says for no destination", "give queue or topic")
    return [RuleEntry(place.name, grants, place.routing) for place in places]


def _grants(bean: Bean) -> tuple[tuple[str, int], ...]:
    bean.text("groupClass")
    found: dict[str, int] = {}
    for word, rights in GRANTS.items():
        for group in _names(bean.text(word)):
            found[group] = found.get(group, 0) | rights
    return tuple(found.items())


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


_READERS: Final = {
    "simpleAuthenticationPlugin": _simple,
    "jaasAuthenticationPlugin": _jaas,
    "authorizationPlugin": _rights,
}
