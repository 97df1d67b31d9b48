"""What a broker was told before it started, and by its files since: for `core/operators/settings_page.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.base.provenance import Said
from entrepot.config.ledger import EMPTY, effective
from entrepot.core.operators.census import Written

if TYPE_CHECKING:
    from entrepot.config.model import BrokerConfig


class Configured(Written):
    """One broker's. ``said``: on its command line, or by the program that embeds it."""

    def __init__(self, config: Callable[[], BrokerConfig | None]) -> None:
        """``config``: what its files say now, None where it has none."""
        self.said: Sequence[Said] = ()
        self._config: Final = config

    def lines(self) -> Iterator[Said]:
        """Yield every setting that is obeyed."""
        config = self._config()
        return effective(self.said, EMPTY if config is None else config.ledger)

    def origin(self) -> dict[str, object]:
        """Return the files, whose family's they are, and what was changed in them and takes a restart."""
        config = self._config()
        if config is None:
            return super().origin()
        ledger = config.ledger
        return {"files": list(ledger.files), "family": config.family.value, "pending": list(ledger.pending)}
