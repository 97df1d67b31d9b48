"""Who comes in, by ``login.config`` of JAAS and the property files that it names: both families alike, but for names.

Only modules with property files, for passwords or certificates, and the guest are understood. What another module would
decide (LDAP, classes) is refused: to leave one out could let somebody in.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.base.provenance import Spot
from entrepot.base.scram import DIGESTS, Keys, kept
from entrepot.base.values import boolean_or
from entrepot.config import properties
from entrepot.config.login import Module, parse
from entrepot.config.reading import Bean, Reader
from entrepot.config.security import CertificateEntry, Security, SubjectEntry, UserEntry
from entrepot.core.security.passwords import PLAIN

T = TypeVar("T")

LOGIN_FILE: Final = "java.security.auth.login.config"
OPTION: Final = "org.apache.activemq.jaas."
CERTIFICATES: Final = OPTION + "textfiledn."
CERTIFICATE_USERS: Final = CERTIFICATES + "user"
PROOFS: Final = {"SHA256": "SHA-256", "SHA512": "SHA-512"}
OUGHT: Final = "use a PropertiesLoginModule, a GuestLoginModule, or both"


def plain(password: str) -> str:
    """Return a password that a file has as it is, as ours are kept."""
    return f"{PLAIN}:{password}"


class Family(Struct, frozen=True):
    """How one family calls its modules and what a user belongs to (``group``).

    ``reloads``: its option ``reload`` is obeyed.

    ``proofs``: its module whose files have keys of SCRAM, ``proving``: the one that lets in whom that has proved.
    ``properties``, ``guest``, ``certificates``: its modules, "" for one that it has not. ``kept`` says how a password
    of its files is kept here, from the password and the options of the module.
    """

    properties: str
    guest: str
    group: str
    kept: Callable[[Reader, str, Mapping[str, str]], str]
    certificates: str = ""
    others: tuple[str, ...] = ()
    reloads: bool = False
    proofs: str = ""
    proving: str = ""

    def options(self, name: str) -> tuple[str, ...]:
        """Return the options of a module; none for one that is not known."""
        if name == self.properties or (name and name == self.proofs):
            return (self.users, self.groups, "baseDir", "debug", "reload", *self.others)
        if name == self.guest:
            return (f"{OPTION}guest.user", f"{OPTION}guest.{self.group}", "credentialsInvalidate", "debug")
        if name and name == self.proving:
            return ("debug",)
        if name and name == self.certificates:
            return (CERTIFICATE_USERS, f"{CERTIFICATES}{self.group}", "baseDir", "debug", "reload")
        return ()

    @property
    def users(self) -> str:
        """Return the option that names the file of users."""
        return f"{OPTION}properties.user"

    @property
    def groups(self) -> str:
        """Return the option that names the file of groups, or roles."""
        return f"{OPTION}properties.{self.group}"


def login(
    reader: Reader, bean: Bean, family: Family, realm: str, directory: Path, attribute: str = ""
) -> Security | None:
    """Return who comes in by the entry ``realm`` of ``login.config`` in ``directory``; what is wrong is a finding."""
    return _read(_Login.of, reader, bean, family, realm, directory, attribute)


def certificates(
    reader: Reader, bean: Bean, family: Family, realm: str, directory: Path, attribute: str = ""
) -> tuple[CertificateEntry, ...] | None:
    """Return who comes in by his certificate, by the entry ``realm``; what is wrong is a finding."""
    return _read(_Login.of_certificates, reader, bean, family, realm, directory, attribute)


def _read(
    made: Callable[[_Login, list[Module]], T],
    reader: Reader,
    bean: Bean,
    family: Family,
    realm: str,
    directory: Path,
    attribute: str,
) -> T | None:
    named = reader.sources.defines.get(LOGIN_FILE)
    path = Path(named) if named else directory / "login.config"
    try:
        return made(_Login(reader, bean, family, path.parent, attribute), _modules(path, realm, family))
    except InvalidConfiguration as error:
        _refuse(reader, bean, path, error, attribute)
        return None


def _modules(path: Path, realm: str, family: Family) -> list[Module]:
    """Return the modules of an entry; of one that lets in whom SCRAM has proved, those of the entry that proves."""
    entries = parse(text_of(path))
    modules = entries.get(realm)
    if modules is None:
        raise InvalidConfiguration(f"{path} has no entry {realm!r}", remedy="name one of its entries")
    if not family.proving or [module.name for module in modules] != [family.proving]:
        return modules
    proofs = [one for one in entries.values() if [module.name for module in one] == [family.proofs]]
    if len(proofs) != 1:
        raise InvalidConfiguration(
            f"{realm!r} lets in whom SCRAM has proved, and {len(proofs)} entries of {path} prove that",
            remedy=f"have one entry with {family.proofs} alone",
        )
    return proofs[0]


def _refuse(reader: Reader, bean: Bean, path: Path, error: InvalidConfiguration, attribute: str) -> None:
    remedy = error.remedy or f"put it there, or say where it is: -D {LOGIN_FILE}=FILE"
    reader.error(bean, f"{path}: {error.message}", remedy, attribute)


class _Login:
    def __init__(self, reader: Reader, bean: Bean, family: Family, directory: Path, attribute: str) -> None:
        self.reader = reader
        self.bean = bean
        self.family = family
        self.directory = directory
        self.attribute = attribute
        self.reloads = False
        self.files: tuple[str, str] | None = None  # of users with their passwords, and of their groups

    def of(self, modules: list[Module]) -> Security:
        """Return what the modules of one entry decide together. Raises InvalidConfiguration for what is not known."""
        return replace(self._together(modules), reloads=self.reloads, files=self.files)

    def _together(self, modules: list[Module]) -> Security:
        family = self.family
        self._check_options(modules)
        kinds = [module.name for module in modules]
        first_decides = len(modules) == 2 and modules[0].flag == "sufficient" and modules[1].flag != "optional"
        if kinds == [family.properties]:
            return Security(users=self._users(modules[0]))
        if family.proofs and kinds == [family.proofs]:
            return Security(users=self._provers(modules[0]))
        if kinds == [family.guest]:
            guest, only_without = self._guest(modules[0])
            return Security(users=(), anonymous=guest, stranger=None if only_without else guest, names_suffice=True)
        if kinds == [family.properties, family.guest] and first_decides:
            guest, only_without = self._guest(modules[1])
            stranger = None if only_without else guest
            return Security(users=self._users(modules[0]), anonymous=guest, stranger=stranger, names_suffice=True)
        if kinds == [family.guest, family.properties] and first_decides:
            guest, only_without = self._guest(modules[0])
            if only_without:
                return Security(users=self._users(modules[1]), anonymous=guest, names_suffice=True)
            raise InvalidConfiguration(
                "the guest comes first: nobody would be anybody else", remedy="set credentialsInvalidate=true on it"
            )
        raise InvalidConfiguration(
            "these modules with these flags mean nothing here",
            remedy="one module alone, or a sufficient PropertiesLoginModule and a sufficient GuestLoginModule after it",
        )

    def of_certificates(self, modules: list[Module]) -> tuple[CertificateEntry, ...]:
        """Return who is known by his certificate. Raises InvalidConfiguration for what is not known."""
        self._check_options(modules)
        if [module.name for module in modules] != [self.family.certificates]:
            raise InvalidConfiguration("certificates need one module alone", remedy=f"use {self.family.certificates}")
        (module,) = modules
        return tuple(
            CertificateEntry(name, written, groups, at)
            for name, written, groups, at in self._listed(
                module, CERTIFICATE_USERS, f"{CERTIFICATES}{self.family.group}"
            )
        )

    def _check_options(self, modules: list[Module]) -> None:
        for module in modules:
            known = self.family.options(module.name)
            if not known:
                raise InvalidConfiguration(f"the module {module.name} is not known here", remedy=OUGHT)
            for option in module.options:
                if option not in known:
                    what = f"line {module.line}: {module.name} has no option {option!r} here"
                    raise InvalidConfiguration(what, remedy=OUGHT)

    def _guest(self, module: Module) -> tuple[SubjectEntry, bool]:
        """Return the guest, and whether only those are guests who give no password."""
        name = module.options.get(f"{OPTION}guest.user", "guest")
        group = module.options.get(f"{OPTION}guest.{self.family.group}", "guests")
        return SubjectEntry(name, (group,)), boolean_or(module.options.get("credentialsInvalidate", ""), False)

    def _users(self, module: Module) -> tuple[UserEntry, ...]:
        return tuple(
            UserEntry(name, self.family.kept(self.reader, password, module.options), groups, at)
            for name, password, groups, at in self._listed(module, self.family.users, self.family.groups)
        )

    def _provers(self, module: Module) -> tuple[UserEntry, ...]:
        """Return users of a file with lines ``NAME|SHA256 = ENC(SALT:ROUNDS:SERVERKEY:STOREDKEY)`` and plain ones."""
        keys: dict[str, list[Keys]] = {}
        plainly: dict[str, str] = {}
        groups: dict[str, tuple[str, ...]] = {}
        spots: dict[str, Spot] = {}
        for written, said, belongs, at in self._listed(module, self.family.users, self.family.groups, _prover):
            name = _prover(written)
            digest = written.partition("|")[2]
            groups[name] = belongs
            spots.setdefault(name, at)
            if digest or said.startswith("ENC("):
                keys.setdefault(name, []).append(_proof(said, digest))
            else:
                plainly[name] = self.family.kept(self.reader, said, module.options)
        return tuple(
            UserEntry(name, kept(keys[name]) if name in keys else plainly[name], groups[name], spots[name])
            for name in dict.fromkeys([*keys, *plainly])
        )

    def _listed(
        self, module: Module, users: str, groups: str, called: Callable[[str], str] = str
    ) -> list[tuple[str, str, tuple[str, ...], Spot]]:
        """Return users with what the file that the option ``users`` names has of them, their groups, and their lines.

        ``called``: how the other file calls who is written like that.
        """
        watched = boolean_or(module.options.get("reload", ""), False)
        if watched and self.family.reloads:
            self.reloads = True
        elif watched:
            what = "a change of the users takes a restart"
            self.reader.warn(self.bean, what, "restart the broker", self.attribute)
        base = Path(module.options.get("baseDir", "") or self.directory)
        belongs: dict[str, list[str]] = {}
        roles_file, users_file = base / self._need(module, groups), base / self._need(module, users)
        if users == self.family.users and module.name == self.family.properties and self.family.reloads:
            self.files = (str(users_file.absolute()), str(roles_file.absolute()))
        if self.reloads:
            self.reader.sources.files.update(dict.fromkeys((roles_file, users_file)))
        for group, (members, _) in properties.parse(text_of(roles_file)).items():
            for name in names(members):
                belongs.setdefault(name, []).append(group)
        found = properties.parse(text_of(users_file))
        return [
            (name, said, tuple(belongs.get(called(name), ())), Spot(str(users_file), line))
            for name, (said, line) in found.items()
        ]

    def _need(self, module: Module, option: str) -> str:
        if option not in module.options:
            what = f"line {module.line}: {module.name} does not say {option}"
            raise InvalidConfiguration(what, remedy="name the file")
        return module.options[option]


def _prover(written: str) -> str:
    """Return whose a line with keys of SCRAM is (`SCRAMPropertiesLoginModule`)."""
    return written.partition("|")[0].replace("=2C", ",").replace("=3D", "=")


def _proof(said: str, digest: str) -> Keys:
    """Return the keys that a line has: ``ENC(SALT:ROUNDS:SERVERKEY:STOREDKEY)``. Raises InvalidConfiguration."""
    parts = said.removeprefix("ENC(").removesuffix(")").split(":")
    try:
        salt, server, stored = (b64decode(parts[at], validate=True) for at in (0, 2, 3))
        alone = "SHA-512" if len(stored) == DIGESTS["SHA-512"][1] else "SHA-256"
        return Keys(PROOFS[digest] if digest else alone, int(parts[1]), salt, stored, server)
    except (ValueError, LookupError, InvalidOption):
        raise InvalidConfiguration(
            "keys of SCRAM cannot be read", remedy="write them as the main method of SCRAMPropertiesLoginModule does"
        ) from None


def text_of(path: Path) -> str:
    """Return the text of a file of Java. Raises InvalidConfiguration."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidConfiguration(f"cannot read {path}: {error.strerror}", remedy="check the name") from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")  # what Java says these files are in


def names(text: str) -> tuple[str, ...]:
    """Return the names between commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
