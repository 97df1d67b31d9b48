"""A range that is held for batch work: claim it, read it as often as you like, settle it when the result is safe.

held = pipeline.claim(url="stomp://host:61613", queue="orders", subscription="nightly", limit=1_000_000)
held.read(spark).write.parquet("/data/orders")
held.settle()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from entrepot.base.errors import InvalidOption
from entrepot.driver.offsets import source_name
from entrepot.driver.scope import parts_of
from entrepot.pipeline import options as option_table
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.options import Options
from entrepot.pipeline.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class _Written(msgspec.Struct, frozen=True):
    """The value of the option ``range``."""

    source: str
    begin: dict[str, int]
    end: dict[str, int]
    epochs: dict[str, int]


class Held:
    """Positions that a subscription holds: ``begin`` up to ``end`` - 1, the same until it is settled.

    By broker; of several queues by broker and queue (`entrepot.driver.scope`).
    """

    def __init__(
        self, given: Mapping[str, str], source: str, begin: dict[str, int], end: dict[str, int], epochs: dict[str, int]
    ) -> None:
        self.given = dict(given)
        self.source = source
        self.begin = begin
        self.end = end
        self.epochs = epochs

    @property
    def count(self) -> int:
        """How many messages are held."""
        return sum(self.end[broker] - low for broker, low in self.begin.items())

    @property
    def range(self) -> str:
        """The value of the option ``range``."""
        return msgspec.json.encode(_Written(self.source, self.begin, self.end, self.epochs)).decode()

    @classmethod
    def parse(cls, text: str, options: Options) -> Held:
        """Return what the option ``range`` says. Raises InvalidOption when it is of another queue."""
        try:
            written = msgspec.json.decode(text, type=_Written)
        except msgspec.DecodeError as error:
            raise InvalidOption(f"the range {text[:60]!r} cannot be read: {error}", remedy="use Held.range") from None
        wanted = source_name(options.destination, options.text("subscription"))
        if written.source != wanted:
            raise InvalidOption(f"the range is of {written.source!r}, not of {wanted!r}", remedy="claim this one")
        return cls({}, written.source, written.begin, written.end, written.epochs)

    def read(self, spark: SparkSession, **more: str) -> DataFrame:
        """Return what is held as a DataFrame; ``more``: options such as ``minPartitions``."""
        reader = spark.read.format("entrepot").options(**self.given).option("range", self.range)
        return reader.options(**more).load()

    def settle(self) -> None:
        """Be done with all of it: the messages are gone from the brokers. Raises LeaseError, Unreachable.

        Raises LeaseError when the subscription was claimed again meanwhile: that claim holds these messages now.
        """
        options = option_table.read({**self.given, "range": self.range}, option_table.READ)
        brokers = Brokers(options)
        for key, end in self.end.items():
            broker, _, destination = parts_of(key)
            fields = {**options.subject(destination).headers(), "epoch": str(self.epochs[key]), "end": str(end)}
            brokers.ask(broker, "SETTLE", fields)


def claim(*, limit: int | None = None, **given: Any) -> Held:
    """Take up to ``limit`` messages (default: all that wait) for a batch; options as of the format, as keywords.

    What the subscription held already comes first. Options with a dot: ``claim(**{"tls.trustStorePath": "ca.pem"})``.
    Raises InvalidOption, Refused, Unreachable.
    """
    words = {name: str(value) for name, value in given.items()}
    checked = option_table.read({**words, "range": "claimed below"}, option_table.READ)
    source = source_name(checked.destination, checked.text("subscription"))
    subscription = Subscription(checked)
    try:
        begin, end = subscription.held(limit)
        epochs = subscription.epochs
    finally:
        subscription.close()
    return Held(words, source, begin, end, epochs)
