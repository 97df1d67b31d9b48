"""Composites as plain values, to be compared."""

from __future__ import annotations

from entrepot.protocols.amqp.performatives import Composite, Unknown
from entrepot.protocols.amqp.schema import COMPOSITES

FIELDS = {each.name: [field.name for field in each.fields] for each in COMPOSITES}


def described(value: object) -> object:
    """Return what a composite says: its name and its fields."""
    if isinstance(value, Unknown):
        return ("Unknown", value.value)
    if isinstance(value, Composite):
        name = type(value).__name__
        return (name, {field: described(getattr(value, field)) for field in FIELDS[name]})
    return value
