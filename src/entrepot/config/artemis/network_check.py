"""What the network check of a ``broker.xml`` looks for (artemis.md 2.9)."""

from __future__ import annotations

import shlex
from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.config.artemis.reading import PartReader
from entrepot.config.reading import Bean
from entrepot.ha.network_check import HOST, NetworkCheckOptions

SCHEMES: Final = ("http://", "https://")


def network_check(reader: PartReader, core: Bean) -> NetworkCheckOptions | None:
    """Return what is looked for, None where nothing is named."""
    hosts, urls = _list(core, "network-check-list"), _list(core, "network-check-URL-list")
    for url in urls:
        if not url.startswith(SCHEMES):
            reader.error(core, f"{url!r} is no URL of http or https", "name a page", "network-check-URL-list")
    if not hosts and not urls:
        return None
    usual = NetworkCheckOptions()
    return NetworkCheckOptions(
        hosts=hosts,
        urls=tuple(url for url in urls if url.startswith(SCHEMES)),
        period=_time(reader, core, "network-check-period", usual.period // MILLISECOND),
        timeout=_time(reader, core, "network-check-timeout", usual.timeout // MILLISECOND),
        interface=core.text("network-check-NIC"),
        ping=_command(reader, core, "network-check-ping-command"),
        ping6=_command(reader, core, "network-check-ping6-command"),
    )


def _list(core: Bean, name: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in core.text(name).split(",") if each.strip())


def _time(reader: PartReader, core: Bean, name: str, usual: int) -> int:
    ms = int(core.get(name, usual))
    if ms <= 0:
        reader.error(core, f"{ms} ms is no time to wait", "use some seconds", name)
        ms = usual
    return ms * MILLISECOND


def _command(reader: PartReader, core: Bean, name: str) -> str:
    text = core.text(name)
    try:
        words = shlex.split(text)
    except ValueError as error:
        reader.error(core, f"it is no command: {error}", "close its quotes", name)
        return ""
    if text and not any(HOST in word for word in words):
        reader.error(core, f"{text!r} does not say which host", "write %s where the host goes", name)
        return ""
    return text
