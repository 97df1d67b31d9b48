"""The datagram by which a broker announces itself on a multicast group (classic.md 1.4), for clients and for links."""

from __future__ import annotations

from typing import Final

SERVICE_TYPE: Final = "ActiveMQ-4."


def announcement(group: str, uri: str, *, alive: bool) -> bytes:
    """Return the datagram that announces ``uri``, or takes it back."""
    return f"{group}.{SERVICE_TYPE}{'alive' if alive else 'dead'}.%localhost%{uri}".encode()


def parse_announcement(data: bytes, group: str) -> tuple[bool, str] | None:
    """Return whether a broker lives and its URI, None for a datagram that says nothing about ``group``."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    prefix = f"{group}.{SERVICE_TYPE}"
    if not text.startswith(prefix):
        return None
    state, _, rest = text[len(prefix) :].partition(".%")
    _, mark, uri = rest.partition("%")
    if state not in ("alive", "dead") or not mark or not uri:
        return None
    return state == "alive", uri
