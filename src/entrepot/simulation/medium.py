"""What a simulated disk holds, what of it is durable, and what a crash leaves.

At a crash each write, cut, new name and removal since the last sync survives, is lost, or (a write) is torn at
512-octet sectors, each decided by itself: so later ones may survive where earlier ones did not.
"""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.environment import Entropy
from entrepot.base.errors import StorageError

SECTOR = 512


class Effect:
    """One change of the disk that is not durable yet: a write, a cut, a new name, a rename or a removal."""

    def __init__(self, kind: str, name: str, *, offset: int = 0, octets: bytes = b"", target: str = "") -> None:
        self.kind = kind
        self.name = name
        self.offset = offset
        self.octets = octets
        self.target = target
        self.serial = 0
        self.left = False  # by a process that is gone: a sync of another one knows of no such change

    def changes_names(self) -> bool:
        """Say whether it is a matter of the directory rather than of a file's content."""
        return self.kind in ("create", "rename", "drop")

    def apply(self, files: dict[str, bytearray]) -> None:
        """Carry it out. A change of a file that does not exist (its creation was lost) changes nothing."""
        if self.kind == "create":
            files.setdefault(self.name, bytearray())
        elif self.kind == "drop":
            files.pop(self.name, None)
        elif self.name in files:
            if self.kind == "rename":
                files[self.target] = files.pop(self.name)
            elif self.kind == "cut":
                del files[self.name][self.offset :]
            else:
                place(files[self.name], self.offset, self.octets)


Covers = Callable[[Effect], bool]


class Medium:
    """``view``: the files as they are read. ``durable``: as they are after a crash that loses every effect."""

    def __init__(self) -> None:
        self.view: dict[str, bytearray] = {}
        self.durable: dict[str, bytearray] = {}
        self.serial = 0
        self._effects: list[Effect] = []

    def note(self, effect: Effect) -> None:
        """Take up a change that `view` shows already, or will."""
        self.serial += 1
        effect.serial = self.serial
        self._effects.append(effect)

    def harden(self, upto: int, covers: Covers) -> None:
        """Make the changes up to serial ``upto`` that it ``covers`` durable.

        What a former process left is covered where this one has changed the same file, or the same directory.
        """
        kept: list[Effect] = []
        mine = [each for each in self._effects if not each.left and each.serial <= upto and covers(each)]
        files = {each.name: True for each in mine if not each.changes_names()}
        names = any(each.changes_names() for each in mine)
        for effect in self._effects:
            known = not effect.left or (names if effect.changes_names() else effect.name in files)
            if effect.serial <= upto and covers(effect) and known:
                effect.apply(self.durable)
            else:
                kept.append(effect)
        self._effects = kept

    def carry_through(self, name: str) -> None:
        """Make all changes of one file durable."""
        self.harden(self.serial, lambda effect: effect.name == name)

    def crash(self, entropy: Entropy, *, tear: bool) -> None:
        """Decide what of the changes survives; ``tear`` off: they survive or are lost as wholes."""
        for effect in self._effects:
            self._survive(effect, entropy, tear=tear)
        self._show_durable()

    def settle(self) -> None:
        """Make all changes durable, as a process does with what the last one left."""
        for effect in self._effects:
            effect.left = False
        self.harden(self.serial, everything)

    def stop(self) -> None:
        """All changes survive."""
        self.settle()
        self._show_durable()

    def leave(self, upto: int) -> None:
        """A process ends: changes behind serial ``upto`` were only asked for; others are there to be read, unsynced."""
        self._effects = [effect for effect in self._effects if effect.serial <= upto]
        for effect in self._effects:
            effect.left = True
        self.show()

    def show(self) -> None:
        """Let the view be what was carried out: what somebody only asked for has gone with him."""
        self.view = {name: bytearray(content) for name, content in self.durable.items()}
        for effect in self._effects:
            effect.apply(self.view)

    def take_over(self, other: Medium) -> None:
        """Have the changes of ``other`` that are not durable, too."""
        self._effects = list(other._effects)
        self.serial = other.serial

    def _show_durable(self) -> None:
        self._effects = []
        self.view = {name: bytearray(content) for name, content in self.durable.items()}

    def _survive(self, effect: Effect, entropy: Entropy, *, tear: bool) -> None:
        lot = entropy.fraction()
        if lot < 0.4:
            return
        if effect.kind != "write" or lot < 0.7 or not tear:
            effect.apply(self.durable)
            return
        octets = effect.octets
        at = 0
        while at < len(octets):
            size = SECTOR - (effect.offset + at) % SECTOR
            if entropy.fraction() < 0.6:
                piece = octets[at : at + size]
                Effect("write", effect.name, offset=effect.offset + at, octets=piece).apply(self.durable)
            at += size

    def used(self) -> int:
        """Return the octets of all files."""
        return sum(len(content) for content in self.view.values())

    def found(self, name: str) -> bytearray:
        """Return a file as it is read. Raises StorageError when there is none."""
        content = self.view.get(name)
        if content is None:
            raise StorageError(f"cannot read {name}: no such file")
        return content

    # -- damage --------------------------------------------------------------------------------------------------------

    def damage(self, name: str, offset: int, mask: int = 0xFF) -> bool:
        """Flip bits of one durable octet; False when the file is not durable yet."""
        if name not in self.durable:
            return False
        self.durable[name][offset] ^= mask
        self.view[name][offset] ^= mask
        return True

    def shorten(self, name: str, length: int) -> bool:
        """Lose what a durable file has behind ``length``; False when the file is not durable yet."""
        if name not in self.durable:
            return False
        del self.durable[name][length:]
        del self.view[name][length:]
        return True

    def lose(self, name: str) -> None:
        """Lose a durable file."""
        self.durable.pop(name, None)
        self.view.pop(name, None)


def everything(effect: Effect) -> bool:
    """A sync covers all."""
    return True


def place(content: bytearray, offset: int, octets: bytes) -> None:
    """Write into ``content``, filling a gap before ``offset`` with zeros."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(octets)] = octets
