"""Which columns are read."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.pipeline import schema


def test_columns_are_chosen_in_the_order_that_is_asked_for() -> None:
    assert schema.ddl(schema.chosen("text, priority")) == "text string, priority int"
    assert schema.ddl(schema.chosen("")) == schema.DDL
    schema.check_chosen([("text", "string")], "text")
    schema.check_chosen([("text", "string")], "")


@pytest.mark.parametrize("text", ["colour", "text,text", "text colour"])
def test_columns_that_are_not_there_or_twice_are_refused(text: str) -> None:
    with pytest.raises(InvalidOption):
        schema.chosen(text)


def test_a_schema_that_is_not_what_the_option_names_is_refused() -> None:
    with pytest.raises(InvalidOption, match="differ"):
        schema.check_chosen([("text", "string")], "priority")


def test_properties_are_read_as_types_that_a_text_can_be() -> None:
    schema.check_typed([("price", "double"), ("count", "int"), ("region", "string")])
    for wrong in ([("price", "decimal(10,2)")], [("price", "map<string,string>")], [("a", "int"), ("A", "int")], []):
        with pytest.raises(InvalidOption):
            schema.check_typed(wrong)
