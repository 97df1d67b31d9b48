"""Options of a listener for CORE, by Artemis' names."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.uri import OPTION_NAMES, read_option


def test_each_option_that_is_documented_is_obeyed() -> None:
    options = CoreOptions()
    texts = dict.fromkeys(OPTION_NAMES, "1234")
    texts |= {"anycastPrefix": "jms.queue.,,/queue/", "multicastPrefix": "jms.topic.", "connectionTtlMax": "-1"}
    assert all(read_option(options, name, text) for name, text in texts.items())
    assert options.anycast_prefixes == ["jms.queue.", "/queue/"]
    assert options.multicast_prefixes == ["jms.topic."]
    assert (options.router, options.ttl_ms, options.ttl_ms_min, options.ttl_ms_max) == ("1234", 1234, 1234, -1)


def test_what_is_another_protocols_is_left_to_it() -> None:
    assert not read_option(CoreOptions(), "maxFrameSize", "1")


@pytest.mark.parametrize("text", ["-2", "soon", "1.5", "99999999999"])
def test_a_value_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidOption, match="connectionTtl"):
        read_option(CoreOptions(), "connectionTtl", text)
