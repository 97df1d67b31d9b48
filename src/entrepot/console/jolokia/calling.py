"""Arguments of an operation, as JSON brought them: fitted to what carries it out, or refused with what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

from entrepot.base.errors import Refused
from entrepot.console.numbers import whole

WHOLE: Final = {"int": 31, "java.lang.Integer": 31, "long": 63, "java.lang.Long": 63, "short": 15, "byte": 7}
"""Types of whole numbers, and how many bits the largest has."""
FLAGS: Final = ("boolean", "java.lang.Boolean")


def fitted(verb: Callable[..., Any], operation: str, given: Sequence[Any]) -> list[Any]:
    """Return ``given`` as ``verb`` takes it: numbers become texts where it takes texts. Raises Refused.

    What takes ``object`` looks at its arguments itself.
    """
    signature = inspect.signature(verb)
    takes = ", ".join(str(one) for one in signature.parameters.values())
    try:
        bound = signature.bind(*given)
    except TypeError as error:
        raise Refused(f"{operation}({takes}): {error}") from None
    found = []
    for name, value in bound.arguments.items():
        wanted = str(signature.parameters[name].annotation)
        several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        for one in value if several else (value,):
            found.append(_one(one, wanted, f"{operation}({takes}): {name}"))
    return found


def _one(value: Any, wanted: str, what: str) -> Any:
    if wanted not in ("str", "str | None") or isinstance(value, str):
        return value
    if value is None:
        return None if wanted != "str" else ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise Refused(f"{what} is a text, and not {str(value)[:40]!r}")


def read_as(value: Any, kind: str) -> Any:
    """Return a value as a type of Java; a text, as all are in the path of a GET, is read. None where it is none."""
    if kind in WHOLE:
        found = whole(value) if isinstance(value, str) else value
        return found if type(found) is int and -1 << WHOLE[kind] <= found < 1 << WHOLE[kind] else None
    if kind in FLAGS:
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.lower())
        return value if isinstance(value, bool) else None
    return value


def typed(value: Any, kind: str, name: str) -> Any:
    """Return the value for an attribute of a type. Raises Refused."""
    found = read_as(value, kind)
    if found is None or (kind == "java.lang.String" and not isinstance(value, str)):
        raise Refused(f"{name} is {str(value)[:40]!r}, and wants a {kind}", remedy="write a value of that type")
    return found
