"""A file of either family, whichever it is: its root element says so."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from entrepot.config import artemis, classic
from entrepot.config.artemis.bootstrap import Bootstrap, belongs
from entrepot.config.findings import Findings, Severity
from entrepot.config.reading import Reading
from entrepot.config.sources import Decrypt, Sources
from entrepot.config.xml import parse


def read(
    path: Path,
    *,
    spoken: Collection[str],
    bridges: bool = False,
    defines: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    decrypt: Decrypt | None = None,
    properties: Sequence[Path] = (),
) -> Reading:
    """Read ``activemq.xml``, ``broker.xml``, or the ``bootstrap.xml`` that names one of these.

    The arguments are those of `config/classic`.

    ``properties``: files of broker properties, for a ``broker.xml``.

    Raises InvalidConfiguration for a file that cannot be read at all, or is not XML.
    """
    sources = Sources(Findings(), defines=defines, environment=environment, decrypt=decrypt)
    root = parse(sources.open(path), str(path))
    starting: Bootstrap | None = None
    if belongs(root):
        starting = Bootstrap(root, path)
        path = starting.broker(sources)
        sources.files.clear()  # the first is the broker's own
        root = parse(sources.open(path), str(path))
    if artemis.belongs(root):
        return artemis.interpret(root, sources, spoken=spoken, properties=properties, bootstrap=starting)
    if properties:
        what = "broker properties are for broker.xml"
        sources.findings.add(Severity.ERROR, str(path), root.line, "", what, "leave them out")
    return classic.interpret(root, sources, spoken=spoken, bridges=bridges)
