"""A message of any protocol is read by whoever finds it in a journal, and nothing is loaded before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from entrepot.protocols.languages import FOLDERS

PROGRAM = """
import sys
from entrepot.model.message import language
from entrepot.protocols.languages import offer_languages
offer_languages()
offer_languages()
code, folder = int(sys.argv[1]), "entrepot.protocols." + sys.argv[2]
assert not [name for name in sys.modules if name.startswith(folder)]
found = language(code)
assert type(found).__module__ == folder + ".convert", type(found).__module__
assert language(code) is found
"""


@pytest.mark.parametrize("code", FOLDERS)
def test_what_reads_a_message_is_loaded_with_the_first(code: int) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(code), FOLDERS[code]], check=True)
