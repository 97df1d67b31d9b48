"""What the page of status says in numbers."""

from __future__ import annotations

from typing import Any

from entrepot.io.status import metrics

PRIMARY: dict[str, Any] = {
    "broker": 'a"lpha',
    "ready": True,
    "master": {"epoch": 7},
    "replication": {
        "held": False,
        "replicas": [
            {"name": "beta", "stage": "in sync", "lag_octets": 1024, "lag_ms": 250},
            {"name": "gamma", "stage": "copying", "lag_octets": 5, "lag_ms": 0},
        ],
    },
}


def test_a_primary_says_how_far_each_replica_is_behind() -> None:
    lines = metrics(PRIMARY).splitlines()
    assert r'entrepot_ha_primary{broker="a\"lpha"} 1' in lines
    assert r'entrepot_ha_epoch{broker="a\"lpha"} 7' in lines
    assert r'entrepot_replication_held{broker="a\"lpha"} 0' in lines
    assert r'entrepot_replica_lag_octets{broker="a\"lpha",replica="beta"} 1024' in lines
    assert r'entrepot_replica_lag_seconds{broker="a\"lpha",replica="beta"} 0.25' in lines
    assert r'entrepot_replica_in_sync{broker="a\"lpha",replica="gamma"} 0' in lines
    named = [line for line in lines if line.startswith("# TYPE")]
    assert len(named) == len(set(named)) == 6


def test_a_broker_that_waits_says_so_and_nothing_of_replicas() -> None:
    text = metrics({"broker": "b", "ready": False, "replication": {"in_sync": True}})
    assert 'entrepot_ha_primary{broker="b"} 0\n' in text
    assert 'entrepot_replication_in_sync{broker="b"} 1\n' in text
    assert "replica_lag" not in text


def test_a_backup_that_gives_away_what_it_took_over_says_how_far_it_is() -> None:
    drain = {"moved": 12, "left": 30, "stays": [{"messages": 3}, {"messages": 4}]}
    text = metrics({"broker": "b", "ready": False, "drain": drain})
    assert 'entrepot_ha_primary{broker="b"} 0\n' in text
    assert 'entrepot_drain_moved{broker="b"} 12\n' in text
    assert 'entrepot_drain_left{broker="b"} 30\n' in text
    assert 'entrepot_drain_stays{broker="b"} 7\n' in text
