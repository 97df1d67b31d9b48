"""What the commands that run on Spark say when Spark fails."""

from __future__ import annotations

from entrepot.base.errors import InvalidOption, OperatorError
from entrepot.cli.spark import named, worded
from entrepot.pipeline.causes import PipelineError


class SparkError(Exception):
    """Stands for one of Spark's."""


SparkError.__module__ = "pyspark.errors.exceptions.captured"


def test_our_sentence_inside_sparks_error_is_what_is_said() -> None:
    text = "[STREAM_FAILED] ...\nTraceback\nentrepot.base.errors.LeaseError: the subscription is in use\n  at java"
    found = worded(SparkError(text))
    assert isinstance(found, PipelineError)
    assert found.message == "the subscription is in use"


def test_of_sparks_own_error_the_first_and_the_telling_line_are_said() -> None:
    found = worded(SparkError("[X] no source\n  File a\nModuleNotFoundError: No module named 'm'\n at b"))
    assert isinstance(found, OperatorError)
    assert found.message == "Spark failed: [X] no source ... ModuleNotFoundError: No module named 'm'"


class Unsaid(SparkError):
    """One of Java's, which is asked for its words and is there no more."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "Connection refused")


def test_a_java_that_had_too_little_memory_is_said_and_what_to_do() -> None:
    full = worded(SparkError("job aborted\nCaused by: java.lang.OutOfMemoryError: Java heap space\n at b"))
    assert isinstance(full, OperatorError)
    assert full.message == "Spark had too little memory: java.lang.OutOfMemoryError: Java heap space"
    for error in (Unsaid(), _while_asking(ConnectionRefusedError(111, "Connection refused"))):
        gone = worded(error)
        assert isinstance(gone, OperatorError)
        assert "the Java process of Spark ended" in gone.message
        assert "--memory" in gone.remedy


def _while_asking(error: OSError) -> OSError:
    """Return ``error`` as the library has raised it that speaks with Java."""
    library: dict[str, object] = {"__name__": "py4j.clientserver", "error": error}
    try:
        exec("raise error", library)
    except OSError as raised:
        return raised
    raise AssertionError


def test_others_are_left_as_they_are() -> None:
    for error in (InvalidOption("no"), ValueError("bug"), ConnectionRefusedError(111, "Connection refused")):
        assert worded(error) is error


def test_destinations_have_their_kind_and_come_once() -> None:
    assert named(["a", "/queue/a", "b"], ["t"]) == ["/queue/a", "/queue/b", "/topic/t"]
