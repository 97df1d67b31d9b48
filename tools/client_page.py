"""The page of the options that a client's URL may hold, read off their declarations."""

from __future__ import annotations

import sys
from typing import Final

from source_tree import SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.base.environment import MILLISECOND
from entrepot.base.settings import Dialect, Options, Setting, Unit
from entrepot.client.options import ONE_WAY, ClientOptions, CoreOptions, FanoutOptions, GroupOptions, LocatorOptions
from entrepot.protocols.announcement import MulticastOptions
from entrepot.protocols.peers import FailoverOptions

HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/client and src/entrepot/protocols/failover.py. -->
# Options of a client's URL

The names and the defaults are those of ActiveMQ. Options follow a `?`: `tcp://host:61616?jms.useAsyncSend=true`, or
behind the list, `failover:(tcp://a:61616,tcp://b:61616)?randomize=false&jms.clientID=me`. Times are in milliseconds, or
with a unit (`3s`); sizes in octets, or with a unit (`64kb`). What is not listed is refused.
"""
TABLE: Final = "\n| Option | Default | What it says |\n|---|---|---|\n"
ONE_WAY_HEAD: Final = """
## Options of Java with one meaning here

They are accepted when they say what is so anyway, and refused otherwise.

| Option | Accepted | Why |
|---|---|---|
"""


def client_options() -> str:
    """Return the page."""
    parts = [
        HEAD,
        section("Connections, and what they open", ClientOptions),
        section("`failover:`, `static:`, `masterslave:` and `discovery:`", FailoverOptions),
        section("`fanout:`, with those of `failover:`", FanoutOptions),
        section("`multicast://`", MulticastOptions),
        section("`core://` and `core:(...)`, with those of connections and of `failover:`", CoreOptions),
        section("`(tcp://...,tcp://...)` and `udp://`, with those of connections and of `core://`", LocatorOptions),
        section("`udp://`, besides", GroupOptions),
        ONE_WAY_HEAD,
        *(f"| `{name}` | {agreed} | {why} |\n" for name, (agreed, why) in ONE_WAY.items()),
    ]
    return "".join(parts)


def section(title: str, options: type[Options]) -> str:
    """Return the table of one class of options."""
    rows = [
        f"| `{declared.spelling(Dialect.URI)}` | {default(declared)} | {declared.about} |\n"
        for declared in options.settings()
        if declared.spelling(Dialect.URI)
    ]
    return f"\n## {title}\n{TABLE}" + "".join(rows)


def default(declared: Setting) -> str:
    """Return the default as one would write it."""
    value = declared.default
    if isinstance(value, bool):
        return str(value).lower()
    if declared.unit is Unit.DURATION and value > 0:
        return f"{value // MILLISECOND} ms"
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return f"`{value}`" if isinstance(value, str) and value else str(value)
