"""Write the documentation pages that are read off the source, or check that they are up to date.

``python tools/generated_pages.py`` writes them; with ``--check`` it exits 1 and names the stale ones.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Final

import amqp_performatives
import core_packets
from activemq_page import activemq_xml
from artemis_page import broker_xml
from client_page import client_options
from command_line_page import command_line
from mqtt_page import mqtt_page
from network_pages import network_pages
from records_page import records_page
from source_tree import ROOT, SOURCE
from states_page import states_page

sys.path.insert(0, str(SOURCE))

from entrepot.base import audit_codes, errors, known_codes, log_events, reasons  # the line above must come first
from entrepot.base.settings import Dialect, Setting
from entrepot.core.addressing.address_settings import AddressSettings

PAGES: Final = ROOT / "docs" / "reference"

ERRORS_HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/base/errors.py and reasons.py. -->
# Error codes

A code never changes its meaning and is never given out again. The class it descends from says whose fault it is:
`PeerError` closes the connection of the peer that caused it, `Refused` answers one request and the connection goes on,
`OperatorError` is for whoever runs the broker, `StorageError` is about the journal, `Fault` is a bug of entrepot.

| Code | Class | Kind | Meaning |
|---|---|---|---|
"""


SETTINGS_HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/core/addressing/address_settings.py. -->
# Address settings

They hold for every address that a pattern covers: `entrepot run --set 'orders.>:max_deliveries=3,full=BLOCK'`, or
`Broker(policies={"orders.>": {"max_deliveries": 3}})`. Wildcards are `*` for one word and `>` or `#` for any number.
Settings of several patterns merge, the more specific wins. Each may also be written under the name that it has in
either family. -1 is off or unlimited. A plain number is in milliseconds or octets; `500ms`, `5s`, `2h`, `64kb` and
`10mb` are understood too. A file of either family means the defaults of that family: they are named where they are not
those of entrepot.

| Setting | Default | What it says | Range | Artemis | Default there | Classic | Default there |
|---|---|---|---|---|---|---|---|
"""


def address_settings() -> str:
    """Return the page of address settings."""
    return SETTINGS_HEAD + "".join(_setting_row(declared) for declared in AddressSettings.settings())


def _setting_row(declared: Setting) -> str:
    families = [
        f"{_code(declared.spelling(dialect))} | {_default_in(declared, dialect)}"
        for dialect in (Dialect.ARTEMIS, Dialect.CLASSIC)
    ]
    range_text = declared.range_text()
    return (
        f"| `{declared.name}` | {declared.show(declared.default)} | {declared.about} | {range_text} | "
        f"{' | '.join(families)} |\n"
    )


def _default_in(declared: Setting, dialect: Dialect) -> str:
    """Return the default of a family where it is another one than ours."""
    if dialect not in declared.defaults:
        return ""
    return declared.show(declared.default_in(dialect)) or "empty"


def _code(name: str) -> str:
    return f"`{name}`" if name else ""


REASONS_HEAD = """
## Why a message died, or was dropped

The `code` of facts about messages, in the broker's log and in JSON.

| Code | Meaning |
|---|---|
"""
OBJECTIONS_HEAD = """
## Why a consumer does not take a message

The codes of `entrepot explain --json`.

| Code | Meaning |
|---|---|
"""


def descendants(cls: type[errors.EntrepotError]) -> Iterator[type[errors.EntrepotError]]:
    """Yield every class below ``cls``, each once."""
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def error_codes() -> str:
    """Return the page of error codes. Raises SystemExit when two classes share a code."""
    for name in (
        "pipeline.causes",
        "protocols.artemis.refusals",
        "protocols.amqp.refusals",
    ):  # have classes, and nothing above needs them
        importlib.import_module(f"entrepot.{name}")
    rows: dict[str, str] = {}
    for cls in descendants(errors.EntrepotError):
        if cls.code in rows:
            raise SystemExit(f"the code {cls.code} of {cls.__name__} is taken")
        text = " ".join((inspect.getdoc(cls) or "").split()).replace("|", "\\|").replace("``", "`")
        kind = cls.__mro__[1].__name__
        rows[cls.code] = f"| {cls.code} | `{cls.__name__}` | {kind} | {text} |\n"
    found = ERRORS_HEAD + "".join(rows[code] for code in sorted(rows))
    for head, codes in ((REASONS_HEAD, reasons.ABOUT), (OBJECTIONS_HEAD, reasons.OBJECTIONS)):
        found += head + "".join(f"| `{code}` | {about} |\n" for code, about in sorted(codes.items()))
    return found


LOG_HEAD = """\
<!-- Written by `make generated` from src/entrepot/base/log_events.py, known_codes.py and audit_codes.py. -->
# The log

A broker, a voter, the console and `entrepot pipeline land` write what happens to standard error: one event, one line,
with a code that never changes its meaning. The words of a line may change; look for its code.

```text
2026-01-31T12:00:00.123Z INFO LOG-3001 entrepot.listener: listening on stomp://127.0.0.1:61613 [AMQ221020]
```

`--log-format json` writes a JSON object a line instead:

```json
{"time": "2026-01-31T12:00:00.123Z", "level": "INFO", "code": "LOG-3001", "logger": "entrepot.listener", \
"message": "listening on stomp://127.0.0.1:61613", "amq": "AMQ221020", "classic": "TransportConnector: Connector {} \
started"}
```

Where ActiveMQ Artemis or Classic has well-known words for the same thing, a line says so: text has the code of Artemis
in brackets at its end (`[AMQ222210]`), JSON has it as `amq`, and the class and the words of Classic as `classic`.
[Known as](#known-as) is the table. An alert that looks for a code of Artemis finds it here.

Further fields, where they mean something: `error`, a code of [error codes](errors.md); `traceback`; `left_out`.
`--log-level` is debug, info, warning or error.

Of one kind at most 200 lines are written in a minute: somebody who is refused again and again fills no disk. How many
were left out says one more line, with the same code and `left_out`. What is critical is always written, and so is each
event of a plugin that logs events, and what known users do with the console; not each stranger who is not let in. All
that a library warns of (`asyncio`, of broken TLS for instance) is one kind. A line has 4096 characters at most.

Messages are never in the log, nor are passwords. What a peer sent makes no line of its own: line ends in it are written
as `\\\\n`.
"""


KNOWN_HEAD: Final = """
## Known as

What is the same event in Artemis 2.42 and in Classic 5.17; the tests find each code and its words in their jars. The
second column is a pattern in the text of our line, where a code has lines about several things. `{}` is what is filled
in. The levels of the others may be other ones. What a broker says plainly when it begins and ends (LOG-1015) has codes
in JSON alone.

| Code | Lines | ActiveMQ Artemis | ActiveMQ Classic |
|---|---|---|---|
"""


AUDIT_HEAD: Final = """
## The audit log

What people do with the console and by Jolokia is a line of LOG-6010 with a JSON object: `user`, `peer`, `broker`,
`action`, what it is about, `result`. `amq` in it are the codes that Artemis' audit log (2.42, `AMQ601...`) has for the
same deed: of being asked for, and of how it ended. Where Artemis logs the code of another deed, as for a queue that
cannot be resumed, it is that one. Looking is not logged here, nor what clients do: of these, events of a plugin
(LOG-1008), refused logins and rights (LOG-3008) and users that were changed (LOG-2010) have such codes above.

| On pages | Operations of Jolokia | Of MBeans with | Asked for | Done | Failed |
|---|---|---|---|---|---|
"""


def log_page() -> str:
    """Return the page of the log. Raises SystemExit when a code is given to two events."""
    found = LOG_HEAD
    seen: dict[str, str] = {}
    for area, events in log_events.EVENTS.items():
        found += f"\n## {area}\n\n| Code | Logger | Line | Meaning |\n|---|---|---|---|\n"
        for event in events:
            if event.code in seen:
                raise SystemExit(f"the code {event.code} is given to two events")
            seen[event.code] = event.template
            line = event.template.replace("|", "\\|")
            found += f"| {event.code} | {event.logger} | {line} | {event.about} |\n"
    return found + f"\n`{log_events.UNNAMED}` is a line of a library.\n" + _known_page()


def _known_page() -> str:
    found = KNOWN_HEAD
    for row in known_codes.KNOWN:
        when = f"`{row.when}`".replace("|", "\\|") if row.when else "all"
        owner, _, words = row.classic.partition(": ")
        said = f"{row.artemis}: {row.says}" if row.artemis else ""
        found += f"| {row.code} | {when} | {said} | {f'`{owner}`: {words}' if owner else ''} |\n"
    return found + _audit_page()


def _audit_page() -> str:
    found = AUDIT_HEAD
    for deed in audit_codes.DEEDS:
        pages, calls, beans = (", ".join(f"`{each}`" for each in some) for some in (deed.pages, deed.calls, deed.beans))
        first = f"{deed.doing}: {deed.says}" if deed.doing else ""
        done = deed.done if deed.doing else f"{deed.done}: {deed.says}"
        found += f"| {pages} | {calls} | {beans} | {first} | {done} | {deed.failed} |\n"
    return found


def main() -> int:
    """Write or check every page."""
    pages = {
        PAGES / "cli.md": command_line(),
        PAGES.parent / "activemq-xml.md": activemq_xml(),
        PAGES.parent / "broker-xml.md": broker_xml(),
        PAGES / "client-options.md": client_options(),
        PAGES / "errors.md": error_codes(),
        PAGES / "log.md": log_page(),
        PAGES / "mqtt-conformance.md": mqtt_page(),
        core_packets.TARGET: core_packets.source(),
        core_packets.PAGE: core_packets.page(),
        amqp_performatives.TARGET: amqp_performatives.source(),
        amqp_performatives.PAGE: amqp_performatives.page(),
        PAGES.parent / "formats" / "records.md": records_page(),
        **network_pages(),
        PAGES / "settings.md": address_settings(),
        PAGES.parent / "states" / "connection.md": states_page(),
    }
    stale = [path for path, text in pages.items() if not path.is_file() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make generated` and commit the result")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages[path])
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
