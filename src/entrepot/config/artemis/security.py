"""``security-settings``, and the users of ``login.config`` beside the file (artemis.md 7.1).

Which rights here a set of permissions is: `core/security/permissions.py`. A role that has a part of what is needed may
less than in Artemis, and a finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.base.provenance import NOWHERE, Spot
from entrepot.config.artemis.bootstrap import DOMAIN, Bootstrap
from entrepot.config.artemis.masks import decoder, key_of
from entrepot.config.artemis.reading import PartReader
from entrepot.config.jaas import Family, login, names, plain
from entrepot.config.reading import Bean, Reader
from entrepot.config.security import OPEN, RuleEntry, Security
from entrepot.config.users import WATCHED
from entrepot.core.security.access import CONSUME, EVERYBODY
from entrepot.core.security.passwords import PBKDF2, Kept
from entrepot.core.security.permissions import (
    CAUSED,
    OF_OPERATIONS,
    SIMPLE,
    Kinds,
    granted,
    of_queue,
    of_temporary,
    of_topic,
)
from entrepot.model.address import ANYCAST, MULTICAST

MODULES: Final = "org.apache.activemq.artemis.spi.core.security.jaas."
EVERYTHING: Final = "#"
PASSWORD_CODEC: Final = "org.apache.activemq.jaas.properties.password.codec"
MASKED: Final = re.compile(r"ENC\((?P<inside>.*)\)", re.DOTALL)

HALVES: Final = (
    ("createAddress", "createDurableQueue", "make no queue by using it"),
    ("deleteAddress", "deleteDurableQueue", "remove no queue"),
    ("createDurableQueue", "deleteDurableQueue", "not subscribe durably"),
    ("consume", "createNonDurableQueue", "not read from a topic"),
)
"""What is needed together: with one and not the other a role may not do what is said."""


def _kept(reader: Reader, password: str, options: Mapping[str, str]) -> str:
    """Return a password of ``artemis-users.properties``: hashed or masked in ENC(), or as it is.

    Raises InvalidConfiguration.
    """
    masked = MASKED.fullmatch(password)
    if masked is None:
        reader.findings.hide(password)
        return plain(password)
    if masked["inside"].count(":") != 2:
        return plain(_unmasked(reader, masked["inside"], options.get(PASSWORD_CODEC, "")))
    kept = f"{PBKDF2}:{masked['inside']}"
    try:
        Kept(kept)
    except InvalidOption as error:
        raise InvalidConfiguration(error.message, remedy="hash it anew: `artemis user reset` does") from None
    return kept


def _unmasked(reader: Reader, hidden: str, codec: str) -> str:
    """Return the password that a codec of two ways hid, if the module names one. Raises InvalidConfiguration."""
    if not codec:
        raise InvalidConfiguration(
            "a password in ENC() is not hashed, but hidden by a codec that the module does not name",
            remedy=f"hash it: `artemis user reset` does; or give the module {PASSWORD_CODEC}",
        )
    try:
        password = decoder(key_of(codec, reader.sources))(hidden)
    except ValueError as error:
        raise InvalidConfiguration(
            f"a password in ENC(): {error}", remedy="hash it: `artemis user reset` does"
        ) from None
    reader.findings.hide(password)
    return password


FAMILY: Final = Family(
    properties=MODULES + "PropertiesLoginModule",
    guest=MODULES + "GuestLoginModule",
    group="role",
    kept=_kept,
    others=(PASSWORD_CODEC,),
    proofs=MODULES + "SCRAMPropertiesLoginModule",
    proving=MODULES + "SCRAMLoginModule",
    reloads=True,
)


def security(reader: PartReader, core: Bean, bootstrap: Bootstrap | None) -> Security:
    """Return who may come in and what he may do. What is wrong is a finding; nobody is let in by mistake."""
    settings = core.one("security-settings")
    held, spots = _settings(reader, settings, bool(core.get("management-message-rbac", False)))
    if not core.get("security-enabled", True):
        return OPEN
    about = core if settings is None else settings
    try:
        realm = DOMAIN if bootstrap is None else bootstrap.domain()
    except InvalidConfiguration as error:
        reader.error(about, error.message, error.remedy)
        return OPEN
    found = users(reader, about, realm)
    if found is None:
        return OPEN
    if not held:
        reader.warn(about, "nobody has any right: there is no security-setting", "add one for #")
    rules: list[RuleEntry] = []
    for match, roles in held.items():
        said = tuple((role, tuple(kinds)) for role, kinds in roles.items())
        rules.append(RuleEntry(match, granted(roles, of_queue), ANYCAST, said, at=spots[match]))
        rules.append(RuleEntry(match, granted(roles, of_topic), MULTICAST, said, at=spots[match]))
    return Security(
        users=found.users,
        anonymous=found.anonymous,
        stranger=found.stranger,
        names_suffice=found.names_suffice,
        rules=(*rules, *(RuleEntry(name, ((EVERYBODY, CONSUME),), MULTICAST) for name in WATCHED)),
        temporary=RuleEntry(
            EVERYTHING, granted(held.get(EVERYTHING, {}), of_temporary), at=spots.get(EVERYTHING, NOWHERE)
        ),
        narrowest=True,
        reloads=found.reloads,
        files=found.files,
    )


def users(reader: Reader, bean: Bean, realm: str) -> Security | None:
    """Return who comes in by the entry ``realm`` of ``login.config`` beside the file; what is wrong is a finding."""
    return login(reader, bean, FAMILY, realm, Path(reader.sources.file).resolve().parent)


# -- what he may do ----------------------------------------------------------------------------------------------------


def _settings(
    reader: PartReader, settings: Bean | None, guarded: bool
) -> tuple[dict[str, dict[str, Kinds]], dict[str, Spot]]:
    """Return match -> role -> the types of permission that it has there, and match -> where that is said."""
    found: dict[str, dict[str, Kinds]] = {}
    spots: dict[str, Spot] = {}
    renamed = _renamed(settings)
    for bean in [] if settings is None else settings.many("security-setting"):
        match = bean.text("match")
        if not match or match in found:
            what = f"there are two for {match!r}" if match else "it says for no address"
            reader.error(bean, what, "give each address one", "match")
        if "::" in match:
            reader.error(bean, "rights on one queue of an address are not known", "name the address", "match")
        found[match] = _held(reader, bean, guarded, renamed)
        spots[match] = bean.spot("match")
        _say_halves(reader, bean, found[match])
    return found, spots


def _renamed(settings: Bean | None) -> dict[str, list[str]]:
    """Return role -> the roles of other systems that stand for it (``role-mapping``)."""
    found: dict[str, list[str]] = {}
    for bean in [] if settings is None else settings.many("role-mapping"):
        for role in names(bean.text("to")):
            found.setdefault(role, []).append(bean.text("from").strip())
    return found


def _held(reader: PartReader, bean: Bean, guarded: bool, renamed: Mapping[str, list[str]]) -> dict[str, Kinds]:
    """Return role -> the types of permission that it has. ``guarded``: single operations take rights."""
    held: dict[str, Kinds] = {}
    for permission in bean.many("permission"):
        kind = permission.text("type")
        if kind in OF_OPERATIONS and not guarded:
            what = f"{kind!r} has no meaning without management-message-rbac: nothing is managed by JMX here"
            reader.warn(permission, what, "set that, or take it out", "type")
        if kind not in SIMPLE and kind not in CAUSED and kind not in OF_OPERATIONS:
            known = ", ".join([*SIMPLE, *CAUSED, *OF_OPERATIONS])
            reader.error(permission, f"there is no permission {kind!r}", f"there are {known}", "type")
            continue
        for role in names(permission.text("roles")):
            if role == EVERYBODY:
                reader.error(permission, "* is no role: here it would be everybody", "name the roles", "roles")
                continue
            for one in (role, *renamed.get(role, ())):  # who has a mapped role has the rights of both, as in Artemis
                held.setdefault(one, {})[kind] = True
    return held


def _say_halves(reader: PartReader, bean: Bean, held: dict[str, Kinds]) -> None:
    for one, other, loss in HALVES:
        found = [role for role, kinds in held.items() if one in kinds and other not in kinds]
        if one == "consume":
            found = [role for role in found if "createDurableQueue" not in held[role]]
        elif one != "createDurableQueue":
            found += [role for role, kinds in held.items() if other in kinds and one not in kinds]
        if found:
            what = f"{', '.join(found)} may {loss}: that takes {one} and {other} together"
            reader.warn(bean, what, "give both where that is wanted", "match")
