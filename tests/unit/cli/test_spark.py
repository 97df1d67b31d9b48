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


def test_others_are_left_as_they_are() -> None:
    for error in (InvalidOption("no"), ValueError("bug")):
        assert worded(error) is error


def test_destinations_have_their_kind_and_come_once() -> None:
    assert named(["a", "/queue/a", "b"], ["t"]) == ["/queue/a", "/queue/b", "/topic/t"]
