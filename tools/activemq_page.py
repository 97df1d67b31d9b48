"""The page of ``activemq.xml``: every element and attribute with what becomes of it, read off the declarations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from source_tree import SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.config.classic.elements import BROKER  # the line above must come first
from entrepot.config.classic.policy_elements import KINDS
from entrepot.config.vocabulary import SEVERITY, Attribute, Does, Kind, Slot

HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/config/classic/. -->
# activemq.xml

`entrepot run activemq.xml` starts the broker that a configuration of ActiveMQ Classic describes, and `entrepot check
activemq.xml` says what would become of it without starting one. `xbean:file:...` is understood too. Options on the
command line win over the file.

Nothing in the file is dropped silently. Every element and attribute is *obeyed*, or makes a finding with its file, line
and path, and what to do about it:

| State here | Finding | The broker |
|---|---|---|
| obeyed | none | does what it says |
| no effect | note | does as well or better without it |
| behaves otherwise | warning | starts, and differs from Classic in this point; `--strict` makes it an error |
| refused | error | does not start |

An attribute that asks for what happens here anyway (the column *Same*) makes no finding. What is in no table below is
unknown to Classic as well, and an error with the nearest known name.

- **Placeholders** `${name}` are looked up on the command line (`-D name=value`), then as ActiveMQ's directories
  (`activemq.home`, `.base`, `.conf`, `.data`: from ACTIVEMQ_HOME and so on, or else from where the file is), in the
  environment, in the property files that the file names, and last in `${name:default}`. Without a value it is an error.
- **`ENC(...)`**, encrypted by Jasypt's default algorithm, is decrypted with the password in
  ACTIVEMQ_ENCRYPTION_PASSWORD. Secrets are masked in every finding.
- **XML** with a document type is refused: there are no entities to expand and nothing is ever fetched.
- **Connectors** in a protocol that this build does not speak are reported by name, and the others start. `tcp:`,
  `nio:` and `ssl:` speak OpenWire and nothing else, as in Classic; `auto:` finds out.
- **Defaults are Classic's** for every address, not entrepot's own: no priorities, producers wait at a full queue,
  deliveries are not counted by the broker. An entry of `policyEntries` does not inherit from another: what it leaves
  out is Classic's default. Entries for `queue` hold for queues alone, those for `topic` for topics.
- **The journal** stands in the directory `entrepot` within that of `kahaDB`. A store of KahaDB that is already there is
  neither read nor touched, and a warning says so.
- **Non-persistent messages that cannot be delivered** go to the dead letters; `processNonPersistent` is about expired
  ones alone.
- **Security plugins** are obeyed where this build can do what they ask (`security.md`), and refused by name otherwise:
  a broker that should ask for a password does not start without asking.
- **`<import resource="jetty.xml"/>`** is read for [the console](console.md): where it is, over which TLS, who comes in.
- **Other Java beans** and imports are reported and not loaded.
"""


def activemq_xml() -> str:
    """Return the page."""
    return HEAD + "".join(_sections())


def _sections() -> Iterator[str]:
    for kind in _in_order():
        yield f"\n## {kind.name}\n\n"
        if kind.about:
            yield f"{kind.about[0].upper()}{kind.about[1:]}.\n\n"
        rows = [*_attributes(kind), *_slots(kind)]
        if rows:
            yield "| Attribute or `<property>` | Value | State here | Same | Why, or what it holds |\n"
            yield "|---|---|---|---|---|\n"
            yield from rows
        else:
            yield "It has no attributes.\n"


def _in_order() -> list[Kind]:
    """Return the obeyed elements, each behind the first one that may hold it."""
    found: dict[str, Kind] = {}
    pending = [BROKER.name]
    while pending:
        kind = KINDS[pending.pop(0)]
        if kind.name not in found and kind.does is Does.OBEYED:
            found[kind.name] = kind
            pending += [name for slot in kind.slots.values() for name in slot.kinds]
    return list(found.values())


def _attributes(kind: Kind) -> Iterator[str]:
    for attribute in sorted(kind.attributes.values(), key=lambda one: (_rank(one.does), one.name)):
        same = f"`{attribute.same}`" if attribute.same else "empty" if attribute.same == "" else ""
        yield (
            f"| `{attribute.name}` | {attribute.unit.value} | {_state(attribute.does)} | {same} | {_why(attribute)} |\n"
        )


def _slots(kind: Kind) -> Iterator[str]:
    for slot in sorted(kind.slots.values(), key=lambda one: (_rank(one.does), one.name)):
        yield f"| `<{slot.name}>` | | {_state(slot.does)} | | {_cell(slot.why) if slot.why else _held(slot)} |\n"


def _held(slot: Slot) -> str:
    parts = []
    for name in slot.kinds:
        kind = KINDS[name]
        if kind.does is Does.OBEYED:
            parts.append(f"`{name}`")
        else:
            parts.append(f"`{name}` ({_state(kind.does)}: {_cell(kind.why)})")
    return ", ".join(parts)


def _why(attribute: Attribute) -> str:
    if attribute.does is not Does.OBEYED:
        return _cell(attribute.why)
    return "" if attribute.setting is None else _cell(attribute.setting.about)


def _state(does: Does) -> str:
    return does.value


def _rank(does: Does) -> int:
    return -1 if does is Does.OBEYED else int(SEVERITY[does])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
