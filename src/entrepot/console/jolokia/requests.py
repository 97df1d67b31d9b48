"""Requests of Jolokia: read from a path of a GET or the JSON of a POST, checked before anything is done about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from entrepot.base.errors import LimitExceeded, Refused
from entrepot.console.numbers import whole

TYPES: Final = ("read", "write", "exec", "search", "list", "version", "notification")
BODY_MAX: Final = 1024 * 1024  # octets of a POST
BULK_MAX: Final = 200  # requests in one POST
DEPTH_MAX: Final = 100


SECRETS: Final = {"addUser": 1, "resetUser": 1}
"""Operations that take a password, and which argument it is."""
HIDDEN: Final = "****"


def echoed(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a request as it is called back to who asked, and as a log may have it: without a password."""
    if "password" in str(raw.get("attribute")).lower() and raw.get("value") is not None:
        raw = {**raw, "value": HIDDEN}
    at = SECRETS.get(str(raw.get("operation") or "").partition("(")[0])
    given = raw.get("arguments")
    if at is None or not isinstance(given, list) or len(given) <= at or given[at] is None:
        return raw
    return {**raw, "arguments": [HIDDEN if place == at else value for place, value in enumerate(given)]}


class JolokiaRequest:
    """One request. ``raw``: what it is called back to who asked; ``attributes`` None: all."""

    def __init__(self, raw: dict[str, Any], config: Mapping[str, Any]) -> None:
        """Raises Refused."""
        self.raw: Final = {**echoed(raw), "type": str(raw.get("type") or "").lower()}  # as Jolokia calls it back
        self.config: Final = {**config, **_mapping(raw.get("config"), "config")}
        self.type: Final = str(raw.get("type") or "").lower()
        if self.type not in TYPES:
            raise Refused(f"{str(raw.get('type'))[:40]!r} is no type of request", remedy="use " + ", ".join(TYPES[:-1]))
        self.mbean: Final = str(raw.get("mbean") or "")
        self.attribute = raw.get("attribute")
        self.operation: Final = str(raw.get("operation") or "")
        given = raw.get("arguments")
        if given is not None and not isinstance(given, list):
            raise Refused("the arguments are no list", remedy='write them like "arguments": ["a", 1]')
        self.arguments: Final[list[Any]] = given or []
        self.value = raw.get("value")
        path = raw.get("path")
        if not isinstance(path, str | list | None):
            raise Refused("the path is neither a text nor a list", remedy='write it like "path": "Queues/0"')
        parts = split(path) if isinstance(path, str) else [str(part) for part in path or ()]
        self.path: Final = parts
        if self.type in ("read", "write", "exec", "search") and not self.mbean:
            raise Refused(f"a request {self.type!r} names an MBean", remedy="set mbean")

    @property
    def attributes(self) -> list[str] | None:
        """The names of the attributes to read; None for all."""
        if self.attribute is None:
            return None
        names = self.attribute if isinstance(self.attribute, list) else [self.attribute]
        return [str(name) for name in names]

    @property
    def is_one(self) -> bool:
        """Whether the value of one attribute is asked for, and not an object of several."""
        return isinstance(self.attribute, str)

    @property
    def canonical(self) -> bool:
        """Whether the properties of names are sorted: the tree of hawtio follows their order, and wants it kept."""
        return self.flag("canonicalNaming", default=True)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return an option that is yes or no."""
        return str(self.config.get(name, default)).lower() == "true"

    def number(self, name: str) -> int:
        """Return an option that is a number; 0 for none, or one below. Raises Refused."""
        found = whole(self.config.get(name, "0"))
        if found is None:
            raise Refused(f"{name} is {str(self.config[name])[:40]!r}, which is no whole number")
        return max(0, found)


def of_body(body: bytes, config: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """Return the requests of a POST, and whether they came in a list. Raises Refused, LimitExceeded."""
    if len(body) > BODY_MAX:
        raise LimitExceeded(f"the request is longer than {BODY_MAX} octets", remedy="ask for less at once")
    try:
        read = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Refused(f"the request is no JSON: {error}") from None
    several = isinstance(read, list)
    found = read if isinstance(read, list) else [read]
    if len(found) > BULK_MAX:
        raise LimitExceeded(f"more than {BULK_MAX} requests in one", remedy="ask for fewer at once")
    if not all(isinstance(one, dict) for one in found):
        raise Refused("the request is no JSON object", remedy='send {"type": "version"}')
    return found, several


def of_path(path: str) -> dict[str, Any]:
    """Return the request that the path of a GET says, what stands behind the place of Jolokia. Raises Refused."""
    parts = split(path)
    if not parts:
        return {"type": "version"}
    kind, *rest = parts
    kind = kind.lower()
    raw: dict[str, Any] = {"type": kind}
    if kind == "list":
        if rest:
            raw["path"] = "/".join(map(escaped, rest))
        return raw
    if kind == "version":
        return raw
    if not rest:
        raise Refused(f"a request {kind!r} names an MBean", remedy=f"write /{kind}/MBEAN")
    raw["mbean"], *rest = rest
    if kind == "read" and rest:
        names = [name for name in rest[0].split(",") if name]
        if names:
            raw["attribute"] = names if len(names) > 1 else names[0]
        if rest[1:]:
            raw["path"] = "/".join(map(escaped, rest[1:]))
    elif kind == "write" and len(rest) >= 2:
        raw["attribute"], raw["value"] = rest[0], _argument(rest[1])
    elif kind == "exec" and rest:
        raw["operation"] = rest[0]
        raw["arguments"] = [_argument(text) for text in rest[1:]]
    return raw


def split(path: str) -> list[str]:
    """Return the parts of a path; ``!/`` is no end of one, ``!!`` is a ``!``, and doubled slashes count once."""
    parts, part = [], ""
    for found in re.finditer(r"!(.)|/|[^!/]+|!$", path, re.DOTALL):
        text = found[0]
        if text == "/":
            parts.append(part)
            part = ""
        else:
            part += found[1] or text.removesuffix("!")
    parts.append(part)
    return [one for one in parts if one]


def escaped(part: str) -> str:
    """Return what `split` reads as ``part``."""
    return part.replace("!", "!!").replace("/", "!/")


def decoded(raw_path: str) -> str:
    """Return a path of HTTP with its percents read, once."""
    return unquote(raw_path, errors="replace")


def _argument(text: str) -> Any:
    if text == "[null]":
        return None
    return "" if text == '""' else text


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refused(f"{what} is no JSON object")
    return value
