"""Spark looks for modules whose names begin with ``pyspark_``: through this one it finds the format ``entrepot``."""

from entrepot.pipeline.datasource import EntrepotDataSource as DefaultSource

__all__ = ["DefaultSource"]
