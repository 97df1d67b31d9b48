"""What ``<core>`` says for all connections and addresses: time-outs, limits of users, names (artemis.md 8.1)."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MIB
from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.stored import retention
from entrepot.config.model import ServingOptions, UserLimit
from entrepot.config.reading import Bean

HEAP_DEFAULT: Final = 2048 * MIB  # what Artemis' profile gives its virtual machine
TIMEOUT_MS: Final = 300_000


def serving(reader: PartReader, core: Bean) -> ServingOptions:
    """Return what holds for everybody; what cannot be is a finding."""
    timeout = int(core.get("transaction-timeout", TIMEOUT_MS))
    if timeout <= 0:
        reader.error(core, f"a branch cannot last {timeout} ms", "give a time", "transaction-timeout")
        timeout = TIMEOUT_MS
    return ServingOptions(
        ttl_override_ms=max(int(core.get("connection-ttl-override", -1)), -1),
        branch_ms=timeout,
        users=_limits(reader, core),
        demands_user=bool(core.get("reject-empty-validated-user", False)),
        uuid_namespace=core.text("uuid-namespace") or core.text("temporary-queue-namespace"),
        wildcards=bool(core.get("wild-card-routing-enabled", True)),
        messages_max=max(int(core.get("global-max-messages", -1)), -1),
        retention=retention(reader, core) if core.get("persistence-enabled", True) else None,
    )


def heap(reader: PartReader, core: Bean) -> int:
    """Return the memory for messages, octets: ``global-max-size``, or a share of the heap that Artemis would have."""
    given = int(core.get("global-max-size", -1))
    share = int(core.get("global-max-size-percent-of-jvm-max-memory", 50))
    if not 0 < share <= 100:
        attribute = "global-max-size-percent-of-jvm-max-memory"
        reader.error(core, f"{share} is no percentage", "use 1 to 100", attribute)
        share = 50
    return given if given > 0 else HEAP_DEFAULT * share // 100


def _limits(reader: PartReader, core: Bean) -> tuple[tuple[str, UserLimit], ...]:
    below = core.one("resource-limit-settings")
    found: dict[str, UserLimit] = {}
    for bean in [] if below is None else below.many("resource-limit-setting"):
        user = bean.text("match")
        if not user or user in found:
            what = f"there are two for {user!r}" if user else "it says for no user"
            reader.error(bean, what, "name each user once", "match")
        else:
            older = bean.get("max-connections", -1)  # what max-sessions was called
            found[user] = UserLimit(int(bean.get("max-sessions", older)), int(bean.get("max-queues", -1)))
    return tuple(found.items())
