"""What only entrepot knows, in a file of either family: a processing instruction, which others' readers pass over.

``<?entrepot zone="ams" client-zone="fra=10.2.0.0/16,client:fra-*" reports="/var/reports"?>``, anywhere in the file;
``client-zone`` may be given more than once, each in an instruction of its own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidOption
from entrepot.cluster.zones import ZoneRules, check_zone
from entrepot.config.findings import Severity
from entrepot.config.model import BrokerConfig
from entrepot.config.sources import Sources
from entrepot.config.xml import Element

TARGET: Final = "entrepot"
KNOWN: Final = "it has zone, client-zone and reports"
_PAIR: Final = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*')\s*""")


class Instructions:
    """What the instructions of one file say; what is not of it becomes an error.

    ``zone``: where the broker is, "" for nowhere in particular; ``client_zones``: the rules about clients; ``reports``:
    the directory of the reports that its console shows, "" for none.
    """

    def __init__(self, root: Element, sources: Sources) -> None:
        self.zone = ""
        self.client_zones: tuple[str, ...] = ()
        self.reports = ""
        for line, target, text in root.instructions:
            if target != TARGET:
                continue
            try:
                for name, value in _pairs(text):
                    self._take(name, sources.fill(value), sources, line)
            except InvalidOption as error:
                remedy = error.remedy or "see docs/zones.md"
                sources.findings.add(Severity.ERROR, sources.file, line, f"<?{TARGET}?>", error.message, remedy)

    def _take(self, name: str, value: str, sources: Sources, line: int) -> None:
        if name == "zone":
            self.zone = check_zone(value)
        elif name == "client-zone":
            ZoneRules([value])
            self.client_zones += (value,)
        elif name == "reports":
            self.reports = _directory(value, sources, line)
        else:
            raise InvalidOption(f"it has no {name!r}", remedy=KNOWN)


def instructed(config: BrokerConfig, said: Instructions) -> BrokerConfig:
    """Return ``config`` with what the instructions say."""
    return replace(config, zone=said.zone, client_zones=said.client_zones, reports=said.reports)


def _directory(value: str, sources: Sources, line: int) -> str:
    """Return the path of a directory that may not be there yet, which is a note. Raises InvalidOption."""
    path = sources.local(value)
    if not value.strip() or path is None:
        raise InvalidOption(
            f"reports={value!r} is no directory of this machine", remedy="write a path, or file: and one"
        )
    found = Path(sources.file).resolve().parent / path
    if found.exists() and not found.is_dir():
        raise InvalidOption(f"reports={value!r} is no directory", remedy="name the one that --to of the jobs says")
    if not found.exists():
        what = f"the directory of reports {found} is not there: the console shows none until it is"
        remedy = "entrepot pipeline report, audit and plan --to make it"
        sources.findings.add(Severity.NOTE, sources.file, line, f"<?{TARGET}?>", what, remedy)
    return str(found)


def _pairs(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            raise InvalidOption(f'{text[at:]!r} is not NAME="VALUE"', remedy='like <?entrepot zone="ams"?>')
        found.append((pair[1], pair[2][1:-1]))
        at = pair.end()
    return found
