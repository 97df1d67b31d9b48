"""Destination wildcards of both families, and the trie that finds the patterns which match a name. [C]

Decides whether a pattern matches, how a pattern reads in the other family's syntax, whether two patterns can meet, and
which of two is the more specific. Never decides what a match means: routing, policies and access do that.

A name is a list of words joined by a delimiter; words may be empty and are compared case-sensitively. A pattern is such
a list in which a whole word may be a wildcard; a wildcard character inside a longer word is an ordinary character.

==========  ===========  =======================  =================
syntax      one word     zero or more words       source
==========  ===========  =======================  =================
`CLASSIC`   ``*``        ``>``                    classic.md 4.1
`ARTEMIS`   ``*``        ``#``                    artemis.md 4.3
`MQTT`      ``+``        ``#``, delimiter ``/``   classic.md 6.4
`MIXED`     ``*``        ``#`` and ``>``          one broker, both families
==========  ===========  =======================  =================

Decision: "zero or more words" holds wherever the wildcard stands. Classic gives ``>`` a meaning at the end only; here
``A.>.B`` means what Artemis' ``A.#.B`` means, so that every pattern can be translated.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64

from entrepot.base.errors import Inexpressible, InvalidDestination, InvalidOption

T = TypeVar("T")

Rank = tuple[int, ...]
"""How specific a pattern is. Compare two ranks with ``<``: the smaller is the less specific."""

NAME_LENGTH_MAX: Final = 65_535  # MQTT, OpenWire and the journal carry a name behind a 16-bit length
WORDS_MAX: Final = 256  # matching costs up to words x words: 65,536 steps, a few ms in plain Python, are enough

LITERAL: Final = 2  # the kinds of a word, ordered by how much they tell
SINGLE: Final = 1
ANY: Final = 0


class Syntax:
    """How one family writes patterns. ``any_words`` lists the characters that mean it; the first is the one written."""

    __slots__ = ("any_words", "delimiter", "single")

    def __init__(self, delimiter: str = ".", single: str = "*", any_words: str = "#") -> None:
        symbols = delimiter + single + any_words
        if len(delimiter) != 1 or len(single) != 1 or not any_words or len(set(symbols)) != len(symbols):
            raise InvalidOption(
                f"wildcard syntax needs different characters, not {delimiter!r}, {single!r} and {any_words!r}",
                remedy="give one character each for delimiter, single-word and any-words",
            )
        self.delimiter: Final[str] = delimiter
        self.single: Final[str] = single
        self.any_words: Final[str] = any_words

    def kind(self, word: str) -> int:
        """Return ANY, SINGLE or LITERAL: what ``word`` means in a pattern."""
        if len(word) != 1:
            return LITERAL
        if word == self.single:
            return SINGLE
        return ANY if word in self.any_words else LITERAL

    def words(self, name: str) -> list[str]:
        """Return the words of ``name``. Raises InvalidDestination for one beyond `NAME_LENGTH_MAX` or `WORDS_MAX`."""
        if len(name) > NAME_LENGTH_MAX or name.count(self.delimiter) >= WORDS_MAX:
            raise InvalidDestination(
                f"a name of {len(name)} characters that begins {name[:40]!r} is too long or has too many words",
                remedy=f"use at most {NAME_LENGTH_MAX} characters and {WORDS_MAX} words",
            )
        return name.split(self.delimiter)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Syntax) and self._symbols() == other._symbols()

    def __hash__(self) -> int:
        return hash(self._symbols())

    def __repr__(self) -> str:
        return f"Syntax({self.delimiter!r}, {self.single!r}, {self.any_words!r})"

    def _symbols(self) -> str:
        return self.delimiter + self.single + self.any_words


CLASSIC: Final = Syntax(".", "*", ">")
ARTEMIS: Final = Syntax(".", "*", "#")
MQTT: Final = Syntax("/", "+", "#")
MIXED: Final = Syntax(".", "*", "#>")


def is_pattern(name: str, syntax: Syntax) -> bool:
    """Return whether a word of ``name`` is a wildcard. Raises InvalidDestination as `Syntax.words`."""
    return any(syntax.kind(word) != LITERAL for word in syntax.words(name))


def matches(pattern: str, name: str, syntax: Syntax) -> bool:
    """Return whether ``pattern`` matches ``name``, whose words are all literal, also those that look like wildcards.

    Costs at most words x words; for many patterns use `PatternTrie`. Raises InvalidDestination as `Syntax.words`.
    """
    wanted = syntax.words(pattern)
    words = syntax.words(name)
    at: i64 = 0  # in wanted
    index: i64 = 0  # in words
    retry_at: i64 = -1  # behind the last any-words passed; a mismatch lets that one take a word more
    retry_index: i64 = 0
    while index < len(words):
        if at < len(wanted):
            kind = syntax.kind(wanted[at])
            if kind == ANY:
                at += 1
                retry_at = at
                retry_index = index
                continue
            if kind == SINGLE or wanted[at] == words[index]:
                at += 1
                index += 1
                continue
        if retry_at < 0:
            return False
        retry_index += 1
        index = retry_index
        at = retry_at
    while at < len(wanted) and syntax.kind(wanted[at]) == ANY:
        at += 1
    return at == len(wanted)


def translate(pattern: str, source: Syntax, target: Syntax) -> str:
    """Return what ``pattern``, or a plain name, of ``source`` is called in ``target``; it matches the same names there.

    A literal stays literal: a word that would be a wildcard of the target becomes a symbol of the source that the
    target lacks, and the target's delimiter inside a word becomes the source's. Between syntaxes with one any-words
    character each, translating back gives the original. Between MQTT and Classic this is Classic's own mapping
    (classic.md 6.4), except that wildcard characters inside a longer word stay.
    Raises InvalidDestination as `Syntax.words`, and Inexpressible when no symbol is left (``>`` from Artemis to MIXED).
    """
    renamed = _renamed(source, target)
    words: list[str] = []
    for word in source.words(pattern):
        kind = source.kind(word)
        if kind == SINGLE:
            words.append(target.single)
        elif kind == ANY:
            words.append(target.any_words[0])
        elif word in renamed:
            words.append(renamed[word])
        elif word == target.delimiter or target.kind(word) != LITERAL:
            raise Inexpressible(f"{pattern!r} has the word {word!r}, which is no plain word in {target!r}")
        else:
            words.append(word.replace(target.delimiter, source.delimiter))
    return target.delimiter.join(words)


def _renamed(source: Syntax, target: Syntax) -> dict[str, str]:
    """Return what becomes of the symbols that only the target has: in order, the symbols that only the source has.

    With delimiter to delimiter and wildcard to wildcard that permutes the symbols of both, so that two different words
    never become the same.
    """
    ours = source.delimiter + source.single + source.any_words
    theirs = target.delimiter + target.single + target.any_words
    homeless = [symbol for symbol in theirs if symbol not in ours]
    vacant = [symbol for symbol in ours if symbol not in theirs]
    return dict(zip(homeless, vacant, strict=False))  # of different length only if one has several any-words


def overlaps(a: str, b: str, syntax: Syntax) -> bool:
    """Return whether some name is matched by both patterns: configuration that must be unambiguous asks this.

    Raises InvalidDestination as `Syntax.words`.
    """
    left = syntax.words(a)
    right = syntax.words(b)
    # meets[j]: the words of a not yet looked at (none at first) and right[j:] can match one common name.
    meets = [False] * (len(right) + 1)
    meets[len(right)] = True
    for j in range(len(right) - 1, -1, -1):
        meets[j] = meets[j + 1] and syntax.kind(right[j]) == ANY
    for i in range(len(left) - 1, -1, -1):
        kind = syntax.kind(left[i])
        row = [False] * (len(right) + 1)
        row[len(right)] = kind == ANY and meets[len(right)]
        for j in range(len(right) - 1, -1, -1):
            other = syntax.kind(right[j])
            if ANY in (kind, other):  # either matches no word, or takes one from the other side
                row[j] = meets[j] or row[j + 1]
            elif SINGLE in (kind, other) or left[i] == right[j]:
                row[j] = meets[j + 1]
        meets = row
    return meets[0]


def covers(wide: str, narrow: str, syntax: Syntax) -> bool:
    """Return whether every name that ``narrow`` matches is matched by ``wide`` too, as far as its words tell.

    True is certain. False may be wrong only where any-words stands before other words of ``narrow`` (``#.*`` covers the
    same names as ``*.#``): who grants rights by this grants too little then, never too much.
    Raises InvalidDestination as `Syntax.words`.
    """
    left = syntax.words(wide)
    right = syntax.words(narrow)
    # holds[j]: the words of wide not yet looked at (none at first) cover right[j:].
    holds = [False] * (len(right) + 1)
    holds[len(right)] = True
    for i in range(len(left) - 1, -1, -1):
        kind = syntax.kind(left[i])
        row = [False] * (len(right) + 1)
        row[len(right)] = kind == ANY and holds[len(right)]
        for j in range(len(right) - 1, -1, -1):
            if kind == ANY:
                row[j] = holds[j] or row[j + 1]
            elif kind == SINGLE:
                row[j] = syntax.kind(right[j]) != ANY and holds[j + 1]
            else:
                row[j] = syntax.kind(right[j]) == LITERAL and left[i] == right[j] and holds[j + 1]
        holds = row
    return holds[0]


def specificity(pattern: str, syntax: Syntax) -> Rank:
    """Return the rank by which settings merge, lowest first: ``#`` < ``a.#`` < ``a.*`` < ``a.b`` (artemis.md 4.2).

    A pattern with any-words ranks below one without, that below a plain name; then more literal words win, then more
    single words, then fewer any-words; between equals the one whose literals come first. So a pattern whose names are
    some, but not all, of those that another one matches always ranks above that one.
    """
    kinds: list[int] = []
    singles = 0
    literals = 0
    gaps = 0
    pending = False  # an any-words in the current run of wildcards, to stand once at its end: "#.*.#" is "*.#"
    lowest = LITERAL
    for word in syntax.words(pattern):
        kind = syntax.kind(word)
        lowest = min(lowest, kind)
        if kind == ANY:
            pending = True
            continue
        if kind == SINGLE:
            singles += 1
        else:
            literals += 1
            if pending:
                kinds.append(ANY)
                gaps += 1
                pending = False
        kinds.append(kind)
    if pending:
        kinds.append(ANY)
        gaps += 1
    return (lowest, literals, singles, -gaps, *kinds)


class _Entry(Generic[T]):
    """One value under one pattern; ``sequence`` is its place in the order of insertion."""

    __slots__ = ("pattern", "rank", "sequence", "value")

    def __init__(self, pattern: str, value: T, rank: Rank, sequence: int) -> None:
        self.pattern: Final[str] = pattern
        self.value: Final[T] = value
        self.rank: Final[Rank] = rank
        self.sequence: Final[int] = sequence


class _Node(Generic[T]):
    """What has been matched so far. ``loops``: reached by any-words, so that it stays reached whatever word follows."""

    __slots__ = ("any_words", "entries", "literals", "loops", "single", "visit")

    def __init__(self, loops: bool) -> None:
        self.loops: Final[bool] = loops
        self.visit: i64 = 0
        self.literals: dict[str, _Node[T]] = {}
        self.single: _Node[T] | None = None
        self.any_words: _Node[T] | None = None
        self.entries: list[_Entry[T]] = []

    def is_bare(self) -> bool:
        """Return whether nothing is at or below this node."""
        return not self.entries and not self.literals and self.single is None and self.any_words is None


def _by_sequence(entry: _Entry[T]) -> int:
    return entry.sequence


def _by_rank(entry: _Entry[T]) -> tuple[Rank, int]:
    return (entry.rank, entry.sequence)


class PatternTrie(Generic[T]):
    """Values under patterns, found by name. Plain names live in a dictionary, patterns with wildcards in a trie.

    A look-up advances through the trie with all live nodes at once, each visited once a word: it costs at most words of
    the name x nodes, whatever the patterns. Not to be used from two threads at once.

    ``version`` rises at every change: who caches an answer keeps the version beside it.
    """

    __slots__ = ("_exact", "_root", "_sequence", "_size", "_visit", "_wild", "syntax", "version")

    def __init__(self, syntax: Syntax) -> None:
        self.syntax: Final[Syntax] = syntax
        self.version: i64 = 0
        self._root: _Node[T] = _Node(False)
        self._exact: dict[str, list[_Entry[T]]] = {}
        self._wild: i64 = 0  # entries in the trie
        self._size: i64 = 0
        self._sequence: i64 = 0
        self._visit: i64 = 0

    def __len__(self) -> int:
        return self._size

    def insert(self, pattern: str, value: T, *, literal: bool = False) -> None:
        """Add ``value`` under ``pattern``, behind what is there; the same one twice is there twice.

        ``literal``: it is a plain name whatever it looks like (Artemis' literal-match-markers).
        Raises InvalidDestination as `Syntax.words`.
        """
        words = self.syntax.words(pattern)
        plain = literal or not is_pattern(pattern, self.syntax)
        rank: Rank = (LITERAL, len(words)) if plain else specificity(pattern, self.syntax)
        self._sequence += 1
        entry: _Entry[T] = _Entry(pattern, value, rank, self._sequence)
        if plain:
            self._exact.setdefault(pattern, []).append(entry)
        else:
            self._grow(words).entries.append(entry)
            self._wild += 1
        self._size += 1
        self.version += 1

    def remove(self, pattern: str, value: T, *, literal: bool = False) -> bool:
        """Take away the first ``value`` under this very pattern; return whether it was there."""
        if literal or not is_pattern(pattern, self.syntax):
            found = self._exact.get(pattern)
            if found is None or not _take(found, value):
                return False
            if not found:
                del self._exact[pattern]
        else:
            if not self._prune(self._root, self.syntax.words(pattern), 0, value):
                return False
            self._wild -= 1
        self._size -= 1
        self.version += 1
        return True

    def lookup(self, name: str) -> list[T]:
        """Return the values whose patterns match ``name``, in the order of insertion. Raises as `Syntax.words`."""
        found = self._found(name)
        if len(found) > 1:
            found.sort(key=_by_sequence)
        return [entry.value for entry in found]

    def lookup_ranked(self, name: str) -> list[T]:
        """Return the values whose patterns match ``name``, least specific first; equals in the order of insertion."""
        found = self._found(name)
        if len(found) > 1:
            found.sort(key=_by_rank)
        return [entry.value for entry in found]

    def items(self) -> list[tuple[str, T]]:
        """Return every pattern with its value, in the order of insertion."""
        found: list[_Entry[T]] = []
        for entries in self._exact.values():
            found.extend(entries)
        pending: list[_Node[T]] = [self._root]
        while pending:
            node = pending.pop()
            found.extend(node.entries)
            pending.extend(node.literals.values())
            if node.single is not None:
                pending.append(node.single)
            if node.any_words is not None:
                pending.append(node.any_words)
        found.sort(key=_by_sequence)
        return [(entry.pattern, entry.value) for entry in found]

    def _found(self, name: str) -> list[_Entry[T]]:
        """Return matching entries in no order, in a fresh list."""
        found: list[_Entry[T]] = []
        exact = self._exact.get(name)
        if exact is not None:
            found.extend(exact)
        if self._wild == 0:
            return found
        live: list[_Node[T]] = []
        self._visit += 1
        self._reach(self._root, live)
        for word in self.syntax.words(name):
            reached: list[_Node[T]] = []
            self._visit += 1
            for node in live:
                if node.loops:
                    self._reach(node, reached)
                literal = node.literals.get(word)
                if literal is not None:
                    self._reach(literal, reached)
                single = node.single
                if single is not None:
                    self._reach(single, reached)
            if not reached:
                return found
            live = reached
        for node in live:
            found.extend(node.entries)
        return found

    def _reach(self, node: _Node[T], reached: list[_Node[T]]) -> None:
        """Add ``node``, and what follows it by any-words that match no word, unless this visit has been there."""
        following: _Node[T] | None = node
        while following is not None and following.visit != self._visit:
            following.visit = self._visit
            reached.append(following)
            following = following.any_words

    def _grow(self, words: list[str]) -> _Node[T]:
        """Return the node of the pattern ``words``, made where missing."""
        node = self._root
        for word in words:
            kind = self.syntax.kind(word)
            following: _Node[T] | None
            if kind == ANY:
                following = node.any_words
            elif kind == SINGLE:
                following = node.single
            else:
                following = node.literals.get(word)
            if following is None:
                following = _Node(kind == ANY)
                if kind == ANY:
                    node.any_words = following
                elif kind == SINGLE:
                    node.single = following
                else:
                    node.literals[word] = following
            node = following
        return node

    def _prune(self, node: _Node[T], words: list[str], at: i64, value: T) -> bool:
        """Take ``value`` from the node of ``words[at:]`` below ``node``, then the nodes that became bare."""
        if at == len(words):
            return _take(node.entries, value)
        word = words[at]
        kind = self.syntax.kind(word)
        following: _Node[T] | None
        if kind == ANY:
            following = node.any_words
        elif kind == SINGLE:
            following = node.single
        else:
            following = node.literals.get(word)
        if following is None or not self._prune(following, words, at + 1, value):
            return False
        if following.is_bare():
            if kind == ANY:
                node.any_words = None
            elif kind == SINGLE:
                node.single = None
            else:
                del node.literals[word]
        return True


def _take(entries: list[_Entry[T]], value: T) -> bool:
    """Remove the first entry that holds ``value`` (the same object, or an equal one); return whether there was one."""
    for index, entry in enumerate(entries):
        if entry.value is value or entry.value == value:
            del entries[index]
            return True
    return False
