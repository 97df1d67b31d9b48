"""Where ``<core>`` has its journal, and what the journal lets go of (artemis.md 8.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from entrepot.base.errors import InvalidOption
from entrepot.config.artemis.elements import CONTENT, RETENTION
from entrepot.config.artemis.reading import PartReader
from entrepot.config.model import RetentionOptions, StoreOptions
from entrepot.config.reading import Bean

OWN: Final = "entrepot"
JOURNAL: Final = "data/journal"
UNITS_MS: Final = {"DAYS": 86_400_000, "HOURS": 3_600_000, "MINUTES": 60_000, "SECONDS": 1_000}
"""In what the time of `journal-retention-directory` is given -> ms."""


def store(reader: PartReader, core: Bean, persistent: bool) -> StoreOptions:
    """Return where the journal is; a broker that keeps nothing has none."""
    directory = Path(core.text("journal-directory") or JOURNAL)
    given = core.text("journal-file-size")
    if not persistent:
        return StoreOptions()
    if not directory.is_absolute():
        directory = _instance(reader.sources.file) / directory
    segment = int(core.get("journal-file-size", 0)) if given else 0
    try:
        options = StoreOptions(segment=segment) if segment else StoreOptions()
    except InvalidOption as error:
        reader.error(core, error.message, error.remedy, "journal-file-size")
        options = StoreOptions()
    _look_at(reader, core, directory)
    return options.replaced(directory=str(directory / OWN))


def retention(reader: PartReader, core: Bean) -> RetentionOptions | None:
    """Return where what the journal lets go of is kept, and how long; None where it is not."""
    said = core.one(RETENTION)
    if said is None:
        return None
    text, unit = said.text(CONTENT), said.text("unit") or "DAYS"
    period, limit = int(said.get("period", -1)), int(said.get("storage-limit", -1))
    if not text:
        reader.error(said, "it names no directory", "write the directory as its text")
    if unit not in UNITS_MS:
        reader.error(said, f"{unit!r} is no unit of time", "use " + ", ".join(UNITS_MS), "unit")
    if period == 0:
        reader.error(said, "nothing is kept for a time of 0", "leave it out, or give a period from 1 on", "period")
    if period < 0 and limit <= 0:
        what = "everything is kept for ever: the disk will be full one day"
        reader.warn(said, what, "give it a period or a storage-limit")
    directory = Path(text)
    if not directory.is_absolute():
        directory = _instance(reader.sources.file) / directory
    return RetentionOptions(str(directory), max(period, 0) * UNITS_MS.get(unit, 0), max(limit, 0))


def _instance(file: str) -> Path:
    """Return the directory of the instance that a file belongs to: Artemis keeps it in ``etc`` there."""
    beside = Path(file).resolve().parent
    return beside.parent if beside.name in ("etc", "conf") else beside


def _look_at(reader: PartReader, core: Bean, directory: Path) -> None:
    try:
        names = [path.name for path in directory.iterdir()]
    except OSError:
        return
    if any(name.startswith("activemq-data-") for name in names):
        what = f"{str(directory)!r} holds a journal of Artemis: its messages are not read, and not touched"
        reader.warn(core, what, "drain it with Artemis first", "journal-directory")
