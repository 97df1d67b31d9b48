"""What redistribution leaves alone because a drain may have given it to its target."""

from __future__ import annotations

from entrepot.cluster.clusters.withheld import EVERYTHING, Withheld


def test_a_queue_is_withheld_while_it_is_given_and_then_what_was_there() -> None:
    withheld, heard = Withheld(), []
    withheld.watchers.append(heard.append)
    withheld.begin("Q")
    assert withheld.up_to("Q") == EVERYTHING
    assert withheld.up_to("R") == 0
    withheld.pause(7)
    assert withheld.up_to("Q") == 7
    withheld.pause(9)
    assert withheld.up_to("Q") == 7, "what came since was never given"
    withheld.begin("Q")
    withheld.pause(9)
    assert withheld.up_to("Q") == 9
    withheld.end()
    assert withheld.names() == []
    assert heard == ["Q"] * 5


def test_nobody_is_told_of_what_does_not_change() -> None:
    withheld, heard = Withheld(), []
    withheld.watchers.append(heard.append)
    withheld.begin("Q")
    withheld.begin("Q")
    withheld.end()
    withheld.end()
    assert heard == ["Q", "Q"]
