"""docs/reference/mqtt-conformance.md: the statements of the MQTT standards, and the test that shows each."""

from __future__ import annotations

import tomllib
from typing import Any, Final

from source_tree import ROOT

STATEMENTS: Final = ROOT / "tests" / "unit" / "protocols" / "mqtt"
VERSIONS: Final = {"MQTT 5.0": "mqtt_5.toml", "MQTT 3.1.1": "mqtt_3.toml"}
CLIENTS: Final = "a client's duty"

HEAD: Final = """\
<!-- Written by `make generated` from tests/unit/protocols/mqtt/mqtt_5.toml and mqtt_3.toml. -->
# MQTT conformance

The numbered statements of the OASIS standards of MQTT, in our words, and for each the test that shows that the broker
obeys it. A statement that binds clients alone is marked so; one about clients has a test where the broker looks at it.

| Standard | Statements | Shown by tests | Of clients alone | Not obeyed |
|---|---|---|---|---|
"""


def mqtt_page() -> str:
    """Return the page."""
    tables = {version: tomllib.loads((STATEMENTS / name).read_text()) for version, name in VERSIONS.items()}
    found = HEAD
    for version, table in tables.items():
        found += f"| {version} {_counts(table['statements'])}\n"
    found += _not_obeyed(tables)
    for version, table in tables.items():
        found += f"\n## {version}\n\n| Number | Statement | Test |\n|---|---|---|\n"
        for number, statement in table["statements"].items():
            found += f"| MQTT-{number} | {statement['says']} | {_shown(statement, table['files'])} |\n"
    return found


def _counts(statements: dict[str, dict[str, Any]]) -> str:
    kinds = [sum(kind in statement for statement in statements.values()) for kind in ("test", "clients", "not_obeyed")]
    return "".join(f"| {count} " for count in (len(statements), *kinds)) + "|"


def _not_obeyed(tables: dict[str, dict[str, Any]]) -> str:
    """Return the list of what is not obeyed, and why."""
    lines = [
        f"- **MQTT-{number}** of {version}. {statement['says']}: {statement['not_obeyed']}.\n"
        for version, table in tables.items()
        for number, statement in table["statements"].items()
        if "not_obeyed" in statement
    ]
    return "\n## Not obeyed\n\n" + "".join(lines)


def _shown(statement: dict[str, Any], files: dict[str, str]) -> str:
    if "test" not in statement:
        return CLIENTS if "clients" in statement else "**not obeyed**"
    short, _, name = statement["test"].partition("::")
    return f"`{files[short].rpartition('/')[2]}` `{name}`"
