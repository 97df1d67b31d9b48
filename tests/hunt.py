"""Plant each bug in turn and count the seeds until the simulation finds it: the table of docs/simulation.md.

``PYTHONPATH=src:tests python tests/hunt.py [--most 100] [KIND ...]``, see `KINDS`: on the
plain build, where methods can be replaced. Exits 1 when a bug is not found, or when the seed that found it fails
without the bug too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import caller_bugs
import carrier_bugs
import cluster_bugs
import dialling_bugs
import drain_bugs
import drawing_bugs
import federation_bugs
import fetching_bugs
import mirroring_bugs
import retention_bugs
from bridge_bugs import BUGS, planted
from entrepot.simulation import pairs, zoned
from entrepot.simulation.campaign import (
    run_callers,
    run_carried,
    run_clusters,
    run_dialling,
    run_drains,
    run_drawing,
    run_federation,
    run_fetching,
    run_mirroring,
    run_network,
    run_retention,
)
from entrepot.simulation.pairs import Pair
from entrepot.simulation.zoned import Region

Judge = Callable[[int], list[str]]


RARE = (  # what needs a coincidence that networks drawn for it have
    "durable demand is not synced",
    "temporary destinations are not served another way",
    "nothing goes back for who moved",
    "a return is taken for a repetition",
    "a return is taken for a repetition by its id",
    "no number is known after a restart",
)


def network_with(bug: str, *, directed: bool) -> Judge:
    def judge(seed: int) -> list[str]:
        with planted(bug):
            return list(run_network(seed, directed=directed).violations)

    return judge


def callers_with(bug: str, **world: bool) -> Judge:
    def judge(seed: int) -> list[str]:
        with caller_bugs.planted(bug):
            return list(run_callers(seed, **world).violations)

    return judge


def carried_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with carrier_bugs.planted(bug):
            return list(run_carried(seed).violations)

    return judge


def retention_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with retention_bugs.planted(bug):
            return list(run_retention(seed).violations)

    return judge


def dialling_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with dialling_bugs.planted(bug):
            return list(run_dialling(seed).violations)

    return judge


def fetching_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with fetching_bugs.planted(bug) if bug else nullcontext():
            return list(run_fetching(seed).violations)

    return judge


def mirroring_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with mirroring_bugs.planted(bug) if bug else nullcontext():
            return list(run_mirroring(seed).violations)

    return judge


def drawing_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with drawing_bugs.planted(bug) if bug else nullcontext():
            return list(run_drawing(seed).violations)

    return judge


def federation_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with federation_bugs.planted(bug):
            return list(run_federation(seed).violations)

    return judge


def clusters_with(bug: str, *, planted: bool = True) -> Judge:
    def judge(seed: int) -> list[str]:
        with cluster_bugs.planted(bug) if planted else nullcontext():
            return list(run_clusters(seed, **cluster_bugs.world_of(bug)).violations)

    return judge


def drains(*, beside: bool) -> Judge:
    return lambda seed: list(run_drains(seed, beside=beside).violations)


def drains_with(bug: str) -> Judge:
    def judge(seed: int) -> list[str]:
        with drain_bugs.planted(bug):
            return list(run_drains(seed, beside=bug in drain_bugs.BESIDE).violations)

    return judge


def bugs(kinds: list[str]) -> Iterator[tuple[str, str, Judge, Judge]]:
    """Yield kind, bug, the run with it and the run without."""
    if "networks" in kinds:
        for bug in BUGS:
            rare = bug in RARE
            kind = "directed networks" if rare else "networks"
            yield kind, bug, network_with(bug, directed=rare), network_with("", directed=rare)
    if "callers" in kinds:
        for bug in caller_bugs.BUGS:
            yield "callers", bug, callers_with(bug), callers_with("")
    if "core" in kinds:
        for bug in caller_bugs.CORE_BUGS:
            yield "callers of CORE", bug, callers_with(bug, core=True), callers_with("", core=True)
    if "carried" in kinds:
        for bug in carrier_bugs.BUGS:
            yield "core bridges", bug, carried_with(bug), lambda seed: list(run_carried(seed).violations)
    if "retention" in kinds:
        for bug in retention_bugs.BUGS:
            yield "retention", bug, retention_with(bug), lambda seed: list(run_retention(seed).violations)
    if "dialling" in kinds:
        for bug in dialling_bugs.BUGS:
            yield "AMQP connections", bug, dialling_with(bug), lambda seed: list(run_dialling(seed).violations)
    if "fetching" in kinds:
        for bug in fetching_bugs.BUGS:
            yield "federation over AMQP", bug, fetching_with(bug), fetching_with("")
    if "mirroring" in kinds:
        for bug in mirroring_bugs.BUGS:
            yield "mirrors", bug, mirroring_with(bug), mirroring_with("")
    if "drawing" in kinds:
        for bug in drawing_bugs.BUGS:
            yield "drawing", bug, drawing_with(bug), drawing_with("")
    if "federation" in kinds:
        for bug in federation_bugs.BUGS:
            yield "federation", bug, federation_with(bug), lambda seed: list(run_federation(seed).violations)
    if "clusters" in kinds:
        for bug in cluster_bugs.BUGS:
            kind = " --".join(["clusters", *cluster_bugs.world_of(bug)])
            yield kind, bug, clusters_with(bug), clusters_with(bug, planted=False)
    if "drains" in kinds:
        for bug in drain_bugs.BUGS:
            beside = bug in drain_bugs.BESIDE
            kind = "clusters --drains --beside" if beside else "clusters --drains"
            yield kind, bug, drains_with(bug), drains(beside=beside)
    if "reattach" in kinds:
        for bug in caller_bugs.REATTACH_BUGS:
            broken, sound = (callers_with(each, core=True, reattach=True) for each in (bug, ""))
            yield "callers that reattach", bug, broken, sound
    if "mixed" in kinds:
        for bug in caller_bugs.MIXED_BUGS:
            yield "callers of both", bug, callers_with(bug, mixed=True), callers_with("", mixed=True)
    if "zones" in kinds:
        for bug in zoned.PLANTED:
            yield "zones", bug, lambda seed, bug=bug: Region(seed, bug).run(), lambda seed: Region(seed).run()  # type: ignore[misc]
    if "pairs" in kinds:
        for bug in pairs.PLANTED:
            yield "pairs", bug, lambda seed, bug=bug: Pair(seed, bug).run(), lambda seed: Pair(seed).run()  # type: ignore[misc]


KINDS = [
    "networks",
    "callers",
    "core",
    "reattach",
    "mixed",
    "carried",
    "retention",
    "dialling",
    "fetching",
    "mirroring",
    "drawing",
    "federation",
    "clusters",
]
KINDS += ["drains", "zones", "pairs"]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Count the seeds that each planted bug survives.")
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--most", type=int, default=100)
    options = parser.parse_args(arguments)
    missed = 0
    for kind, bug, broken, sound in bugs(options.kinds):
        found = next((seed for seed in range(1, options.most + 1) if broken(seed)), 0)
        what = broken(found)[0] if found else f"NOT FOUND in {options.most}"
        clean = not found or not sound(found)
        missed += not found or not clean
        sys.stdout.write(f"| {kind} | {bug} | {found}{'' if clean else ' (fails without it too)'} | {what[:110]} |\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
