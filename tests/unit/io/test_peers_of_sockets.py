"""Who is at the other end of a socket, and whether that is a process of this machine, as far as addresses tell."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot.base.machines import is_one_machine
from entrepot.io.connection import peer_name


class Transport(asyncio.Transport):
    """The addresses of a socket."""

    def __init__(self, own: Any, peer: Any) -> None:
        super().__init__({"sockname": own, "peername": peer})


@pytest.mark.parametrize(
    ("own", "peer", "named", "beside"),
    [
        (("127.0.0.1", 61613), ("127.0.0.1", 50000), "127.0.0.1:50000", True),
        (("10.1.2.3", 61613), ("10.1.2.3", 50000), "10.1.2.3:50000", True),
        (("10.1.2.3", 61613), ("10.1.2.4", 50000), "10.1.2.4:50000", False),
        (("172.17.0.2", 61613), ("172.17.0.1", 50000), "172.17.0.1:50000", False),
        (("::1", 61613, 0, 0), ("::1", 50000, 0, 0), "[::1]:50000", True),
        (("fe80::1", 61613, 0, 2), ("fe80::2", 50000, 0, 2), "[fe80::2]:50000", False),
        ("/run/entrepot.sock", "", "local", True),
        (None, None, "local", False),
    ],
)
def test_a_peer_is_named_and_known_to_be_here(own: Any, peer: Any, named: str, beside: bool) -> None:
    transport = Transport(own, peer)
    assert peer_name(transport) == named
    assert is_one_machine(transport.get_extra_info("sockname"), transport.get_extra_info("peername")) == beside
