"""Brokers whose lease a majority of voters keeps, from one seed: everything that `pairs.py` does to brokers, and more.

The voters crash, lose the last write of their disk or all of it, and are admitted again or replaced by others; wires
are cut in one direction, or let nothing through for a while. Half of the worlds have no shared store that remembers
epochs, as with replication: there nothing but the register keeps two from having one. Checked beside what `pairs.py`
checks: no two brokers hold the lease at one moment, and what was read and swapped is linearisable (`linear.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import OperatorError
from entrepot.ha import candidate
from entrepot.ha.lease import Record, decode
from entrepot.ha.reform import reform
from entrepot.ha.register import Ask, Course, Found, Outcome, Proposer
from entrepot.ha.votes import Answer, Roster
from entrepot.simulation.linear import FOREVER, Call, History
from entrepot.simulation.pairs import Member, Pair, Standby
from entrepot.simulation.quorum_bugs import PLANTED, PROPOSERS
from entrepot.simulation.voters import VoterHost, Wires

__all__ = ["PLANTED", "Quorum"]

GRACE: Final = 20 * MILLISECOND
"""For how long a shell waits for those who are not needed."""

Finished = Callable[[Outcome | None], None]


class Asker:
    """What `io/quorum.py` is for a process: carries courses out, one at a time, each within its time."""

    def __init__(self, quorum: Quorum, member: Member, proposer: Proposer) -> None:
        self.quorum: Final = quorum
        self.member: Final = member
        self.proposer: Final = proposer
        self._course: Course | None = None
        self._finished: Finished = lambda outcome: None
        self._turn = 0

    def carry_out(self, course: Course, within: Duration, finished: Finished) -> None:
        """Have ``course`` end in ``finished``, with None when the time is over before."""
        self._turn += 1
        turn = self._turn
        self._course = course
        self._finished = finished
        self._act(course.begin)
        self.member.later(within, lambda: self._end(None) if turn == self._turn else None)

    def _act(self, action: Callable[[], list[Ask]]) -> None:
        try:
            asks = action()
        except OperatorError as error:
            self.quorum.world.count(f"refused: {type(error).__name__}")
            self._end(None)
            return
        for ask in asks:
            self._send(ask)
        self._look()

    def _send(self, ask: Ask) -> None:
        course = self._course
        assert course is not None

        said: list[Answer] = []

        def answered() -> None:
            if course is self._course:
                self._act(lambda: course.answered(ask.address, ask.tag, said[0]))

        def failed() -> None:
            if course is self._course:
                self._act(lambda: course.failed(ask.address, ask.tag))

        heard = self.member.mine(answered)  # by this process, or by nobody

        def hear(answer: Answer) -> None:
            said.append(answer)
            heard()

        self.quorum.wires.ask(self.member.name, self.proposer.who, ask.address, ask.request, hear)
        self.member.later(self.quorum.timeouts.between(100, 300) * MILLISECOND, failed)

    def _look(self) -> None:
        course = self._course
        if course is None:
            return
        if course.outcome is not None:
            self._end(course.outcome)
        elif course.pausing:
            delay = self.quorum.timeouts.between(1, 40) * MILLISECOND
            self.member.later(delay, lambda: self._act(course.again) if course is self._course else None)
        elif course.lapses:
            self.member.later(GRACE, lambda: self._act(course.lapse) if course is self._course else None)

    def _end(self, outcome: Outcome | None) -> None:
        self._turn += 1
        self._course = None
        finished, self._finished = self._finished, lambda outcome: None
        finished(outcome)


class QuorumStandby(Standby):
    """Talks to voters instead of a lock service."""

    def __init__(self, member: Member, quorum: Quorum) -> None:
        super().__init__(member)
        self.quorum: Final = quorum
        self.asker: Final = Asker(quorum, member, quorum.proposer_of(self.record.instance))
        self._last: candidate.Sight | None = None
        self._admitting = False

    def look(self) -> None:
        last = self._last
        about = "" if last is None or last.record is None or last.record.released else last.record.instance
        called = self.world.time

        def finished(outcome: Outcome | None) -> None:
            if not isinstance(outcome, Found):
                self.doubted()
                return
            self.quorum.history.calls.append(
                Call(self.record.instance, called, self.world.time, None, outcome.octets, outcome.version)
            )
            record = decode(outcome.octets)
            gone = outcome.gone and record is not None and record.instance == about
            if gone:
                self.world.count("deaths that were seen")
            system = candidate.System.PROVED if gone else candidate.System.NONE
            sight = self._last = candidate.Sight(record, outcome.version, system=system)
            self.perform(self.candidate.seen(sight, self.member.now()))
            self._admit()

        self.asker.carry_out(self.asker.proposer.read(about), self.quorum.lease.renew_every, finished)

    def _swap(self, version: int) -> None:
        record = self.record
        if self.candidate.state is candidate.State.CLAIMING and self.quorum.shares:
            hung = self.pair.disk.hangs(self.member.name)
            self.member.later(hung, lambda: self._claim(version))
            return
        self._put(version, record)

    def _claim(self, version: int) -> None:
        record = self.record
        if self.pair.store.claim(record.epoch, record.instance):
            self._put(version, record)
        else:
            self.world.count("epochs claimed before")
            self.perform(self.candidate.swapped(-1, self.member.now()))
            self.over()

    def _put(self, version: int, record: Record) -> None:
        octets = record.encode()
        history = self.quorum.history
        place = len(history.calls)
        history.calls.append(Call(record.instance, self.world.time, FOREVER, version, octets, 0))
        before = self._last.record if self._last is not None else None
        if record.beat == 1 and not record.released:
            reserved = before.reserved if before is not None and before.released else ""
            self.quorum.reserved_before[record.instance] = (reserved, self.quorum.given_at)

        def finished(outcome: Outcome | None) -> None:
            if not isinstance(outcome, Found):
                self.doubted()
                return
            history.calls[place] = history.calls[place]._replace(answered=self.world.time, version=outcome.version)
            if outcome.version > 0 and decode(octets) is not None and record.released:
                self.quorum.given_at = self.world.time
            self.perform(self.candidate.swapped(outcome.version, self.member.now()))
            self.over()

        self.asker.carry_out(self.asker.proposer.swap(version, octets), self.quorum.lease.renew_every, finished)

    def _recall(self) -> None:
        if self.quorum.shares:
            super()._recall()
        else:  # nothing but the register knows
            memory = candidate.Memory(0, self.pair.lease.duration, empty=True)
            self.perform(self.candidate.recalled(memory, self.member.now(), 0))

    def _admit(self) -> None:
        """A voter that lost its store is there again: have it admitted, as `io/quorum.py` does beside all this."""
        if self._admitting or not self.asker.proposer.strangers or self.asker.proposer.roster is None:
            return
        self._admitting = True
        self.quorum.change(self.member, self.asker.proposer.roster.addresses(), self._admitted)

    def _admitted(self) -> None:
        self._admitting = False


class Quorum(Pair):
    """Two or three brokers, three or five voters."""

    def prepare(self) -> None:
        """Set up the voters."""
        lots = self.world.lots("voters")
        self.faults = self.world.lots("faults of voters")
        self.timeouts = self.world.lots("timeouts")
        self.shares = lots.chance(0.5)
        count = 5 if lots.chance(0.3) else 3
        self.hosts = [VoterHost(self.world, f"voter{number}", self.planted) for number in range(count + 1)]
        self.wires = Wires(self.world, self.hosts)
        self.history = History()
        self.first = tuple(host.address for host in self.hosts[:count])
        self.wanted = self.first
        self.changes = 0
        self.replacing = False  # an operator is at it
        self.frees = False
        self.world.later(self.faults.skewed(100 * MILLISECOND, 4 * SECOND), self._befall_voters)

    def proposer_of(self, who: str) -> Proposer:
        """Return the proposer of a process."""
        roster = self._roster()
        made = PROPOSERS.get(self.planted, Proposer)(who, self.first if roster is None else roster.addresses())
        return made

    def _roster(self) -> Roster | None:
        """Return who votes, as nobody inside could know it for certain."""
        known = [state.roster for host in self.hosts for state in host.places if state.roster is not None]
        return max(known, default=None)

    def standby_of(self, member: Member) -> Standby:
        """Return what talks to the voters for ``member``."""
        return QuorumStandby(member, self)

    def died(self, member: Member) -> None:
        """The voters that its kernel reaches hear of it."""
        self.wires.end(member.name, member.standby.record.instance)

    # -- voters --------------------------------------------------------------------------------------------------------

    def change(self, member: Member, wanted: tuple[str, ...], finished: Callable[[], None]) -> None:
        """Have ``member`` ask for another set of voters."""
        self.changes += 1
        asker = Asker(self, member, Proposer(f"{member.name}/change{self.changes}", wanted))
        self.world.count("changes of voters that are asked for")

        def ended(outcome: Outcome | None) -> None:
            self.world.count("changes of voters" if outcome is not None else "changes of voters that take too long")
            finished()

        asker.carry_out(reform(asker.proposer, wanted), 3 * SECOND, ended)

    def _befall_voters(self) -> None:
        if not self.trouble:
            return
        lots = self.faults
        host = lots.one_of(self.hosts)
        what = lots.fraction()
        length = lots.skewed(10 * MILLISECOND, 8 * SECOND)
        if what < 0.25:
            host.crash(length, loses="write" if lots.chance(0.5) else "")
        elif what < 0.33 and self._spare(host):
            host.crash(length, loses="store")
        elif what < 0.75:
            self._cut(length)
        elif what < 0.8:
            self._replace()
        self.world.later(lots.skewed(5 * MILLISECOND, 2 * SECOND), self._befall_voters)

    def _spare(self, host: VoterHost) -> bool:
        """Say whether all other voters have what they were admitted with: one at a time may lose its store."""
        roster = self._roster()
        if roster is None:
            return False
        whole = {each.address: each.newest for each in self.hosts}
        nexts = [state.value.following for state in whole.values() if state.value.following is not None]
        changing = self.replacing or any(following.number > roster.number for following in nexts)
        if changing and not self.planted:  # worlds with a bug keep the plans with which it was found
            return False  # a store that is lost in the middle of a change takes an operator
        others = [seat for seat in roster.seats if seat.address != host.address]
        return all(whole[seat.address].store == seat.store and whole[seat.address].roster == roster for seat in others)

    def _cut(self, length: Duration) -> None:
        """Cut one broker, or all of them, from some voters: there, back, or both."""
        lots = self.faults
        members = [lots.one_of(self.members)] if lots.chance(0.8) else list(self.members)
        hosts = [host for host in self.hosts if lots.chance(0.6)]
        way = lots.fraction()
        self.world.count("cuts")
        for member in members:
            for host in hosts:
                if way < 0.7:
                    self.wires.cut[member.name, host.address] = True
                if way > 0.3:
                    self.wires.cut[host.address, member.name] = True
                if self.planted == "a cut is a death":
                    host.ended[member.standby.record.instance] = True
        self.world.later(length, lambda: self._heal(members, hosts))

    def _heal(self, members: list[Member], hosts: list[VoterHost]) -> None:
        for member in members:
            for host in hosts:
                self.wires.cut.pop((member.name, host.address), None)
                self.wires.cut.pop((host.address, member.name), None)

    def _replace(self) -> None:
        """An operator has another machine vote."""
        roster = self._roster()
        member = self.faults.one_of(self.members)
        if roster is None or not member.alive or member.paused:
            return
        there = roster.addresses()
        spare = [host for host in self.hosts if host.address not in there]
        leaving = self.faults.one_of(there)
        if len(spare) != 1 or not self._spare(self.wires.hosts[leaving]):
            return
        if spare[0].places[0].roster is not None:
            spare[0].crash(SECOND, loses="store")  # it was a voter once: it begins anew
            return
        wanted = tuple(address for address in (*there, spare[0].address) if address != leaving)
        self.replacing = True
        self.change(member, wanted, self._replaced)

    def _replaced(self) -> None:
        self.replacing = False

    # -- what must be true ---------------------------------------------------------------------------------------------

    def run(self, length: Duration = 60 * SECOND) -> list[str]:
        """As `Pair.run`, and the history of the register must be one that can be."""
        super().run(length)
        for wrong in self.history.check()[:1]:
            self.world.violation(f"not linearisable: {wrong}")
        self.world.count("reads and swaps", len(self.history.calls))
        return self.world.violations

    def _calm(self) -> None:
        super()._calm()
        self.wires.calm()

    def _check(self) -> None:
        super()._check()
        holders = [each.name for each in self.members if each.alive and self._holds(each)]
        if len(holders) > 1:
            self.world.violation(f"{' and '.join(holders)} hold the lease at the same time")

    @staticmethod
    def _holds(member: Member) -> bool:
        tenure = member.standby.candidate.tenure
        releasing = member.standby.candidate.state in (
            candidate.State.RELEASING,
            candidate.State.PARTING,
            candidate.State.ENDED,
        )
        return not releasing and tenure.holds(member.now())
