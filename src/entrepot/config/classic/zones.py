"""Zones in a file of ActiveMQ: a processing instruction, which ActiveMQ's own reader passes over.

``<?entrepot zone="ams" client-zone="fra=10.2.0.0/16,client:fra-*"?>``, anywhere in the file; ``client-zone`` may be
given more than once, each in an instruction of its own.
"""

from __future__ import annotations

import re
from typing import Final

from entrepot.base.errors import InvalidOption
from entrepot.cluster.zones import ZoneRules, check_zone
from entrepot.config.findings import Severity
from entrepot.config.sources import Sources
from entrepot.config.xml import Element

TARGET: Final = "entrepot"
_PAIR: Final = re.compile(r"""([\w-]+)\s*=\s*("[^"]*"|'[^']*')\s*""")


def zones(root: Element, sources: Sources) -> tuple[str, tuple[str, ...]]:
    """Return the zone of the broker, "" for none, and the rules about clients; errors for what is neither."""
    zone = ""
    rules: list[str] = []
    for line, target, text in root.instructions:
        if target != TARGET:
            continue
        try:
            for name, value in _pairs(text):
                filled = sources.fill(value)
                if name == "zone":
                    zone = check_zone(filled)
                elif name == "client-zone":
                    ZoneRules([filled])
                    rules.append(filled)
                else:
                    raise InvalidOption(f"it has no {name!r}", remedy="it has zone and client-zone")
        except InvalidOption as error:
            sources.findings.add(
                Severity.ERROR, sources.file, line, f"<?{TARGET}?>", error.message, error.remedy or "see docs/zones.md"
            )
    return zone, tuple(rules)


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
