"""``<broker-plugins>``: what plugins of Artemis' own do that this broker does, too. Others are Java classes."""

from __future__ import annotations

from typing import Final

from entrepot.base.values import boolean_or
from entrepot.config.artemis.reading import PartReader
from entrepot.config.reading import Bean
from entrepot.core.events.facts import (
    ADDRESS_ADDED,
    ADDRESS_REMOVED,
    CONNECTION_CLOSED,
    CONNECTION_OPENED,
    MESSAGE_DISPATCHED,
    MESSAGE_EXPIRED,
)

PACKAGE: Final = "org.apache.activemq.artemis.core.server.plugin.impl."
NOTIFYING: Final = PACKAGE + "NotificationActiveMQServerPlugin"
LOGGING: Final = PACKAGE + "LoggingActiveMQServerPlugin"
GUARDING: Final = PACKAGE + "BrokerMessageAuthorizationPlugin"
CONNECTIONS: Final = "SEND_CONNECTION_NOTIFICATIONS"
TOLD: Final = {
    CONNECTIONS: CONNECTION_OPENED | CONNECTION_CLOSED,
    "SEND_ADDRESS_NOTIFICATIONS": ADDRESS_ADDED | ADDRESS_REMOVED,
    "SEND_DELIVERED_NOTIFICATIONS": MESSAGE_DISPATCHED,
    "SEND_EXPIRED_NOTIFICATIONS": MESSAGE_EXPIRED,
}
"""Property of the notifying plugin -> kinds of facts that it has told."""
SESSIONS: Final = "SEND_SESSION_NOTIFICATIONS"  # documented by Artemis; sessions are told of without it


def notified(reader: PartReader, core: Bean) -> int:
    """Return the kinds of facts that the plugins have told as notifications; all else that they want is a finding."""
    below = core.one("broker-plugins")
    found = 0
    for bean in [] if below is None else below.many("broker-plugin"):
        name = bean.text("class-name")
        properties = [(one, one.text("key"), one.text("value")) for one in bean.many("property")]
        if name == NOTIFYING:
            found |= _notifying(reader, properties)
        elif name == LOGGING:
            what = "events are logged with --log-level debug, and LOG_ properties have no effect"
            reader.note(bean, what, "start the broker with that", "class-name")
        elif name == GUARDING:
            what = f"{name} decides who may read what: without it readers would see more"
            reader.error(bean, what, "use security-settings on addresses", "class-name")
        else:
            reader.warn(bean, f"the plugin {name!r} is a Java class, which cannot be loaded here", "", "class-name")
    return found


def _notifying(reader: PartReader, properties: list[tuple[Bean, str, str]]) -> int:
    found = 0
    for bean, key, value in properties:
        if key not in TOLD and key != SESSIONS:
            reader.error(bean, f"there is no property {key!r}", f"there are {', '.join(TOLD)}", "key")
        elif boolean_or(value, False):
            found |= TOLD.get(key, 0)
    return found
