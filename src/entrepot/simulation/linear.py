"""Whether a history of reads and swaps could have happened one after the other: a checker of one versioned register.

A history is linearisable when each operation can be given an instant between its call and its answer so that, in the
order of those instants, each finds what it says it found (Herlihy, Wing 1990). In general that is a search; here each
version is made by one swap, so it is enough to find an instant for each version: not before its swap was called, not
after it was answered, after the version before it, and so that every read saw the version of some moment of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

FOREVER: Final = 1 << 62


class Call(NamedTuple):
    """One operation of ``who``, called and answered at these instants; ``answered`` FOREVER: nobody knows what became.

    ``expected`` None: a read, which found ``version`` with ``octets``. Else a swap that wanted to write ``octets``:
    ``version`` is what it made, -1 for a refusal, 0 where nobody knows.
    """

    who: str
    called: int
    answered: int
    expected: int | None
    octets: bytes
    version: int


class History:
    """What was done to one register. Call `check` at the end."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def check(self) -> list[str]:
        """Return what cannot be; nothing for a history that is linearisable."""
        made, wrong = self._makers()
        if wrong:
            return wrong
        last = max([call.version for call in self.calls], default=0)
        low, high = [0] * (last + 2), [FOREVER] * (last + 2)
        high[0] = -1  # nobody ever waited for it
        for version in range(1, last + 1):
            makers = made.get(version, [])
            if not makers:
                return [f"version {version} is there and nobody made it"]
            low[version] = min(call.called for call in makers)
            high[version] = max(call.answered for call in makers)
        for call in self.calls:
            if call.version < 0 or (call.expected is not None and call.version == 0):
                continue
            high[call.version] = min(high[call.version], call.answered)
            if call.expected is None:
                low[call.version + 1] = max(low[call.version + 1], call.called)
        return self._order(low, high) or self._refusals(low, high)

    def _makers(self) -> tuple[dict[int, list[Call]], list[str]]:
        """Return who may have made each version, and what contradicts itself."""
        contents: dict[int, bytes] = {0: b""}
        wrong: list[str] = []
        done: dict[int, Call] = {}
        for call in self.calls:
            if call.version < 0 or (call.expected is not None and call.version == 0):
                continue
            if contents.setdefault(call.version, call.octets) != call.octets:
                wrong.append(f"{call.who}: version {call.version} is {call.octets!r} and {contents[call.version]!r}")
            if call.expected is not None:
                if call.version in done:
                    wrong.append(f"{call.who} and {done[call.version].who} both made version {call.version}")
                done[call.version] = call
        found: dict[int, list[Call]] = {}
        for call in self.calls:
            if call.expected is None or call.version < 0:
                continue
            version = call.version or call.expected + 1
            if version in done and done[version] is not call:
                continue
            if version in contents and contents[version] == call.octets:
                found.setdefault(version, []).append(call)
        return found, wrong

    def _order(self, low: list[int], high: list[int]) -> list[str]:
        """Give each version the earliest instant that it may have; tell of the first that has none."""
        for version in range(1, len(low)):
            low[version] = max(low[version], low[version - 1])
            if low[version] > high[version]:
                return [f"version {version} is seen before it can be there, or {version - 1} after it is gone"]
        return []

    def _refusals(self, low: list[int], high: list[int]) -> list[str]:
        """A swap may be refused only if the register may have been elsewhere at some moment of its own."""
        wrong: list[str] = []
        for version in range(len(high) - 2, -1, -1):
            high[version] = min(high[version], high[version + 1])
        for call in self.calls:
            if call.expected is None or call.version >= 0:
                continue
            version = call.expected
            gone = version + 1 < len(low) - 1 and low[version + 1] <= call.answered
            to_come = version >= len(high) - 1 or high[version] >= call.called
            if not gone and not to_come:
                wrong.append(f"{call.who}: a swap of version {version} was refused while it was there")
        return wrong
