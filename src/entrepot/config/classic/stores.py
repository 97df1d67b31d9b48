"""Where messages are kept, and how much of them: persistence adapters and ``systemUsage`` (classic.md 4.11, 8.3).

The journal of this broker stands in a directory of its own, ``entrepot``, within the one that the file names: files of
KahaDB that are there already are neither read nor touched, and both brokers can be tried on one configuration.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from entrepot.base.environment import GIB, MIB
from entrepot.base.errors import InvalidOption
from entrepot.base.values import octets
from entrepot.config.model import BrokerSettings, StoreOptions, UsageOptions
from entrepot.config.reading import Bean, Reader
from entrepot.config.sources import Sources

OWN: Final = "entrepot"
HEAP_DEFAULT: Final = 1 * GIB  # what ActiveMQ's start script gives its virtual machine (-Xmx1G)
KAHADB_DEFAULT: Final = "activemq-data"
KAHADB_FILES: Final = ("db.data", "db.redo")
_KAHADB_JOURNAL: Final = re.compile(r"db-\d+\.log")
_HEAP: Final = re.compile(r"-Xmx(\d{1,9}[kKmMgG]?)")


def store(reader: Reader, bean: Bean, settings: BrokerSettings) -> StoreOptions:
    """Return where the journal is and how it is cut, from the broker's persistence adapter."""
    adapters = bean.many("persistenceAdapter", "persistenceFactory")
    if len(adapters) > 1:
        reader.error(adapters[1], "there are two stores", "keep one of persistenceAdapter and persistenceFactory")
    adapter = adapters[0] if adapters else None
    memory = adapter is not None and adapter.kind.name == "memoryPersistenceAdapter"
    if adapter is None or memory:
        options = StoreOptions()
        directory = str(Path(settings.data_directory) / settings.name / "KahaDB")
    else:
        try:
            options = adapter.options(StoreOptions)
        except InvalidOption as error:
            reader.error(adapter, error.message, error.remedy)
            options = StoreOptions()
        directory = adapter.text("directory") or KAHADB_DEFAULT
    if memory or not settings.persistent:
        if adapter is not None and not memory:
            reader.note(adapter, 'it is not used: the broker says persistent="false"')
        return options.replaced(directory="")
    _look_at(reader, adapter or bean, directory)
    return options.replaced(directory=str(Path(directory) / OWN))


def _look_at(reader: Reader, bean: Bean, directory: str) -> None:
    """Say it where a store of KahaDB is: what is in it stays there."""
    try:
        names = [path.name for path in Path(directory).iterdir()]
    except (OSError, ValueError):
        return
    if any(name in KAHADB_FILES or _KAHADB_JOURNAL.fullmatch(name) for name in names):
        reader.warn(
            bean,
            f"{directory!r} holds a store of KahaDB: its messages are not read, and not touched",
            "drain it with ActiveMQ first, or bridge the two brokers",
            "directory",
        )


def usage(reader: Reader, bean: Bean | None, sources: Sources) -> UsageOptions:
    """Return the limits of the whole broker."""
    if bean is None:
        return UsageOptions(memory_limit=HEAP_DEFAULT * 70 // 100)
    limit = HEAP_DEFAULT * 70 // 100  # what adjustUsageLimits would make of no limit
    memory = bean.one("memoryUsage")
    if memory is not None:
        given = memory.get("limit", 0)
        percent = memory.get("percentOfJvmHeap", 0)
        if percent:
            limit = _of_heap(reader, memory, percent, sources)
        elif given > 0:
            limit = given
        elif "limit" in memory.values:
            reader.error(memory, "a broker cannot work without memory", "give a limit, like 512 mb", "limit")
    disk: dict[str, int] = {}
    for name in ("store", "temp"):
        disk.update(_disk_usage(reader, bean.one(f"{name}Usage"), name))
    try:
        return bean.options(UsageOptions, memory_limit=limit, **disk)
    except InvalidOption as error:
        reader.error(bean, error.message, error.remedy)
        return UsageOptions(memory_limit=limit)


def _disk_usage(reader: Reader, bean: Bean | None, name: str) -> dict[str, int]:
    """Return the limit of storeUsage or tempUsage, in octets or as a share of the disk."""
    if bean is None:
        return {}
    percent, total, limit = (int(bean.get(each, 0)) for each in ("percentLimit", "total", "limit"))
    if percent:
        if not 1 <= percent <= 100:
            reader.error(bean, f"{percent} is no percentage", "use 1 to 100", "percentLimit")
            return {}
        return {f"{name}_limit": total * percent // 100} if total > 0 else {f"{name}_percent": percent}
    if limit > 0:
        return {f"{name}_limit": limit}
    if "limit" in bean.values:
        reader.error(bean, "a limit of nothing lets nothing in", "give a limit, like 100 gb, or leave it out", "limit")
    return {}


def _of_heap(reader: Reader, bean: Bean, percent: int, sources: Sources) -> int:
    """Return a share of the heap that ActiveMQ would have had: -Xmx of its own variables, or what its script gives."""
    if not 1 <= percent <= 100:
        reader.error(bean, f"{percent} is no percentage", "use 1 to 100", "percentOfJvmHeap")
        return HEAP_DEFAULT
    heap = HEAP_DEFAULT
    said = "which ActiveMQ's start script gives"
    for name in ("ACTIVEMQ_OPTS_MEMORY", "ACTIVEMQ_OPTS"):
        found = _HEAP.search(sources.environment.get(name, ""))
        if found is not None and octets(found[1]) > 0:
            heap = octets(found[1])
            said = f"which {name} gives"
            break
    limit = heap * percent // 100
    reader.note(
        bean,
        f"there is no heap: {percent} % of {heap // MIB} MiB, {said}, is {limit // MIB} MiB",
        'say limit="512 mb" to choose it yourself',
        "percentOfJvmHeap",
    )
    return max(limit, MIB)
