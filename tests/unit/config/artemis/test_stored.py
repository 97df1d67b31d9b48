"""Where a broker.xml has the journal, and what the journal lets go of."""

from __future__ import annotations

import pytest

from entrepot.config.artemis.stored import UNITS_MS
from entrepot.config.model import BrokerConfig, changes
from unit.config.artemis.test_artemis import kept


def config(period: int, unit: str = "DAYS") -> BrokerConfig:
    said = f'<journal-retention-directory unit="{unit}" period="{period}">/kept</journal-retention-directory>'
    found = kept(said).config
    assert found is not None
    return found


@pytest.mark.parametrize("unit", UNITS_MS)
def test_the_time_is_given_in_a_unit(unit: str) -> None:
    retention = config(2, unit).serving.retention
    assert retention is not None
    assert retention.period_ms == 2 * UNITS_MS[unit]


def test_another_time_takes_a_restart_and_is_told() -> None:
    assert [(one.what, one.live) for one in changes(config(2), config(3))] == [("journal-retention-directory", False)]
    assert changes(config(2), config(2)) == []
