"""`entrepot console`: pages, Jolokia and metrics of running brokers, over HTTP, in a process of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import click

from entrepot.base.errors import InvalidOption
from entrepot.base.places import host_and_port
from entrepot.cli.log_options import log_arguments, log_options
from entrepot.io.children import Pauses, end

if TYPE_CHECKING:
    from entrepot.config.console import ConsolePlace, ConsoleSettings
    from entrepot.config.model import BrokerConfig
    from entrepot.console.server import ConsoleOptions

BROKER: Final = "tcp://127.0.0.1:61616"
LISTEN: Final = "127.0.0.1:8161"
NONE: Final = "none"
PACKAGES: Final = ("starlette", "uvicorn", "jinja2")
INSTALL: Final = "pip install 'entrepot[console]'"
INPUT_OCTETS: Final = 65_536
OTHERS: Final = frozenset(("stomp", "mqtt", "amqp", "core", "http", "https", "ws", "wss"))  # in schemes of listeners
PAUSE: Final = 0.5  # s before the second start of a console that died; each further one doubles it
PAUSE_MOST: Final = 60.0
SETTLED: Final = 60.0  # s after which one that dies was well
LOWER: Final = 10  # niceness: a page can wait for messages, and no message for a page
ENDING: Final = 5.0  # s that it has to end by itself

log: Final = logging.getLogger("entrepot.console")


@click.command()
@click.option(
    "--broker",
    "brokers",
    multiple=True,
    metavar="[NAME=]URL",
    help=f"A broker to show, as the client reaches it; more of them are shown side by side. Default: {BROKER}.",
)
@click.option(
    "--listen",
    default=LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where browsers find it; port 0 takes a free one.",
)
@click.option(
    "--login", envvar="ENTREPOT_LOGIN", default="", help="Who asks for metrics that are scraped without a name."
)
@click.option("--passcode", envvar="ENTREPOT_PASSCODE", default="", help="His password; better in ENTREPOT_PASSCODE.")
@click.option("--read-only", is_flag=True, help="Change nothing, whoever asks.")
@click.option(
    "--host-name",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name of this machine that may be used without a login. Repeatable.",
)
@click.option(
    "--reports",
    envvar="ENTREPOT_REPORTS",
    default="",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Where `entrepot pipeline report`, `audit` and `plan` write their reports, to be shown too; a console that is "
    "started beside a broker takes it from the broker's file or ENTREPOT_REPORTS.",
)
@click.option("--tls-certificate", type=click.Path(dir_okay=False, path_type=Path), help="A PEM file: serve https.")
@click.option("--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="Its key, when it is in another file.")
@log_options
@click.option("--until-eof", is_flag=True, help="Stop when standard input ends.")
@click.option("--settings-from-input", is_flag=True, hidden=True, help="Read what a broker's files say of it.")
@click.option(
    "--ports-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the real URL, as JSON, to this file."
)
def console(
    *,
    brokers: tuple[str, ...],
    listen: str,
    login: str,
    passcode: str,
    read_only: bool,
    hosts: tuple[str, ...],
    reports: str,
    tls_certificate: Path | None,
    tls_key: Path | None,
    log_level: str,
    log_format: str,
    until_eof: bool,
    settings_from_input: bool,
    ports_file: Path | None,
) -> None:
    """Show brokers in a browser, to Jolokia clients, and to Prometheus.

    Users log in as users of the broker, and may do what the broker lets them do. Needs `pip install
    'entrepot[console]'`.
    """
    from entrepot.io import logs, runtime  # noqa: PLC0415 - `--help` need not load it

    try:
        from entrepot.console.server import ConsoleOptions  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as absent:
        raise InvalidOption(f"the console needs the package {absent.name!r}", remedy=INSTALL) from None
    told = _of_input() if settings_from_input else None
    options = ConsoleOptions(
        named(brokers or (BROKER,)),
        places=(_listening(listen, tls_certificate, tls_key),) if told is None else told.places,
        realm=None if told is None else told.realm,
        service=(login, passcode),
        read_only=read_only,
        hosts=hosts,
        reports=reports if told is None else told.reports or reports,
    )
    if until_eof:
        runtime.stop_at_end_of_input()
    logs.configure_logging(log_level, log_format)
    if hasattr(os, "nice"):
        os.nice(LOWER)
    runtime.run(_serve(options, ports_file))


async def _serve(options: ConsoleOptions, ports_file: Path | None) -> None:
    from entrepot.console.server import Console  # noqa: PLC0415 - as above
    from entrepot.io import runtime  # noqa: PLC0415

    made = Console(options)
    undo = runtime.on_signals(made.ask_to_stop)
    try:
        await made.start()
        click.echo(f"console of {', '.join(options.brokers)}: {' '.join(made.urls)}", err=True)
        if ports_file is not None:
            draft = ports_file.with_name(f"{ports_file.name}.{os.getpid()}.tmp")
            draft.write_text(json.dumps({"pid": os.getpid(), "url": made.url, "urls": made.urls}) + "\n")
            draft.replace(ports_file)
        await made.wait()
    finally:
        undo()
        await made.desks.close()
        if ports_file is not None:
            ports_file.unlink(missing_ok=True)


def _listening(listen: str, certificate: Path | None, key: Path | None) -> ConsolePlace:
    """Return the place that the options say. Raises InvalidOption."""
    from entrepot.config.console import ConsolePlace, ConsoleTls  # noqa: PLC0415 - `--help` need not load it

    if key is not None and certificate is None:
        raise InvalidOption("--tls-key is about a certificate, and there is none", remedy="add --tls-certificate")
    host, port = place(listen)
    files = ConsoleTls(certificate=str(certificate), key="" if key is None else str(key))
    return ConsolePlace(host=host, port=port, tls=None if certificate is None else files)


def _of_input() -> ConsoleSettings:
    """Return what the broker beside this console writes to it: passwords are for no command line."""
    from msgspec.json import decode  # noqa: PLC0415 - as above

    from entrepot.config.console import ConsoleSettings  # noqa: PLC0415

    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, INPUT_OCTETS)
        if not more:
            raise InvalidOption("standard input ended before the settings", remedy="write them as one line of JSON")
        line += more
    return decode(line, type=ConsoleSettings)


def check(listen: str) -> None:
    """See that a console can be started and listen there. Raises InvalidOption."""
    if listen == NONE:
        return
    place(listen)
    package = missing_package()
    if package:
        raise InvalidOption(f"--console needs the package {package!r}", remedy=INSTALL)


def missing_package() -> str:
    """Return a package that a console needs and that is not installed, "" for none."""
    return next((package for package in PACKAGES if importlib.util.find_spec(package) is None), "")


def askable(broker: list[str]) -> bool:
    """Return whether a console can ask a broker that listens there."""
    return any(_takes_openwire(one) for one in broker)


def _takes_openwire(uri: str) -> bool:
    scheme, _, rest = uri.partition("://")
    if OTHERS.intersection(scheme.split("+")):
        return False
    for name, text in parse_qsl(rest.partition("?")[2]):
        if name.removeprefix("transport.") in ("protocols", "auto.protocols"):
            return not {"openwire", "default"}.isdisjoint(word.strip() for word in text.lower().split(","))
    return True


def planned(listen: str | None, config: BrokerConfig | None) -> ConsoleSettings | None:
    """Return the console to start beside a broker, None for none. Raises InvalidOption.

    ``listen``: what ``--console`` says, which goes before the place in the file; TLS, users, reports stay the file's.
    """
    from msgspec.structs import replace  # noqa: PLC0415 - as above

    from entrepot.config.console import ConsolePlace, ConsoleSettings  # noqa: PLC0415

    written = None if config is None else config.console
    reports = "" if config is None else config.own.reports
    if listen is None or listen == NONE:
        return replace(written, reports=reports) if listen is None and written is not None else None
    host, port = place(listen)
    tls = None if written is None else written.places[0].tls
    realm = None if written is None else written.realm
    return ConsoleSettings(places=(ConsolePlace(host=host, port=port, tls=tls),), realm=realm, reports=reports)


def askable_by(settings: ConsoleSettings, listen: list[str]) -> ConsoleSettings | None:
    """Return the console that can ask a broker that listens there. Raises InvalidOption where an option wants it."""
    if askable(listen):
        return settings
    if settings.file:
        log.warning("the console of %s is not started: the broker listens for no OpenWire", settings.file)
        return None
    remedy = "listen on auto:// too, or start `entrepot console` with a URL that a client takes"
    raise InvalidOption("--console asks the broker in OpenWire, and it listens for none", remedy=remedy)


class Beside:
    """A console of one broker, or of the processes of one, in a process of its own, started again when it dies.

    It ends when its input does: with `stop`, and when this process is killed. The pauses between two starts grow from
    `PAUSE` to `PAUSE_MOST` s, so a port that is taken, or a package that is broken, costs the broker nothing.
    """

    def __init__(self, settings: ConsoleSettings, brokers: Sequence[tuple[str, str]]) -> None:
        """``brokers``: what each is called, and where it is asked."""
        from msgspec.json import encode  # noqa: PLC0415 - as above

        told = ("--settings-from-input", "--until-eof")
        named = [part for name, url in brokers for part in ("--broker", f"{name}={url}")]
        command = ["console", *named, *told, *log_arguments()]
        self._told: Final = encode(settings) + b"\n"
        self.command: Final = [sys.executable, "-m", "entrepot", *command]
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start it, and go on starting it."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        """End it; what does not end in `ENDING` s is killed."""
        keeping, self._keeping = self._keeping, None
        if keeping is None:
            return
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        if self._process is not None:
            await end(self._process, ENDING)

    async def _keep(self) -> None:
        pauses = Pauses(PAUSE, PAUSE_MOST, SETTLED)
        while True:
            began = time.monotonic()
            try:
                process = await asyncio.create_subprocess_exec(*self.command, stdin=asyncio.subprocess.PIPE)
                self._process = process
                if process.stdin is not None:
                    process.stdin.write(self._told)
                how = f"ended with {await process.wait()}"
            except OSError as error:  # no memory, no process left
                how = f"could not be started: {error}"
            lived = time.monotonic() - began
            pause = pauses.died(lived)
            log.warning("the console %s after %.1f s; it is started again in %.0f s", how, lived, pause)
            await asyncio.sleep(pause)


def place(text: str) -> tuple[str, int]:
    """Return host and port. Raises InvalidOption."""
    host, port = host_and_port(text, LISTEN, everywhere=True)
    return host or "0.0.0.0", port


def named(texts: tuple[str, ...]) -> dict[str, str]:
    """Return name -> URL of what ``--broker`` says. Raises InvalidOption."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, url = text.partition("=")
        if not equals or "://" in name:
            url = text
            name = text.partition("://")[2].partition("?")[0] or text
        if not name or name in found:
            raise InvalidOption(f"--broker {text!r} names {name!r} again", remedy="write NAME=URL")
        found[name] = url
    return found
