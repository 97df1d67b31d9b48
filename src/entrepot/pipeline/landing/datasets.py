"""What a flow reads and writes, by the names under which catalogs of lineage know data: a namespace and a name in it.

Rules of OpenLineage's naming: a namespace is a place without who may go there, a name what is at that place. Pure.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from entrepot.base.uri import NO_PORT, Endpoint
from entrepot.pipeline import options as option_table
from entrepot.pipeline.landing.configuration import Flow

DEFAULT_PORT: Final = 61613
FILES: Final = "file"
SAME: Final = {"s3a": "s3", "s3n": "s3", "abfss": "abfss", "hdfs": "hdfs", "gs": "gs"}  # Hadoop's word -> the catalogs'


class Dataset(NamedTuple):
    """Data somewhere. ``namespace``: where; ``name``: what there."""

    namespace: str
    name: str


def read_by(flow: Flow) -> list[Dataset]:
    """Return the queues and topics that ``flow`` reads: each of a list, and a pattern as it stands.

    The namespace is the first broker of its url: others of the network may hold the messages as well.
    """
    options = option_table.read(flow.options, option_table.STREAM)
    _, kind, names = options.destination.split("/", 2)
    namespace = _place(options.places[0][0])
    return [Dataset(namespace, f"{kind}/{name}") for name in names.split(",")]


def written_by(flow: Flow, namespace: str) -> Dataset:
    """Return what ``flow`` writes; a table of Iceberg is in ``namespace``, for its catalog is Spark's matter."""
    if flow.format == "iceberg":
        return Dataset(namespace, flow.path)
    found = urlsplit(flow.path)
    if not found.scheme or found.scheme == FILES:
        return Dataset(FILES, os.path.abspath(found.path if found.scheme else flow.path))
    host = found.netloc.rpartition("@")[2]
    return Dataset(f"{SAME.get(found.scheme, found.scheme)}://{host}", found.path.strip("/") or "/")


def _place(place: Endpoint) -> str:
    scheme = place.scheme.partition("+")[0]
    if "unix" in place.scheme:
        return f"{scheme}+unix://{place.path}"
    return f"{scheme}://{place.host}:{DEFAULT_PORT if place.port == NO_PORT else place.port}"
