"""The log of a process of entrepot: one event, one line on standard error, each with its code, as text or as JSON.

What the codes are, `base/log_events.py` says, and what other brokers call the same, `base/known_codes.py`. A kind of
line that comes too often, because somebody knocks and knocks, is held back; how many lines were left out is said in the
next minute.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from typing import Final, TextIO

from entrepot.base.errors import InvalidOption
from entrepot.base.known_codes import known_as
from entrepot.base.log_events import UNNAMED, code_of

FORMATS: Final = ("text", "json")
LINES_MAX: Final = 200  # of one kind, in one window; then they are counted
WINDOW_S: Final = 60.0
TEXT_MAX: Final = 4096  # characters of one line: a frame that is refused may be of megabytes, and be quoted
UNRESTRAINED: Final = ("entrepot.broker", "entrepot.audit")  # events that were asked for, and who did what
STRANGER: Final = "stranger"  # attribute of the record: somebody caused it who is not known, and can again
OTHERS: Final = ("asyncio", "h11", "websockets", "wsproto")  # libraries that log what peers do, at WARNING and above
FIELDS: Final = "fields"  # attribute of the record: what a line says, as an object
AMQ: Final = "amq"  # attribute of the record: the codes of Artemis that whoever logs it knows
LEFT_OUT: Final = "left_out"  # attribute of the record that says how many lines like it were held back

log: Final = logging.getLogger("entrepot.node")

_KNOWN_CODE: Final = re.compile(r"\bAMQ\d{6}\b")
_ENTREPOT_ERROR: Final = re.compile(r"\bENT-\d{4}\b")


class PlainFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.123Z INFO LOG-1001 entrepot.node: text``: UTC, sortable, one line, then any traceback.

    ``process``: its number, in brackets before the logger, where several are one broker.
    """

    def __init__(self, process: int | None = None) -> None:
        self.mark = "" if process is None else f"[{process}] "
        super().__init__(f"%(asctime)s %(levelname)s %(code)s {self.mark}%(name)s: %(message)s")
        self.converter = time.gmtime
        self.default_time_format = "%Y-%m-%dT%H:%M:%S"
        self.default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a text of a peer makes no second one."""
        record.code = _code(record)
        return super().format(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        """Return the line without a traceback, and with the codes that Artemis has for it."""
        record.message = cut(record.message)
        line = super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")
        known = known_as(_code(record), record.message)
        lacks = "" if known is None else _absent(known.artemis, record.message)
        return f"{line} [{lacks}]" if lacks else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, code, logger, message; and, where there are any, what the docs name."""

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self.process: Final = process
        self.converter = time.gmtime
        self.default_time_format = "%Y-%m-%dT%H:%M:%S"
        self.default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        text = cut(record.getMessage())
        said: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "code": _code(record),
            "logger": record.name,
            "message": text,
        }
        if self.process is not None:
            said["process"] = self.process
        known = known_as(str(said["code"]), text)
        codes = _KNOWN_CODE.findall(text)[:1] + ([] if known is None else _absent(known.artemis, text).split())
        amq = getattr(record, AMQ, "") or " ".join(codes)
        if amq:
            said["amq"] = amq
        if known is not None and known.classic:
            said["classic"] = known.classic
        error = _ENTREPOT_ERROR.search(text)
        if error is not None:
            said["error"] = error[0]
        left_out = getattr(record, LEFT_OUT, 0)
        if left_out:
            said[LEFT_OUT] = left_out
        fields = getattr(record, FIELDS, None)
        if fields is not None:
            said[FIELDS] = {key: cut(each) if isinstance(each, str) else each for key, each in fields.items()}
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=True, default=str)


class Restraint:
    """Counts lines of each kind, and says which are too many. ``now`` is in seconds, of any clock that rises."""

    def __init__(self, most: int = LINES_MAX, window: float = WINDOW_S) -> None:
        self.most: Final = most
        self.window: Final = window
        self._kinds: dict[tuple[str, str], list[float]] = {}  # -> when its window ends, lines in it

    def admits(self, kind: tuple[str, str], now: float) -> bool:
        """Return whether a line of ``kind`` is written. Call `over` first."""
        found = self._kinds.setdefault(kind, [now + self.window, 0])
        found[1] += 1
        return found[1] <= self.most

    def over(self, now: float) -> dict[tuple[str, str], int]:
        """Forget the windows that are over; return of which kinds lines were left out, and how many."""
        ended = {kind: found for kind, found in self._kinds.items() if found[0] <= now}
        for kind in ended:
            del self._kinds[kind]
        return {kind: int(found[1]) - self.most for kind, found in ended.items() if found[1] > self.most}


class RestrainedHandler(logging.StreamHandler[TextIO]):
    """Writes lines, not too many of one kind."""

    def __init__(self, stream: TextIO, restraint: Restraint) -> None:
        super().__init__(stream)
        self.restraint: Final = restraint

    def emit(self, record: logging.LogRecord) -> None:
        """Write ``record``, or count it; before it, what was left out in the minute before."""
        now = time.monotonic()
        self._tell(now)
        kind = kind_of(record)
        asked_for = record.name in UNRESTRAINED and not getattr(record, STRANGER, False)
        free = asked_for or record.levelno >= logging.CRITICAL
        if free or self.restraint.admits(kind, now):
            super().emit(record)

    def close(self) -> None:
        """Say what was left out last."""
        self.acquire()
        try:
            self._tell(math.inf)
        finally:
            self.release()
        super().close()

    def _tell(self, now: float) -> None:
        for (name, template), count in self.restraint.over(now).items():
            text = "%d more lines like this were left out: %s"
            record = logging.LogRecord(name, logging.WARNING, "", 0, text, (count, template), None)
            record.code = code_of(name, template)
            setattr(record, LEFT_OUT, count)
            super().emit(record)


def _code(record: logging.LogRecord) -> str:
    code = getattr(record, "code", "")
    return code if isinstance(code, str) and code else code_of(record.name, str(record.msg))


def kind_of(record: logging.LogRecord) -> tuple[str, str]:
    """Return what ``record`` is counted as: its logger and its template; of a library, all lines of a logger are one.

    Some put what happened into the template (`asyncio` does), so that each line would be of a kind of its own.
    """
    template = str(record.msg)
    return record.name, template if code_of(record.name, template) != UNNAMED else "of a library"


def cut(text: str) -> str:
    """Return ``text``, its beginning where it is too long for a line."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text) - TEXT_MAX} characters more)"


def _absent(codes: str, text: str) -> str:
    return " ".join(code for code in codes.split() if code not in text)


def tell(text: str) -> None:
    """Say what begins and ends to whoever watches standard error: as it is, or as lines of a log that is JSON."""
    handlers = logging.getLogger("entrepot").handlers
    if not any(isinstance(each.formatter, JsonFormatter) for each in handlers):
        marks = [each.formatter.mark for each in handlers if isinstance(each.formatter, PlainFormatter)]
        mark = marks[0] if marks else ""
        sys.stderr.write("".join(f"{mark}{line}\n" for line in text.splitlines()))
        sys.stderr.flush()
        return
    for line in text.splitlines():
        log.info("%s", line.strip())


def configure_logging(level: str = "INFO", form: str = "text", process: int | None = None) -> None:
    """Write the log of entrepot, and what libraries warn of, to standard error.

    ``process``: the number of this one among those that are one broker, which stands in each line. Raises InvalidOption
    for a level or a format that does not exist.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise InvalidOption(f"there is no log level {level!r}", remedy="use DEBUG, INFO, WARNING or ERROR")
    if form not in FORMATS:
        raise InvalidOption(f"there is no log format {form!r}", remedy="use text or json")
    target = RestrainedHandler(sys.stderr, Restraint())
    target.setFormatter(JsonFormatter(process) if form == "json" else PlainFormatter(process))
    _write_to(target, logging.getLogger("entrepot"), number)
    for name in OTHERS:  # else they are written to standard error as they are, and as often as a peer likes
        _write_to(target, logging.getLogger(name), logging.WARNING)


def _write_to(target: logging.Handler, logger: logging.Logger, level: int) -> None:
    logger.handlers[:] = [target]
    logger.setLevel(level)
    logger.propagate = False
