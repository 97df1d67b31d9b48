"""What decision records quote of the source is measured as they say."""

from __future__ import annotations

from pathlib import Path

from figures import Figures, at, column, shown

SOURCE = '''"""A module."""

import os  # a comment


class Large:
    """A class."""

    def __init__(self) -> None:
        """Nothing."""
        self.one = 1

    def many(self):
        return [each for each in os.environ if each] or 1
'''


def test_a_file_is_measured(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SOURCE)
    (tmp_path / "b.py").write_text('"""Written by ``tools/x.py``, not this."""\n\n\nclass No:\n    x: int\n')
    found = Figures(tmp_path)
    assert (found.files, found.written) == ([14, 5], [14])
    assert (sorted(found.functions), sorted(found.complexities)) == ([2, 2], [1, 4])
    assert (found.annotated, found.public, found.documented) == (1, 1, 0)
    assert (found.comments, found.docstrings) == (1, 4)
    assert [(each.methods, each.attributes, each.name) for each in found.classes] == [(2, 1, "a.py:Large")]
    assert "annotated returns: 50%" in list(shown(found, found))
    assert "| annotated returns | 50 % |" in list(column(found, found))


def test_percentiles_are_values_that_there_are() -> None:
    assert [at([3, 1, 2, 4], share) for share in (0.0, 0.5, 0.9)] == [1, 3, 4]
