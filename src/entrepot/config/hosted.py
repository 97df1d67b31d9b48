"""What a backup is that a node hosts for another one: the node's own file, on other ports and another's store.

As in Artemis (artemis.md 2.5) it is made from the configuration of the node that hosts it, whose ports are moved by the
offset: acceptors, and connectors but for those that the file excludes. What only one process of a machine may have (a
console) it has not, and it hosts and requests nothing itself. What this file does not name is not deleted: the store is
another node's, whose file may name it. One that scales down gives all to its host, where the file names nobody else.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidOption, InvalidURI
from entrepot.base.uri import NO_PORT, Composite, Endpoint, parse
from entrepot.config.model import BrokerConfig, Colocation

PORT: Final = 61616  # of Artemis, where a URI says none
HOST: Final = "(the host of this backup)"  # the connector that leads there: no file can name one like that
UNDEPLOYS: Final = ("undeploy_queues", "undeploy_addresses", "undeploy_diverts")


def colocation_of(config: BrokerConfig | None) -> Colocation | None:
    """Return what a file says about hosted backups, None where it says nothing."""
    return None if config is None or config.sharing is None else config.sharing.colocation


def name_of(name: str, number: int, owner: str = "") -> str:
    """Return what backup ``number`` at the broker ``name`` is called: in the lock, in logs, on the status page.

    One that has a copy of the store of ``owner`` says so: no other one is ever called like that.
    """
    return f"{name}-backup-of-{owner}" if owner else f"{name}-backup-{number}"


def hosted(config: BrokerConfig, directory: str, number: int, owner: str = "") -> BrokerConfig:
    """Return the configuration of backup ``number`` at the broker of ``config``, of the store in ``directory``.

    ``owner``: the broker whose store that is a copy of, "" for the store itself.

    Raises InvalidOption where the file has no ``<colocated>``.
    """
    colocation = colocation_of(config)
    if colocation is None or not 1 <= number <= colocation.backups_max:
        raise InvalidOption(
            f"the file hosts no backup {number}",
            remedy="give its <shared-store> or <replication> a <colocated> with max-backups",
        )
    offset, peering = colocation.port_offset * number, config.peering
    places = tuple(
        one if one.name in colocation.excludes else replace(one, uri=shifted(one.uri, offset)) for one in peering.places
    )
    down = peering.hosted_scale_down
    if down is not None and not down.connectors and not down.group:
        own = peering.clusters[0].connector if peering.clusters else ""
        hosts = [replace(one, name=HOST) for one in peering.places if one.name == own]
        places, down = (*places, *hosts), replace(down, connectors=(HOST,))
    return replace(
        config,
        broker=config.broker.replaced(name=name_of(config.broker.name, number, owner)),
        store=config.store.replaced(directory=directory),
        serving=replace(config.serving, retention=None),
        connectors=tuple(replace(one, uri=shifted(one.uri, offset)) for one in config.connectors),
        peering=replace(peering, places=places, scale_down=down, hosted_scale_down=None),
        policies=tuple(
            replace(one, settings={name: value for name, value in one.settings.items() if name not in UNDEPLOYS})
            for one in config.policies
        ),
        sharing=colocation.backup,
        console=None,
    )


def port_of(uri: str) -> int:
    """Return the port that ``uri`` names, or means; 0 for one that the system chooses, or where there is none."""
    try:
        place = parse(uri)
    except InvalidURI:
        return 0  # whoever reads it says so
    if isinstance(place, Composite) or not place.host:
        return 0
    return PORT if place.port == NO_PORT else place.port


def shifted(uri: str, offset: int) -> str:
    """Return ``uri`` with its port ``offset`` higher; as it is where it has none, or lets the system choose one."""
    port = port_of(uri)
    if port == 0:
        return uri
    place = parse(uri)
    assert isinstance(place, Endpoint)
    return replace(place, port=port + offset).format()
