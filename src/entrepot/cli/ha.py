"""`entrepot ha`: who is master of a shared store, and who was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from entrepot.base.environment import SECOND
from entrepot.base.errors import StoreUnusable
from entrepot.cli.ha_copies import demote, promote_copy, verify
from entrepot.cli.output import listing_option, output_option, show
from entrepot.cli.status_page import status_of
from entrepot.config.classic.stores import OWN
from entrepot.config.hosted import name_of
from entrepot.ha.lease import Record, decode, patience
from entrepot.io.leases import LOCK
from entrepot.io.ledger import Ledger

if TYPE_CHECKING:
    from entrepot.ha.votes import Answer

LOCKERS: Final = ("quorum:", "sqlite:", "postgresql:", "postgres:", "zookeeper:")
HISTORY: Final = ("at", "event", "epoch", "broker", "host", "pid", "why")
STATUS: Final = ("broker", "role", "epoch", "host", "pid", "since", "note")
VOTERS: Final = ("voter", "state", "change", "version", "master", "store", "note")
TIMEOUT: Final = 5.0  # s
CHANGE_WITHIN: Final = 30.0  # s


@click.group(
    epilog="""Examples:

    \b
    entrepot ha history /var/lib/entrepot
    entrepot ha history /var/lib/entrepot --output json | tail -1
    entrepot ha status /var/lib/entrepot
    entrepot ha status http://broker-b:8162
    entrepot ha status 'quorum:(a:7790,b:7790,c:7790)?secret-file=quorum.secret'
    entrepot ha voters 'quorum:(a:7790,b:7790,c:7790)?secret-file=quorum.secret'
    entrepot ha verify --url stomp://broker-a:61613
    entrepot ha demote --url stomp://broker-a:61613
    """
)
def ha() -> None:
    """Brokers that share a store, or replicate it: who serves, who did, why that changed, whether copies agree."""


ha.add_command(verify)
ha.add_command(demote)


@ha.command()
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@listing_option
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
@click.argument("place", metavar="DIR|URL|LOCKER")
@output_option
def status(*, place: str, output: str) -> None:
    """Say who is master: from the lock of the store in DIR, from the status page of a broker at URL, or from LOCKER.

    LOCKER is what the brokers were given as --locker: quorum:(...), postgresql://..., zookeeper://... or sqlite:....

    DIR is the --data of the brokers, or the directory that the persistence adapter of activemq.xml names. It looks on
    for a moment, to see whether the master gives signs of life.

    The primary of a replicated store, at URL, says of each of its replicas how far it is, and how far it is behind. A
    replica says why it is refused, and what it had that its primary has not (kept in oldreplica.N, never merged).
    """
    if place.startswith(("http://", "https://")):
        rows = _asked(place)
    elif place.startswith(LOCKERS):
        rows = [_registered(place)]
    else:
        directory = _store(Path(place))
        rows = [_watched(lambda: _record(directory))]
    show(rows, STATUS, output)


@ha.command()
@click.argument("locker", metavar="LOCKER")
@click.option("--become", metavar="HOST:PORT,...", help="Who is to vote: one voter more, one less, or one for another.")
@output_option
def voters(*, locker: str, become: str | None, output: str) -> None:
    """Show who votes on the lease that LOCKER names (quorum:(...)), or have others vote.

    Every voter that stays must be there, and one that comes must be new. Brokers that run follow by themselves; give
    them the new list before they start again. A change that stopped half-way is carried on by asking once more.
    """
    from entrepot.io.quorum import ask_voters, change_voters  # noqa: PLC0415

    if become is not None:
        now_voting = change_voters(locker, tuple(each for each in become.split(",") if each.strip()), CHANGE_WITHIN)
        click.echo(f"these vote now: quorum:({','.join(now_voting)})", err=True)
        return
    show([_voter(address, answer) for address, answer in ask_voters(locker, TIMEOUT).items()], VOTERS, output)


@ha.command()
@click.argument("what", metavar="DIR|LOCKER")
@click.option("--without", "lost", metavar="HOST:PORT,...", help="The voters that are lost for good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def promote(*, what: str, lost: str | None, yes: bool) -> None:
    """Go on with the copy in DIR, or with the voters that are left: on your word that nothing better is there.

    DIR is the data directory of a replicated store whose broker is stopped. When the copy that should serve is lost
    for good, or the lock has no record any more, brokers wait rather than serve old messages. Started anew, this one
    may be primary once, whatever the lock says; all that was confirmed without it is lost, and other copies are made
    anew from it (what they had is set aside in oldreplica.N).

    LOCKER names all of them (quorum:(...)). Every voter that is left must answer. If a lost one was only cut off, and
    serves a broker on its side, there will be two masters: switch that machine off first. One that is lost may come
    back later as a new voter, with an empty store (`entrepot ha voters LOCKER --become ...`).
    """
    if lost is None:
        if what.startswith(LOCKERS):
            raise click.UsageError("--without says which voters are lost for good")
        promote_copy(Path(what), yes=yes)
        return
    from entrepot.io.quorum import promote_voters  # noqa: PLC0415

    gone = tuple(each.strip() for each in lost.split(",") if each.strip())
    if not yes:
        click.confirm(f"Are {', '.join(gone)} switched off, and is no broker with them?", abort=True)
    left = promote_voters(what, gone, CHANGE_WITHIN)
    click.echo(f"these vote now: quorum:({','.join(left)}); name them in --locker from the next start on", err=True)


def _voter(address: str, answer: Answer | str) -> dict[str, Any]:
    """Return what one voter says, as a row."""
    if isinstance(answer, str):
        return {"voter": address, "state": "away", "note": answer}
    record = decode(answer.value.octets)
    row = {"voter": address, "version": answer.value.version, "store": answer.store}
    if answer.roster is None:
        return {**row, "state": "new", "note": "it never voted, or lost its store"}
    if not answer.roster.has(answer.store):
        return {**row, "state": "left", "note": "it is none of the voters any more"}
    master = "" if record is None else f"{'was ' if record.released else ''}{record.name}, epoch {record.epoch}"
    return {**row, "state": "votes", "change": answer.roster.number, "master": master}


def _registered(locker: str) -> dict[str, Any]:
    """Return what the record says that a locker elsewhere keeps. Raises StoreUnusable, InvalidURI, OSError."""
    from entrepot.ha.lease import LeaseOptions  # noqa: PLC0415
    from entrepot.io.registers import open_register  # noqa: PLC0415

    register = open_register(locker, LeaseOptions(int(TIMEOUT * SECOND)))

    def read() -> Record:
        record = decode(register.read()[0])
        if record is None:
            raise StoreUnusable("nobody was ever master by this locker", remedy="start a broker with it")
        return record

    try:
        return _watched(read)
    finally:
        register.close()


def _asked(url: str) -> list[dict[str, Any]]:
    """Return what a broker says of itself, and of its replicas. Raises Unreachable."""
    facts = status_of(url)
    master = facts.get("master", {})
    note = "" if facts["role"] == "primary" else f"master is {master['broker']}" if master else "no master is known"
    copied = facts.get("replication", {})
    if copied.get("held"):
        note = "it confirms nothing, for want of copies"
    elif copied.get("withheld"):
        note = f"it keeps the store, whoever is primary: {copied['withheld']}"
    elif "drain" in facts:
        note = _given_away(facts["drain"])
    elif copied.get("refusal"):
        note = f"{note}; it may not be primary: {copied['refusal']}"
    if copied.get("refused"):
        note = f"{note}; it is no copy: {copied['refused']}"
    if copied.get("differed"):
        note = f"{note}; what it had and its primary has not is kept in {copied['aside']}: {copied['differed']}"
    row = {
        "broker": facts["broker"],
        "role": facts["role"],
        "epoch": master.get("epoch", ""),
        "host": master.get("host", ""),
        "pid": master.get("pid", ""),
        "since": _time(int(facts["since"])),
        "note": note,
    }
    verified = {each["name"]: each for each in copied.get("verified", ())}
    found = [row, *(replica_row(each, verified.get(each["name"])) for each in copied.get("replicas", ()))]
    return [*found, *_colocated(facts["broker"], facts.get("colocated", {}))]


def _given_away(drain: Mapping[str, Any]) -> str:
    """Return how far a backup is that serves nobody and gives away what it took over."""
    where = drain["place"] or "whoever is found"
    why = f"; {drain['why']}" if drain["why"] else ""
    return f"it gives all to {where}: {drain['moved']} moved, {drain['left']} left, {drain['state']}{why}"


def _colocated(broker: str, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return who hosts the backup of ``broker``, and whose backups it hosts."""
    wanted = facts.get("backup")
    rows = [] if wanted is None else [{"broker": broker, "role": "backup wanted", "note": "no node hosts it"}]
    if wanted is not None and wanted["host"]:
        rows = [{"broker": broker, "role": "backup hosted", "note": f"by the node {wanted['host']}"}]
    elif wanted is not None and wanted["state"] == "given up":
        rows[0]["note"] = "no node hosts it, and it asks no more (backup-request-retries)"
    for one in facts.get("hosts", ()):
        owner = one.get("of", "")
        row = {"broker": name_of(broker, one["number"], owner), "role": f"hosts a backup, {one['state']}"}
        what = f"a copy of the store of {owner}" if owner else one["directory"]
        note = f"of the node {one['node']}, {what}; {one['restarts']} restarts"
        rows.append({**row, "pid": one["pid"], "note": note})
    return rows


def replica_row(facts: Mapping[str, Any], verdict: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what a primary says of one of its replicas, and what a comparison with it came to."""
    octets, ms = facts["lag_octets"], facts["lag_ms"]
    compared = "" if verdict is None else f"; compared {verdict['ago_ms'] // 1000} s ago: {verdict['state']}"
    return {
        "broker": facts["name"],
        "role": f"replica, {facts['stage']}",
        "note": f"{octets} octets and {ms} ms behind{compared}",
        "lag_octets": octets,
        "lag_ms": ms,
    }


def _store(directory: Path) -> Path:
    """Return where the lock of a store is: in ``directory``, or in the folder that a broker of XML makes there.

    ActiveMQ keeps files of its own in the directory that the XML names, so the store is a folder of it.
    """
    if (directory / LOCK).exists() or not (directory / OWN / LOCK).exists():
        return directory
    return directory / OWN


def _watched(read: Callable[[], Record]) -> dict[str, Any]:
    """Return what the lock says, after looking at it twice. Raises StoreUnusable."""
    record = read()
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
        while (again := read()).beat == record.beat and again.epoch == record.epoch:
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
