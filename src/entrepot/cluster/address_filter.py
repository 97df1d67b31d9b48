"""Which addresses a cluster connection or a mirror is about, as its file says it: by their beginnings."""

from __future__ import annotations


class AddressFilter:
    """The addresses with one of the beginnings that ``text`` names, all where it names none.

    There are commas between them. One behind a ! excludes, whatever another one includes (artemis.md 1.9, 2.8).
    """

    def __init__(self, text: str) -> None:
        words = [word.strip() for word in text.split(",")]
        self.included: tuple[str, ...] = tuple(word for word in words if word and not word.startswith("!"))
        self.excluded: tuple[str, ...] = tuple(word[1:] for word in words if word.startswith("!") and word != "!")

    def covers(self, address: str) -> bool:
        """Return whether it is about ``address``."""
        if address.startswith(self.excluded):
            return False
        return not self.included or address.startswith(self.included)

    def meets(self, other: AddressFilter) -> bool:
        """Return whether there may be an address that both are about."""
        excluded = self.excluded + other.excluded
        for mine in self.included or ("",):
            for theirs in other.included or ("",):
                longer, shorter = (mine, theirs) if len(mine) > len(theirs) else (theirs, mine)
                if longer.startswith(shorter) and not longer.startswith(excluded):
                    return True
        return False
