"""What an operator says of the settings of addresses while a broker runs, as Artemis' management does (artemis.md 7.2).

The settings of one pattern are a JSON object; they hold in the place of what the configuration says of that pattern,
and merge with those of wider and narrower ones. Each is one note of the journal, with the text that was given: it holds
after a restart, and after the configuration was read again, which otherwise says everything anew. When it is taken
back, what the configuration says of the pattern holds again, at once; with Artemis it does after the next restart.

Names are those of Artemis' JSON. A name that Artemis has and that means nothing here (sizes of page files, say) is
taken, so that one text serves both brokers, and left out of the answer; a name that nobody knows is refused: to forget
a setting that somebody misspelt would be worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import EntrepotError, Refused
from entrepot.base.settings import UNLIMITED, Dialect, Setting, Unit, refuse_unknown
from entrepot.core.addressing.address_settings import AddressSettings
from entrepot.core.addressing.policy import Policies
from entrepot.core.amendments import check_pattern, keep
from entrepot.core.notes import Notes

PART: Final = "address settings"  # of the notes

OTHERWISE: Final[Mapping[str, str]] = {
    "address-full-policy": "addressFullMessagePolicy",
    "page-full-policy": "pageFullMessagePolicy",
    "redelivery-delay-multiplier": "redeliveryMultiplier",
    "send-to-dla-on-no-route": "sendToDLAOnNoRoute",
}
"""Settings that Artemis' JSON does not call as its files do."""
ELSEWHERE: Final = (
    "autoCreateJmsQueues", "autoCreateJmsTopics", "autoDeleteAddressesSkipUsageCheck", "autoDeleteJmsQueues",
    "autoDeleteJmsTopics", "defaultAddressRoutingType", "defaultConsumerWindowSize", "defaultQueueRoutingType",
    "diskFullMessagePolicy", "enableMetrics", "initialQueueBufferSize", "managementBrowsePageSize",
    "managementMessageAttributeSizeLimit", "maxReadPageBytes", "maxReadPageMessages", "maxSizeBytesRejectThreshold",
    "messageCounterHistoryDayLimit", "pageCacheMaxSize", "pageSizeBytes", "prefetchPageBytes", "prefetchPageMessages",
)  # fmt: skip
"""Names that Artemis has for what there is no setting for here."""


def _spelt() -> Iterator[tuple[str, Setting]]:
    for name, declared in AddressSettings.names(Dialect.ARTEMIS).items():
        first, *rest = name.split("-")
        yield OTHERWISE.get(name) or first + "".join(word.capitalize() for word in rest), declared


NAMES: Final[Mapping[str, Setting]] = dict(_spelt())
"""Setting by its name in Artemis' JSON."""


def read(text: str) -> dict[str, Any]:
    """Return attribute -> value of what a JSON object says; null says nothing. Raises Refused, InvalidOption."""
    try:
        said = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise Refused(
            "the settings are not a JSON object", remedy='write them like {"maxDeliveryAttempts": 3}'
        ) from None
    unknown = [name for name in said if name not in NAMES and name not in ELSEWHERE]
    refuse_unknown(unknown, NAMES, ELSEWHERE, what="address setting")
    return {
        NAMES[name].name: NAMES[name].parse(_written(name, value), Dialect.ARTEMIS)
        for name, value in said.items()
        if name in NAMES and value is not None
    }


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` (attribute -> value) by the names and in the units of Artemis; empty texts are left out."""
    found = {
        name: _shown(declared, values[declared.name]) for name, declared in NAMES.items() if declared.name in values
    }
    return {name: value for name, value in found.items() if value != ""}


def amend(policies: Policies, notes: Notes, pattern: str, text: str) -> dict[str, Any]:
    """Let ``text`` hold for ``pattern``, after a restart too; return what of it has a meaning here.

    Raises Refused, InvalidOption, InvalidDestination, LimitExceeded, StorageError: nothing is changed then.
    """
    values = read(text)
    AddressSettings(**values)
    check_pattern(pattern)
    keep(notes, PART, pattern, text)
    policies.amend(pattern, values)
    return shown(values)


def withdraw(policies: Policies, notes: Notes, pattern: str) -> None:
    """Let hold again what the configuration says of ``pattern``. Raises Refused, InvalidDestination, StorageError."""
    check_pattern(pattern)
    notes.remove(PART, pattern)
    policies.amend(pattern, None)


def restore(policies: Policies, notes: Notes) -> list[tuple[str, str]]:
    """Let hold what the notes say: after a start, and when the configuration was read again.

    Return patterns whose settings cannot be read, and why (a later version wrote them): a broker starts without them.
    """
    policies.unamend()
    failed: list[tuple[str, str]] = []
    for pattern, text in notes.of(PART).items():
        try:
            policies.amend(pattern, read(text))
        except EntrepotError as error:
            failed.append((pattern, str(error)))
    return failed


def _written(name: str, value: object) -> str:
    if isinstance(value, dict | list):
        raise Refused(f"the setting {name} is {str(value)[:40]!r}", remedy="give a text, a number, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(declared: Setting, value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if declared.unit is Unit.DURATION and value != UNLIMITED:
        return value // MILLISECOND
    return value
