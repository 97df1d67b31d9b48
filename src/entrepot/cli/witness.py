"""`entrepot witness`: a third voice for two brokers, on any machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from entrepot.cli.log_options import log_options
from entrepot.io.votes import VoteStore


@click.command(
    epilog="""Examples:

    \b
    head -c 32 /dev/urandom | base64 > quorum.secret; chmod 600 quorum.secret      # the same file everywhere
    entrepot witness --listen 10.0.0.3:7790 --secret-file quorum.secret --data /var/lib/entrepot-witness
    entrepot run --ha shared-store --data /mnt/entrepot --name broker-a \\
        --locker 'quorum:(10.0.0.1:7790,10.0.0.2:7790,10.0.0.3:7790)?secret-file=quorum.secret'
    """
)
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:7790", show_default=True, help="Where brokers ask it."
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("entrepot-witness"),
    show_default=True,
    help="Where it remembers its votes: a directory of its own on a disk of this machine, 128 KiB for each register.",
)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False),
    default="",
    help="What brokers and voters share, 16 octets at least. Needed for every address but this machine's own.",
)
@click.option("--tls-certificate", type=click.Path(dir_okay=False), default="", help="PEM or PKCS#12: speak TLS.")
@click.option("--tls-key", type=click.Path(dir_okay=False), default="", help="Its key, where that is another file.")
@log_options
@click.option("--ports-file", type=click.Path(dir_okay=False), default="", help="Write the real port there, as JSON.")
@click.option("--show", "show_only", is_flag=True, help="Print what it remembers, as JSON, and end. It must not run.")
def witness(
    *,
    listen: str,
    data: Path,
    secret_file: str,
    tls_certificate: str,
    tls_key: str,
    log_level: str,
    log_format: str,
    ports_file: str,
    show_only: bool,
) -> None:
    """Vote on who may be master, until SIGTERM. It has no messages and takes a few MB.

    Brokers name all voters: --locker quorum:(HOST:PORT,HOST:PORT,HOST:PORT). A majority of them must be there for a
    broker to become master, or to stay it. It promises nothing before it is on disk. If its disk is lost, start it with
    an empty directory: it does not count then until all other voters are there, and takes from them what it must know.
    """
    if show_only:
        click.echo(json.dumps(_shown(data), indent=2))
        return
    options = {
        "listen": listen,
        "data": str(data),
        "secret_file": secret_file,
        "certificate": tls_certificate,
        "key": tls_key,
        "log_level": log_level,
        "log_format": log_format,
        "ports_file": ports_file,
    }
    # What reads a command line is larger than a witness: it makes room.
    package = str(Path(__file__).parents[2])
    paths = [package, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "MALLOC_ARENA_MAX": "2"}
    command = [sys.executable, "-m", "entrepot.io.witness", json.dumps(options)]
    os.execve(sys.executable, command, environment)


def _shown(data: Path) -> dict[str, object]:
    store = VoteStore(data)
    try:
        return {
            name: {
                "store": state.store,
                "voters": [] if state.roster is None else list(state.roster.addresses()),
                "change": 0 if state.roster is None else state.roster.number,
                "promised": list(state.promised),
                "accepted": list(state.accepted),
                "version": state.value.version,
                "record": state.value.octets.decode(errors="replace"),
            }
            for name, state in store.states().items()
        }
    finally:
        store.close()
