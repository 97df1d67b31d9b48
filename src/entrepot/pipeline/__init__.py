"""Queues and topics as sources and sinks of PySpark: ``spark.readStream.format("entrepot")`` (docs/spark.md).

`register` makes the format known where Spark does not find it by itself; `session` makes a Spark session that suits it;
`claim` takes a range for batch work; `lag` says how many messages wait for a query; `cause_of` finds the sentence that
matters in an exception of Spark. PySpark is
imported when one of them needs it, not before.
"""

from entrepot.pipeline.causes import PipelineError, cause_of
from entrepot.pipeline.claims import Held, claim
from entrepot.pipeline.java import ensure_java
from entrepot.pipeline.lag import lag
from entrepot.pipeline.sessions import RECOMMENDED, register, session

__all__ = ["Held", "PipelineError", "RECOMMENDED", "cause_of", "claim", "ensure_java", "lag", "register", "session"]
