"""Facts that the core announces. Advisories, notifications, logs and metrics are built from these and nothing else."""

from __future__ import annotations

from typing import Final

QUEUE_CREATED: Final = "queue.created"
QUEUE_DELETED: Final = "queue.deleted"
TEMPORARY_TOPIC_CREATED: Final = "temporary-topic.created"  # nothing is kept for it: whoever made it says so
TEMPORARY_TOPIC_DELETED: Final = "temporary-topic.deleted"
CONSUMER_ATTACHED: Final = "consumer.attached"
CONSUMER_DETACHED: Final = "consumer.detached"
FOLLOWER_ATTACHED: Final = "follower.attached"  # of queues by a pattern, whether one matches already or not
FOLLOWER_DETACHED: Final = "follower.detached"
MESSAGE_EXPIRED: Final = "message.expired"
MESSAGE_DEAD: Final = "message.dead-lettered"
MESSAGE_DROPPED: Final = "message.dropped"
MESSAGE_DUPLICATE: Final = "message.duplicate"
MESSAGE_UNROUTED: Final = "message.unrouted"
MESSAGE_UNREAD: Final = "message.unread"  # this and the next four: only where a policy asks for it
MESSAGE_DELIVERED: Final = "message.delivered"
MESSAGE_DISPATCHED: Final = "message.dispatched"
MESSAGE_CONSUMED: Final = "message.consumed"
QUEUE_FULL: Final = "queue.full"
MESSAGE_DISCARDED: Final = "message.discarded"
SUBSCRIPTION_REMOVED: Final = "subscription.removed"
ADDRESS_FULL: Final = "address.full"
ADDRESS_FREE: Final = "address.free"
CONSUMER_SLOW: Final = "consumer.slow"
JOB_REFUSED: Final = "job.refused"
STORE_FAILED: Final = "store.failed"
