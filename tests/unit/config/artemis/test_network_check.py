"""The network check of a broker.xml (artemis.md 2.9); what is wrong in one: test_artemis.py."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.config.artemis.network_check import SCHEMES
from entrepot.ha.network_check import NetworkCheckOptions

from .test_artemis import config


def test_the_network_check_is_read() -> None:
    made = config(
        "<network-check-list>10.0.0.1, gateway</network-check-list>"
        "<network-check-URL-list>http://up.example/</network-check-URL-list>"
        "<network-check-period>7000</network-check-period><network-check-timeout>500</network-check-timeout>"
        "<network-check-NIC>eth1</network-check-NIC>"
        "<network-check-ping-command>/bin/probe -t %d %s</network-check-ping-command>"
    )
    assert made.network_check == NetworkCheckOptions(
        hosts=("10.0.0.1", "gateway"),
        urls=("http://up.example/",),
        period=7 * SECOND,
        timeout=SECOND // 2,
        interface="eth1",
        ping="/bin/probe -t %d %s",
    )
    assert config("<network-check-period>7000</network-check-period>").network_check is None
    assert config("<network-check-list> , </network-check-list>").network_check is None
    assert SCHEMES == ("http://", "https://")
