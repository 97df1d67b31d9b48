"""`entrepot context`: brokers by name, so that a command need not be told each time where its broker is.

They are kept in one file of the user's, ``entrepot/contexts.json`` under ``$XDG_CONFIG_HOME`` or ``~/.config``, which
nobody else may read: a URL can have a password in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
import msgspec

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.cli.output import listing_option, show

VARIABLE: Final = "ENTREPOT_CONTEXT"
COLUMNS: Final = ("current", "name", "url")
OWNER_ONLY: Final = 0o600


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """The file. ``current``: which one holds where none is named; "" for none."""

    current: str = ""
    urls: dict[str, str] = {}


@click.group(
    epilog="""Examples:

    \b
    entrepot context add amsterdam stomp://operator@10.0.0.1:61613
    entrepot context use amsterdam
    entrepot context list
    ENTREPOT_CONTEXT=berlin entrepot queue list
    """
)
def context() -> None:
    """Give brokers names, and say which one commands ask.

    A command asks the broker of --url, else of ENTREPOT_URL, else of the context that ENTREPOT_CONTEXT names, else of
    the one that `entrepot context use` chose.
    """


@context.command("list")
@listing_option
def list_(*, output: str) -> None:
    """List the contexts; passwords are not shown."""
    found = read()
    chosen = os.environ.get(VARIABLE) or found.current
    rows: list[dict[str, Any]] = [
        {"current": name == chosen, "name": name, "url": masked(url)} for name, url in sorted(found.urls.items())
    ]
    show(rows, COLUMNS, output, empty="no contexts")


@context.command()
@click.argument("name")
@click.argument("url")
def add(*, name: str, url: str) -> None:
    """Keep URL under NAME, in place of what NAME was; the first one becomes the current one."""
    if not name or not name.isprintable():
        raise InvalidOption(f"{name!r} is no name", remedy="use letters and digits")
    found = read()
    found.urls[name] = url
    found.current = found.current or name
    write(found)
    click.echo(f"{name}: {masked(url)}", err=True)


@context.command()
@click.argument("name")
def use(*, name: str) -> None:
    """Let commands ask the broker of the context NAME from now on."""
    found = read()
    _named(found, name)
    found.current = name
    write(found)
    click.echo(f"commands ask {name}: {masked(found.urls[name])}", err=True)


@context.command()
@click.argument("name")
def remove(*, name: str) -> None:
    """Forget the context NAME."""
    found = read()
    _named(found, name)
    del found.urls[name]
    found.current = "" if found.current == name else found.current
    write(found)
    click.echo(f"forgot {name}", err=True)


def url_or(default: str) -> str:
    """Return the URL of the context that holds, ``default`` where none does. Raises InvalidOption."""
    name = os.environ.get(VARIABLE, "")
    if not name and not place().exists():
        return default
    found = read()
    name = name or found.current
    return _named(found, name) if name else default


def place() -> Path:
    """Return where the file is."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if base else Path.home() / ".config") / "entrepot" / "contexts.json"


def read() -> Contexts:
    """Return what the file says, nothing where there is none. Raises InvalidConfiguration."""
    try:
        return msgspec.json.decode(place().read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidConfiguration(f"{place()}: {error}", remedy="mend it, or remove it") from None


def write(contexts: Contexts) -> None:
    """Write the file, whole or not at all."""
    target = place()
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
        file.flush()
        os.fsync(descriptor)
    draft.replace(target)


def masked(url: str) -> str:
    """Return ``url`` without its password; one that cannot be read as one is shown as far as its first @."""
    try:
        secret = urlsplit(url).password
    except ValueError:
        secret = None
    if secret:
        return url.replace(f":{secret}@", ":***@")
    return url if "@" not in url or "(" not in url else url.partition("(")[0] + "(...)"


def _named(contexts: Contexts, name: str) -> str:
    url = contexts.urls.get(name)
    if url is None:
        known = ", ".join(sorted(contexts.urls)) or "none: entrepot context add NAME URL"
        raise InvalidOption(f"there is no context {name!r}", remedy=f"there are: {known}")
    return url
