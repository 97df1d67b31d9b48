"""`entrepot` with a source that settles what a task has read (`OnReceiptSource`): the harness must see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import soak_driver
from pyspark import cloudpickle
from pyspark.sql.streaming.readwriter import DataStreamReader

from entrepot.cli.main import main
from entrepot.pipeline import sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLY = soak_driver.OnReceiptSource.name()
register = sessions.register
chosen = DataStreamReader.format


def register_both(spark: SparkSession) -> None:
    register(spark)
    spark.dataSource.register(soak_driver.OnReceiptSource)


def choose_early(reader: DataStreamReader, name: str) -> Any:
    return chosen(reader, EARLY if name == sessions.FORMAT else name)


if __name__ == "__main__":
    cloudpickle.register_pickle_by_value(soak_driver)  # type: ignore[no-untyped-call]  # workers do not find it
    sessions.register = register_both
    DataStreamReader.format = choose_early  # type: ignore[method-assign,assignment]
    main()
