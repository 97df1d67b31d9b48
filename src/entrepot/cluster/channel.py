"""A way to another broker over which the census can be told; who has one carries it out in his own protocol. [C]"""

from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class CensusPort:
    """A bridge over which another broker can be told something; it is known by its identity."""

    def tell_census(self, token: bytes) -> None:
        """Send ``token``, in which the census is."""
        raise NotImplementedError
