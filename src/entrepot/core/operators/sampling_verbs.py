"""What management asks of message counters (`core/operators/samples.py`): of the broker, and of a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import json_of
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.samples import Samples
from entrepot.core.queue.queue import Queue


def samples_of(broker: BrokerCore, census: Census) -> Samples:
    """Return the counters of ``broker``, which ``census`` keeps from the first question on."""
    if census.samples is None:
        census.samples = Samples(broker)
    return census.samples


class BrokerSampling:
    """What is asked of all of them."""

    def __init__(self, broker: BrokerCore, census: Census) -> None:
        self._samples: Final = samples_of(broker, census)

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        samples = self._samples
        return {
            "messageCounterEnabled": lambda: samples.enabled,
            "messageCounterSamplePeriod": lambda: samples.period,
            "messageCounterMaxDayCount": lambda: samples.days,
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done."""
        samples = self._samples
        return {
            "enableMessageCounters": lambda given: samples.enable(),
            "disableMessageCounters": lambda given: samples.disable(),
            "setMessageCounterSamplePeriod": lambda given: samples.set_period(given.number(0)),
            "setMessageCounterMaxDayCount": lambda given: samples.set_days(given.number(0)),
            "resetAllMessageCounters": lambda given: samples.reset(),
            "resetAllMessageCounterHistories": lambda given: samples.forget_history(),
        }


def queue_sampling(broker: BrokerCore, census: Census, queue: Queue) -> dict[str, Callable[[Arguments], object]]:
    """Return what can be asked of one queue."""
    samples = samples_of(broker, census)
    return {
        "listMessageCounter": lambda given: json_of(samples.of(queue).told(queue)),
        "listMessageCounterHistory": lambda given: json_of({"dayCounters": samples.days_of(queue)}),
        "resetMessageCounter": lambda given: samples.of(queue).clear(),
    }
