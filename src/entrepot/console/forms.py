"""What a form says: read from its body, a value for each name."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from entrepot.base.errors import LimitExceeded, Refused

FIELDS_MOST: Final = 100
FORM_MAX: Final = 1024 * 1024  # octets


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises Refused, LimitExceeded."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refused("that is no form")
    body = await request.body()
    if len(body) > FORM_MAX:
        raise LimitExceeded(f"the form is longer than {FORM_MAX} octets")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MOST))
    except ValueError:
        raise Refused("the form cannot be read") from None
