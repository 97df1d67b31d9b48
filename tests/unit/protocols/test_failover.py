"""Which peer next, in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import MILLISECOND, SECOND, Entropy
from entrepot.base.errors import Fault, InvalidOption
from entrepot.base.settings import Dialect
from entrepot.base.uri import Endpoint, parse
from entrepot.protocols.failover import (
    MOVE_PATIENCE,
    TRANSITIONS,
    Dial,
    Drop,
    Effect,
    FailoverCore,
    GiveUp,
    Interrupted,
    ReadAddresses,
    Signal,
    State,
    Updated,
    Use,
    Warn,
)
from entrepot.protocols.peers import FailoverOptions
from entrepot.protocols.session import NEVER


class Lots(Entropy):
    """Draws what the test says, over and over."""

    def __init__(self, *lots: float) -> None:
        self.lots = list(lots) or [0.999]

    def token(self, octets: int) -> bytes:
        return bytes(octets)

    def fraction(self) -> float:
        self.lots.append(self.lots.pop(0))
        return self.lots[-1]


def place(name: str) -> Endpoint:
    made = parse(f"tcp://{name}:61616")
    assert isinstance(made, Endpoint)
    return made


class World:
    """A core, and peers that answer or do not."""

    def __init__(self, names: str, **options: object) -> None:
        self.options = FailoverOptions(**{"randomize": False, **options})  # type: ignore[arg-type]
        self.core = FailoverCore([place(name) for name in names], self.options, Lots())
        self.now = 0
        self.up: dict[str, None] = {}
        self.open: dict[int, str] = {}
        self.log: list[str] = []
        self.dialled: list[str] = []

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dial(attempt, where):
                    self.dialled.append(where.host)
                    self.log.append(f"dial {where.host}")
                    if where.host in self.up:
                        self.open[attempt] = where.host
                        self.do(self.core.opened(attempt, self.now))
                    else:
                        self.do(self.core.failed(attempt, "refused", self.now))
                case Use(attempt, where, first):
                    self.log.append(f"use {where.host}" + (" first" if first else ""))
                case Drop(attempt):
                    self.log.append(f"drop {self.open.pop(attempt, '?')}")
                case Interrupted(_, planned):
                    self.log.append("leaving" if planned else "interrupted")
                case Updated(places):
                    self.log.append("updated " + "".join(each.host for each in places))
                case Warn(rounds, _):
                    self.log.append(f"warn {rounds}")
                case GiveUp():
                    self.log.append("give up")
                case ReadAddresses(url):
                    self.log.append(f"read {url}")
        self.core.check()

    def start(self, up: str = "") -> World:
        self.up = dict.fromkeys(up)
        self.do(self.core.start(self.now))
        return self

    def kill(self, name: str) -> None:
        self.up.pop(name, None)
        for attempt in [attempt for attempt, host in self.open.items() if host == name]:
            del self.open[attempt]
            self.do(self.core.failed(attempt, "reset", self.now))

    def wait(self, duration: int) -> None:
        until = self.now + duration
        while self.core.deadline() <= until:
            self.now = max(self.now, self.core.deadline())
            self.do(self.core.advance(self.now))
        self.now = until

    def told(self, brokers: str = "", reconnect_to: str = "", *, rebalance: bool = False) -> None:
        listed = ",".join(f"tcp://{name}:61616" for name in brokers)
        target = f"tcp://{reconnect_to}:61616" if reconnect_to else ""
        self.do(self.core.control(listed, target, rebalance, self.now))

    def take(self) -> list[str]:
        log, self.log = self.log, []
        return log


class TestRounds:
    def test_the_first_that_answers_is_used(self) -> None:
        assert World("abc").start("bc").take() == ["dial a", "dial b", "use b first"]

    def test_the_first_connection_is_not_delayed_and_the_next_round_is(self) -> None:
        world = World("ab").start("")
        assert world.take() == ["dial a", "dial b"]
        assert world.core.deadline() == 10 * MILLISECOND

    def test_delays_grow_to_the_limit(self) -> None:
        world = World("a", max_reconnect_delay=50 * MILLISECOND).start("")
        waits = []
        for _ in range(5):
            waits.append(world.core.deadline() - world.now)
            world.wait(waits[-1])
        assert waits == [delay * MILLISECOND for delay in (10, 20, 40, 50, 50)]

    def test_without_back_off_they_stay(self) -> None:
        world = World("a", use_exponential_back_off=False).start("")
        world.wait(100 * MILLISECOND)
        assert len(world.dialled) == 11

    def test_after_a_loss_the_lost_peer_comes_last(self) -> None:
        world = World("abc").start("a")
        world.take()
        world.kill("a")
        assert world.take() == ["interrupted"]
        world.wait(10 * MILLISECOND)
        assert world.take() == ["dial b", "dial c", "dial a"]

    def test_a_loss_begins_with_the_initial_delay_again(self) -> None:
        world = World("a").start("")
        world.wait(5 * SECOND)
        world.up = {"a": None}
        world.wait(30 * SECOND)
        world.kill("a")
        assert world.core.deadline() - world.now == 10 * MILLISECOND

    def test_a_peer_that_accepts_and_turns_us_away_is_not_stormed(self) -> None:
        world = World("a").start("a")
        for _ in range(20):
            world.kill("a")
            world.up = {"a": None}
            world.wait(world.core.deadline() - world.now)
        assert world.now > 60 * SECOND

    def test_randomize_shuffles_all_but_the_lost_one(self) -> None:
        core = FailoverCore([place(name) for name in "abcd"], FailoverOptions(), Lots(0.0))
        assert [each.host for each in core.peers.in_order()] == ["b", "c", "d", "a"]

    @given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
    def test_shuffling_loses_nobody(self, lots: list[float]) -> None:
        core = FailoverCore([place(name) for name in "abcdef"], FailoverOptions(), Lots(*lots))
        assert sorted(each.host for each in core.peers.in_order()) == list("abcdef")

    def test_attempts_are_rounds(self) -> None:
        world = World("ab", max_reconnect_attempts=3).start("")
        world.wait(SECOND)
        assert world.take() == ["dial a", "dial b"] * 3 + ["give up"]
        assert world.core.state is State.FAILED
        assert world.core.deadline() == NEVER

    def test_zero_attempts_try_once_and_never_again(self) -> None:
        assert World("a", max_reconnect_attempts=0).start("").take() == ["dial a", "give up"]
        world = World("a", max_reconnect_attempts=0).start("a")
        world.kill("a")
        assert world.take() == ["dial a", "use a first", "give up"]

    def test_startup_attempts_count_until_the_first_connection(self) -> None:
        world = World("a", startup_max_reconnect_attempts=2).start("")
        world.wait(SECOND)
        assert world.take() == ["dial a", "dial a", "give up"]
        world = World("a", startup_max_reconnect_attempts=2).start("a")
        world.kill("a")
        world.wait(SECOND)
        assert world.core.state is State.WAITING

    def test_it_warns_after_so_many_rounds(self) -> None:
        world = World("a", warn_after_reconnect_attempts=2, use_exponential_back_off=False).start("")
        world.wait(35 * MILLISECOND)
        assert world.take() == ["dial a", "dial a", "warn 2", "dial a", "dial a", "warn 4"]

    def test_what_is_reported_late_is_dropped(self) -> None:
        world = World("a").start("a")
        world.do(world.core.failed(99, "who?", world.now))
        assert world.core.opened(99, world.now) == [Drop(99)]


class TestBusy:
    """What is under way ends before a planned move, or `MOVE_PATIENCE` does."""

    def world(self, **options: object) -> World:
        world = World("abc", **options)
        self.busy = False
        world.core = FailoverCore([place(name) for name in "abc"], world.options, Lots(), lambda: self.busy)
        return world.start("abc")

    @pytest.mark.parametrize("backup", [False, True])
    def test_a_move_waits_for_a_quiet_moment(self, backup: bool) -> None:
        world = self.world(backup=backup)  # with a reserve there, nothing has to be dialled
        world.take()
        self.busy = True
        world.told(reconnect_to="b")
        assert "use b" not in world.take()
        assert world.core.quiet(world.now) == []
        self.busy = False
        world.do(world.core.quiet(world.now))
        assert world.take()[:3] == ["leaving", "drop a", "use b"]
        assert world.core.quiet(world.now) == []

    def test_but_not_for_ever(self) -> None:
        world = self.world()
        self.busy = True
        world.told(reconnect_to="b")
        world.wait(MOVE_PATIENCE - 1)
        assert "use b" not in world.take()
        world.wait(1)
        assert world.take() == ["leaving", "drop a", "use b"]

    def test_a_place_that_falls_meanwhile_is_not_moved_to(self) -> None:
        world = self.world()
        self.busy = True
        world.told(reconnect_to="b")
        world.kill("b")
        self.busy = False
        world.do(world.core.quiet(world.now))
        world.wait(MOVE_PATIENCE)
        assert "use b" not in world.take()
        assert world.core.current

    def test_a_loss_is_not_planned(self) -> None:
        world = self.world(backup=True)
        self.busy = True
        world.take()
        world.kill("a")
        assert world.take()[:2] == ["interrupted", "use b"]


class TestReserves:
    def test_a_reserve_takes_over_at_once(self) -> None:
        world = World("abc", backup=True).start("abc")
        assert world.take() == ["dial a", "use a first", "dial b"]
        world.kill("a")
        assert world.take() == ["interrupted", "use b", "dial c"]

    def test_the_pool_is_filled_to_its_size(self) -> None:
        world = World("abcd", backup=True, backup_pool_size=2).start("abcd")
        assert world.take() == ["dial a", "use a first", "dial b", "dial c"]

    def test_a_lost_reserve_is_replaced_later(self) -> None:
        world = World("ab", backup=True).start("ab")
        world.kill("b")
        world.up["b"] = None
        world.take()
        world.wait(10 * MILLISECOND)
        assert world.take() == ["dial b"]

    def test_a_priority_peer_that_comes_back_is_used_again(self) -> None:
        world = World("abc", priority_backup=True).start("bc")
        assert world.take() == ["dial a", "dial b", "use b first", "dial a"]
        world.wait(SECOND)
        world.up["a"] = None
        world.take()
        world.wait(30 * SECOND)
        assert world.take() == ["dial a", "leaving", "drop b", "use a"]

    def test_named_priorities(self) -> None:
        world = World("abc", priority_backup=True, priority_uris="tcp://c:61616").start("ab")
        assert world.take()[-2:] == ["use a first", "dial c"]
        world.up["c"] = None
        world.wait(SECOND)
        assert world.take()[-3:] == ["leaving", "drop a", "use c"]


class TestMoves:
    def test_learned_peers_are_dialled_before_the_configured(self) -> None:
        world = World("a").start("a")
        world.told("bc")
        world.kill("a")
        world.take()
        world.wait(10 * MILLISECOND)
        assert world.take() == ["dial b", "dial c", "dial a"]

    def test_rebalance_moves_to_the_head_of_the_list(self) -> None:
        world = World("a").start("ab")
        world.take()
        world.told("ba", rebalance=True)
        assert world.take() == ["updated ba", "dial b", "leaving", "drop a", "use b"]

    def test_the_same_set_in_another_order_is_no_news(self) -> None:
        world = World("a").start("ab")
        world.told("ab", rebalance=True)
        world.take()
        world.told("ba", rebalance=True)
        assert world.take() == []

    def test_it_stays_when_the_head_is_where_it_is(self) -> None:
        world = World("a").start("ab")
        world.take()
        world.told("ab", rebalance=True)
        assert world.take() == ["updated ab"]

    def test_a_successor_that_does_not_answer_costs_nothing(self) -> None:
        world = World("a").start("a")
        world.take()
        world.told("ba", rebalance=True)
        assert world.take() == ["updated ba", "dial b"]
        assert world.core.state is State.CONNECTED

    def test_at_a_priority_peer_it_does_not_rebalance(self) -> None:
        world = World("a", priority_backup=True).start("ab")
        world.take()
        world.told("ba", rebalance=True)
        assert world.take() == ["updated ba"]

    def test_reconnect_to(self) -> None:
        world = World("ab").start("abc")
        world.take()
        world.told(reconnect_to="c")
        assert world.take() == ["dial c", "leaving", "drop a", "use c"]
        world.kill("c")
        world.take()
        world.wait(10 * MILLISECOND)
        assert world.take() == ["dial a", "use a"]  # what was configured is kept: c may be gone for good

    def test_it_can_be_told_not_to_listen(self) -> None:
        world = World("a", update_uris_supported=False, reconnect_supported=False).start("abc")
        world.take()
        world.told("bc", "b", rebalance=True)
        assert world.take() == []

    def test_learned_peers_keep_their_configured_options(self) -> None:
        configured = parse("ssl://a:1?transport.trustStorePath=x")
        assert isinstance(configured, Endpoint)
        core = FailoverCore([configured], FailoverOptions(randomize=False), Lots())
        core.start(0)
        core.opened(1, 0)
        core.control("ssl://a:1,ssl://b:1", "", False, 0)
        assert core.peers.in_order()[0] == configured

    def test_rubbish_is_ignored(self) -> None:
        world = World("a").start("a")
        world.take()
        world.do(world.core.control("::::", "(((", True, world.now))
        assert world.take() == []


class TestAddresses:
    def test_the_list_is_read_before_each_round(self) -> None:
        world = World("a", update_uris_url="peers.txt").start("b")
        assert world.take() == ["read peers.txt"]
        world.do(world.core.addresses("tcp://b:61616", world.now))
        assert world.take() == ["updated b", "dial b", "use b first"]

    def test_a_list_that_cannot_be_read_changes_nothing(self) -> None:
        world = World("a", update_uris_url="peers.txt").start("a")
        world.do(world.core.addresses(None, world.now))
        assert world.take() == ["read peers.txt", "dial a", "use a first"]


class TestDiscovery:
    def test_it_waits_for_the_first_peer(self) -> None:
        world = World("").start("a")
        assert world.take() == []
        assert world.core.deadline() == NEVER
        world.do(world.core.add(place("a"), world.now))
        assert world.take() == ["dial a", "use a first"]

    def test_a_peer_that_vanished_is_not_dialled(self) -> None:
        world = World("ab").start("a")
        world.do(world.core.remove(place("b"), world.now))
        world.kill("a")
        world.take()
        world.wait(10 * MILLISECOND)
        assert world.take() == ["dial a"]


class TestTheMachine:
    def test_closing_drops_all_but_the_current(self) -> None:
        world = World("ab", backup=True).start("ab")
        world.take()
        world.do(world.core.close(world.now))
        assert world.take() == ["drop b"]
        assert world.core.state is State.CLOSED

    def test_nothing_leaves_the_end(self) -> None:
        assert not [pair for pair in TRANSITIONS if pair[0] is State.CLOSED]

    def test_what_cannot_happen_is_a_fault(self) -> None:
        world = World("a").start("a")
        with pytest.raises(Fault, match="cannot happen"):
            world.core._become(Signal.READ)

    def test_every_option_of_activemq_is_known(self) -> None:
        names = (
            "initialReconnectDelay maxReconnectDelay useExponentialBackOff reconnectDelayExponent maxReconnectAttempts "
            "startupMaxReconnectAttempts warnAfterReconnectAttempts randomize backup backupPoolSize priorityBackup "
            "priorityURIs timeout trackMessages maxCacheSize trackTransactionProducers updateURIsSupported "
            "updateURIsURL rebalanceUpdateURIs reconnectSupported"
        )
        assert set(FailoverOptions.names(Dialect.URI)) == {*names.split(), "zone"}  # the last one is ours

    def test_an_unknown_option_is_refused(self) -> None:
        with pytest.raises(InvalidOption, match="randomise"):
            FailoverOptions.read({"randomise": "false"}, Dialect.URI)

    @given(st.lists(st.sampled_from(["kill a", "kill b", "kill c", "up", "wait", "move", "back"]), max_size=40))
    def test_whatever_happens_it_ends_connected_when_a_peer_is_up(self, story: list[str]) -> None:
        world = World("abc", backup=True, priority_backup=True).start("abc")
        for step in story:
            if step.startswith("kill"):
                world.kill(step[-1])
            elif step == "up":
                world.up = dict.fromkeys("abc")
            elif step == "wait":
                world.wait(SECOND)
            elif step == "move":
                world.told("cb", rebalance=True)
            else:
                world.told("abc", rebalance=True)
            world.core.check()
        world.up = dict.fromkeys("abc")
        world.wait(120 * SECOND)
        assert world.core.state is State.CONNECTED
        assert world.open[world.core.current] in "abc"


class TestZones:
    """a and b are at home, x and y are elsewhere, of n nothing is known."""

    def world(self, names: str, up: str, **options: object) -> World:
        world = World(names, zone="home", **options)
        world.core.peers.zones = {(one, 61616, ""): "home" if one in "ab" else "away" for one in names if one != "n"}
        return world.start(up)

    def test_home_comes_first_then_the_unknown_then_the_others(self) -> None:
        assert self.world("xnab", "").take() == ["dial a", "dial b", "dial n", "dial x"]

    def test_zones_are_options_of_the_places(self) -> None:
        there = parse("tcp://x:61616?zone=away&wireFormat.cacheSize=5")
        here = parse("tcp://a:61616?zone=home")
        assert isinstance(there, Endpoint)
        assert isinstance(here, Endpoint)
        core = FailoverCore([there, here], FailoverOptions(randomize=False, zone="home"), Lots())
        assert [one.host for one in core.peers.in_order()] == ["a", "x"]
        assert core.peers.in_order()[1].options == {"wireFormat.cacheSize": "5"}

    def test_another_zone_only_when_nobody_at_home_answers(self) -> None:
        world = self.world("xab", "xab")
        world.kill("a")
        world.wait(SECOND)
        assert world.take()[-1] == "use b"
        world.kill("b")
        world.wait(SECOND)
        assert "use x" in world.take()

    def test_a_reserve_elsewhere_is_not_used_while_somebody_at_home_answers(self) -> None:
        world = self.world("axb", "axb", backup=True, backup_pool_size=2)
        assert world.take() == ["dial a", "use a first", "dial b", "dial x"]
        world.kill("b")
        world.take()
        world.up["b"] = None
        world.kill("a")
        world.wait(10 * MILLISECOND)
        assert "use b" in world.take()

    def test_it_comes_home_when_home_has_lasted_and_not_before(self) -> None:
        world = self.world("ax", "x")
        assert world.take()[:3] == ["dial a", "dial x", "use x first"]
        world.up["a"] = None
        world.wait(4 * SECOND)
        assert "leaving" not in world.take()
        world.wait(30 * SECOND)
        assert world.take()[-3:] == ["leaving", "drop x", "use a"]

    def test_home_that_falls_again_is_not_moved_to(self) -> None:
        world = self.world("ax", "x")
        world.up["a"] = None
        world.wait(2 * SECOND)
        world.kill("a")
        world.take()
        world.wait(40 * SECOND)
        assert "leaving" not in world.take()
        world.up["a"] = None
        world.wait(60 * SECOND)
        assert world.take()[-1] == "use a"

    def test_where_the_brokers_are_is_learned(self) -> None:
        world = World("x", zone="home").start("xa")
        world.told("xa")
        world.do(world.core.located("away", {"tcp://a:61616": "home"}, world.now))
        world.wait(20 * SECOND)
        assert world.take()[-1] == "use a"

    def test_a_rebalance_stays_at_home(self) -> None:
        world = self.world("ax", "ax")
        world.take()
        world.told("xa", rebalance=True)
        assert "use x" not in world.take()
