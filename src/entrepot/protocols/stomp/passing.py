"""Which headers of a SEND the broker reads, and which of those pass on to consumers. [C]"""

from __future__ import annotations

from typing import Final

# Headers of SEND that the broker reads and that do not pass to the consumer as they are.
CONSUMED: Final[dict[bytes, bool]] = {
    b"destination": True,
    b"destination-type": True,
    b"receipt": True,
    b"receipt-message-id": True,
    b"transaction": True,
    b"persistent": True,
    b"priority": True,
    b"expires": True,
    b"timestamp": True,
    b"message-id": True,
    b"redelivered": True,
    b"subscription": True,
    b"ack": True,
    b"JMSXUserID": True,
    b"AMQ_SCHEDULED_DELAY": True,
    b"AMQ_SCHEDULED_TIME": True,
    b"AMQ_SCHEDULED_PERIOD": True,
    b"AMQ_SCHEDULED_REPEAT": True,
    b"AMQ_SCHEDULED_CRON": True,
}
# Headers that the broker reads and that pass on too.
READ_AND_PASSED: Final[dict[bytes, bool]] = {
    b"JMSXGroupID": True,
    b"JMSXGroupSeq": True,
    b"_AMQ_GROUP_ID": True,
    b"_AMQ_GROUP_SEQUENCE": True,
    b"_AMQ_DUPL_ID": True,
    b"reply-to": True,  # but one that names a temporary destination by its alias is written anew by the session
}
