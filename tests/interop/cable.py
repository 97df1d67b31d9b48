"""A cable between two brokers that a test can cut, hold up, heal, or make deaf in one direction.

Threads: it outlives loops.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from classic import HOST

CHUNK = 65_536


class Cable:
    """Forwards connections from `port` to ``target``. ``deaf``: what the target answers is thrown away.

    ``lingers_s``: so long stands a connection that cannot be forwarded, before it is closed.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.deaf = False
        self.lingers_s = 0.0
        self._passes = {False: threading.Event(), True: threading.Event()}  # of what is said; of what is answered
        self._whole = True
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self.heal()
        self._listener = socket.create_server((HOST, 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and let none through until `heal`."""
        with self._lock:
            self._whole = False
            ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def hold(self, *, said: bool = True, answers: bool = True) -> None:
        """Let nothing through of what is said to the target, or of its answers, until `heal`; then all of it.

        That is what a network does whose packets vanish for a while: the connection stands, and nobody is told.
        """
        for held, passes in ((said, self._passes[False]), (answers, self._passes[True])):
            if held:
                passes.clear()

    def heal(self) -> None:
        """Let connections through again, in both directions."""
        self.deaf = False
        for passes in self._passes.values():
            passes.set()
        self._whole = True

    def close(self) -> None:
        """It is needed no more."""
        self._listener.close()
        self.cut()
        self.heal()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection((HOST, self.target), timeout=5) if self._whole else None
            except OSError:
                far = None
            if far is None:
                time.sleep(self.lingers_s)
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._ends += [near, far]
            threading.Thread(target=self._carry, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(far, near, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self._passes[answers].wait()
                if not (answers and self.deaf):
                    target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
