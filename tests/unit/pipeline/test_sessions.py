from __future__ import annotations

import importlib
import importlib.metadata
import sys

import pytest

from entrepot.base.errors import LeaseError, OperatorError
from entrepot.pipeline import schema, sessions
from entrepot.pipeline.causes import cause_of


def installed(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_old_versions_are_refused_by_name_and_41_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, {"pyspark": "4.3.0"})
    assert sessions.reduced(sessions.spark_version()) == ""
    installed(monkeypatch, {"pyspark-client": "4.2.0"})
    assert sessions.reduced(sessions.spark_version()) == ""
    installed(monkeypatch, {"pyspark": "4.1.1"})
    assert "one batch late" in sessions.reduced(sessions.spark_version())
    for old in ("4.0.1", "3.5.6"):
        installed(monkeypatch, {"pyspark": old})
        with pytest.raises(OperatorError, match=f"PySpark {old} is too old"):
            sessions.spark_version()
    installed(monkeypatch, {})
    with pytest.raises(OperatorError, match="not installed"):
        sessions.spark_version()


def test_the_cause_is_found_in_what_java_made_of_it() -> None:
    text = (
        "org.apache.spark.SparkException: ...\nTraceback:\nentrepot.base.errors.LeaseError: it is over (stop)\n  at j"
    )
    try:
        try:
            raise RuntimeError(text)
        except RuntimeError as error:
            raise ValueError("the query failed") from error
    except ValueError as error:
        found = cause_of(error)
    assert found is not None
    assert found.kind is LeaseError
    assert str(found) == "it is over (stop)"
    assert cause_of(RuntimeError("a failure of others")) is None
    assert cause_of(None) is None


def test_the_schema_names_each_column_once() -> None:
    assert len(schema.BY_NAME) == len(schema.COLUMNS)
    assert set(schema.PASSED_OVER) <= set(schema.BY_NAME)
    assert set(schema.BY_NAME) <= {*schema.WRITABLE, *schema.PASSED_OVER}
    schema.check_written([(column.name, column.type) for column in schema.COLUMNS], [], "/queue/q")


@pytest.mark.parametrize(
    ("environment", "master", "wanted"),
    [
        ({}, None, sys.executable),
        ({}, "local[2,4]", sys.executable),
        ({}, "local-cluster[2,1,1024]", sys.executable),
        ({"PYSPARK_PYTHON": "python3.12"}, "local[2]", "python3.12"),
        ({}, "spark://host:7077", None),
        ({"SPARK_ENV_LOADED": "1"}, None, None),
    ],
)
def test_workers_on_this_machine_are_of_this_python(
    environment: dict[str, str], master: str | None, wanted: str | None
) -> None:
    sessions.ensure_python(environment, master)
    assert environment.get("PYSPARK_PYTHON") == wanted


def test_what_spark_finds_under_a_version_that_is_too_old_refuses_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install entrepot[spark]")
    installed(monkeypatch, {"pyspark": "4.0.5"})
    for name in [name for name in sys.modules if name.startswith("pyspark_entrepot")]:
        monkeypatch.delitem(sys.modules, name)
    found = importlib.import_module(
        "pyspark_entrepot"
    ).DefaultSource  # as Spark does; an error here would end any query
    assert found.name() == "entrepot"
    source = found({})
    assert "message_id" in source.schema()
    for refused in (
        lambda: source.reader(None),
        lambda: source.streamReader(None),
        lambda: source.writer(None, False),
        lambda: source.streamWriter(None, False),
    ):
        with pytest.raises(OperatorError, match=r"PySpark 4\.0\.5 is too old"):
            refused()
    for name in [name for name in sys.modules if name.startswith("pyspark_entrepot")]:
        del sys.modules[name]
    installed(monkeypatch, {"pyspark": "4.3.0"})
    assert importlib.import_module("pyspark_entrepot").DefaultSource.__name__ == "EntrepotDataSource"
