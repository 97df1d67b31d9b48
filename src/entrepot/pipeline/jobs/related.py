"""Links between audit, report and plan: each leaves a summary, and shows the summaries that it is told of."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUMMARY: Final = "summary.json"
AUDIT: Final = "audit"
REPORT: Final = "report"
PLAN: Final = "plan"
KINDS: Final = (AUDIT, REPORT, PLAN)


class Related:
    """What another job said: its ``kind``, one sentence, whether all is well, and where its page is."""

    def __init__(self, kind: str, sentence: str, *, good: bool, link: str) -> None:
        self.kind: Final = kind
        self.sentence: Final = sentence
        self.good: Final = good
        self.link: Final = link


def leave(place: Storage, kind: str, sentence: str, *, good: bool) -> None:
    """Write the summary that others show."""
    place.write(SUMMARY, json.dumps({"kind": kind, "sentence": sentence, "good": good}) + "\n")


def found(spark: SparkSession, roots: Sequence[str | Path], target: str | Path) -> list[Related]:
    """Return what the jobs said that wrote into ``roots``, for a page in ``target``. Raises InvalidOption."""
    return [_found(spark, os.fspath(root), os.fspath(target)) for root in roots]


def _found(spark: SparkSession, root: str, target: str) -> Related:
    place = Storage(spark, root)
    try:
        said = json.loads(place.read(SUMMARY) or "")
        kind, sentence, good = str(said["kind"]), str(said["sentence"]), bool(said["good"])
    except (ValueError, KeyError, TypeError):
        kind = ""
    if kind not in KINDS:
        raise InvalidOption(
            f"{place.root} holds no audit, report or plan that leaves a summary",
            remedy="name what --to was given to `entrepot pipeline audit`, `report` or `plan`",
        )
    return Related(kind, sentence, good=good, link=_link(root, target))


def _link(root: str, target: str) -> str:
    """Return how the page in ``target`` names the page in ``root``: both may move, where they are on one disk."""
    if "://" in root or "://" in target or root.startswith("file:") or target.startswith("file:"):
        return f"{root.rstrip('/')}/report.html"
    return f"{os.path.relpath(root, target)}/report.html"
