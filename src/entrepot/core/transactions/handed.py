"""What is said of a prepared branch by the broker that gives it away, with each of its messages. [C]

```text
 16 octets     4 octets     4 octets   the rest
+-------------+------------+----------+------------------------+
| token       | deliveries | messages | who prepared it, UTF-8 |
+-------------+------------+----------+------------------------+
```

The *token* is drawn when the branch is given. Who takes the branch remembers it, on disk, with the promise: it can say
later that it had this branch, whatever became of that since. *deliveries*: of a message that the branch has taken, how
often it was delivered before. *messages*: how many the branch has; with fewer, or more, it is not prepared. Numbers are
big-endian.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.transactions.transaction import Transaction

TOKEN_OCTETS: Final = 16
_HEAD_OCTETS: Final = TOKEN_OCTETS + 8
NUMBER_MAX: Final = (1 << 31) - 1


def write_handed(token: bytes, deliveries: i64, messages: i64, owner: str) -> bytes:
    """Return the octets of it."""
    numbers = min(int(deliveries), NUMBER_MAX).to_bytes(4, "big") + int(messages).to_bytes(4, "big")
    return token + numbers + owner.encode("utf-8", "surrogatepass")


def read_handed(said: bytes, transaction: Transaction) -> i64:
    """Note in ``transaction`` what is said of the branch; return the deliveries. What is too short says nothing."""
    if len(said) < _HEAD_OCTETS:
        return 0
    transaction.token = said[:TOKEN_OCTETS]
    transaction.promised = int.from_bytes(said[TOKEN_OCTETS + 4 : _HEAD_OCTETS], "big")
    transaction.came += 1
    transaction.owner = said[_HEAD_OCTETS:].decode("utf-8", "replace")
    return min(int.from_bytes(said[TOKEN_OCTETS : TOKEN_OCTETS + 4], "big"), NUMBER_MAX)


def is_among(one: bytes, ids: bytes) -> bool:
    """Return whether ``one``, an id of 8 octets, is among ``ids``."""
    for at in range(0, len(ids) - 7, 8):  # noqa: SIM110 - a loop compiles to half the time of a generator
        if ids[at : at + 8] == one:
            return True
    return False
