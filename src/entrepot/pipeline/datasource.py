"""What Spark knows as the format ``entrepot``."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from entrepot.pipeline import options as option_table
from entrepot.pipeline import schema as columns
from entrepot.pipeline import sink, source


class EntrepotDataSource(DataSource):
    """Queues and topics of entrepot brokers, to read from and to write to (docs/spark.md)."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "entrepot"

    def schema(self) -> str:
        """Return all columns, or those that the option ``columns`` names; ``.schema(...)`` of a reader chooses, too."""
        given = {str(name).lower(): str(value) for name, value in self.options.items()}
        return columns.ddl(columns.chosen(given.get("columns", "")))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return source.BatchReader(self._read(option_table.READ), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        return source.stream_reader(self._read(option_table.STREAM), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        return sink.batch_writer(self._read(option_table.WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer of a stream."""
        return sink.stream_writer(self._read(option_table.WRITE), schema, overwrite)

    def _read(self, where: str) -> option_table.Options:
        given: dict[str, Any] = dict(self.options)
        return option_table.read(given, where)
