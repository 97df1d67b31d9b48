"""``python -m entrepot.simulation``: run many seeds, replay one, shrink one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from timeit import default_timer
from typing import Final

from entrepot.base.compiled import build_name
from entrepot.simulation.campaign import (
    Result,
    run,
    run_amqp,
    run_callers,
    run_carried,
    run_clusters,
    run_dialling,
    run_drains,
    run_drawing,
    run_federation,
    run_fetching,
    run_hosted,
    run_mirroring,
    run_mqtt,
    run_network,
    run_pair,
    run_processes,
    run_quorum,
    run_replicas,
    run_retention,
    run_zones,
    shrink,
)

STRAY: Final = (
    "--core and --mixed are about --callers, and not both; --reattach is about --core, "
    "--chains, --groups and --drains are about --clusters, one of them; --beside is about --drains; "
    "--blocks is about --callers, --mqtt and --amqp"
)

PLAIN: Final = {
    "dialling": run_dialling,
    "fetching": run_fetching,
    "mirroring": run_mirroring,
    "carried": run_carried,
    "drawing": run_drawing,
    "federation": run_federation,
    "replicas": run_replicas,
    "hosted": run_hosted,
    "retention": run_retention,
    "processes": run_processes,
}
"""Worlds of which there is one kind, by the option that asks for them."""


def main(arguments: list[str]) -> int:
    """Do what the command line asks for; return the exit code: 1 when a promise was broken, 2 for a wrong call."""
    options = parser().parse_args(arguments)
    kinds = (
        options.pairs,
        options.quorum,
        options.zones,
        options.networks,
        options.callers,
        options.carried,
        options.drawing,
        options.federation,
        options.clusters,
        options.mqtt,
        options.amqp,
        options.replicas,
        options.hosted,
        options.retention,
        options.processes,
        options.dialling,
        options.fetching,
        options.mirroring,
    )
    whole = any(kinds)
    if whole and (options.keep is not None or options.shrink):
        parser().error("--keep and --shrink are about the steps of a single broker; this has none")
    if (options.pairs or options.quorum or options.zones) and options.trace is not None:
        parser().error("--trace is about single brokers, networks and callers; this has none")
    if options.directed and (options.plain or not options.networks):
        parser().error("--directed is about networks, and its plans have all that came in")
    if options.stops and (options.directed or not options.networks):
        parser().error("--stops is about networks that are not --directed")
    if options.core > options.callers or options.reattach > options.core or _is_stray(options):
        parser().error(STRAY)
    if options.seed is not None:
        return _one(options)
    return _many(options)


def _is_stray(options: argparse.Namespace) -> bool:
    if options.mixed > options.callers or options.mixed + options.core > 1:
        return True
    if options.blocks > options.callers + options.mqtt + options.amqp:
        return True
    kinds: int = options.chains + options.groups + options.drains
    return kinds > int(options.clusters) or options.beside > options.drains


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    found = argparse.ArgumentParser(
        prog="python -m entrepot.simulation", description="Run simulated brokers; the same seed is the same world."
    )
    found.add_argument("--seeds", type=int, default=200, metavar="N", help="how many seeds to run (default 200)")
    found.add_argument("--first", type=int, default=1, metavar="S", help="the first of them (default 1)")
    found.add_argument("--seed", type=int, metavar="S", help="run this one and show what it did")
    found.add_argument("--keep", metavar="I,J", help="with --seed: only these steps of its plan")
    found.add_argument("--trace", metavar="FILE", help="with --seed: write its trace there")
    found.add_argument("--shrink", action="store_true", help="look for the fewest steps that still fail")
    found.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    found.add_argument("--pairs", action="store_true", help="run pairs that share a store, not single brokers")
    found.add_argument("--quorum", action="store_true", help="run pairs whose lease a majority of voters keeps")
    found.add_argument("--replicas", action="store_true", help="run brokers that replicate a store")
    found.add_argument("--hosted", action="store_true", help="run nodes that host copies of one another's stores")
    found.add_argument("--zones", action="store_true", help="run two zones of brokers with 300 clients")
    found.add_argument("--callers", action="store_true", help="run programs with the real client, over 1 to 3 brokers")
    found.add_argument("--core", action="store_true", help="with --callers: they speak CORE, not OpenWire")
    found.add_argument("--mixed", action="store_true", help="with --callers: some speak CORE, the others OpenWire")
    found.add_argument("--blocks", action="store_true", help="with --callers, --mqtt, --amqp: addresses are blocked")
    found.add_argument("--reattach", action="store_true", help="with --core: their sessions outlive connections")
    found.add_argument("--networks", action="store_true", help="run networks of 2 to 10 brokers")
    found.add_argument("--carried", action="store_true", help="run brokers that core bridges join")
    found.add_argument("--drawing", action="store_true", help="run brokers that draw messages from another one")
    found.add_argument("--federation", action="store_true", help="run brokers that fetch from one another")
    found.add_argument("--dialling", action="store_true", help="run brokers that dial one another over AMQP")
    found.add_argument("--fetching", action="store_true", help="run brokers that federate over AMQP")
    found.add_argument("--mirroring", action="store_true", help="run brokers that mirror themselves over AMQP")
    found.add_argument("--processes", action="store_true", help="run processes that answer as one broker")
    found.add_argument("--retention", action="store_true", help="run brokers that keep and replay what was settled")
    found.add_argument("--clusters", action="store_true", help="run clusters of 2 to 8 nodes")
    found.add_argument("--chains", action="store_true", help="with --clusters: a long way, and more crashes")
    found.add_argument("--amqp", action="store_true", help="run programs that speak AMQP to one broker")
    found.add_argument("--groups", action="store_true", help="with --clusters: nodes agree where message groups go")
    found.add_argument("--drains", action="store_true", help="with --clusters: nodes give all they have to others")
    found.add_argument(
        "--beside", action="store_true", help="with --drains: a third node reads while one is broken off"
    )
    found.add_argument("--mqtt", action="store_true", help="run programs that speak MQTT to one broker")
    found.add_argument("--plain", action="store_true", help="with --networks: plans as they were before extras came in")
    found.add_argument("--stops", action="store_true", help="with --networks: brokers stop in order, too")
    found.add_argument("--directed", action="store_true", help="with --networks: drawn for rare coincidences")
    found.add_argument("--hashes", action="store_true", help="print the hash of every trace")
    return found


def say(text: str) -> None:
    """Write a line where the caller reads it, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _one(options: argparse.Namespace) -> int:
    keep = None if options.keep is None else [int(word) for word in options.keep.split(",") if word]
    lines = options.trace is not None
    if options.pairs or options.quorum or options.zones:
        result = _player(options)(options.seed)
    elif (plain := _plain(options)) is not None:
        result = plain(options.seed, lines=lines)
    elif options.callers:
        result = run_callers(
            options.seed,
            core=options.core,
            reattach=options.reattach,
            mixed=options.mixed,
            blocks=options.blocks,
            lines=lines,
        )
    elif options.clusters:
        result = _cluster_player(options)(options.seed, lines=lines)
    elif options.amqp:
        result = run_amqp(options.seed, blocks=options.blocks, lines=lines)
    elif options.mqtt:
        result = run_mqtt(options.seed, blocks=options.blocks, lines=lines)
    elif options.networks:
        result = run_network(
            options.seed, lines=lines, extras=not options.plain, directed=options.directed, stops=options.stops
        )
    else:
        result = run(options.seed, keep=keep, lines=lines)
    _report(result)
    for name, number in result.counts.items():
        say(f"  {number:7} {name}")
    if options.trace is not None:
        with open(options.trace, "w", encoding="utf-8") as file:
            file.write("\n".join(result.lines) + "\n")
    if options.shrink and result.failed and keep is None:
        _shrink(options.seed)
    return 1 if result.failed else 0


def _many(options: argparse.Namespace) -> int:
    began = default_timer()
    seeds = range(options.first, options.first + options.seeds)
    play = _player(options)
    failed: list[int] = []
    totals: dict[str, int] = {}
    if options.jobs > 1:
        with ProcessPoolExecutor(options.jobs) as pool:
            failed = _collect(list(pool.map(play, seeds, chunksize=8)), totals, options.hashes)
    else:
        failed = _collect(map(play, seeds), totals, options.hashes)
    took = default_timer() - began
    for name, number in sorted(totals.items()):
        say(f"  {number:9} {name}")
    rate = len(seeds) / took if took > 0 else 0.0
    say(f"{len(seeds)} seeds in {took:.1f} s, {rate:.1f} a second, {build_name()}: {len(failed)} failed")
    if failed:
        say("failed: " + " ".join(str(seed) for seed in failed))
        say(f"look at one: python -m entrepot.simulation --seed {failed[0]} {_way(options)}")
        if options.shrink:
            _shrink(failed[0])
    return 1 if failed else 0


def _player(options: argparse.Namespace) -> Callable[[int], Result]:
    """Return what runs one seed."""
    plain = _plain(options)
    if plain is not None:
        return plain
    if options.mqtt:
        return partial(run_mqtt, blocks=options.blocks)
    if options.amqp:
        return partial(run_amqp, blocks=options.blocks)
    if options.clusters:
        return _cluster_player(options)
    if options.callers:
        return partial(
            run_callers,
            core=options.core,
            reattach=options.reattach,
            mixed=options.mixed,
            blocks=options.blocks,
        )
    if options.networks:
        return partial(run_network, extras=not options.plain, directed=options.directed, stops=options.stops)
    if options.quorum:
        return run_quorum
    return run_pair if options.pairs else run_zones if options.zones else run


def _plain(options: argparse.Namespace) -> Callable[..., Result] | None:
    """Return what runs a seed of worlds of which there is one kind."""
    found = (run for word, run in PLAIN.items() if getattr(options, word))
    return next(found, None)


def _cluster_player(options: argparse.Namespace) -> Callable[..., Result]:
    if options.drains:
        return partial(run_drains, beside=options.beside)
    return partial(run_clusters, chains=options.chains, groups=options.groups)


def _way(options: argparse.Namespace) -> str:
    """Return the rest of the command that shows one seed."""
    for word in PLAIN:
        if getattr(options, word):
            return f"--{word} --trace trace.txt"
    if options.amqp:
        return f"--amqp{' --blocks' if options.blocks else ''} --trace trace.txt"
    if options.mqtt:
        return f"--mqtt{' --blocks' if options.blocks else ''} --trace trace.txt"
    if options.clusters:
        kinds = "".join(f" --{kind}" for kind in ("chains", "groups", "drains", "beside") if getattr(options, kind))
        return f"--clusters{kinds} --trace trace.txt"
    if options.callers:
        kinds = "".join(f" --{kind}" for kind in ("core", "reattach", "mixed", "blocks") if getattr(options, kind))
        return f"--callers{kinds} --trace trace.txt"
    if options.networks:
        kind = " --directed" if options.directed else " --plain" if options.plain else ""
        return f"--networks{kind}{' --stops' if options.stops else ''} --trace trace.txt"
    if options.quorum:
        return "--quorum"
    return "--pairs" if options.pairs else "--zones" if options.zones else "--trace trace.txt --shrink"


def _collect(results: object, totals: dict[str, int], hashes: bool) -> list[int]:
    failed: list[int] = []
    for result in results:  # type: ignore[attr-defined]
        assert isinstance(result, Result)
        for name, number in result.counts.items():
            totals[name] = totals.get(name, 0) + number
        if hashes:
            say(f"{result.seed} {result.trace}")
        if result.failed:
            failed.append(result.seed)
            _report(result)
    return failed


def _report(result: Result) -> None:
    say(f"seed {result.seed}: trace {result.trace}, {'FAILED' if result.failed else 'passed'}")
    for violation in result.violations:
        say(f"  {violation}")


def _shrink(seed: int) -> None:
    kept, result = shrink(seed)
    say(f"seed {seed} still fails with {len(kept)} of {result.steps} steps: --keep {','.join(map(str, kept))}")
    for violation in result.violations:
        say(f"  {violation}")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
