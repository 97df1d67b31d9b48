"""Brokers for the tests of programs: a plugin of pytest, and what its fixtures are made of.

pytest loads this module wherever entrepot is installed, so it imports nothing but pytest; a test run that asks for no
fixture of it pays for no broker. See docs/testing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from entrepot.embedded import BlockingBroker
    from entrepot.testing.real import Cluster
    from entrepot.testing.virtual import VirtualBroker, VirtualCluster

__all__ = ["Cluster", "VirtualBroker", "VirtualCluster"]


def __getattr__(name: str) -> object:
    if name == "Cluster":
        from entrepot.testing import real  # noqa: PLC0415 - see above

        return real.Cluster
    if name in ("VirtualBroker", "VirtualCluster"):
        from entrepot.testing import virtual  # noqa: PLC0415

        found: object = getattr(virtual, name)
        return found
    raise AttributeError(f"module 'entrepot.testing' has no attribute {name!r}")


@pytest.fixture
def broker() -> Iterator[BlockingBroker]:
    """Give a broker of this test alone, on a free port, that keeps nothing on disk."""
    from entrepot.embedded import Broker  # noqa: PLC0415

    with Broker() as running:
        yield running


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Give three brokers ``a``, ``b`` and ``c``, each joined to each, on free ports; nothing is kept on disk."""
    from entrepot.testing.real import Cluster  # noqa: PLC0415

    with Cluster() as running:
        yield running


@pytest.fixture
def virtual_broker() -> VirtualBroker:
    """Give a broker in virtual time: nothing happens in it but while the test says so."""
    from entrepot.testing.virtual import VirtualCluster  # noqa: PLC0415

    return VirtualCluster(("a",))["a"]


@pytest.fixture
def virtual_cluster() -> VirtualCluster:
    """Give three brokers ``a``, ``b`` and ``c`` in virtual time, each joined to each, and ``chaos`` to break them."""
    from entrepot.testing.virtual import VirtualCluster  # noqa: PLC0415

    return VirtualCluster()
