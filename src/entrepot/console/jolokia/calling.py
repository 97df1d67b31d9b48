"""Arguments of an operation, as JSON brought them: fitted to what carries it out, or refused with what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from entrepot.base.errors import Refused


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
