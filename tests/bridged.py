"""Networks of simulated brokers as tests write them down: who dials whom, and one query for every connector."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.cluster.networks.comparison import OURS
from entrepot.cluster.networks.connector import NetworkConnector, connector_of
from entrepot.config.model import BrokerConfig, BrokerSettings
from entrepot.simulation import networks, sites
from entrepot.simulation.sites import Blueprint, SiteCensus
from entrepot.simulation.subscribers import Reader

INTERVAL = SECOND  # of supervision

__all__ = ["INTERVAL", "Network", "Reader", "Site", "SiteCensus"]


class Site(sites.Site):
    """A site that dials the URIs in ``wiring``, from its next start on."""

    network: Network
    wiring: list[str]

    def make_connectors(self) -> list[NetworkConnector]:
        return [
            NetworkConnector(connector_of(text, number, duplex=self.network.duplex))
            for number, text in enumerate(self.wiring, 1)
        ]


class Network(networks.Network):
    """Sites and who dials whom. ``options`` is the query of every connector; the rest as in `Blueprint`."""

    sites: dict[str, Site]  # type: ignore[assignment]

    def __init__(
        self,
        seed: int,
        wires: list[tuple[str, str]],
        *,
        duplex: bool = False,
        options: str = "",
        interval: int = INTERVAL,
        audit: int = -1,
        program: str = OURS,
    ) -> None:
        names = dict.fromkeys(name for wire in wires for name in wire)
        self.duplex = duplex
        plans = {
            name: Blueprint(
                config=BrokerConfig(broker=BrokerSettings(name=name)), interval=interval, audit=audit, program=program
            )
            for name in names
        }
        super().__init__(seed, plans)
        query = "?initialReconnectDelay=50&useExponentialBackOff=false" + (f"&{options}" if options else "")
        for near, far in wires:
            self.sites[near].wiring.append(f"static:(tcp://{far}:1){query}")
        self.wires = wires

    def site(self, name: str, blueprint: Blueprint) -> Site:
        made = Site(self, name, blueprint)
        made.wiring = []
        return made

    def start(self) -> Network:
        super().start()
        return self
