"""Spark looks for modules whose names begin with ``pyspark_``: through this one it finds the format ``entrepot``.

Where PySpark is too old for it, this names a format that says so when it is used. An error here would be one of every
query of that Spark, whatever it reads.
"""

from pyspark.sql.datasource import DataSource

from entrepot.base.errors import OperatorError
from entrepot.pipeline.sessions import spark_version

DefaultSource: type[DataSource]
try:
    spark_version()
except OperatorError:
    from pyspark_entrepot.refusal import RefusedDataSource

    DefaultSource = RefusedDataSource
else:
    from entrepot.pipeline.datasource import EntrepotDataSource

    DefaultSource = EntrepotDataSource

__all__ = ["DefaultSource"]
