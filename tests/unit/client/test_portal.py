"""The thread below the blocking API, and that its file is up to date."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from entrepot.base.errors import Fault
from entrepot.client import blocking, connection, consumer, producer, session
from entrepot.client.portal import OUTBOX_MAX, Outbox, Portal

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def portal() -> Portal:
    return Portal.shared()


def test_the_blocking_api_is_written_from_the_other() -> None:
    tool = ROOT / "tools" / "blocking_client.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["Session", "Producer", "Consumer", "Browser"])
def test_both_have_the_same_methods(name: str) -> None:
    ours = {each for each in dir(getattr(blocking, name)) if not each.startswith("_")}
    home = next(module for module in (session, producer, consumer) if hasattr(module, name))
    theirs = {each for each in dir(getattr(home, name)) if not each.startswith("_")}
    assert theirs - ours <= {"open", "waits", "take_ahead", "finished", "received"}
    send = inspect.signature(getattr(blocking, name).close)
    assert not inspect.iscoroutinefunction(getattr(blocking, name).close)
    assert "self" in send.parameters


def test_connections_too() -> None:
    for name in ("session", "close", "unsubscribe", "connected", "broker"):
        assert hasattr(blocking.Connection, name)
        assert hasattr(connection.Connection, name)


def test_calls_return_and_raise(portal: Portal) -> None:
    async def there() -> str:
        return threading.current_thread().name

    async def fails() -> None:
        raise KeyError("x")

    assert portal.call(there) == "entrepot"
    assert portal.run(lambda: threading.current_thread().name) == "entrepot"
    with pytest.raises(KeyError):
        portal.call(fails)
    with pytest.raises(ZeroDivisionError):
        portal.run(lambda: 1 // 0)


def test_a_callback_that_waits_for_its_own_thread_is_told(portal: Portal) -> None:
    async def nothing() -> None:
        pass

    with pytest.raises(Fault, match="callback"):
        portal.run(lambda: portal.call(nothing))


def test_posts_keep_their_order(portal: Portal) -> None:
    seen: list[int] = []
    for number in range(1000):
        portal.post(lambda number=number: seen.append(number))  # type: ignore[misc]
    portal.run(lambda: None)
    assert seen == list(range(1000))


def test_an_outbox_keeps_order_and_bounds_and_tells_failures(portal: Portal) -> None:
    seen: list[int] = []
    deepest = 0
    outbox = Outbox(portal)

    async def send(number: int) -> None:
        nonlocal deepest
        deepest = max(deepest, len(outbox._waiting))
        if number == 3000:
            raise ValueError("full")
        if number % 100 == 0:
            await asyncio.sleep(0)
        seen.append(number)

    for number in range(3000):
        outbox.put(lambda number=number: send(number))  # type: ignore[misc]
    outbox.flush()
    assert seen == list(range(3000))
    assert deepest <= OUTBOX_MAX
    outbox.put(lambda: send(3000))
    with pytest.raises(ValueError, match="full"):
        outbox.flush()
    outbox.flush()
