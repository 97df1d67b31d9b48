"""`entrepot ha`: who is master of a shared store, and who was."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import click

from entrepot.base.environment import SECOND
from entrepot.base.errors import StoreUnusable, Unreachable
from entrepot.cli.output import output_option, show
from entrepot.config.classic.stores import OWN
from entrepot.ha.lease import Record, decode, patience
from entrepot.io.leases import LOCK
from entrepot.io.ledger import Ledger

HISTORY: Final = ("at", "event", "epoch", "broker", "host", "pid", "why")
STATUS: Final = ("broker", "role", "epoch", "host", "pid", "since", "note")
TIMEOUT: Final = 5.0  # s


@click.group(
    epilog="""Examples:

    \b
    entrepot ha history /var/lib/entrepot
    entrepot ha history /var/lib/entrepot --output json | tail -1
    entrepot ha status /var/lib/entrepot
    entrepot ha status http://broker-b:8162
    """
)
def ha() -> None:
    """Look at brokers that share a store: who is master, who was, and why that changed."""


@ha.command()
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@output_option
def history(*, directory: Path, output: str) -> None:
    """Print the ledger of the store in DIR, oldest first: who was master, with which epoch, and why it changed."""
    directory = _store(directory)
    rows = Ledger(directory).read()
    if not rows:
        raise StoreUnusable(
            f"{directory} has no ledger: no broker has shared it", remedy="name the --data of `entrepot run --ha`"
        )
    if output == "json":
        show(rows, HISTORY, output)
    else:
        show([{**row, "at": _time(int(row["at"]))} for row in rows], HISTORY, output)


@ha.command()
@click.argument("place", metavar="DIR|URL")
@output_option
def status(*, place: str, output: str) -> None:
    """Say who is master: from the lock of the store in DIR, or from the status page of a broker at URL.

    DIR is the --data of the brokers, or the directory that the persistence adapter of activemq.xml names. It looks on
    for a moment, to see whether the master gives signs of life.
    """
    row = _asked(place) if place.startswith(("http://", "https://")) else _watched(_store(Path(place)))
    show([row], STATUS, output)


def _asked(url: str) -> dict[str, Any]:
    """Return what a broker says of itself. Raises Unreachable."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/status", timeout=TIMEOUT) as answer:
            facts = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise Unreachable(f"{url} has no status page: {error}", remedy="name what --status was given") from error
    master = facts.get("master", {})
    note = "" if facts["role"] == "primary" else f"master is {master['broker']}" if master else "no master is known"
    return {
        "broker": facts["broker"],
        "role": facts["role"],
        "epoch": master.get("epoch", ""),
        "host": master.get("host", ""),
        "pid": master.get("pid", ""),
        "since": _time(int(facts["since"])),
        "note": note,
    }


def _store(directory: Path) -> Path:
    """Return where the lock of a store is: in ``directory``, or in the folder that a broker of XML makes there.

    ActiveMQ keeps files of its own in the directory that the XML names, so the store is a folder of it.
    """
    if (directory / LOCK).exists() or not (directory / OWN / LOCK).exists():
        return directory
    return directory / OWN


def _watched(directory: Path) -> dict[str, Any]:
    """Return what the lock says, after looking at it twice. Raises StoreUnusable."""
    record = _record(directory)
    row = {
        "broker": record.name,
        "role": "none" if record.released else "primary",
        "epoch": record.epoch,
        "host": record.host,
        "pid": record.pid,
        "since": _time(record.since),
        "note": "it handed the store back; nobody is master" if record.released else "",
    }
    if not record.released:
        until = time.monotonic() + patience(record.lease) / SECOND
        while (again := _record(directory)).beat == record.beat and again.epoch == record.epoch:
            if time.monotonic() > until:
                row["role"] = "gone"
                row["note"] = "it gives no sign of life"
                break
            time.sleep(0.05)
    return row


def _record(directory: Path) -> Record:
    try:
        record = decode((directory / LOCK).read_bytes())
    except OSError as error:
        raise StoreUnusable(
            f"{directory} has no lock: {error.strerror}", remedy="name the --data of a broker"
        ) from error
    if record is None:
        raise StoreUnusable(
            f"the lock of {directory} names no master",
            remedy="with a locker elsewhere, or without --ha, ask a broker: entrepot ha status http://HOST:PORT",
        )
    return record


def _time(milliseconds: int) -> str:
    """Return a time in UTC, to the millisecond."""
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
