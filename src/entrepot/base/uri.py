"""URIs of both families: one place to dial or listen, or a composite of several with options of its own.

Decides structure only: what scheme, where, which options. Which schemes and options are served is decided by who uses
the result. The forms (classic.md 1.4, 2.1, 6.1; artemis.md 1.8, 3.1)::

    tcp://host:61616?transport.soWriteTimeout=5000          an `Endpoint`
    ssl://user:secret@[::1]:61617                           credentials, IPv6
    multicast://default   vm://broker   xbean:activemq.xml  endpoints without a port, or with a path alone
    failover:(tcp://a:1?x=y,tcp://b:2)?randomize=false      a `Composite`: x belongs to a, randomize to failover
    failover://tcp://a:1,tcp://b:2                          the same without parentheses: all options are the members'
    static:(failover:(tcp://a:1,tcp://b:2),tcp://c:3)       composites nest
    (tcp://a:1,tcp://b:2)?ha=true                           an Artemis list: a Composite without a scheme
    broker:(tcp://a:1)/name?persistent=false                a Composite with a name

Percent-encoding is UTF-8; in a query ``+`` is a blank, as both families read it. An option given twice has its last
value; one without ``=`` is empty. White space around a member is ignored, since people break long lists over lines.

``parse(value.format()) == value`` for every value that `parse` returns. Errors name a position and never quote the
text: it may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from ipaddress import AddressValueError, IPv6Address
from typing import Final, NoReturn
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.errors import InvalidOption, InvalidURI

NO_PORT: Final = -1  # not 0, which asks the system for a free one
URI_LENGTH_MAX: Final = 65_535  # peers send lists of URIs too; OpenWire carries them behind a 16-bit length
NESTING_MAX: Final = 8  # static:(failover:(...)) is two; a limit, because each level is a call of ours

LIST_SCHEMES: Final = frozenset(
    ("failover", "static", "simple", "masterslave", "fanout", "discovery", "broker", "artemis", "activemq")
)
"""Schemes whose text is a list of URIs even without parentheses."""
NETWORK_SCHEMES: Final = frozenset(
    ("tcp", "nio", "ssl", "auto", "stomp", "mqtt", "amqp", "http", "https", "ws", "wss", "udp", "ldap", "ldaps")
)
"""First words of the schemes that need ``//host``."""
SECURE_LAYERS: Final = frozenset(("ssl", "wss", "https", "ldaps"))

MASK: Final = "****"

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_BARE_PORT: Final = re.compile(r"[0-9]+(?=[/?]|$)")
_BROKEN_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_OUTSIDE: Final = re.compile(r"[\x00-\x20\x7f#\"<>\\^`{|}]")  # never in a URI unencoded; a fragment means nothing here
_OUTSIDE_HOST: Final = re.compile(r"[\x00-\x20\x7f#\"<>\\^`{|}\[\],()@:]")
_SECRET_NAME: Final = re.compile(r"password|passphrase|passwd|secret|token|credential", re.IGNORECASE)
_SECRET_IN_VALUE: Final = re.compile(  # counted repeats: a value of 65,000 characters must not cost their square
    r"(?P<user>//[^/?#@,():]{0,255}:)[^@]{0,1023}(?=@)"
    r"|(?P<name>(?:password|passphrase|passwd|secret|token|credential)[\w.\-]{0,63}=)[^&,)]*",
    re.IGNORECASE,
)

_SAFE_WORD: Final = "-._~!$'*;"
_SAFE_PATH: Final = _SAFE_WORD + "/:@&=+"
_SAFE_NAME: Final = _SAFE_WORD + "/:@?"
_SAFE_VALUE: Final = _SAFE_NAME + "="


class Endpoint(Struct, frozen=True):
    """One place. ``host`` has no brackets; ``path`` begins with ``/`` behind a host; without one it is all."""

    scheme: str
    host: str = ""
    port: int = NO_PORT
    path: str = ""
    options: dict[str, str] = {}
    user: str = ""
    password: str = ""

    @property
    def secure(self) -> bool:
        """Return whether the scheme asks for TLS. Artemis asks by the option ``sslEnabled`` instead."""
        return any(layer in SECURE_LAYERS for layer in self.scheme.split("+"))

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield this endpoint: see `Composite.endpoints`."""
        yield self

    def with_options(self, options: dict[str, str]) -> Endpoint:
        """Return this endpoint with ``options`` added; they win over its own (``nested.*``, ``discovered.*``)."""
        return replace(self, options={**self.options, **options})

    def format(self) -> str:
        """Return the text of this endpoint."""
        return _endpoint_text(self, nested=False)

    def masked(self) -> str:
        """Return the text with passwords and other secrets hidden, for logs and consoles."""
        return _masked_endpoint(self).format()


class Composite(Struct, frozen=True):
    """Several places under one scheme, in the order written. ``path`` is the name behind the parentheses, if any."""

    scheme: str
    members: tuple[Endpoint | Composite, ...] = ()
    options: dict[str, str] = {}
    path: str = ""

    def endpoints(self) -> Iterator[Endpoint]:
        """Yield the endpoints at the leaves, from left to right."""
        for member in self.members:
            yield from member.endpoints()

    def with_options(self, options: dict[str, str]) -> Composite:
        """Return this composite with ``options`` added to its own, not to those of its members."""
        return replace(self, options={**self.options, **options})

    def format(self) -> str:
        """Return the text of this composite, always with parentheses."""
        return _composite_text(self, nested=False)

    def masked(self) -> str:
        """Return the text with passwords and other secrets hidden, for logs and consoles."""
        return _masked_composite(self).format()


def parse(text: str) -> Endpoint | Composite:
    """Return what ``text`` names. Raises InvalidURI with the position (from 0) and what to do about it."""
    source = _Source(text)
    return source.uri(0, len(text), 0)


def authority(place: Endpoint) -> str:
    """Return the host of ``place``, and its port where it names one, for a person; the file of a unix socket."""
    if not place.host and place.path:
        return place.path
    host = f"[{place.host}]" if ":" in place.host else place.host
    return host if place.port == NO_PORT else f"{host}:{place.port}"


def parse_list(text: str) -> list[Endpoint | Composite]:
    """Return the URIs of a comma-separated list: ``connectedBrokers``, ``priorityURIs``, a file of URIs.

    Empty entries are left out, so an empty text is an empty list. Raises InvalidURI as `parse`.
    """
    source = _Source(text)
    parts = source.split(0, len(text))
    return [source.uri(start, end, 0) for start, end in parts if text[start:end].strip()]


def set_option(
    take: Callable[[str, str], bool], written: str, text: str, prefixes: Sequence[str] = (), remedy: str = ""
) -> bool:
    """Let ``take`` set an option of a listener: its name, behind the first of ``prefixes`` that it has, and its text.

    Returns what ``take`` does: False when there is no such option. Raises InvalidOption for a text that it refuses with
    ValueError.
    """
    found = next((prefix for prefix in prefixes if written.startswith(prefix)), "")
    try:
        return take(written[len(found) :], text)
    except ValueError:
        raise InvalidOption(f"{text!r} is no value for the option {written!r}", remedy=remedy) from None


def split_options(options: dict[str, str], prefix: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options of one name space, their ``prefix`` (``transport.``) cut off, and the rest; order is kept."""
    taken: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, value in options.items():
        if name.startswith(prefix) and len(name) > len(prefix):
            taken[name[len(prefix) :]] = value
        else:
            rest[name] = value
    return taken, rest


class _Source:
    """The text being read. Methods read ``text[start:end]``, so that positions in errors are those of the whole."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        if len(text) > URI_LENGTH_MAX:
            self.fail(URI_LENGTH_MAX, "the text is too long", f"use at most {URI_LENGTH_MAX} characters")

    def fail(self, position: int, what: str, remedy: str) -> NoReturn:
        """Raise InvalidURI."""
        raise InvalidURI(f"invalid URI: {what}, at character {position}", remedy=remedy)

    def uri(self, start: int, end: int, depth: int) -> Endpoint | Composite:
        start, end = self.trimmed(start, end)
        if start == end:
            self.fail(start, "a URI is missing", "write something like tcp://host:61616, and no comma too many")
        if depth > NESTING_MAX:
            self.fail(start, "composites are nested too deep", f"nest at most {NESTING_MAX} levels")
        if self.text[start] == "(":
            return self.composite("", start, end, depth)
        found = _SCHEME.match(self.text, start, end)
        if found is None or _BARE_PORT.match(self.text, found.end(), end):
            self.fail(start, "no scheme stands before the host", "write tcp:// or another scheme before it")
        scheme = found[1].lower()
        behind = found.end()
        inner = behind + 2 if self.text.startswith("//", behind, end) else behind
        if self.text.startswith("(", inner, end):
            return self.composite(scheme, inner, end, depth)
        if scheme in LIST_SCHEMES:
            return self.checked(Composite(scheme, self.members(inner, end, depth)), inner)
        if scheme == "vm" and self.text.startswith("broker:", inner, end):
            return Composite(scheme, (self.uri(inner, end, depth + 1),))
        if inner > behind:
            return self.endpoint(scheme, inner, end)
        if scheme.partition("+")[0] in NETWORK_SCHEMES:
            self.fail(behind, f"{scheme}: names no host", f"write {scheme}://host")
        path_end, options = self.query(behind, end)
        return Endpoint(scheme, path=self.decoded(behind, path_end), options=options)

    def composite(self, scheme: str, opening: int, end: int, depth: int) -> Composite:
        """Read ``(members)/path?options``, where ``(`` is at ``opening``."""
        closing = self.matching(opening, end)
        path_end, options = self.query(closing + 1, end)
        start, path_end = self.trimmed(closing + 1, path_end)
        if start < path_end and self.text[start] != "/":
            self.fail(start, "something stands behind the closing parenthesis", "put ? before options, / before a name")
        path = self.decoded(start + 1, path_end) if start < path_end else ""
        members = self.members(opening + 1, closing, depth)
        return self.checked(Composite(scheme, members, options, path), opening)

    def checked(self, composite: Composite, position: int) -> Composite:
        """Return ``composite`` if its scheme may have that many members."""
        count = len(composite.members)
        if count == 0 and composite.scheme != "broker":
            self.fail(position, "the list of URIs is empty", "name at least one")
        if count < 2 and composite.scheme == "masterslave":  # classic.md 1.4
            self.fail(position, "masterslave: needs two URIs or more", "name both, or use static:")
        return composite

    def members(self, start: int, end: int, depth: int) -> tuple[Endpoint | Composite, ...]:
        if not self.text[start:end].strip():
            return ()
        return tuple(self.uri(first, last, depth + 1) for first, last in self.split(start, end))

    def split(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts between the commas that are outside parentheses."""
        parts: list[tuple[int, int]] = []
        open_at: list[int] = []
        first = start
        for at in range(start, end):
            character = self.text[at]
            if character == "(":
                open_at.append(at)
            elif character == ")":
                if not open_at:
                    self.fail(at, "a parenthesis is closed that was not opened", "balance the parentheses")
                open_at.pop()
            elif character == "," and not open_at:
                parts.append((first, at))
                first = at + 1
        if open_at:
            self.fail(open_at[0], "a parenthesis is never closed", "balance the parentheses")
        parts.append((first, end))
        return parts

    def matching(self, opening: int, end: int) -> int:
        """Return where the parenthesis that opens at ``opening`` closes."""
        depth = 0
        for at in range(opening, end):
            if self.text[at] == "(":
                depth += 1
            elif self.text[at] == ")":
                depth -= 1
                if depth == 0:
                    return at
        self.fail(opening, "a parenthesis is never closed", "balance the parentheses")

    def endpoint(self, scheme: str, start: int, end: int) -> Endpoint:
        """Read ``user:password@host:port/path?options``."""
        path_end, options = self.query(start, end)
        slash = self.text.find("/", start, path_end)
        host_end = path_end if slash < 0 else slash
        user, password = "", ""
        at = self.text.rfind("@", start, host_end)
        if at >= 0:
            colon = self.text.find(":", start, at)
            user = self.decoded(start, at if colon < 0 else colon)
            password = "" if colon < 0 else self.decoded(colon + 1, at)
            start = at + 1
        host, port = self.host(start, host_end)
        if not host and scheme.partition("+")[0] in NETWORK_SCHEMES:
            self.fail(start, f"{scheme}: names no host", f"write {scheme}://host, or 0.0.0.0 for all interfaces")
        return Endpoint(scheme, host, port, self.decoded(host_end, path_end), options, user, password)

    def host(self, start: int, end: int) -> tuple[str, int]:
        """Read ``host:port``, ``host`` or ``[IPv6]:port``."""
        if self.text.startswith("[", start, end):
            closing = self.text.find("]", start, end)
            if closing < 0:
                self.fail(start, "a bracket is never closed", "write IPv6 hosts like [::1]")
            host = self.decoded(start + 1, closing)
            try:
                IPv6Address(host)
            except AddressValueError:
                self.fail(start, "what is in brackets is no IPv6 address", "write IPv6 hosts like [::1]")
            if closing + 1 == end:
                return host, NO_PORT
            if self.text[closing + 1] != ":":
                self.fail(closing + 1, "something stands behind the bracket", "put : before a port")
            return host, self.port(closing + 2, end)
        colon = self.text.find(":", start, end)
        host_end = end if colon < 0 else colon
        wrong = _OUTSIDE_HOST.search(self.text, start, host_end)
        if wrong is not None:
            self.fail(wrong.start(), "a host cannot hold this character", "put lists in parentheses: (tcp://a,tcp://b)")
        host = self.decoded(start, host_end)
        if ":" in host:
            self.fail(start, "a host holds an encoded colon", "put an IPv6 host in brackets: [::1]")
        if colon < 0:
            return host, NO_PORT
        if ":" in self.text[colon + 1 : end]:
            self.fail(colon, "a host holds more than one colon", "put an IPv6 host in brackets: [::1]")
        return host, self.port(colon + 1, end)

    def port(self, start: int, end: int) -> int:
        digits = self.text[start:end]
        if not digits.isascii() or not digits.isdigit() or len(digits) > 5 or int(digits) > 65_535:
            self.fail(start, "this is no port", "use a number from 0 to 65535; 0 takes any free one")
        return int(digits)

    def query(self, start: int, end: int) -> tuple[int, dict[str, str]]:
        """Return where the ``?`` is, or ``end``, and the options behind it."""
        mark = self.text.find("?", start, end)
        if mark < 0:
            return end, {}
        options: dict[str, str] = {}
        at = mark + 1
        while at < end:
            stop = self.text.find("&", at, end)
            if stop < 0:
                stop = end
            equals = self.text.find("=", at, stop)
            name_end = stop if equals < 0 else equals
            if at < stop:
                name = self.decoded(at, name_end, blanks=True)
                if not name:
                    self.fail(at, "an option has no name", "write options as ?name=value&name=value")
                options[name] = "" if equals < 0 else self.decoded(equals + 1, stop, blanks=True)
            at = stop + 1
        return mark, options

    def decoded(self, start: int, end: int, *, blanks: bool = False) -> str:
        """Return ``text[start:end]`` with percent-encoding resolved; ``blanks``: and ``+`` as a blank."""
        wrong = _OUTSIDE.search(self.text, start, end)
        if wrong is not None:
            encoded = quote(wrong[0])
            self.fail(wrong.start(), "this character cannot stand here", f"write {encoded} for it, or leave it out")
        broken = _BROKEN_PERCENT.search(self.text, start, end)
        if broken is not None:
            self.fail(broken.start(), "a percent sign without two hexadecimal digits", "write %25 for a percent sign")
        raw = self.text[start:end]
        try:
            return unquote(raw.replace("+", " ") if blanks else raw, errors="strict")
        except UnicodeDecodeError:
            self.fail(start, "percent-encoded octets that are not UTF-8", "encode the text as UTF-8")

    def trimmed(self, start: int, end: int) -> tuple[int, int]:
        """Return the bounds without the white space at both ends."""
        while start < end and self.text[start].isspace():
            start += 1
        while start < end and self.text[end - 1].isspace():
            end -= 1
        return start, end


def _text(value: Endpoint | Composite, *, nested: bool) -> str:
    return (
        _endpoint_text(value, nested=nested) if isinstance(value, Endpoint) else _composite_text(value, nested=nested)
    )


def _endpoint_text(endpoint: Endpoint, *, nested: bool) -> str:
    path = quote(endpoint.path, safe=_SAFE_PATH)
    query = _query_text(endpoint.options, nested=nested)
    credentials = quote(endpoint.user, safe=_SAFE_WORD)
    if endpoint.password:
        credentials += ":" + quote(endpoint.password, safe=_SAFE_WORD)
    if credentials:
        credentials += "@"
    host = quote(endpoint.host, safe=_SAFE_WORD + ":")
    if ":" in host:
        host = f"[{host}]"
    port = "" if endpoint.port == NO_PORT else f":{endpoint.port}"
    authority = credentials + host + port
    slashes = "//" if authority or path.startswith("/") else ""
    if not slashes and (_BARE_PORT.match(path) or path.startswith("broker:")):  # would be read as something else
        path = f"%{ord(path[0]):02X}{path[1:]}"
    return f"{endpoint.scheme}:{slashes}{authority}{path}{query}"


def _composite_text(composite: Composite, *, nested: bool) -> str:
    scheme = f"{composite.scheme}:" if composite.scheme else ""
    members = ",".join(_text(member, nested=True) for member in composite.members)
    path = "/" + quote(composite.path, safe=_SAFE_PATH) if composite.path else ""
    return f"{scheme}({members}){path}{_query_text(composite.options, nested=nested)}"


def _query_text(options: dict[str, str], *, nested: bool) -> str:
    """Return ``?name=value&...``. Inside a list a comma or parenthesis would end the member, so it is encoded there."""
    if not options:
        return ""
    safe = _SAFE_VALUE if nested else _SAFE_VALUE + ",()"
    return "?" + "&".join(
        f"{quote(name, safe=_SAFE_NAME)}={quote(value, safe=safe)}" for name, value in options.items()
    )


def _masked_endpoint(endpoint: Endpoint) -> Endpoint:
    password = MASK if endpoint.password else ""
    return replace(endpoint, password=password, options=_masked_options(endpoint.options))


def _masked_composite(composite: Composite) -> Composite:
    members = tuple(
        _masked_endpoint(member) if isinstance(member, Endpoint) else _masked_composite(member)
        for member in composite.members
    )
    return replace(composite, members=members, options=_masked_options(composite.options))


def _masked_options(options: dict[str, str]) -> dict[str, str]:
    """Hide what a name calls a secret, and the secrets of URIs that are values (``brokerConfig``, ``priorityURIs``)."""
    return {
        name: MASK if _SECRET_NAME.search(name) and value else _SECRET_IN_VALUE.sub(_masked_match, value)
        for name, value in options.items()
    }


def _masked_match(found: re.Match[str]) -> str:
    return (found["user"] or found["name"]) + MASK
