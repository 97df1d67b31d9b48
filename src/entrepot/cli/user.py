"""`entrepot user`: who may connect to a broker that runs with --users."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any, Final

import click

from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.base.scram import DIGESTS, kept, keys_of
from entrepot.cli.dialogue import url_option
from entrepot.cli.managing import at_desk
from entrepot.cli.output import listing_option, show
from entrepot.config.rewriting import mode_of, rewrite
from entrepot.config.users import added, groups_of, parse, removed
from entrepot.core.security.passwords import SALT_OCTETS, hashed

PASSWORD: Final = "ENTREPOT_NEW_PASSWORD"
FILE_MODE: Final = 0o600  # hashes are no secret to be given away either
COLUMNS: Final = ("user", "groups", "password")
KNOWN: Final = ("user", "groups", "comes", "where")
RULES: Final = ("pattern", "kind", "group", "rights", "where")
VERDICTS: Final = ("kind", "right", "allowed", "why", "where")

file_option = click.option(
    "--users",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default="users.conf",
    show_default=True,
    envvar="ENTREPOT_USERS",
    show_envvar=True,
    help="The file that `entrepot run --users` reads when it starts.",
)


@click.group(
    epilog="""Examples:

    \b
    entrepot user add alice --groups ops,shop
    entrepot user add loader --groups shop < password.txt
    entrepot user list
    entrepot user remove alice
    entrepot run --users users.conf
    entrepot user rights
    entrepot user rights shop-app queue://orders.eu
    entrepot user known
    """
)
def user() -> None:
    """Keep the users of a broker in a file: names, groups and hashed passwords. Rights are lines that you write.

    A broker reads the file when it starts. See docs/security.md for the rights. `known` and `rights` ask a broker that
    runs, whatever file says who its users are.
    """


@user.command()
@click.argument("name")
@click.option("--groups", default="-", metavar="A,B", help="The groups that rights are given to.")
@click.option("--scram", is_flag=True, help="Keep keys of SCRAM (AMQP) instead of a scrypt hash.")
@file_option
def add(*, name: str, groups: str, scram: bool, file: Path) -> None:
    """Add a user, or give one a new password and other groups. The password is asked for, twice.

    Without a terminal it is the first line of standard input. The variable ENTREPOT_NEW_PASSWORD comes before both.
    """
    text = read(file) if file.exists() else ""
    parse(text, str(file))
    password = _password()
    if not password:
        raise InvalidOption("an empty password keeps nobody out", remedy="give one")
    salt = secrets.token_bytes(SALT_OCTETS)
    secret = kept(keys_of(digest, password, salt) for digest in DIGESTS) if scram else hashed(password, salt)
    made = added(text, name, groups_of(groups), secret)
    parse(made, str(file))
    write(file, made)
    click.echo(
        f"{name} may connect where {file} is used: restart the broker, or start it with --users {file}", err=True
    )


@user.command("list")
@file_option
@listing_option
def list_(*, file: Path, output: str) -> None:
    """List the users."""
    known = parse(read(file), str(file))
    rows = [
        {"user": one.name, "groups": ",".join(one.groups), "password": one.password.partition(":")[0]}
        for one in known.users or ()
    ]
    show(rows, COLUMNS, output, empty="nobody may connect")


@user.command()
@click.argument("name")
@file_option
def remove(*, name: str, file: Path) -> None:
    """Remove a user. Connections that he has open stay until they end, or the broker restarts."""
    made = removed(read(file), name)
    parse(made, str(file))
    write(file, made)
    click.echo(f"{name} may not connect any more once a broker starts with --users {file}", err=True)


@user.command()
@click.argument("search", nargs=-1, metavar="[TEXT]...")
@url_option
@listing_option
def known(*, search: tuple[str, ...], url: str, output: str) -> None:
    """List who comes in at a running broker, his groups, and where that is written; whose row has each TEXT."""
    from entrepot.management.rights import users_of  # noqa: PLC0415 - what keeps a file need not load it

    told = at_desk(url, lambda desk: users_of(desk, search))
    show(_placed(told.rows, output), KNOWN, output, empty="nobody, or no such user")
    if not told.asks:
        click.echo("this broker asks nobody who he is", err=True)


@user.command()
@click.argument("name", required=False)
@click.argument("address", required=False)
@url_option
@listing_option
def rights(*, name: str | None, address: str | None, url: str, output: str) -> None:
    """Say what the user NAME may do at ADDRESS, which rule decides it, and where that stands; or list the rules.

    ADDRESS is a name, queue://NAME or topic://NAME, or a pattern. With NAME alone the rules of his groups are listed,
    without one all.
    """
    from entrepot.management.rights import rules_of, verdicts_of  # noqa: PLC0415 - as above

    if name is None or address is None:
        told = at_desk(url, lambda desk: rules_of(desk, name))
        show(_placed(told.rows, output), RULES, output, empty="no rule")
        if not told.guarded:
            click.echo("there are no rules: who is in may do everything", err=True)
        return
    found = at_desk(url, lambda desk: verdicts_of(desk, name, address))
    show(_placed(found["verdicts"], output), VERDICTS, output)
    if not found["known"]:
        click.echo(f"nobody is called {name} there: these are the rights of everybody", err=True)


def _placed(rows: list[dict[str, Any]], output: str) -> list[dict[str, Any]]:
    """Return rows with where they stand, "" where nobody wrote it; lists are lists for programs only."""
    found: list[dict[str, Any]] = []
    for row in rows:
        told = {**row, "where": f"{row['file']}:{row['line']}" if row["line"] else row["file"]}
        if output != "json":
            told = {name: ",".join(value) if isinstance(value, list) else value for name, value in told.items()}
        found.append(told)
    return found


def read(file: Path) -> str:
    """Return the text of a users file. Raises InvalidConfiguration."""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidConfiguration(
            f"cannot read the users: {what}", remedy="`entrepot user add` makes the file", file=str(file)
        ) from None


def write(file: Path, text: str) -> None:
    """Replace the file whole, or not at all; a new one is for its owner alone. Raises OSError."""
    rewrite(file, text, mode_of(file) if file.exists() else FILE_MODE)


def _password() -> str:
    given = os.environ.get(PASSWORD)
    if given is not None:
        return given
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")
