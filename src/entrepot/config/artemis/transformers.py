"""Transformers that a ``broker.xml`` names: of diverts, bridges and federations (artemis.md 4.15)."""

from __future__ import annotations

from entrepot.base.errors import Refused
from entrepot.config.artemis.reading import PartReader
from entrepot.config.artemis.transformer_elements import CLASS
from entrepot.config.reading import Bean
from entrepot.model.headers import Headers, headers_of


def headers_in(reader: PartReader, bean: Bean) -> Headers:
    """Return what the transformer of ``bean`` sets on messages; one that cannot run here is an error."""
    one, name = bean.one("transformer"), bean.text(CLASS)
    if one is not None and name:
        reader.error(bean, f"it has a <transformer> and a <{CLASS}>", "take one out")
        return ()
    if one is not None:
        return headers_said(reader, one)
    if not name:
        return ()
    return _headers(reader, bean, name, {})


def headers_said(reader: PartReader, transformer: Bean) -> Headers:
    """Return what a ``<transformer>`` sets; one that cannot run here is an error."""
    said = {one.text("key"): one.text("value") for one in transformer.many("property")}
    return _headers(reader, transformer, transformer.text("class-name"), said)


def _headers(reader: PartReader, bean: Bean, name: str, said: dict[str, str]) -> Headers:
    try:
        return headers_of(name.strip(), said)
    except Refused as error:
        reader.error(bean, error.message, error.remedy)
        return ()
