"""One seed run from beginning to end, run again with its trace, and shrunk to the few steps that matter."""

from __future__ import annotations

import traceback
from collections.abc import Sequence

import msgspec

from entrepot.simulation.answering import Answering
from entrepot.simulation.beside import BesideRun
from entrepot.simulation.caller_runs import CallerRun
from entrepot.simulation.carried import CarriedRun
from entrepot.simulation.cluster_runs import ClusterRun
from entrepot.simulation.dialling import DialledRun
from entrepot.simulation.directed import DirectedRun
from entrepot.simulation.drained import DrainRun
from entrepot.simulation.drawn import DrawnRun
from entrepot.simulation.federated import FederatedRun
from entrepot.simulation.fetched import FetchedRun
from entrepot.simulation.hosted import Hosts
from entrepot.simulation.linked import LinkedRun
from entrepot.simulation.machine import Parts
from entrepot.simulation.mirrored import MirroredRun
from entrepot.simulation.network_runs import NetworkRun
from entrepot.simulation.pairs import Pair
from entrepot.simulation.parcels import ParcelRun
from entrepot.simulation.quorum import Quorum
from entrepot.simulation.replays import ReplayRun
from entrepot.simulation.replicas import Replicas
from entrepot.simulation.workload import Workload
from entrepot.simulation.world import World
from entrepot.simulation.zoned import Region


class Result(msgspec.Struct, frozen=True):
    """What one seed did. ``trace`` is the hash over every line; ``steps`` how many steps its plan has."""

    seed: int
    trace: str
    violations: tuple[str, ...]
    counts: dict[str, int]
    steps: int
    lines: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a promise was broken."""
        return bool(self.violations)


def run(seed: int, *, keep: Sequence[int] | None = None, parts: Parts | None = None, lines: bool = False) -> Result:
    """Run the world of ``seed``; ``keep`` names the steps of its plan that are done, None all of them."""
    world = World(seed, lines=lines)
    workload = Workload(world, Parts() if parts is None else parts, keep)
    try:
        workload.run()
    except Exception as error:  # a fault of the product or of the simulation: either is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        world.violation(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
        if lines:
            world.note(traceback.format_exc())
    kept = () if world.lines is None else tuple(world.lines)
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(world.violations), counts, workload.steps, kept)


def run_pair(seed: int) -> Result:
    """Run the pair of ``seed``: brokers that share a store and its lock. It has no plan, so nothing to shrink."""
    pair = Pair(seed)
    violations = pair.run()
    counts = dict(sorted({**pair.world.counts, "events": pair.world.events}.items()))
    return Result(seed, pair.world.digest(), tuple(violations), counts, 0)


def run_quorum(seed: int) -> Result:
    """Run the brokers of ``seed`` and the voters that keep their lease. It has no plan, so nothing to shrink."""
    quorum = Quorum(seed)
    violations = quorum.run()
    counts = dict(sorted({**quorum.world.counts, "events": quorum.world.events}.items()))
    return Result(seed, quorum.world.digest(), tuple(violations), counts, 0)


def run_replicas(seed: int, *, lines: bool = False) -> Result:
    """Run the replicated store of ``seed``: brokers that share nothing but a lock. It has no plan to shrink."""
    replicas = Replicas(seed, lines=lines)
    violations = replicas.run()
    world = replicas.world
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, () if world.lines is None else tuple(world.lines))


def run_processes(seed: int, *, lines: bool = False) -> Result:
    """Run the processes of ``seed`` that answer questions as one broker. It has no plan to shrink."""
    processes = Answering(seed, lines=lines)
    violations = processes.run()
    world = processes.world
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, () if world.lines is None else tuple(world.lines))


def run_hosted(seed: int, *, lines: bool = False) -> Result:
    """Run the nodes of ``seed`` that host copies of one another's stores. It has no plan to shrink."""
    hosts = Hosts(seed, lines=lines)
    violations = hosts.run()
    world = hosts.world
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, () if world.lines is None else tuple(world.lines))


def run_callers(
    seed: int,
    *,
    core: bool = False,
    reattach: bool = False,
    mixed: bool = False,
    blocks: bool = False,
    lines: bool = False,
) -> Result:
    """Run the programs of ``seed``: the real client over one to three brokers. It has no plan, so nothing to shrink.

    ``core``: they speak CORE, not OpenWire; with ``reattach`` their sessions outlive connections. ``mixed``: some speak
    the one and some the other. ``blocks``: an operator blocks addresses, and unblocks them.
    """
    run = CallerRun(seed, core=core, reattach=reattach, mixed=mixed, blocks=blocks, lines=lines)
    violations = run.run()
    world = run.world
    kept = () if world.lines is None else tuple(world.lines)
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, kept)


def run_zones(seed: int) -> Result:
    """Run the two zones of ``seed``: brokers that tell clients where to go. It has no plan, so nothing to shrink."""
    region = Region(seed)
    violations = region.run()
    counts = dict(sorted({**region.world.counts, "events": region.world.events}.items()))
    return Result(seed, region.world.digest(), tuple(violations), counts, 0)


def run_network(
    seed: int, *, lines: bool = False, extras: bool = True, directed: bool = False, stops: bool = False
) -> Result:
    """Run the network of ``seed``: two to ten brokers, bridges and faults. It has no plan of steps to shrink.

    ``extras``: False for the plan that ``seed`` stood for before operators, programs that ask and some options came in.
    ``directed``: another network, drawn for a rare coincidence. ``stops``: its brokers stop in order, too.
    """
    mixed = None if directed else NetworkRun(seed, lines=lines, extras=extras, stops=stops)
    network = mixed or DirectedRun(seed, lines=lines)
    violations = network.run()
    world = network.network.world
    kept = () if world.lines is None else tuple(world.lines)
    return Result(seed, world.digest(), tuple(violations), dict(sorted(network.counts().items())), 0, kept)


def run_carried(seed: int, *, lines: bool = False) -> Result:
    """Run the brokers of ``seed`` that core bridges join, under faults. It has no plan of steps to shrink."""
    carried = CarriedRun(seed, lines=lines)
    violations = carried.run()
    world = carried.network.world
    kept = () if world.lines is None else tuple(world.lines)
    return Result(seed, world.digest(), tuple(violations), dict(sorted(carried.counts().items())), 0, kept)


def run_federation(seed: int, *, lines: bool = False) -> Result:
    """Run the brokers of ``seed`` that fetch from one another, under faults. It has no plan of steps to shrink."""
    federated = FederatedRun(seed, lines=lines)
    violations = federated.run()
    world = federated.network.world
    kept = () if world.lines is None else tuple(world.lines)
    return Result(seed, world.digest(), tuple(violations), dict(sorted(federated.counts().items())), 0, kept)


def run_clusters(seed: int, *, chains: bool = False, groups: bool = False, lines: bool = False) -> Result:
    """Run the cluster of ``seed``, two to eight nodes, under faults. It has no plan of steps to shrink.

    ``chains``: another one, in which messages have a long way and nodes crash more often; ``groups``: one
    whose nodes agree where message groups go.
    """
    clustered = ClusterRun(seed, chains=chains, groups=groups, lines=lines)
    violations = clustered.run()
    world = clustered.network.world
    kept = () if world.lines is None else tuple(world.lines)
    return Result(seed, world.digest(), tuple(violations), dict(sorted(clustered.counts().items())), 0, kept)


def run_drains(seed: int, *, beside: bool = False, lines: bool = False) -> Result:
    """Run the cluster of ``seed`` in which nodes give all they have to others. It has no plan of steps to shrink.

    ``beside``: a third node reads while that is broken off.
    """
    drained = (BesideRun if beside else DrainRun)(seed, lines=lines)
    violations = drained.run()
    world = drained.network.world
    kept = () if world.lines is None else tuple(world.lines)
    return Result(seed, world.digest(), tuple(violations), dict(sorted(drained.counts().items())), 0, kept)


def run_mqtt(seed: int, *, blocks: bool = False, lines: bool = False) -> Result:
    """Run the programs of ``seed`` that speak MQTT to one broker. It has no plan of steps to shrink.

    ``blocks``: an operator blocks addresses, and unblocks them.
    """
    run = ParcelRun(seed, blocks=blocks, lines=lines)
    violations = run.run()
    world = run.world
    kept = () if world.lines is None else tuple(world.lines)
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, kept)


def run_amqp(seed: int, *, blocks: bool = False, lines: bool = False) -> Result:
    """Run the programs of ``seed`` that speak AMQP to one broker. It has no plan of steps to shrink.

    ``blocks``: an operator blocks addresses, and unblocks them.
    """
    run = LinkedRun(seed, blocks=blocks, lines=lines)
    violations = run.run()
    world = run.world
    kept = () if world.lines is None else tuple(world.lines)
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, kept)


def run_retention(seed: int, *, lines: bool = False) -> Result:
    """Run the broker of ``seed`` that keeps what its journal lets go of. It has no plan of steps to shrink."""
    run = ReplayRun(seed, lines=lines)
    violations = run.run()
    world = run.world
    kept = () if world.lines is None else tuple(world.lines)
    counts = dict(sorted({**world.counts, "events": world.events}.items()))
    return Result(seed, world.digest(), tuple(violations), counts, 0, kept)


def run_dialling(seed: int, *, lines: bool = False) -> Result:
    """Run the brokers of ``seed`` that dial one another over AMQP. It has no plan of steps to shrink."""
    return _dialled(seed, DialledRun(seed, lines=lines))


def run_fetching(seed: int, *, lines: bool = False) -> Result:
    """Run the brokers of ``seed`` that federate over AMQP. It has no plan of steps to shrink."""
    return _dialled(seed, FetchedRun(seed, lines=lines))


def run_mirroring(seed: int, *, lines: bool = False) -> Result:
    """Run the brokers of ``seed`` that mirror themselves into one another. It has no plan of steps to shrink."""
    return _dialled(seed, MirroredRun(seed, lines=lines))


def run_drawing(seed: int, *, lines: bool = False) -> Result:
    """Run the brokers of ``seed`` that draw messages from another one. It has no plan of steps to shrink."""
    return _dialled(seed, DrawnRun(seed, lines=lines))


def _dialled(seed: int, dialled: DialledRun | MirroredRun | DrawnRun) -> Result:
    violations = dialled.run()
    world = dialled.network.world
    kept = () if world.lines is None else tuple(world.lines)
    return Result(seed, world.digest(), tuple(violations), dict(sorted(dialled.counts().items())), 0, kept)


def replay(seed: int, *, keep: Sequence[int] | None = None, parts: Parts | None = None) -> Result:
    """Run ``seed`` again and keep the lines of its trace."""
    return run(seed, keep=keep, parts=parts, lines=True)


def shrink(seed: int, *, parts: Parts | None = None, runs_max: int = 400) -> tuple[list[int], Result]:
    """Return the fewest steps found, of the plan of a failing ``seed``, that still fail, and how they fail.

    Takes out halves, then quarters, and so on down to single steps, as long as something fails (delta debugging).
    """
    result = run(seed, parts=parts)
    kept = list(range(result.steps))
    if not result.failed:
        return kept, result
    size = max(1, len(kept) // 2)
    runs = 1
    while runs < runs_max:
        at = 0
        shorter = False
        while at < len(kept) and runs < runs_max:
            candidate = kept[:at] + kept[at + size :]
            attempt = run(seed, keep=candidate, parts=parts)
            runs += 1
            if attempt.failed:
                kept, result, shorter = candidate, attempt, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return kept, result
