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
from entrepot.config.model import OwnSettings
from entrepot.config.sources import Sources
from entrepot.config.xml import Element

TARGET: Final = "entrepot"
KNOWN: Final = "it has zone, client-zone and reports"
_PAIR: Final = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*')\s*""")


def own_settings(root: Element, sources: Sources) -> OwnSettings:
    """Return what the instructions of one file say; what is not of them becomes an error."""
    found = OwnSettings()
    for line, target, text in root.instructions:
        if target != TARGET:
            continue
        try:
            for name, value in _pairs(text):
                found = _with(found, name, sources.fill(value), sources, line)
        except InvalidOption as error:
            remedy = error.remedy or "see docs/zones.md"
            sources.findings.add(Severity.ERROR, sources.file, line, f"<?{TARGET}?>", error.message, remedy)
    return found


def _with(found: OwnSettings, name: str, value: str, sources: Sources, line: int) -> OwnSettings:
    """Return ``found`` with one more. Raises InvalidOption."""
    if name == "zone":
        return replace(found, zone=check_zone(value))
    if name == "client-zone":
        ZoneRules([value])
        return replace(found, client_zones=(*found.client_zones, value))
    if name == "reports":
        return replace(found, reports=_directory(value, sources, line))
    raise InvalidOption(f"it has no {name!r}", remedy=KNOWN)


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
