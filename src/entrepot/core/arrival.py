"""What is changed in every message that a client or another broker sends, before anything is decided about it. [C]

Two plugins of Classic do that: one says for all messages whether they are kept on disk, one has each message carry the
names of the brokers that it passed (classic.md 7.6). With ``populateJMSXUserID`` each carries its sender's user, who
cannot choose another. What the broker itself sends stays as it is: answers, advisories and dead letters.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import AccessDenied
from entrepot.core.security.access import ADVISORIES
from entrepot.model.message import USER, Message

NO_USER: Final = "AMQ229225: Validated User is not set"
AS_SENT: Final = 0
DURABLE: Final = 1
NOT_DURABLE: Final = 2


class Stamps:
    """What messages of one broker get. ``path_property``: the name of the one with the brokers; "" for none.

    ``users``: each gets the name of who sent it; what came over a bridge keeps the one that it has. ``demands``: what
    a client sends carries a user, or is refused (``reject-empty-validated-user``).
    """

    def __init__(
        self,
        broker: str,
        persistence: i64 = AS_SENT,
        path_property: str = "",
        users: bool = False,
        demands: bool = False,
    ) -> None:
        """``broker``: our name. ``persistence``: AS_SENT, DURABLE or NOT_DURABLE."""
        self.demands: bool = demands
        self.users: bool = users
        self.broker: str = broker
        self.persistence: i64 = persistence
        self.path_property: str = path_property

    def put_on(self, message: Message, user: str | None) -> None:
        """Change ``message``, which is for no queue yet; ``user`` sent it, None: a bridge brought it.

        Raises AccessDenied where a user is demanded and there is none.
        """
        if message.address.startswith(ADVISORIES):  # of another broker: to tell of them is not to send
            return
        if self.persistence != AS_SENT:
            durable = self.persistence == DURABLE
            if message.durable != durable:
                message.durable = durable
                message.language.changed(message)
        if self.path_property:
            before = message.fact(self.path_property)
            path = f"{before},{self.broker}" if isinstance(before, str) and before else self.broker
            message.annotate(self.path_property, path)
        if self.users and user is not None and (user or message.fact(USER) is not None):
            message.annotate(USER, user)
        if self.demands and user is not None and not message.fact(USER):
            raise AccessDenied(NO_USER, remedy="connect as a user, with populate-validated-user")
