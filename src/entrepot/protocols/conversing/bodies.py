"""The bodies of messages as programs have them: the Python type is the message's kind.

====================  ===========================================
``str``               text
``bytes``             bytes
``dict``              map: text to bool, int, float, str, bytes, None
``list``              stream: a row of the same
`SerializedObject`    an object that Java serialised; never opened
``None``              no body
====================  ===========================================
"""

from __future__ import annotations


class SerializedObject(bytes):
    """The octets of an object that Java serialised. They are passed on and never opened."""


Body = str | bytes | dict[str, object] | list[object] | None
