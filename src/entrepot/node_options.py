"""What a broker is started with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from entrepot.base.environment import MIB
from entrepot.base.provenance import Said
from entrepot.cluster.carrying.draw_options import DrawEntry
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.model import BrokerConfig, Colocation, RetentionOptions
from entrepot.config.security import Security
from entrepot.io.traces import LIMIT_OCTETS
from entrepot.journal.log import JournalOptions

if TYPE_CHECKING:
    from entrepot.assembly import Plan
    from entrepot.config.processes import Process
    from entrepot.ha.options import SharedStoreOptions
    from entrepot.io.colocated import Housing
    from entrepot.io.reloading import Origin
    from entrepot.management.telemetry import Telemetry

DEFAULT_LISTEN: Final = ("stomp://127.0.0.1:61613", "auto://127.0.0.1:61616")
MEMORY_LIMIT: Final = 512 * MIB


class NodeOptions:
    """What a broker is started with. ``data`` None keeps nothing on disk; ``memory_limit`` in octets.

    ``policies``: address pattern -> setting -> value, see `core/addressing/address_settings.py`. ``config``: what a
    file says beyond that; for a pattern that is in both, ``policies`` has the last word. ``shared``: how ``data`` is
    shared with others, None when it is not. ``security``: who may come in and what he may do; None: what ``config``
    says.
    ``draws``: brokers of ActiveMQ and Artemis from which messages come, and to which they go back.
    ``announce``: where the first place that speaks OpenWire is announced, like ``multicast://default``.
    ``zone``: where this broker is, "" for nowhere in particular; ``client_zones``: rules of `cluster/zones.py`.
    ``trace``: the directory of the trace, None for none; it takes at most ``trace_limit`` octets.
    ``origin``: the files of ``config``, which are read again when one was changed; ``said``: options, for operators.
    ``telemetry``: whose spans are recorded, None for nobody's.
    """

    def __init__(
        self,
        *,
        name: str = "localhost",
        data: Path | None = None,
        listen: Sequence[str] = DEFAULT_LISTEN,
        policies: Mapping[str, Mapping[str, object]] | None = None,
        memory_limit: int = MEMORY_LIMIT,
        journal: JournalOptions | None = None,
        config: BrokerConfig | None = None,
        networks: Sequence[NetworkConnectorOptions] = (),
        draws: Sequence[DrawEntry] = (),
        announce: Sequence[str] = (),
        shared: SharedStoreOptions | None = None,
        security: Security | None = None,
        zone: str = "",
        client_zones: Sequence[str] = (),
        trace: Path | None = None,
        trace_limit: int = LIMIT_OCTETS,
        origin: Origin | None = None,
        said: Sequence[Said] = (),
    ) -> None:
        self.origin = origin
        self.said = said
        self.trace = trace
        self.trace_limit = trace_limit
        self.colocation: Colocation | None = None  # how backups of others are hosted; `cli/run.py` says so
        self.housing: Housing | None = None  # what hosts them already, where this broker waited for its turn
        self.command: list[str] = []  # what started this broker: a hosted backup is started by the same, and more
        self.telemetry: Telemetry | None = None  # `cli/telemetry.py` has one where it is asked for
        self.process: Process | None = None  # which of several it is that are one broker: `cli/processes.py` says so
        self.shared = shared
        self.zone = zone
        self.client_zones = list(client_zones)
        self.security = security
        self.config = config
        self.networks = list(networks)
        self.draws = list(draws)
        self.announce = list(announce)
        self.name = name
        self.data = data
        self.listen = list(listen)
        self.policies = {} if policies is None else policies
        self.memory_limit = memory_limit
        self.journal = journal


def planned(options: NodeOptions) -> Plan:
    """Return what the broker is made from. Raises InvalidOption."""
    from entrepot.assembly import Plan  # noqa: PLC0415 - options are read before there is a broker

    return Plan(
        options.name,
        options.memory_limit,
        config=options.config,
        policies=options.policies,
        networks=options.networks,
        draws=options.draws,
        security=options.security,
        zone=options.zone,
        client_zones=options.client_zones,
        process=options.process,
    )


def retention_of(options: NodeOptions) -> RetentionOptions | None:
    """Return where what the journal lets go of is kept; each of several processes has a store of its own."""
    kept = None if options.config is None else options.config.serving.retention
    if kept is None or options.process is None or options.data is None:
        return kept
    return replace(kept, directory=str(Path(kept.directory) / options.data.name))


def names_of(options: NodeOptions) -> dict[str, str]:
    """Return what the file calls the places where the broker listens: URI -> name."""
    return {} if options.config is None else {one.uri: one.name for one in options.config.connectors}
