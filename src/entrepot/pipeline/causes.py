"""From the exception that Spark raises to the sentence that says what is wrong.

An error in a Python data source reaches the user inside Java's: hundreds of lines, the cause in the middle.
"""

from __future__ import annotations

import re
from traceback import walk_tb
from typing import Final

from entrepot.base import errors
from entrepot.base.errors import EntrepotError, OperatorError, Unreachable

# How Java says that a package was built for another version of Spark, and Spark that it has none.
_UNFIT: Final = re.compile(
    r"java\.lang\.((?:NoSuchMethod|NoSuchField|IncompatibleClassChange|AbstractMethod|NoClassDefFound)Error)"
)
_MISSING: Final = re.compile(r"DATA_SOURCE_NOT_FOUND|Failed to find the data source|Cannot find catalog plugin class")
_AVRO: Final = re.compile(r"AVRO_NOT_LOADED|org\.apache\.spark\.sql\.avro\.")
_FITTING: Final = "docs/lakes.md has the versions of PySpark, Delta and Iceberg that fit one another"
_FITTING_AVRO: Final = "docs/recipes.md has the versions of PySpark and spark-avro that fit one another"
_FULL: Final = re.compile(r"java\.lang\.OutOfMemoryError: [^\n]+")
_MORE_MEMORY: Final = (
    "let it take less at once (--option maxOctetsPerTrigger=100000000), or give it more memory (--memory 4g; memory = "
    '"4g" in a file of pipeline land; spark.driver.memory)'
)
_GONE: Final = "the Java process of Spark ended in the middle, most often because it had too little memory"
_LINE: Final = re.compile(r"entrepot\.base\.errors\.(\w+): (.+)")


class PipelineError(EntrepotError):
    """What went wrong in a query, said once. ``kind`` is the class that was raised in Spark's worker."""

    code = "ENT-2008"

    def __init__(self, message: str, kind: type[EntrepotError]) -> None:
        super().__init__(message)
        self.kind = kind


def cause_of(error: BaseException | None) -> PipelineError | None:
    """Return the error of entrepot inside an exception of Spark (also ``query.exception()``), or None."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        found = _LINE.findall(_said(error))
        if found:
            name, text = found[-1]
            kind = getattr(errors, name, EntrepotError)
            return PipelineError(text.strip(), kind)
        error = error.__cause__ or error.__context__
    return None


def told_apart(error: Exception) -> Exception:
    """Return the sentence that matters in an exception of Spark, or the exception."""
    return cause_of(error) or _unfit(error) or _spent(error) or error


def _spent(error: Exception) -> OperatorError | None:
    """Return what to say of a Java that had too little memory, or that is there no more, or None."""
    full = _FULL.search(_said(error))
    if full is not None:
        return OperatorError(f"Spark had too little memory: {full[0]}", remedy=_MORE_MEMORY)
    ended = type(error).__name__ == "Py4JNetworkError" or _said(error) == _GONE
    if ended or (isinstance(error, OSError) and _while_asking_java(error)):
        return OperatorError(_GONE, remedy=f"{_MORE_MEMORY}; what was not committed is read again")
    return None


def _said(error: BaseException) -> str:
    """Return the text of ``error``. One of Java's asks Java for it, which may be there no more: `_GONE` then."""
    try:
        return str(error)
    except OSError:
        return _GONE


def _while_asking_java(error: Exception) -> bool:
    """Return whether ``error`` was raised by the library that speaks with Spark's Java."""
    return any(frame.f_globals.get("__name__", "").startswith("py4j.") for frame, _ in walk_tb(error.__traceback__))


def _unfit(error: Exception) -> OperatorError | None:
    """Return what to say of a package of Spark's that is missing or was built for another version of it, or None."""
    said = _said(error)
    if isinstance(error, EntrepotError):
        return None
    found = _UNFIT.search(said)
    avro = _AVRO.search(said)
    if found is not None:
        remedy = _FITTING if avro is None else _FITTING_AVRO
        return OperatorError(f"a package was built for another version of Spark: {found[1]}", remedy=remedy)
    if avro is not None and "AVRO_NOT_LOADED" in said:
        return OperatorError("Spark's package for Avro, spark-avro, is missing", remedy=_FITTING_AVRO)
    if _MISSING.search(said):
        return OperatorError("a package of Spark is missing that the format or the catalog needs", remedy=_FITTING)
    return None


def lasts(error: Exception) -> bool:
    """Say whether what `told_apart` returned will not go away by itself: a refusal does not, a broker comes back.

    Of what is Spark's own nobody knows; it is taken for something that passes.
    """
    if isinstance(error, PipelineError):
        return not issubclass(error.kind, Unreachable)
    return isinstance(error, EntrepotError) and not isinstance(error, Unreachable)
