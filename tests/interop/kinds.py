"""The kinds of brokers that the interop tests start, and why one is left out."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import artemis
import classic
import ours


def why_not(kind: str) -> str:
    if kind == "classic":
        return classic.unavailable()
    if kind == "artemis":
        return artemis.unavailable()
    if importlib.util.find_spec("entrepot.protocols.openwire.server") is None:
        return "this build of entrepot has no OpenWire server"
    return ""


Broker = artemis.Artemis | classic.Classic | ours.Entrepot


def make(kind: str, home: Path, *, name: str, authenticated: bool = False) -> Broker:
    if kind == "classic":
        return classic.Classic(home, name=name, authenticated=authenticated)
    if kind == "artemis":
        return artemis.Artemis(home, name=name, authenticated=authenticated)
    if authenticated:
        return ours.configured(home, name=name, plugins=classic.AUTHENTICATION)
    return ours.Entrepot(home, name=name)
