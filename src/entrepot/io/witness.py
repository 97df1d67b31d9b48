"""`entrepot witness` as a process: a voter at a port until SIGTERM. It loads no broker and no event loop.

``python -m entrepot.io.witness OPTIONS``, with options as JSON: what `entrepot witness` makes of its command line.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from entrepot.base.errors import EntrepotError, OperatorError
from entrepot.io.logs import configure_logging
from entrepot.io.secret_file import read_secret
from entrepot.io.votes import VoteStore
from entrepot.io.voting import VoteServer

log: Final = logging.getLogger("entrepot.votes")


def main(arguments: list[str]) -> int:
    """Run it; return the exit code, as every command of entrepot does."""
    options = json.loads(arguments[0])
    configure_logging(str(options["log_level"]), str(options["log_format"]))
    try:
        server = _server(options)
        server.open()
    except EntrepotError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2 if isinstance(error, OperatorError) else 1
    _write_port(str(options["ports_file"]), server.port)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=server.serve, name="entrepot-voters", daemon=True).start()
    log.info("votes at port %d, remembers in %s: %s", server.port, options["data"], _known(server))
    stop.wait()
    log.info("stops; what it promised is on disk")
    server.close()
    return 0


def _server(options: dict[str, str]) -> VoteServer:
    secret = read_secret(options["secret_file"])
    tls = None
    if options["certificate"]:
        from entrepot.io.tls import TlsOptions, server_context  # noqa: PLC0415 - 4 MB that few need

        tls = server_context(TlsOptions(certificate=options["certificate"], key=options["key"]))
    return VoteServer(VoteStore(Path(options["data"])), options["listen"], secret, tls)


def _known(server: VoteServer) -> str:
    registers = server.facts()["registers"]
    return ", ".join(registers) or "it is new, and counts once all voters of a register are there"


def _write_port(path: str, port: int) -> None:
    if path:
        draft = Path(f"{path}.new")
        draft.write_text(json.dumps({"votes": port}) + "\n")
        draft.replace(path)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
