"""Which machine a peer is, as far as its address tells."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final

SUBNET_BITS: Final = 64  # of IPv6: whoever has one such address has all of them
REMEMBERED: Final = 1024  # hosts; each connection asks, and most come from a few


def machine_of(peer: str) -> str:
    """Return what of ``host:port`` stands for a machine: the host, of IPv6 its network; all of anything else."""
    host = peer.rpartition(":")[0].strip("[]") if ":" in peer else peer
    return _machine_at(host.partition("%")[0]) or peer


def is_one_machine(own: object, peer: object) -> bool:
    """Return whether the ends of a socket have one address, or it is one of this machine alone; None: there is none.

    Addresses are those of the module `socket`: of the internet they are tuples that begin with a host.
    """
    if isinstance(own, tuple) and isinstance(peer, tuple):
        return len(own) >= 2 and len(peer) >= 2 and bool(own[0] == peer[0])
    return own is not None and not isinstance(own, tuple) and not isinstance(peer, tuple)


@lru_cache(REMEMBERED)
def _machine_at(host: str) -> str:
    """Return the machine that has an address; nothing where ``host`` is none."""
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    if address.version == 4:
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped or ip_network((address, SUBNET_BITS), strict=False))
