"""Which machine a peer is, as far as its address tells."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Final

SUBNET_BITS: Final = 64  # of IPv6: whoever has one such address has all of them


def machine_of(peer: str) -> str:
    """Return what of ``host:port`` stands for a machine: the host, of IPv6 its network; all of anything else."""
    host = peer.rpartition(":")[0].strip("[]") if ":" in peer else peer
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return peer
    if address.version == 4:
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped or ip_network((address, SUBNET_BITS), strict=False))
