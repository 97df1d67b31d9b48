"""XPATH in selectors: a path asked of a body that is read as XML.

Uses lxml, which a broker without such selectors does not need: it is imported when the first path is compiled. Safe for
bodies of strangers: entities are not expanded, nothing is fetched, a body with a document type is not read at all, and
the limits of libxml2 on depth and size stay on.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from entrepot.base.errors import InvalidSelector


def compile_path(path: str) -> Callable[[str | bytes], bool]:
    """A function that says whether the XPath 1.0 expression holds for a body, as XPath's ``boolean()`` reads a result.

    It answers False for a body that is not XML. Raises InvalidSelector for a path outside the grammar, and when lxml
    is not installed.
    """
    try:
        etree = importlib.import_module("lxml.etree")
    except ImportError as absent:
        raise InvalidSelector("selector: XPATH needs lxml, which is not installed", remedy="install lxml") from absent
    try:
        # Wrapped only once it stands on its own: a path like "a) or (b" must not close the wrapper's parenthesis.
        etree.XPath(path, regexp=False)
        judge = etree.XPath(f"boolean({path})", regexp=False)
    except (etree.XPathError, ValueError) as wrong:
        raise InvalidSelector(f"selector: XPATH {path[:60]!r}: {wrong}") from wrong

    def holds(body: str | bytes) -> bool:
        # A text has its encoding behind it, whatever its XML declaration says.
        encoding = "utf-8" if isinstance(body, str) else None
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, encoding=encoding
        )
        try:
            root = etree.fromstring(body.encode() if isinstance(body, str) else body, parser)
            if root.getroottree().docinfo.internalDTD is not None:
                return False
            return bool(judge(root.getroottree()))
        except (etree.XMLSyntaxError, etree.XPathError, ValueError):
            return False

    return holds
