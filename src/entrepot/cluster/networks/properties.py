"""What the ends of a duplex bridge tell each other about it: ``networkProperties`` of a BrokerInfo (classic.md 1.3).

The text has the form of java.util.Properties: lines ``key=value``, ``\\`` escapes, ``#`` comments. Keys are the names
of the XML attributes; unknown ones are ignored, since every release of Classic has its own.

Credentials are those with which the far end signs in at its own broker: Classic does, for a duplex bridge. They are the
ones that the bridge signs in there with anyway, so nobody learns them who does not know them; and they are written for
a duplex bridge alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from entrepot.base.errors import InvalidDestination, InvalidOption
from entrepot.base.settings import Dialect
from entrepot.cluster.networks.lists import Included, Lists
from entrepot.cluster.networks.options import Compared, NetworkConnectorOptions
from entrepot.model.address import ANYCAST, parse_one

LISTS: Final = {
    "excludedDestinations": "excluded",
    "dynamicallyIncludedDestinations": "dynamic",
    "staticallyIncludedDestinations": "static",
}
ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
CREDENTIALS: Final = ("userName", "password", "remoteUserName", "remotePassword")
IGNORED: Final = ("uri", "localUri", "networkTTL", "destinationFilter", "autoStart")


def write_properties(options: NetworkConnectorOptions, lists: Lists) -> str:
    """Return the text that describes the bridge to its far end."""
    lines = ["#entrepot"]
    for name, declared in NetworkConnectorOptions.names(Dialect.CLASSIC).items():
        value = getattr(options, declared.name)
        if name in CREDENTIALS or name in IGNORED or value in ("", None):
            continue
        if isinstance(value, bool):
            text = str(value).lower()
        elif isinstance(value, Compared):
            if value is Compared.OURS:
                continue  # no word of Classic's
            text = value.value
        elif name in ("gcSweepTime", "supervisionInterval"):
            text = str(int(value) // 1_000_000)
        else:
            text = str(value)
        lines.append(f"{name}={_escaped(text)}")
    if options.duplex:
        for key, value in (("userName", options.remote_user or options.user), ("password", _secret(options))):
            if value:
                lines.append(f"{key}={_escaped(value)}")
    for key, field in LISTS.items():
        entries: tuple[Included, ...] = getattr(lists, field)
        if entries:
            lines.append(f"{key}={_escaped('[' + ', '.join(_destination(one) for one in entries) + ']')}")
    return "\n".join(lines) + "\n"


def read_properties(text: str) -> tuple[NetworkConnectorOptions, Lists]:
    """Return what the far end says about the bridge; what cannot be read keeps its default."""
    found = dict(_pairs(text))
    lists = {field: _included(found.get(key, "")) for key, field in LISTS.items()}
    told = {name: value for name, value in found.items() if name not in IGNORED}
    try:
        options, _ = NetworkConnectorOptions.take(told, Dialect.CLASSIC)
    except InvalidOption:
        options = NetworkConnectorOptions()
        for name, value in told.items():
            with suppress(InvalidOption):
                options, _ = NetworkConnectorOptions.take({name: value}, Dialect.CLASSIC, base=options)
    return options, Lists(**lists)


def _secret(options: NetworkConnectorOptions) -> str:
    return options.remote_password or options.password


def _destination(one: Included) -> str:
    return f"{'topic' if one.topic else 'queue'}://{one.pattern}" + ("?forceDurable=true" if one.force_durable else "")


def _included(text: str) -> tuple[Included, ...]:
    found = []
    for part in text.strip().removeprefix("[").removesuffix("]").split(","):
        name, _, query = part.strip().partition("?")
        try:
            where = parse_one(name, ANYCAST)
        except InvalidDestination:
            continue
        found.append(Included(where.name, where.is_topic, "forceDurable=true" in query))
    return tuple(found)


def _escaped(text: str) -> str:
    return "".join("\\" + one if one in "\\:=#!" else one for one in text).replace("\n", "\\n")


def _pairs(text: str) -> list[tuple[str, str]]:
    found = []
    for line in text.replace("\r\n", "\n").split("\n"):
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        key: list[str] = []
        value: list[str] = []
        into = key
        at = 0
        while at < len(line):
            one = line[at]
            if one == "\\" and at + 1 < len(line):
                at += 1
                if (
                    line[at] == "u"
                    and at + 4 < len(line)
                    and all(c in "0123456789abcdefABCDEF" for c in line[at + 1 : at + 5])
                ):
                    into.append(chr(int(line[at + 1 : at + 5], 16)))
                    at += 4
                else:
                    into.append(ESCAPES.get(line[at], line[at]))
            elif into is key and one in "=:":
                into = value
            else:
                into.append(one)
            at += 1
        found.append(("".join(key).strip(), "".join(value).lstrip()))
    return found
