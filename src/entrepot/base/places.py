"""HOST:PORT as operators write it, where a whole URI would say too much."""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidOption

PORT_DIGITS_MAX: Final = 5  # of any length, `int` would take its time
PORT_MAX: Final = 65_535


def host_and_port(text: str, like: str, *, name: str = "", everywhere: bool = False) -> tuple[str, int]:
    """Return host, without the brackets of IPv6, and port.

    ``like`` is an example for who wrote something else, ``name`` what is set so. ``everywhere``: no host means all
    addresses of this machine, and is returned as "". Raises InvalidOption.
    """
    host, colon, port = text.rpartition(":")
    number = int(port) if port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX else PORT_MAX + 1
    host = host.removeprefix("[").removesuffix("]")
    if not colon or number > PORT_MAX or not (host or everywhere):
        what = f"{name} {text!r}" if name else repr(text)
        raise InvalidOption(f"{what} is not HOST:PORT", remedy=f"write it like {like}")
    return host, number
