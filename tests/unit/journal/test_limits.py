"""When a journal takes no more: its own limit, the disk, and what paging may take of it."""

from __future__ import annotations

from entrepot.journal.limits import NO_LIMIT, StoreLimits


def test_without_limits_nothing_is_refused_and_paging_gets_a_third_of_the_disk() -> None:
    limits = StoreLimits()
    assert not limits.measure(10, 5, 30, 60)
    assert (limits.full, limits.all, limits.temp_now, limits.store) == ("", False, 30, NO_LIMIT)


def test_the_limit_of_the_store_refuses_what_is_stored_and_says_when_it_ends() -> None:
    limits = StoreLimits()
    limits.store = 100
    assert not limits.measure(99, 0, 0, 1000)
    assert limits.measure(100, 0, 0, 1000), "it begins"
    assert "100 octets" in limits.full
    assert not limits.all
    assert not limits.measure(150, 0, 0, 1000), "it goes on"
    assert limits.measure(50, 0, 0, 1000), "it ends"
    assert limits.full == ""


def test_a_disk_that_is_nearly_full_refuses_everything() -> None:
    limits = StoreLimits()
    limits.free_min = 10
    limits.temp = 7
    assert limits.measure(1, 1, 100, 9)
    assert limits.all
    assert "9 octets are free" in limits.full
    assert limits.temp_now == 7
