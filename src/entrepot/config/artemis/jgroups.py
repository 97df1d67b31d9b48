"""The file of a JGroups stack, as far as it says where members of a channel find each other (artemis.md 1.5).

What is inside a channel is JGroups' own and not spoken here: brokers of this program use the meeting point that the
stack names, and put Artemis' announcements there, with the channel's name before them. So two channels with one stack
stay apart. `MPING`, and `PING` over `UDP`, name a multicast group; `FILE_PING` names a directory that all can write to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from entrepot.base.errors import InvalidConfiguration
from entrepot.config.xml import Element, parse

PLACEHOLDER: Final = re.compile(r"\$\{([^}:]*)(?::([^}]*))?\}")
KNOWN: Final = ("MPING", "PING", "FILE_PING")
DISCOVERY: Final = re.compile(r"(?:.*PING\d*|TCPGOSSIP|BPING|.*_DISCOVERY)$")
UDP_ADDRESS: Final = ("228.8.8.8", "7600")
MPING_ADDRESS: Final = ("230.5.6.7", "7555")
"""What JGroups 5 takes where a stack does not say."""


class Meeting(Struct, frozen=True):
    """Where members meet: a multicast group, or a directory. ``flaw``: why neither is known."""

    address: str = ""
    port: str = ""
    directory: str = ""
    flaw: str = ""


def meeting_of(data: bytes, file: str, defines: Mapping[str, str]) -> Meeting:
    """Return where the members of a channel with the stack ``data`` meet. ``defines``: Java's system properties."""
    try:
        root = parse(data, file)
    except InvalidConfiguration as error:
        return Meeting(flaw=f"{file}: {error.message}")
    protocols = {one.name.rpartition(".")[2]: one for one in root.children}
    found = [name for name in protocols if DISCOVERY.fullmatch(name)]
    if not found:
        return Meeting(flaw=f"{file} names no protocol by which members find each other")
    name = found[0]
    if name not in KNOWN:
        return Meeting(flaw=f"{file}: {name} is not obeyed: {', '.join(KNOWN)} are")
    element = protocols[name]
    if name == "FILE_PING":
        location = _said(element, "location", "", defines)
        return Meeting(directory=location) if location else Meeting(flaw=f"{file}: FILE_PING has no location")
    if name == "MPING":
        address, port = MPING_ADDRESS
    elif "UDP" in protocols:
        element, (address, port) = protocols["UDP"], UDP_ADDRESS
    else:
        return Meeting(flaw=f"{file}: PING asks by multicast, and the transport of the stack is not UDP")
    port = _said(element, "mcast_port", port, defines)
    if not port.isdecimal():
        return Meeting(flaw=f"{file}: mcast_port is {port!r}, and not a number")
    return Meeting(address=_said(element, "mcast_addr", address, defines), port=port)


def _said(element: Element, name: str, default: str, defines: Mapping[str, str]) -> str:
    given = element.attributes.get(name)
    if given is None:
        return default

    def fill(match: re.Match[str]) -> str:
        known = next((defines[one] for one in match.group(1).split(",") if one in defines), None)
        return (match.group(2) or "") if known is None else known

    return PLACEHOLDER.sub(fill, given.text).strip() or default
