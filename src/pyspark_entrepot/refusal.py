"""The format ``entrepot`` under a PySpark that is too old for it: every use says so."""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from entrepot.pipeline.schema import DDL
from entrepot.pipeline.sessions import spark_version


class RefusedDataSource(DataSource):
    """Refuses whatever is asked of it, by the name of the version that is installed."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "entrepot"

    def schema(self) -> str:
        """Return the columns of the format: Spark asks for them before anything that could be refused."""
        return DDL

    def reader(self, schema: StructType) -> NoReturn:
        """Raise OperatorError."""
        _refuse()

    def streamReader(self, schema: StructType) -> NoReturn:  # noqa: N802
        """Raise OperatorError."""
        _refuse()

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raise OperatorError."""
        _refuse()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Raise OperatorError."""
        _refuse()


def _refuse() -> NoReturn:
    spark_version()
    raise AssertionError("this PySpark is not refused")
