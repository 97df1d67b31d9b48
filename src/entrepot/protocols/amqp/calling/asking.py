"""The links that this side of a connection asks for, on one session; a peer calls each by a handle of its own. [C]

A broker that dialled asks for all links, but for those of a federation that it ordered there; a broker that was dialled
asks for those of a federation that it was ordered. Here a link is known by our handle.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import LimitExceeded, ProtocolViolation, Refused, StorageError
from entrepot.model.address import Destination
from entrepot.protocols.amqp.attaching import is_federation, refuse
from entrepot.protocols.amqp.calling.federating import Fetch
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.calling.taking import Taking
from entrepot.protocols.amqp.federating import attach_reader
from entrepot.protocols.amqp.performatives import Attach, Composite, Detach, Error, Flow, Source, Target
from entrepot.protocols.amqp.refusals import NOT_ALLOWED, AmqpRefused
from entrepot.protocols.amqp.session import RECEIVER, SENDER, AmqpSession, Asked, Link

OUTCOMES: Final = ["amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list"]
UNSETTLED: Final = 0  # snd-settle-mode: each message is answered
HANDLES: Final = 65_535  # links at once, of which a broker opens one for each queue
NOBODY: Final = -2  # the handle of no link, which the session then says


class Asking(Asked):
    """Those of one session. ``first``, ``last``: handles that they may have.

    ``alone``: the peer asks for no links of its own, unless a federation was ordered there.
    """

    def __init__(self, session: AmqpSession, first: i64, last: i64, alone: bool) -> None:
        self.session: AmqpSession = session
        self.first: i64 = first
        self.last: i64 = last
        self.alone: bool = alone
        self._next: i64 = first
        self._named: dict[str, Link] = {}  # links that the peer has not answered
        self._handles: dict[int, int] = {}  # its handle -> ours

    def next_handle(self) -> i64:
        """Return a handle that no link has, or had a moment ago. Raises LimitExceeded."""
        session = self.session
        for _ in range(int(self.last - self.first) + 1):
            handle = self._next
            self._next = handle + 1 if handle < self.last else self.first
            if int(handle) not in session.links and int(handle) not in session.quiet:
                return handle
        raise LimitExceeded(f"the other side takes no link above the handle {self.last}, and all below it are in use")

    def attach(self, link: Link, role: bool, source: Source, target: Target) -> None:
        """Ask for the other end of ``link``."""
        link.session.links[int(link.handle)] = link
        self._named[link.name] = link
        asked = Attach(name=link.name, handle=link.handle, role=role, source=source, target=target)
        asked.snd_settle_mode = UNSETTLED
        if role == SENDER:
            asked.initial_delivery_count = 0
        if isinstance(link, (Sending, Taking)):
            link.asked(asked)
        link.session.say(asked)

    def take_from(
        self, name: str, address: str, capabilities: list[str], where: Destination, fetch: Fetch | None
    ) -> Taking:
        """Attach a link over which what is at ``address`` there comes to ``where``, or as ``fetch`` says.

        Raises Refused, LimitExceeded.
        """
        handle = self.next_handle()
        if fetch is None:
            link = Taking(self.session, name, handle, where)
            source = Source(address=address, capabilities=capabilities, outcomes=list(OUTCOMES))
            target = Target(address=where.name)
        else:
            link = fetch.link(self.session, name, handle)
            source = fetch.source(list(OUTCOMES))
            target = Target(address=source.address)
        self.attach(link, RECEIVER, source, target)
        return link

    # -- frames --------------------------------------------------------------------------------------------------------

    def ours(self, handle: i64) -> i64:
        """Return our handle of the link that the peer calls ``handle``."""
        return self._handles.get(int(handle), NOBODY if self.alone else int(handle))

    def takes(self, performative: Composite) -> bool:
        """Put our handle into a frame of the peer's; return whether it was an attach, and is done."""
        if isinstance(performative, Attach):
            link = self._named.pop(performative.name, None)
            if link is not None:
                self._handles[int(performative.handle)] = int(link.handle)
                if int(link.handle) in self.session.links:  # or it is not wanted any more: its end was said
                    _attached(link, performative)
                return True
            if not self.alone:
                return False
            self._serve(performative)
            return True
        if isinstance(performative, Flow):
            if performative.handle >= 0:
                performative.handle = self.ours(performative.handle)
        elif isinstance(performative, Detach):
            theirs = int(performative.handle)
            performative.handle = self.ours(performative.handle)
            self._handles.pop(theirs, None)
            link = self.session.links.get(int(performative.handle))
            if link is not None:
                _tell_why(link, performative.error)
        return False

    def _serve(self, asked: Attach) -> None:
        """The peer attaches a link of its own: for a federation that was ordered there. Raises ProtocolViolation."""
        session = self.session
        source = asked.source
        if session.federated is None:
            raise ProtocolViolation(f"the peer attaches a link {asked.name[:80]!r} that nobody asked for")
        handle = self.next_handle()
        self._handles[int(asked.handle)] = int(handle)
        asked.handle = handle
        try:
            if not asked.role or not isinstance(source, Source) or not is_federation(asked):
                raise AmqpRefused("nothing but what a policy means is read over this connection", NOT_ALLOWED)
            attach_reader(session, asked, source)
        except (Refused, StorageError) as error:
            refuse(session, asked, error)


def _attached(link: Link, said: Attach) -> None:
    """The peer has the other end, or none: then it detaches the link at once, and says why."""
    if isinstance(link, Sending):
        if said.target is not None:
            objection = link.objection(said)
            if objection:
                link.close()
                link.owner.ended(objection)
                return
            link.live = True
            link.most = max(said.max_message_size, i64(0))
            link.owner.attached()
    elif isinstance(link, Taking) and said.source is not None and not link.closing:
        objection = link.objection(said)
        if objection:
            link.close(objection)
            return
        link.count = max(said.initial_delivery_count, i64(0))
        link.owner.attached()
        link.replenish()


def said_in(error: Composite | None) -> str:
    """Return what an error of the peer says, behind a colon; "" for none."""
    if not isinstance(error, Error):
        return ""
    return f": {error.description or error.condition}"


def _tell_why(link: Link, error: Composite | None) -> None:
    why = said_in(error)
    if why and isinstance(link, (Sending, Taking)):
        link.why = f"the other side has closed the link{why}"
    if isinstance(link, Sending) and isinstance(error, Error):
        link.condition = error.condition
