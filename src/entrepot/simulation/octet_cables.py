"""One connection of a program that speaks octets of some protocol; the broker and the cable may die."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from entrepot.protocols.session import Session, Shell
from entrepot.simulation.machine import Machine
from entrepot.simulation.network import Pipe, ServerEnd, Weather
from entrepot.simulation.world import World


class Speaker(Protocol):
    """Who dialled."""

    name: str
    world: World
    machine: Machine

    def receives(self, data: bytes) -> None:
        """Octets came."""
        ...

    def lost(self) -> None:
        """The connection is gone."""
        ...


class OctetCable(ServerEnd):
    """One connection of a program."""

    def __init__(self, program: Speaker, weather: Weather, accept: Callable[[Shell, str], Session]) -> None:
        self.program = program
        self.gone = False
        super().__init__(program.world, program.machine, program.name, accept)
        self.serve(
            Pipe(self.world, weather, self.server_receives, self.server_reads, lambda ready: None),
            Pipe(self.world, weather, self._client_receives, lambda: not self.gone, self.server_writable),
        )

    def write(self, octets: bytes) -> None:
        """The program says something."""
        if not self.gone:
            self.outbound.write(octets)

    def close(self) -> None:
        """The program closes it, and is told nothing more."""
        if not self.gone:
            self.gone = True
            self.outbound.end()
            self.inbound.dead = True

    def _client_receives(self, data: bytes) -> None:
        if not data:
            self.client_cut()
        elif not self.gone:
            self.program.receives(data)

    def client_cut(self) -> None:
        """The program finds out."""
        if not self.gone:
            self.close()
            self.program.lost()
